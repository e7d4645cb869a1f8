//! Ends of requests that meet on one pod: histories that the model has found.

use super::{
    BAD, MISSING, Truth,
    op::{Op, Wish, asks},
};
use crate::{
    in_place_update::{UpdateOutcome, UpdateSource},
    tests::in_place_update::model::{NAMES, keys},
};

/// An agent that writes down and carries out whatever is owed, with a kubelet that does its part, `times`
/// times.
fn goes_on(truth: &mut Truth, times: usize) {
    for _ in 0..times {
        truth.run(&Op::Plan);
        while !truth.reports.is_empty() {
            truth.run(&Op::Written(0));
        }
        truth.run(&Op::CarriedOut);
        truth.run(&Op::KubeletLearns);
        for index in 0..NAMES.len() {
            (0..3).for_each(|_| truth.run(&Op::KubeletSyncs(index)));
            truth.run(&Op::ComesUp(index));
        }
    }
}

fn label_k(truth: &Truth) -> &str {
    &truth.asking.world.metadata[&keys()[2]]
}

/// The end of the second request is on its way when the third one comes, which fails: it returns to what the
/// second one was told is there.
#[test]
fn an_end_on_its_way_is_not_undone() {
    for third in [asks([0, 0, BAD], [0; 4]), asks([0, 0, BAD], [0, 0, 2, 0])] {
        let mut truth = Truth::new((false, [0; 3], [[false; 4]; 3]));
        truth.ask(&Wish { ignore: true, ..asks([0, 0, MISSING], [0, 2, 0, 0]) });
        goes_on(&mut truth, 8);
        assert!(truth.asking.requests[0].ended.is_some());
        truth.ask(&asks([0, 0, 0], [0, 0, 3, 0]));
        while truth.reports.iter().all(|(_, report)| report.outcome.is_none()) {
            (0..2).for_each(|_| truth.run(&Op::Written(0)));
            truth.run(&Op::CarriedOut);
            truth.run(&Op::KubeletLearns);
            truth.run(&Op::Plan);
        }
        truth.ask(&Wish { rollback: true, deadline: Some(200), ..third });
        truth.run(&Op::Plan);
        assert_eq!(truth.reports.len(), 2, "the end of the second, and the third is taken up");
        truth.run(&Op::Written(1));
        truth.run(&Op::Written(0));
        truth.comes_to_rest();
        truth.is_as_it_should_be();
        let ends: Vec<_> =
            truth.asking.requests.iter().map(|request| request.reported.outcome.unwrap()).collect();
        assert!(matches!(
            ends[..],
            [UpdateOutcome::Complete, UpdateOutcome::Complete, UpdateOutcome::Failed(_)]
        ));
        assert_eq!(label_k(&truth), "3");
    }
}

/// Two are complete together, and the newer one falls over between their ends.
#[test]
fn an_end_that_was_written_is_not_undone_by_the_next() {
    let mut truth = Truth::new((false, [0; 3], [[false; 4]; 3]));
    truth.ask(&asks([2, 2, 0], [0, 0, 3, 0]));
    truth.ask(&Wish { rollback: true, deadline: Some(200), ..asks([0, 3, 0], [0, 0, 0, 0]) });
    while truth.asking.requests[0].ended.is_none() {
        goes_on(&mut truth, 1);
    }
    assert_eq!(truth.asking.requests[1].ended, None);
    truth.run(&Op::Exits(1));
    (0..5).for_each(|_| truth.run(&Op::Pass(59)));
    for _ in 0..2 {
        truth.run(&Op::Plan);
        truth.run(&Op::Written(0));
    }
    assert!(truth.asking.requests[1].reported.rolling_back.is_some());
    truth.comes_to_rest();
    truth.is_as_it_should_be();
    assert_eq!(label_k(&truth), "3");
    assert_eq!(truth.asking.images(), ["a:2", "b:1", "c:1"]);
}

/// The newest one's time is over in the same moment in which another one that asks for the same would be
/// replaced by it: the other one stands, for the newest goes back.
#[test]
fn one_whose_time_is_over_replaces_nothing() {
    let mut truth = Truth::new((false, [0; 3], [[false; 4]; 3]));
    truth.ask(&Wish {
        source: UpdateSource::Api,
        rollback: true,
        deadline: Some(200),
        ..asks([0, 1, 0], [2, 1, 0, 0])
    });
    goes_on(&mut truth, 1);
    truth.ask(&asks([0, 2, 0], [0, 0, 1, 1]));
    truth.ask(&Wish { rollback: true, deadline: Some(200), ..asks([0, 1, 0], [0; 4]) });
    (0..4).for_each(|_| truth.run(&Op::Pass(59)));
    truth.comes_to_rest();
    truth.is_as_it_should_be();
    assert_eq!(truth.asking.images(), ["a:1", "b:1", "c:1"]);
}
