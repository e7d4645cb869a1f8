//! Requests about one pod by one or by several, in which order they count, and what each of them is told.

use std::time::Duration;

use super::{
    asking::Asking,
    world::{World, annotation},
};
use crate::in_place_update::{
    Before, ContainerUpdatePhase, FailureReason, Gate, Life, Next, PodPlan, Sight, UpdateOutcome,
    UpdatePhase, UpdateSource,
};

const MINUTE: Duration = Duration::from_secs(60);
const COMPLETE: UpdateOutcome = UpdateOutcome::Complete;

fn failed(reason: FailureReason) -> UpdateOutcome {
    UpdateOutcome::Failed(reason)
}

fn ordered() -> Asking {
    Asking::of(World::of(&[("a", Some(2), &[]), ("b", Some(1), &["k"]), ("c", Some(0), &[])]))
}

fn before(images: &[(&str, &str)], annotations: &[(&str, &str)]) -> Before {
    Before {
        revision: String::new(),
        images: images.iter().map(|(name, image)| ((*name).into(), (*image).into())).collect(),
        metadata: annotations
            .iter()
            .map(|(key, value)| (annotation(key), Some((*value).to_owned())))
            .collect(),
    }
}

fn phases(asking: &Asking, id: &str) -> Vec<(String, ContainerUpdatePhase)> {
    let states = &asking.report(id).containers;
    states.iter().map(|state| (state.name.to_string(), state.phase)).collect()
}

#[test]
fn one_request_from_its_beginning_to_its_end() {
    let mut asking = ordered();
    asking.ask("r", &[("a", "a:2")], &[("k", "2")]);
    let taken = asking.plan();
    assert_eq!(taken.next, None, "nothing is done before it is written down what the pod was");
    assert_eq!(taken.reports.len(), 1);
    let report = &taken.reports[0].1;
    assert_eq!((report.phase, report.outcome), (Some(UpdatePhase::Updating), None));
    assert_eq!(report.previous, Some(before(&[("a", "a:1")], &[("k", "1")])));
    assert_eq!(asking.plan(), taken, "until it was written");
    asking.play(&[]);
    assert_eq!(
        asking.log,
        [
            "r: Updating",
            "pull a:2",
            "not ready",
            "patch a:2",
            "patch k=2",
            "recreate b",
            "ready",
            "r: complete"
        ]
    );
    let done = ContainerUpdatePhase::Succeeded;
    assert_eq!(phases(&asking, "r"), [("a".to_owned(), done), ("b".to_owned(), done)]);
    assert_eq!(asking.report("r").message, "");
    assert_eq!(asking.world.gate, Gate::Ready);
}

#[test]
fn a_pod_that_is_as_wanted_is_not_touched() {
    let mut asking = ordered();
    asking.ask("r", &[("a", "a:1")], &[("k", "1")]);
    asking.play(&[]);
    assert_eq!(asking.log, ["r: Updating", "r: complete"]);
    assert_eq!((asking.world.version, asking.world.gate), (0, Gate::Ready));
}

#[test]
fn one_that_has_ended_as_wanted_is_done() {
    let mut asking = ordered();
    asking.world.container("a").instance.life = Life::Ended;
    asking.ask("r", &[("a", "a:1"), ("c", "c:2")], &[]);
    asking.play(&[]);
    assert_eq!(asking.outcome("r"), COMPLETE);
    let done = ContainerUpdatePhase::Succeeded;
    assert_eq!(phases(&asking, "r"), [("a".to_owned(), done), ("c".to_owned(), done)]);
}

#[test]
fn what_is_said_on_the_way() {
    let mut asking = ordered();
    asking.ask("r", &[("a", "a:2"), ("c", "c:2")], &[]);
    let mut said = Vec::new();
    for _ in 0..40 {
        let planned = asking.plan();
        asking.write(&planned);
        let message = asking.report("r").message.clone();
        if said.last() != Some(&message) {
            said.push(message);
        }
        match &planned.next {
            Some(Next::Wait { .. }) => asking.world.settle(&[]),
            Some(step) => assert!(asking.world.carry_out(step, asking.world.version)),
            None => {}
        }
    }
    assert_eq!(
        said,
        [
            "",
            "pulling a:2, c:2 before anything is stopped",
            "the kubelet does not know the updated pod yet",
            ""
        ]
    );
    assert_eq!(asking.outcome("r"), COMPLETE);
}

