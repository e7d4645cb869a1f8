//! Reports of workloads' entries: which are written when.

use std::time::{Duration, Instant};

use super::{
    super::{asking::Asking, world::World},
    play::Play,
};
use crate::{
    RequestId, StepOutcome,
    in_place_update::{
        Life, UpdateAction, UpdateOutcome, UpdateOwner, UpdatePhase, UpdateReport, UpdateRequest,
        UpdateSource,
        updates::ends::{Ends, Told},
    },
    tests::world::NowForTests,
};

const MILLI: Duration = Duration::from_millis(1);

fn entry(id: &str) -> UpdateRequest {
    let mut asking = Asking::of(World::of(&[]));
    let request = asking.ask(id, &[("a", "a:2")], &[]).clone();
    UpdateRequest { source: UpdateSource::NodePodUpdate, ..request }
}

fn complete() -> UpdateReport {
    UpdateReport {
        phase: Some(UpdatePhase::Ended),
        outcome: Some(UpdateOutcome::Complete),
        ..UpdateReport::default()
    }
}

/// Each row: after so many milliseconds these are owed, while these are open; what is told, or until when it
/// waits.
#[test]
fn ends_of_a_node_are_told_together() {
    type Row<'a> = (u64, &'a [&'a str], &'a [&'a str], Result<&'a [&'a str], u64>);
    let rows: &[Row<'_>] = &[
        (0, &[], &["a", "b", "c"], Ok(&[])),
        (100, &["a"], &["a", "b", "c"], Err(600)),
        (300, &["a", "b"], &["a", "b", "c"], Err(600)),
        (400, &["a", "b", "c"], &["a", "b", "c"], Ok(&["a", "b", "c"])),
        // Another wave, of which one takes long.
        (1000, &["d"], &["d", "e"], Err(1500)),
        (1500, &["d"], &["d", "e"], Ok(&["d"])),
        (1600, &["e"], &["e"], Ok(&["e"])),
        // One that was owed and is not any more holds nobody.
        (2000, &["f"], &["f", "g"], Err(2500)),
        (2400, &["g"], &["f", "g"], Err(2900)),
        // A request of somebody is no update of a workload.
        (3000, &["h"], &["h", "asked"], Ok(&["h"])),
    ];
    let (mut ends, start) = (Ends::default(), Instant::now_for_tests());
    for (at, owed, open, expected) in rows {
        let now = start + Duration::from_millis(*at);
        owed.iter().for_each(|id| ends.push(&entry(id), complete()));
        let open: Vec<UpdateRequest> = open
            .iter()
            .map(|id| match *id {
                "asked" => UpdateRequest { source: UpdateSource::Api, ..entry(id) },
                id => entry(id),
            })
            .collect();
        let told = match ends.settle(open.iter(), now) {
            Told::Now(told) => Ok(told.iter().map(|(request, _)| request.id.clone()).collect::<Vec<_>>()),
            Told::Later(until) => Err((until - start).as_millis()),
        };
        let expected = match expected {
            Ok(ids) => Ok(ids.iter().map(|id| RequestId::from(*id)).collect()),
            Err(until) => Err(u128::from(*until)),
        };
        assert_eq!(told, expected, "after {at} ms");
    }
}

/// Rows: how far apart two updates began, in milliseconds, and how long the end of one waits for the other.
/// One that was begun long ago may never end.
#[test]
fn an_end_waits_for_what_began_with_it() {
    let start = Instant::now_for_tests();
    let begun = |id: &str, after: u32| UpdateRequest { created: start + after * MILLI, ..entry(id) };
    for (apart, waits) in [(0, 500), (1000, 500), (1500, 500), (1501, 50), (60_000, 50)] {
        for (own, other) in [(0, apart), (apart, 0)] {
            let open = [begun("a", own), begun("b", other)];
            let (mut ends, now) = (Ends::default(), start + 100_000 * MILLI);
            ends.push(&open[0], complete());
            assert_eq!(ends.settle(open.iter(), now), Told::Later(now + waits * MILLI), "{apart} ms");
            ends.push(&open[0], complete());
            let Told::Now(told) = ends.settle(open.iter(), now + waits * MILLI) else { panic!("{apart} ms") };
            assert_eq!(told.len(), 1, "{apart} ms");
        }
    }
}

/// How long the end of one waits while another goes on, after a write that took so long.
#[test]
fn ends_of_sidecar_sets_wait_as_writes_take() {
    let of_set = |id: &str| UpdateRequest { owner: UpdateOwner::SidecarSet("mesh".to_owned()), ..entry(id) };
    let (mut ends, mut now) = (Ends::default(), Instant::now_for_tests());
    for (took, waits) in [(0, 50), (1, 50), (12, 120), (50, 500), (10_000, 500)] {
        ends.push(&of_set("a"), complete());
        let Told::Now(_) = ends.settle([of_set("a")].iter(), now) else {
            panic!("alone it waits for nobody")
        };
        // While it is written it is not owed.
        assert_eq!(ends.settle([].iter(), now), Told::Now(Vec::new()));
        now += took * MILLI;
        ends.written(&"a".into(), now);
        let open = [of_set("a"), of_set("b")];
        ends.push(&open[0], complete());
        assert_eq!(ends.settle(open.iter(), now), Told::Later(now + waits * MILLI), "{took} ms");
    }
}

/// Plans until nothing is owed, and returns the phases that were reported. What a container does is not
/// among it.
fn reported(play: &mut Play) -> Vec<UpdatePhase> {
    let mut all = Vec::new();
    for _ in 0..40 {
        let actions = play.plan();
        let reports = actions.iter().filter_map(|action| match action {
            UpdateAction::Report(_, report) => report.phase,
            _ => None,
        });
        all.extend(reports);
        actions.into_iter().for_each(|action| play.take(action));
        play.goes_well();
        play.pass(200 * MILLI);
    }
    all
}

/// Rows: entry, and what is reported within a moment. One that never goes back is carried out without a word
/// before its end.
#[test]
fn one_that_never_goes_back_is_begun_without_a_report() {
    type Change = fn(&mut UpdateRequest);
    use UpdatePhase::{Ended, Updating};
    let table: [(&str, Change, &[UpdatePhase]); 4] = [
        ("a workload's", |_| {}, &[Ended]),
        ("it goes back", |request| request.rollback_on_failure = true, &[Updating]),
        ("of a SidecarSet", |request| request.owner = UpdateOwner::SidecarSet("s".to_owned()), &[Updating]),
        ("a person's", |request| request.source = UpdateSource::Api, &[Updating]),
    ];
    for (name, change, expected) in table {
        let mut play = Play::of(World::of(&[("a", None, &[])]));
        let mut request = entry("r");
        request.created = play.world.now;
        change(&mut request);
        play.see(request);
        let reported = reported(&mut play);
        assert_eq!(reported.first(), expected.first(), "{name}: {reported:?}");
        assert_eq!(reported.last(), Some(&Ended), "{name}: {reported:?}");
        assert!(expected != [Ended] || reported == expected, "{name}: {reported:?}");
    }
}

/// One that takes long says so, and one that was beside another request writes down what was before both.
#[test]
fn one_that_takes_long_says_how_far_it_is() {
    let mut play = Play::of(World::of(&[("a", None, &[])]));
    let id = play.see(UpdateRequest { created: play.world.now, ..entry("r") });
    let report = |play: &mut Play| {
        let actions = play.plan();
        let reports = actions.iter().filter_map(|action| match action {
            UpdateAction::Report(request, report) => Some((request.id.clone(), (**report).clone())),
            _ => None,
        });
        let reports: Vec<_> = reports.collect();
        actions.into_iter().for_each(|action| play.take(action));
        reports
    };
    // It knows the pod, and pulls.
    for _ in 0..3 {
        assert_eq!(report(&mut play), []);
        play.answer_fetch(true);
        play.answer_inspection(true);
    }
    play.pass(4900 * MILLI);
    assert_eq!(report(&mut play), []);
    // Who asks on the node hears it already.
    assert_eq!(play.updates.request(&id).unwrap().request.reported.phase, None);
    let standing: Vec<UpdateRequest> = play.updates.standing().collect();
    assert_eq!((standing.len(), standing[0].reported.phase), (1, Some(UpdatePhase::Updating)));
    assert!(standing[0].reported.message.contains("a:2"), "{standing:?}");
    play.pass(100 * MILLI);
    let told = report(&mut play);
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0].0, told[0].1.phase), (&id, Some(UpdatePhase::Updating)));
    assert!(told[0].1.message.contains("a:2"), "{}", told[0].1.message);
    assert_eq!(told[0].1.previous, None);
    play.answer_report(0, StepOutcome::Done);

    let other = UpdateRequest { rollback_on_failure: true, source: UpdateSource::Api, ..entry("s") };
    play.see(UpdateRequest { created: play.world.now, ..other });
    let told = report(&mut play);
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|(_, report)| report.previous.is_some()), "{told:?}");
    assert!(matches!(play.world.containers[0].instance.life, Life::Running { .. }));
}
