//! Single decisions of the core, each with what was before it.

mod env;
mod untaken;

use std::{collections::BTreeSet, time::Duration};

use super::{super::world::World, play::Play};
use crate::{
    Path, StepOutcome,
    in_place_update::{
        Failure, FailureReason, PodWrite, StoredRequest, UpdateAction, UpdateEvent, UpdateOutcome,
        UpdatePermission, UpdateSource, Updates,
    },
};

const MILLI: Duration = Duration::from_millis(1);

/// Actions in short.
fn told(action: &UpdateAction) -> String {
    match action {
        UpdateAction::Fetch(_) => "fetch".to_owned(),
        UpdateAction::Inspect { instances, .. } => format!("inspect {}", instances.len()),
        UpdateAction::WantImage { image, leaves_pull: true, .. } => format!("want {image}, or leave it"),
        UpdateAction::WantImage { image, .. } => format!("want {image}"),
        UpdateAction::LetImageGo(_, image) => format!("let {image} go"),
        UpdateAction::Clear(_, ids) => format!("clear {}", ids.len()),
        UpdateAction::Stop(_, ids) => format!("stop {}", ids.len()),
        UpdateAction::SetEnv(_, values) => format!("env of {}", values.len()),
        UpdateAction::Write { write: PodWrite::Close, .. } => "close".to_owned(),
        UpdateAction::Write { write: PodWrite::Open(_), .. } => "open".to_owned(),
        UpdateAction::Write { write: PodWrite::Patch(_), .. } => "patch".to_owned(),
        UpdateAction::Restart(request) => format!("restart {}", request.containers[0].name),
        UpdateAction::DropRestart(_) => "drop restart".to_owned(),
        UpdateAction::AllKnown(all) => format!("all known: {}", all.len()),
        UpdateAction::Report(..) => "report".to_owned(),
        UpdateAction::Delete(_) => "delete".to_owned(),
        UpdateAction::Ended(_) => "ended".to_owned(),
        UpdateAction::Tell(_, notice) => notice.reason.to_owned(),
    }
}

/// Plans, and lays down what is owed.
fn plan(play: &mut Play) -> Vec<String> {
    let actions = play.plan();
    let lines = actions.iter().map(told).collect();
    actions.into_iter().for_each(|action| play.take(action));
    lines
}

/// Goes on as hoped for until this is owed, and returns what was owed before, once each.
fn until(play: &mut Play, last: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for _ in 0..60 {
        let lines = plan(play);
        let is_there = lines.iter().any(|line| line == last);
        all.extend(lines);
        if is_there {
            all.dedup();
            return all;
        }
        play.goes_well();
        play.pass(200 * MILLI);
    }
    panic!("{last} is never owed: {all:?}");
}

fn one() -> Play {
    Play::of(World::of(&[("a", None, &["k"])]))
}

#[test]
fn one_update_from_its_request_to_its_deletion() {
    let mut play = one();
    play.ask(&[("a", "a:2")], &[("k", "2")]);
    let all = until(&mut play, "delete");
    let steps: Vec<&str> = all.iter().map(String::as_str).filter(|line| *line != "report").collect();
    assert_eq!(
        steps,
        [
            "fetch",
            "inspect 1",
            "env of 1",
            "want a:2",
            "all known: 0",
            "close",
            "env of 1",
            "patch",
            "inspect 1",
            "open",
            "let a:2 go",
            "env of 0",
            "delete"
        ]
    );
}

/// All who ask have to leave it to the kubelet.
#[test]
fn an_image_that_is_left_to_the_kubelet_is_wished_for_so() {
    for (others_leave, wish) in [(true, "want a:2, or leave it"), (false, "want a:2")] {
        let mut play = one();
        for leaves_pull in [true, others_leave] {
            let id = play.ask(&[("a", "a:2")], &[]);
            play.requests.get_mut(&id).unwrap().leaves_pull = leaves_pull;
            let entry = StoredRequest { request: play.requests[&id].clone(), flaw: None, version: 1 };
            play.apply(UpdateEvent::RequestSeen(Box::new(entry)));
        }
        until(&mut play, wish);
    }
}

#[test]
fn nothing_is_begun_without_the_permission_to_write() {
    let mut play = one();
    play.apply(UpdateEvent::PermissionKnown(UpdatePermission::Unknown));
    play.ask(&[("a", "a:2")], &[]);
    assert_eq!(plan(&mut play), Vec::<String>::new());
    play.apply(UpdateEvent::PermissionKnown(UpdatePermission::Denied("no".to_owned())));
    assert_eq!(plan(&mut play), ["report"]);
    let (_, report) = &play.reports[0];
    assert_eq!(report.message, "no");
}

#[test]
fn a_request_that_makes_no_sense_fails_alone() {
    let mut play = one();
    let good = play.ask(&[("a", "a:2")], &[]);
    let mut flawed = play.requests[&good].clone();
    flawed.id = "flawed".into();
    let entry =
        StoredRequest { request: flawed.clone(), flaw: Some(Failure::invalid("no sense")), version: 1 };
    play.requests.insert(flawed.id.clone(), flawed);
    play.apply(UpdateEvent::RequestSeen(Box::new(entry)));
    assert_eq!(plan(&mut play), ["report", "fetch"]);
    let report = &play.reports[0].1;
    assert_eq!(report.message, "no sense");
    assert_eq!(report.outcome, Some(UpdateOutcome::Failed(FailureReason::InvalidRequest)));
}