#[test]
fn a_pod_that_is_not_there_ends_all_of_them() {
    let table = [
        (Sight::Gone, FailureReason::PodGone),
        (Sight::Forbidden("forbidden".to_owned()), FailureReason::NotPermitted),
    ];
    for (sight, reason) in table {
        for taken_up in [false, true] {
            let mut asking = ordered();
            asking.ask("r1", &[("a", "a:2")], &[]);
            asking.ask("r2", &[("b", "b:2")], &[]);
            if taken_up {
                asking.act();
            }
            assert_eq!(asking.plan_of(&Sight::Unknown), PodPlan::default());
            let planned = asking.plan_of(&sight);
            assert_eq!((planned.reports.len(), planned.next.is_none()), (2, true));
            asking.write(&planned);
            for id in ["r1", "r2"] {
                assert_eq!(asking.outcome(id), failed(reason));
            }
            assert_eq!(asking.report("r1").previous.is_some(), taken_up);
            assert_eq!(asking.plan_of(&sight), PodPlan::default());
        }
    }
}

#[test]
fn a_second_one_goes_over_the_first_from_when_it_is_taken_up() {
    // What the second asks for; whether the first is replaced; the images in the end.
    type Row<'a> = (&'a [(&'a str, &'a str)], bool, [&'a str; 3]);
    let table: [Row<'_>; 3] = [
        (&[("b", "b:3")], false, ["a:2", "b:3", "c:2"]),
        (&[("b", "b:3"), ("c", "c:3")], false, ["a:2", "b:3", "c:3"]),
        (&[("a", "a:3"), ("b", "b:3"), ("c", "c:3")], true, ["a:3", "b:3", "c:3"]),
    ];
    for (images, replaced, expected) in table {
        let mut asking = ordered();
        asking.ask("r1", &[("a", "a:2"), ("c", "c:2")], &[]);
        asking.act();
        asking.world.settle(&[]);
        assert_eq!(asking.images(), ["a:2", "b:1", "c:1"]);
        asking.ask("r2", images, &[]);
        let taken = asking.plan();
        assert_eq!(taken.next, None);
        let ids: Vec<&str> = taken.reports.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids, ["r2"], "the first one is told nothing before");
        let previous = taken.reports[0].1.previous.clone().unwrap();
        assert_eq!(
            previous,
            before(&[("a", "a:1"), ("b", "b:1"), ("c", "c:1")], &[]).of_these(&previous),
            "before the first"
        );
        asking.write(&taken);
        asking.write(&asking.plan());
        let ended = asking.request("r1").ended.is_some();
        assert_eq!(ended, replaced, "at once");
        asking.play(&[]);
        assert_eq!(asking.outcome("r1"), if replaced { failed(FailureReason::Replaced) } else { COMPLETE });
        assert_eq!(asking.outcome("r2"), COMPLETE);
        assert_eq!(asking.images(), expected);
        asking.world.is_what_is_wanted(&super::world::update("r2", &[], &[]));
    }
}

impl Before {
    /// Restricted to what the other one has.
    fn of_these(mut self, other: &Self) -> Self {
        self.images.retain(|name, _| other.images.contains_key(name));
        self
    }
}

#[test]
fn they_fail_together() {
    let mut asking = ordered();
    asking.ask("r1", &[("a", "a:2")], &[]);
    asking.act();
    asking.ask("r2", &[("b", "b:2")], &[]).deadline = Some(asking.world.now + MINUTE);
    asking.play(&["b:2"]);
    for id in ["r1", "r2"] {
        assert_eq!(asking.outcome(id), failed(FailureReason::DeadlineExceeded));
    }
    assert_eq!(phases(&asking, "r1"), [("a".to_owned(), ContainerUpdatePhase::Succeeded)]);
    assert_eq!(phases(&asking, "r2"), [("b".to_owned(), ContainerUpdatePhase::Failed)]);
}

