//! More requests than anybody needs: what is done with each fact does not grow with their number.

use std::time::Duration;

use super::play::{Play, one, strategy};
use crate::tests::world::pod;
use crate::{
    Effect, Event, Origin, RecreateRequest, RecreateStrategy, RequestEffect, RequestPhase, StepOutcome,
    StoreEffect, tests::world::effects,
};

const CROWD: usize = 10_000;
/// Writes about requests that nobody looks at, at once.
const WRITES: usize = 32;

fn crowd(play: &Play) -> Vec<RecreateRequest> {
    (0..CROWD).map(|number| play.asks(&format!("r{number:05}"), &["a"], strategy())).collect()
}

fn reports(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Request(_, _, RequestEffect::Report(_)))).count()
}

/// Everything that is owed at once, begun and not ended.
fn begin(play: &mut Play) -> Vec<Effect> {
    let steps = play.world.node.plan(play.world.now);
    let begun: Vec<Effect> = effects(&steps).cloned().collect();
    begun.iter().for_each(|effect| play.world.apply(Event::EffectBegan(effect.clone())));
    begun
}

#[test]
fn of_ten_thousand_a_few_are_looked_at_and_written() {
    let mut play = Play::new(one());
    play.world.apply(Event::RecreatesListed(Origin::Api, crowd(&play)));
    let steps = begin(&mut play);
    assert!(reports(&steps) <= 16 + WRITES, "{}", reports(&steps));
    assert_eq!(
        steps.iter().filter(|effect| matches!(effect, Effect::Store(StoreEffect::WriteMarks(_)))).count(),
        1
    );
    assert_eq!(reports(&begin(&mut play)), 0, "no more before these are written");
}

/// Each of them ends as soon as it is looked at, and the next ones are looked at then.
#[test]
fn of_those_that_end_at_once_a_few_are_written_at_once() {
    let mut play = Play::new(one());
    let crowd = (0..CROWD).map(|number| play.asks(&format!("r{number:05}"), &["none"], strategy())).collect();
    play.world.apply(Event::RecreatesListed(Origin::Api, crowd));
    let mut waiting: Vec<Effect> = (0..100).flat_map(|_| begin(&mut play)).collect();
    assert_eq!(reports(&waiting), 16 + WRITES);
    // Those that are not looked at have their own room: their ends are told meanwhile.
    let is_end = |effect: &Effect| matches!(effect, Effect::Request(_, _, RequestEffect::Report(report)) if report.outcome.is_some());
    for _ in 0..100 {
        let effect = waiting.remove(0);
        play.world.apply(Event::EffectEnded(effect, StepOutcome::Done));
        waiting.extend(begin(&mut play));
        assert!(reports(&waiting) <= 16 + WRITES);
    }
    assert!(waiting.iter().filter(|effect| is_end(effect)).count() >= WRITES);
}

#[test]
fn another_pods_request_does_not_wait_for_the_crowd() {
    let mut play = Play::new(pod(&[("a", "0")]));
    play.world.apply(Event::RecreatesListed(Origin::Api, crowd(&play)));
    let mut other = pod(&[("a", "0")]);
    (other.pod.uid, other.pod.name) = ("other".into(), "other".to_owned());
    play.world.apply(other.seen());
    let (call, _) = play.world.create_in(&other, "other-sandbox", "a", crate::Declared::default());
    play.world.start(&call, "other-1");
    let mut asked = play.asks("other", &["a"], strategy());
    (asked.pod, asked.containers[0].instance) = ("other".into(), "other-1".into());
    play.world.apply(Event::RecreateSeen(Box::new(asked)));
    let steps = begin(&mut play);
    let marked = steps
        .iter()
        .any(|step| matches!(step, Effect::Store(StoreEffect::WriteMarks(marks)) if marks[0].container.as_str() == "other-1"));
    let told = steps.iter().any(
        |step| matches!(step, Effect::Request(_, id, RequestEffect::Report(_)) if id.as_str() == "other"),
    );
    assert!(marked && told);
}

#[test]
fn who_has_no_place_says_so_once_and_comes_in_when_one_is_free() {
    let mut play = Play::new(pod(&[("a", "0"), ("b", "0")]));
    for number in 0..16 {
        play.request(&format!("r{number:02}"), &["a"], strategy());
    }
    play.request("s", &["b"], strategy());
    assert_eq!(play.last("s").phase, Some(RequestPhase::Pending));
    assert_eq!(play.last("s").message, "waits for its turn: more than 16 requests for this pod are open");
    let said = |play: &Play| play.reports.iter().filter(|(id, _)| id == "s").count();
    assert_eq!(said(&play), 1);
    play.settle();
    assert_eq!(said(&play), 1, "once");
    let next = play.replaced_by_kubelet("a", "a-1");
    play.succeeded("r00");
    assert_ne!(next, "a-1");
    assert_eq!(play.last("s").phase, Some(RequestPhase::Recreating));
    assert_eq!(play.last("s").message, "");
}

#[test]
fn the_deadline_of_one_without_a_place_counts() {
    let mut play = Play::new(one());
    let strategy = RecreateStrategy { force: true, ..strategy() };
    for number in 0..16 {
        play.request(&format!("r{number:02}"), &["a"], strategy.clone());
    }
    let mut late = play.asks("late", &["a"], strategy);
    let limit = Duration::from_secs(5);
    late.deadline = Some(play.world.now + limit);
    play.world.apply(Event::RecreateSeen(Box::new(late)));
    play.settle();
    assert!(play.world.node.next_deadline().is_some_and(|next| next <= play.world.now + limit));
    play.world.pass(limit);
    play.settle();
    assert_eq!(
        play.last("late").outcome,
        Some(crate::Outcome::Failed(crate::FailureReason::DeadlineExceeded))
    );
}

#[test]
fn all_of_them_end_with_their_pod_a_few_at_a_time() {
    let mut play = Play::new(one());
    play.world.apply(Event::RecreatesListed(Origin::Api, crowd(&play)));
    play.world.apply(Event::PodSeen(Box::new(play.pod.clone().deleting(30))));
    let mut ended = 0;
    for _ in 0..CROWD {
        let steps = begin(&mut play);
        assert!(reports(&steps) <= 16 + WRITES);
        if steps.is_empty() {
            break;
        }
        for step in steps {
            if let Effect::Request(_, _, RequestEffect::Report(report)) = &step {
                ended += usize::from(report.phase == Some(RequestPhase::Completed));
            }
            play.world.apply(Event::EffectEnded(step, StepOutcome::Done));
        }
    }
    assert_eq!(ended, CROWD);
    assert!(!play.world.node.is_waiting(), "and nothing of them is looked at any more");
}