/// The reason tells what came too late from what cannot be done.
#[test]
fn a_request_that_was_not_asked_for_fails_by_its_own_reason() {
    let mut play = one();
    let request = play.ask(&[("a", "a:2")], &[]);
    let request = play.requests[&request].clone();
    let reason = FailureReason::NotAskedFor;
    let flaw = Some(Failure { reason, message: "of before".to_owned() });
    play.apply(UpdateEvent::RequestSeen(Box::new(StoredRequest { request, flaw, version: 1 })));
    assert_eq!(plan(&mut play)[0], "report");
    assert_eq!(play.reports[0].1.outcome, Some(UpdateOutcome::Failed(reason)));
}

/// The kubelet knows the patched version when the watch has shown it, and a moment more; beside it nobody
/// sees it learn that.
#[test]
fn since_when_the_kubelet_knows_a_version() {
    for (path, lost, wait) in [
        (Path::Inline, false, 100),
        (Path::Inline, true, 100),
        (Path::Beside, false, 2500),
        (Path::Beside, true, 32_500),
    ] {
        let mut play = Play::of(World::of(&[("a", None, &["k"])]));
        play.updates = Updates::new(path);
        play.known = None;
        for event in
            [UpdateEvent::PermissionKnown(UpdatePermission::Given), UpdateEvent::PodsListed(BTreeSet::new())]
        {
            play.apply(event);
        }
        for source in UpdateSource::ALL {
            play.apply(UpdateEvent::RequestsListed(source, Vec::new()));
        }
        play.ask(&[], &[("k", "2")]);
        until_patched(&mut play);
        play.world.kubelet_learns();
        play.kubelet_reports(0);
        if lost {
            play.apply(UpdateEvent::WatchLost);
        }
        play.watch_shows();
        plan(&mut play);
        play.pass((wait - 1) * MILLI);
        assert!(!plan(&mut play).contains(&"restart a".to_owned()), "{path:?} {lost}");
        play.pass(MILLI);
        assert_eq!(plan(&mut play), ["restart a"], "{path:?} {lost}");
    }
}

/// As [`until`] "patch", with the patch written.
fn until_patched(play: &mut Play) {
    for _ in 0..60 {
        if plan(play).iter().any(|line| line == "patch") {
            play.answer_step(None);
            return;
        }
        play.goes_well();
        play.pass(3000 * MILLI);
    }
    panic!("never patched");
}

#[test]
fn a_restart_waits_until_all_requests_are_known() {
    let mut play = one();
    play.ask(&[], &[("k", "2")]);
    until(&mut play, "restart a");
    assert_eq!(play.restarts.len(), 1);
    // The next process hears of two sources only.
    let request = play.requests.values().next().unwrap().clone();
    play.updates = Updates::new(Path::Inline);
    play.all_known = false;
    play.apply(UpdateEvent::PermissionKnown(UpdatePermission::Given));
    let entry = StoredRequest { request, flaw: None, version: 0 };
    play.apply(UpdateEvent::RequestsListed(UpdateSource::Api, vec![entry]));
    play.apply(UpdateEvent::RequestsListed(UpdateSource::Admin, Vec::new()));
    for _ in 0..6 {
        let lines = plan(&mut play);
        assert!(
            lines.iter().all(|line| !line.starts_with("restart") && !line.starts_with("all")),
            "{lines:?}"
        );
        play.answer_fetch(true);
        play.answer_inspection(true);
        play.pass(200 * MILLI);
    }
    play.apply(UpdateEvent::RequestsListed(UpdateSource::NodePodUpdate, Vec::new()));
    assert_eq!(plan(&mut play), ["all known: 1"]);
}

#[test]
fn what_an_earlier_process_began_is_not_waited_for_for_ever() {
    let mut play = one();
    play.ask(&[("a", "a:2")], &[]);
    plan(&mut play);
    play.pass(Duration::from_secs(10) - MILLI);
    assert_eq!(plan(&mut play), Vec::<String>::new());
    play.pass(MILLI);
    assert_eq!(plan(&mut play), ["all known: 0"]);
}

/// All entries of a node stand in one object: what is only for people waits, a phase or an end does not.
#[test]
fn messages_about_an_entry_are_five_seconds_apart() {
    for (source, waits) in [(UpdateSource::NodePodUpdate, true), (UpdateSource::Api, false)] {
        let mut play = one();
        let id = play.ask(&[("a", "a:2")], &[]);
        let mut request = play.requests[&id].clone();
        request.source = source;
        // One that does not is told of after five seconds at all.
        request.rollback_on_failure = true;
        play.see(request);
        until(&mut play, "report");
        // That it was taken up.
        play.answer_report(0, StepOutcome::Done);
        let due = |play: &mut Play| plan(play).iter().any(|told| told == "report");
        assert_eq!(due(&mut play), !waits, "that it pulls: {source:?}");
        if waits {
            play.pass(4999 * MILLI);
            assert!(!due(&mut play));
            assert_eq!(play.updates.next_deadline(), Some(play.world.now + MILLI));
            play.pass(MILLI);
            assert!(due(&mut play));
        }
    }
}
