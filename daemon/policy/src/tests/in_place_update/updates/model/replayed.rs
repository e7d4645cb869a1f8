//! Sequences that the model has found, once more.

use super::*;

/// A patch that is written though its answer says something else has its env values at once: containers that
/// the kubelet starts then do not get older ones, and are not restarted once more.
#[test]
fn a_patch_that_nobody_heard_of_keeps_its_values() {
    let api = crate::in_place_update::UpdateSource::Api;
    let ask = |images, values| Op::Ask(Box::new(Wish { images, values, source: api }));
    let (told, done) = (Op::Report(0, StepOutcome::Done), Op::Step(Answer::Done));
    let one = [
        Op::Fetch(true),
        Op::Inspect(true),
        told.clone(),
        Op::PullEnds,
        done.clone(),
        told.clone(),
        Op::Pass(1),
        ask([0; 3], [0, 0, 0, 1]),
        Op::Step(Answer::DoneUnheard),
    ];
    let other = [
        Op::Relists,
        Op::Fetch(true),
        Op::Inspect(true),
        told.clone(),
        Op::ExecutorLost(false),
        Op::PullEnds,
        ask([0, 0, 1], [0; 4]),
        Op::Inspect(true),
        told.clone(),
        told.clone(),
        done,
        Op::Relists,
        ask([0; 3], [0, 1, 0, 0]),
        Op::Pass(1),
        Op::TakeBack(0),
        told,
        Op::Step(Answer::DoneUnheard),
        ask([0, 1, 0], [0; 4]),
        ask([0; 3], [0, 0, 1, 0]),
    ];
    let (reads, nothing) = ([false, false, true, false], [false; 4]);
    type Case<'a> = ([[bool; 4]; 3], [u8; 3], &'a [Op]);
    let table: [Case<'_>; 2] =
        [([nothing, reads, nothing], [0, 2, 0], &one), ([reads, nothing, nothing], [3, 0, 2], &other)];
    for (shape, images, ops) in table {
        let mut truth = Truth::new((false, [0; 3], shape), [false; 3]);
        truth.ask(&Wish { images, values: [0, 0, 2, 0], source: api });
        ops.iter().for_each(|op| truth.run(op));
        truth.comes_to_rest();
    }
}

/// A pod is put back into service when a later request asks for the image that it has.
#[test]
fn a_pod_is_put_back_into_service() {
    let api = crate::in_place_update::UpdateSource::Api;
    let done = StepOutcome::Done;
    let ops = [
        Op::Fetch(true),
        Op::Ask(Box::new(Wish { images: [1, 0, 0], values: [0; 4], source: api })),
        Op::Inspect(true),
        Op::Report(0, done),
        Op::Pass(100),
        Op::Report(0, done),
        Op::Report(1, done),
        Op::PullEnds,
    ];
    let mut truth = Truth::new((false, [0; 3], [[false; 4]; 3]), [false; 3]);
    truth.ask(&Wish { images: [2, 0, 0], values: [0; 4], source: api });
    for op in &ops {
        truth.run(op);
    }
    truth.comes_to_rest();
}
