//! Random operations on the images of one node: wishes come, change and go, everything is answered in every
//! way and in any order, the kubelet pulls beside us and joins us, time passes.

use std::{sync::Arc, time::Duration};

use proptest::prelude::*;

use super::{
    play::{id, pulled, record, reference, sealed, secs, settled, wish},
    truth::{Truth, Waiting},
};
use crate::{
    Bytes, CallId, CredentialKey, ImageEvent, ImageLimits, PullFailure, Wish, WishId, WishPhase, WishSource,
};

/// Two of one repository, one of them by its digest; two spellings of one image.
const IMAGES: [&str; 7] =
    ["r.io/a:1", "r.io/a@sha256:2", "r.io/b:1", "q.io/a:1", "q.io/c:1", "d:1", "docker.io/library/d:1"];
const SOURCES: [WishSource; 4] = [WishSource::Api, WishSource::File, WishSource::Admin, WishSource::Update];

#[derive(Clone, Debug)]
enum Op {
    See(Box<Wish>),
    Gone(WishId),
    List(WishSource, Vec<Wish>),
    Look(usize, Option<bool>),
    EndPull(usize, Option<PullFailure>),
    Ask(usize, u64),
    Progress(usize),
    KubeletBegins(&'static str),
    KubeletEnds(usize),
    /// A call of the kubelet for what this pull is for, with this credential.
    Join(usize, u64),
    Leave(usize),
    Pin(usize, bool),
    Use(String),
    Pass(Duration),
    /// Until something may be owed.
    Wait,
}

fn a_wish() -> impl Strategy<Value = Wish> {
    let limits = (0..3_u32, prop_oneof![3 => Just(None), 1 => (1..40_u64).prop_map(|s| Some(secs(s)))]);
    let kept = prop_oneof![2 => Just(None), 1 => (0..50_u64).prop_map(|s| Some(secs(s)))];
    let ended = prop_oneof![8 => Just(None), 1 => Just(settled(true)), 1 => Just(settled(false))];
    let which = (0..3_usize, 0..SOURCES.len(), 0..IMAGES.len(), 0..2_i64);
    let timeout = prop_oneof![Just(secs(10)), Just(secs(20))];
    (which, any::<bool>(), any::<bool>(), (limits, timeout), kept, ended).prop_map(
        |((key, source, image, version), always, secret, ((retries, deadline), timeout), pin, settled)| {
            let id = WishId { source: SOURCES[source], key: key.to_string().into() };
            let wish = wish("", IMAGES[image]);
            let wish = Wish { id, version, always, retries, deadline, pin, settled, timeout, ..wish };
            if secret { sealed(wish) } else { wish }
        },
    )
}

fn failure() -> impl Strategy<Value = PullFailure> {
    prop_oneof![
        4 => Just(PullFailure::Refused("refused".to_owned())),
        1 => Just(PullFailure::Impossible("impossible".to_owned())),
        1 => prop_oneof![Just(10), Just(20)].prop_map(|limit| PullFailure::TimedOut(secs(limit))),
        1 => Just(PullFailure::NoRoom("full".to_owned())),
        1 => Just(PullFailure::Away("away".to_owned())),
        1 => Just(PullFailure::Cancelled),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let image = || (0..IMAGES.len()).prop_map(|image| IMAGES[image]);
    let used =
        image().prop_flat_map(|image| prop_oneof![Just(record(image).to_string()), Just(pulled(image).id)]);
    prop_oneof![
        8 => a_wish().prop_map(|wish| Op::See(Box::new(wish))),
        2 => a_wish().prop_map(|wish| Op::Gone(wish.id)),
        1 => (0..SOURCES.len(), proptest::collection::vec(a_wish(), 0..3))
            .prop_map(|(source, wishes)| Op::List(SOURCES[source], wishes)),
        8 => (any::<usize>(), proptest::option::weighted(0.8, proptest::bool::weighted(0.3)))
            .prop_map(|(which, answer)| Op::Look(which, answer)),
        6 => (any::<usize>(), proptest::option::of(failure())).prop_map(|(which, how)| Op::EndPull(which, how)),
        5 => (any::<usize>(), 0..2_u64).prop_map(|(which, credential)| Op::Ask(which, credential)),
        1 => any::<usize>().prop_map(Op::Progress),
        2 => image().prop_map(Op::KubeletBegins),
        3 => any::<usize>().prop_map(Op::KubeletEnds),
        6 => (any::<usize>(), 0..2_u64).prop_map(|(which, credential)| Op::Join(which, credential)),
        2 => any::<usize>().prop_map(Op::Leave),
        4 => (any::<usize>(), proptest::bool::weighted(0.7)).prop_map(|(which, works)| Op::Pin(which, works)),
        1 => used.prop_map(Op::Use),
        4 => (0..5000_u64).prop_map(|time| Op::Pass(Duration::from_millis(time))),
        4 => Just(Op::Wait),
    ]
}

fn pick<T: Clone>(all: impl ExactSizeIterator<Item = T>, which: usize) -> Option<T> {
    let mut all = all;
    let len = all.len();
    all.nth(which % len.max(1))
}

impl Truth {
    fn run(&mut self, op: &Op) {
        match op {
            Op::See(wish) => {
                self.wishes.insert(wish.id.clone(), Wish::clone(wish));
                self.apply(&ImageEvent::WishSeen(wish.clone()));
            }
            Op::Gone(wish) => {
                self.wishes.remove(wish);
                self.apply(&ImageEvent::WishGone(wish.clone()));
            }
            Op::List(source, wishes) => {
                self.wishes.retain(|id, _| id.source != *source);
                let mut listed = Vec::new();
                for (key, wish) in wishes.iter().enumerate() {
                    let id = WishId { source: *source, ..id(&key.to_string()) };
                    let wish = Wish { id, ..wish.clone() };
                    self.wishes.insert(wish.id.clone(), wish.clone());
                    listed.push(wish);
                }
                self.apply(&ImageEvent::WishesListed(*source, listed));
            }
            Op::Look(which, answer) => {
                let Some(given) = pick(self.looks.iter().cloned(), *which) else { return };
                self.looks.remove(&given);
                let image = reference(&given);
                self.apply(&match answer {
                    Some(found) => ImageEvent::Looked { image, found: found.then(|| pulled(&given)) },
                    None => ImageEvent::LookFailed { image, message: "away".to_owned() },
                });
            }
            Op::EndPull(which, failure) => {
                let Some(pull) = pick(self.pulls.keys().copied(), *which) else { return };
                self.end_pull(pull, failure.clone());
            }
            Op::Ask(which, credential) => {
                let Some(pull) = pick(self.pulls.keys().copied(), *which) else { return };
                let credential = CredentialKey(*credential);
                if self.pulls.get_mut(&pull).unwrap().credential.replace(credential) != Some(credential) {
                    let waiting = self.waiting.values_mut().filter(|waiting| waiting.pull == pull);
                    waiting.for_each(|waiting| waiting.entitled = false);
                }
                self.apply(&ImageEvent::PullAsked { pull, credential });
            }
            Op::Progress(which) => {
                let Some(pull) = pick(self.pulls.keys().copied(), *which) else { return };
                self.apply(&ImageEvent::PullProgressed { pull, bytes: Bytes { done: 1, total: 2 } });
            }
            Op::KubeletBegins(image) => {
                self.calls += 1;
                let (call, image): (_, Arc<str>) = (CallId(self.calls), record(image));
                self.kubelet.insert(call, image.clone());
                let credential = CredentialKey(0);
                self.apply(&ImageEvent::KubeletPullBegan { call, image, credential });
            }
            Op::KubeletEnds(which) => {
                let Some(call) = pick(self.kubelet.keys().copied(), *which) else { return };
                self.kubelet.remove(&call);
                self.apply(&ImageEvent::KubeletPullEnded { call });
            }
            Op::Join(which, credential) => {
                let credential = CredentialKey(*credential);
                let Some(pull) = pick(self.pulls.keys().copied(), *which) else { return };
                let running = &self.pulls[&pull];
                let joins = self.play.images.joinable(&running.order.image.record, credential);
                let same = running.credential == Some(credential) && !running.cancelled;
                let others = || self.waiting.values().filter(|waiting| waiting.pull == pull);
                assert_eq!(joins == Some(pull), same && others().all(|waiting| waiting.entitled));
                if joins != Some(pull) {
                    return;
                }
                self.calls += 1;
                let call = CallId(self.calls);
                self.waiting.insert(call, Waiting { pull, entitled: true });
                self.apply(&ImageEvent::Joined { call, pull });
            }
            Op::Leave(which) => {
                let Some(call) = pick(self.waiting.keys().copied(), *which) else { return };
                self.waiting.remove(&call);
                self.apply(&ImageEvent::Left { call });
            }
            Op::Pin(which, works) => {
                let Some(image) = pick(self.pinning.keys().cloned(), *which) else { return };
                self.answer_pin(&image, *works);
            }
            Op::Use(image) => self.apply(&ImageEvent::ImageUsed(image.as_str().into())),
            Op::Pass(time) => self.play.pass(*time),
            Op::Wait => {
                if let Some(next) = self.play.images.next_deadline() {
                    self.play.now = self.play.now.max(next);
                }
            }
        }
        let busy = self.play.images.is_busy();
        self.plan();
        assert!(busy || self.pulls.is_empty(), "a pull of which nobody was told before it began");
    }

    /// Everything goes well from now on, until nothing is waited for any more.
    fn goes_well(&mut self) {
        for _ in 0..2000 {
            let op = if !self.looks.is_empty() {
                Op::Look(0, Some(false))
            } else if !self.pulls.is_empty() {
                Op::EndPull(0, None)
            } else if !self.kubelet.is_empty() {
                Op::KubeletEnds(0)
            } else if !self.waiting.is_empty() {
                Op::Leave(0)
            } else if !self.pinning.is_empty() {
                Op::Pin(0, true)
            } else if self.play.images.next_deadline().is_some() {
                Op::Wait
            } else {
                return;
            };
            self.run(&op);
        }
        panic!("it does not come to rest: {:?}", self.play.images);
    }

    /// Every open wish is fulfilled when all goes well, and nothing is left when all have gone.
    fn comes_to_rest(mut self) {
        let reports = self.play.images.reports();
        self.goes_well();
        for before in reports {
            let after = self.play.images.report(&before.id).unwrap();
            let limited = self.wishes[&before.id].deadline.is_some();
            match before.phase {
                WishPhase::Succeeded | WishPhase::Failed => assert_eq!(before, after),
                WishPhase::Waiting | WishPhase::Pulling if limited => {
                    assert!(after.phase >= WishPhase::Succeeded);
                }
                WishPhase::Waiting | WishPhase::Pulling => assert_eq!(after.phase, WishPhase::Succeeded),
            }
        }
        assert!(self.pinned.is_empty(), "kept after its end: {:?}", self.pinned);
        while let Some(wish) = self.wishes.keys().next().cloned() {
            self.run(&Op::Gone(wish));
        }
        assert_eq!(self.play.images.size(), crate::ImagesSize::default());
        assert!(!self.play.images.is_busy());
        let left = format!("{:?}", self.play.images);
        for empty in ["looks: {}", "joiners: {}", "attempted: {}"] {
            assert!(left.contains(empty), "{left}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_operations_keep_the_invariants(
        (parallel, per_registry, seed) in (1..4_usize, 1..4_usize, any::<u64>()),
        ops in proptest::collection::vec(op(), 1..150),
    ) {
        let mut truth = Truth::new(ImageLimits { parallel, per_registry, seed });
        for op in &ops {
            truth.run(op);
        }
        truth.comes_to_rest();
    }
}

/// The model can fail: more pulls than it allows are caught.
#[test]
#[should_panic(expected = "too many pulls")]
fn the_model_catches_a_pull_too_many() {
    let mut truth = Truth::new(ImageLimits { parallel: 2, per_registry: 2, seed: 0 });
    truth.limits.parallel = 1;
    for image in ["r.io/a:1", "q.io/a:1"] {
        truth.run(&Op::See(Box::new(super::play::always(image, image))));
    }
}