#[test]
fn an_older_ones_own_deadline_ends_only_it() {
    let mut asking = ordered();
    asking.ask("r1", &[("a", "a:2")], &[]).deadline = Some(asking.world.now + MINUTE);
    asking.act();
    asking.ask("r2", &[("b", "b:2")], &[]);
    asking.act();
    asking.world.pass(MINUTE);
    asking.act();
    assert_eq!(asking.outcome("r1"), failed(FailureReason::DeadlineExceeded));
    assert_eq!(
        asking.report("r1").message,
        "the update has exceeded its deadline while request ns/r2 was carried out with it"
    );
    assert_eq!(asking.request("r2").ended, None);
    asking.play(&[]);
    assert_eq!(asking.outcome("r2"), COMPLETE);
    asking.world.is_what_is_wanted(&super::world::update("r2", &[("b", "b:2")], &[]));
}

#[test]
fn a_second_one_that_comes_as_the_first_is_late_knows_what_was_before_both() {
    let mut asking = ordered();
    asking.ask("r1", &[("a", "a:2"), ("c", "c:2")], &[]).deadline = Some(asking.world.now + MINUTE);
    asking.act();
    asking.world.pass(MINUTE);
    asking.ask("r2", &[("b", "b:2")], &[]);
    asking.act();
    let previous = asking.report("r2").previous.clone().unwrap();
    assert_eq!(previous, before(&[("a", "a:1"), ("b", "b:1"), ("c", "c:1")], &[]));
    assert_eq!(asking.outcome("r1"), failed(FailureReason::DeadlineExceeded));
}

#[test]
fn a_person_goes_over_a_request_over_a_workload() {
    let sources = [UpdateSource::NodePodUpdate, UpdateSource::Api, UpdateSource::Admin];
    for first in 0..3 {
        for second in 0..3 {
            let mut asking = ordered();
            asking.ask("r1", &[("a", "a:2")], &[]).source = sources[first];
            asking.act();
            asking.world.settle(&[]);
            asking.ask("r2", &[("a", "a:3"), ("b", "b:3")], &[]).source = sources[second];
            asking.play(&[]);
            let row = format!("{:?} then {:?}", sources[first], sources[second]);
            let stays = first > second;
            assert_eq!(asking.images()[0], if stays { "a:2" } else { "a:3" }, "{row}");
            assert_eq!(asking.images()[1], "b:3", "{row}");
            assert_eq!(
                asking.outcome("r1"),
                if stays { COMPLETE } else { failed(FailureReason::Replaced) },
                "{row}"
            );
            assert_eq!(asking.outcome("r2"), COMPLETE, "{row}");
        }
    }
}

#[test]
fn what_gives_way_comes_and_goes_without_a_step() {
    let mut asking = ordered();
    asking.ask("r1", &[("a", "a:2")], &[]).source = UpdateSource::Admin;
    asking.act();
    asking.ask("r2", &[("a", "a:3")], &[]).source = UpdateSource::NodePodUpdate;
    asking.play(&[]);
    assert_eq!(asking.outcome("r2"), failed(FailureReason::Replaced));
    assert_eq!(asking.report("r2").message, "replaced by request ns/r1");
    assert_eq!((asking.world.restarts(), asking.outcome("r1")), (vec![1, 0, 0], COMPLETE));
}

#[test]
fn a_name_that_is_not_there_gives_the_pod_back() {
    for rollback in [false, true] {
        let mut asking = ordered();
        asking.ask("r1", &[("a", "a:2"), ("c", "c:2")], &[]);
        asking.act();
        asking.ask("r2", &[("d", "d:2")], &[]).rollback_on_failure = rollback;
        asking.play(&[]);
        for id in ["r1", "r2"] {
            assert_eq!(asking.outcome(id), failed(FailureReason::ContainerNotFound));
        }
        assert_eq!(asking.images(), [if rollback { "a:1" } else { "a:2" }, "b:1", "c:1"]);
        assert_eq!(asking.world.gate, Gate::Ready);
    }
}
