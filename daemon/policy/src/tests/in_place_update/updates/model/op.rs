//! Operations of the model test: one each of the requesters, the answers, the kubelet and the clock.

use proptest::prelude::*;

use crate::{StepOutcome, in_place_update::UpdateSource};

#[derive(Clone, Debug)]
pub(super) enum Op {
    Ask(Box<Wish>),
    /// It is deleted.
    TakeBack(usize),
    Fetch(bool),
    Inspect(bool),
    Step(Answer),
    Report(usize, StepOutcome),
    Delete(StepOutcome),
    PullEnds,
    KubeletLearns,
    KubeletSyncs(usize),
    BecomesReady(usize),
    KubeletReports(usize),
    Exits(usize),
    Relists,
    WatchShows,
    WatchLists,
    /// With a write that reached the API server, or not.
    ExecutorLost(bool),
    Dies,
    Pass(u16),
    /// Until something may be owed.
    Wait,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Done,
    /// It was written, and the answer said that somebody else was faster.
    DoneUnheard,
    Outdated,
    /// As an API server that comes up refuses.
    Refused,
    Failed,
    /// It was written, and no answer came.
    DoneUnanswered,
}

#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// By container; 0: none.
    pub(super) images: [u8; 3],
    pub(super) values: [u8; 4],
    pub(super) source: UpdateSource,
}

pub(super) fn wish() -> impl Strategy<Value = Wish> {
    let images = prop::array::uniform3(prop_oneof![1 => Just(0), 2 => 1..4_u8]);
    let values = prop::array::uniform4(prop_oneof![2 => Just(0), 1 => 1..4_u8]);
    let source = prop_oneof![Just(UpdateSource::Api), Just(UpdateSource::Admin)];
    (images, values, source)
        .prop_filter("asks for something", |(images, values, _)| {
            images.iter().chain(values).any(|wanted| *wanted > 0)
        })
        .prop_map(|(images, values, source)| Wish { images, values, source })
}

fn outcome() -> impl Strategy<Value = StepOutcome> {
    prop_oneof![4 => Just(StepOutcome::Done), 1 => Just(StepOutcome::Failed)]
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let works = || prop::bool::weighted(0.8);
    let answer = prop_oneof![
        8 => Just(Answer::Done),
        1 => Just(Answer::DoneUnheard),
        1 => Just(Answer::Outdated),
        1 => Just(Answer::Refused),
        1 => Just(Answer::Failed),
        1 => Just(Answer::DoneUnanswered),
    ];
    prop_oneof![
        1 => wish().prop_map(|wish| Op::Ask(Box::new(wish))),
        1 => (0..4_usize).prop_map(Op::TakeBack),
        6 => works().prop_map(Op::Fetch),
        8 => works().prop_map(Op::Inspect),
        8 => answer.prop_map(Op::Step),
        8 => (0..3_usize, outcome()).prop_map(|(which, how)| Op::Report(which, how)),
        2 => outcome().prop_map(Op::Delete),
        4 => Just(Op::PullEnds),
        3 => Just(Op::KubeletLearns),
        8 => (0..3_usize).prop_map(Op::KubeletSyncs),
        4 => (0..3_usize).prop_map(Op::BecomesReady),
        6 => (0..3_usize).prop_map(Op::KubeletReports),
        1 => (0..3_usize).prop_map(Op::Exits),
        3 => Just(Op::Relists),
        6 => Just(Op::WatchShows),
        1 => Just(Op::WatchLists),
        1 => any::<bool>().prop_map(Op::ExecutorLost),
        1 => Just(Op::Dies),
        4 => (1..2000_u16).prop_map(Op::Pass),
        4 => Just(Op::Wait),
    ]
}
