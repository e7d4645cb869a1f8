//! Words for a pod's users about its hot upgrade: each once, when it is known what became of it.

use std::time::Duration;

use super::{
    super::swaps::{pod, swap},
    play::Play,
};
use crate::in_place_update::{PodWrite, Stage, UpdateAction, WriteOutcome};

/// Plays a swap until nothing is owed any more. Returns what was told, the same words once.
fn told(is_finish_taken: bool) -> Vec<(&'static str, String)> {
    let mut asking = pod();
    let request = swap(&mut asking, "r", "mesh:2").clone();
    let mut play = Play::of(asking.world);
    play.see(request);
    let mut told = Vec::new();
    for _ in 0..100 {
        for action in play.plan() {
            match action {
                UpdateAction::Tell(pod, notice) => {
                    assert_eq!((pod.uid, pod.name.as_str()), (Play::uid(), "pod"));
                    told.push((notice.reason, notice.note));
                }
                action => play.take(action),
            }
        }
        let is_finish =
            |write: &PodWrite| matches!(write, PodWrite::Patch(patch) if patch.stage == Some(Stage::Finish));
        let finishes = matches!(&play.step, Some(UpdateAction::Write { write, .. }) if is_finish(write));
        if finishes && !is_finish_taken {
            play.answer_step(Some(WriteOutcome::Refused { why: "no".to_owned(), for_good: true }));
        }
        play.goes_well();
        play.pass(Duration::from_millis(200));
    }
    told.dedup();
    told
}

#[test]
fn the_end_of_a_hot_upgrade_is_told() {
    let done = "container mesh-1 gets the empty image: mesh-2 has taken over".to_owned();
    assert_eq!(told(true), [("ResetContainerSucceed", done)]);
    let refused = "container mesh-1 does not get the empty image: no".to_owned();
    assert_eq!(told(false), [("ResetContainerFailed", refused)], "the way back is refused as well");
}
