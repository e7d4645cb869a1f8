//! Operations of the model test: events of the pod, of the requesters and of the agent.

use proptest::prelude::*;

use super::{BAD, MISSING};
use crate::in_place_update::UpdateSource;

/// Event of the pod, of the requesters or of the agent.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Ask(Box<Wish>),
    /// The agent looks, and has reports and a step under way.
    Plan,
    /// One of its reports arrives, however late.
    Written(usize),
    CarriedOut,
    /// It dies, with all that was under way.
    Die,
    KubeletLearns,
    KubeletSyncs(usize),
    ComesUp(usize),
    Exits(usize),
    Pass(u8),
}

#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// By container; 0: none.
    pub(super) images: [u8; 3],
    pub(super) values: [u8; 4],
    pub(super) source: UpdateSource,
    pub(super) rollback: bool,
    pub(super) ignore: bool,
    pub(super) deadline: Option<u8>,
}

pub(super) fn wish() -> impl Strategy<Value = Wish> {
    let image = prop_oneof![4 => Just(0), 6 => 1..4_u8, 1 => Just(BAD), 1 => Just(MISSING)];
    let images = prop::array::uniform3(image);
    let values = prop::array::uniform4(prop_oneof![2 => Just(0), 1 => 1..4_u8]);
    let source =
        prop_oneof![Just(UpdateSource::NodePodUpdate), Just(UpdateSource::Api), Just(UpdateSource::Admin)];
    let flags = (any::<bool>(), prop::bool::weighted(0.2), prop::option::of(5..200_u8));
    (images, values, source, flags)
        .prop_filter("asks for something", |(images, values, ..)| {
            images.iter().chain(values).any(|wanted| *wanted > 0)
        })
        .prop_map(|(images, values, source, (rollback, ignore, deadline))| {
            // As everywhere: who wants to return has a limit.
            let deadline = deadline.or(rollback.then_some(200));
            Wish { images, values, source, rollback, ignore, deadline }
        })
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => wish().prop_map(|wish| Op::Ask(Box::new(wish))),
        8 => Just(Op::Plan),
        8 => (0..3_usize).prop_map(Op::Written),
        8 => Just(Op::CarriedOut),
        1 => Just(Op::Die),
        3 => Just(Op::KubeletLearns),
        6 => (0..3_usize).prop_map(Op::KubeletSyncs),
        4 => (0..3_usize).prop_map(Op::ComesUp),
        1 => (0..3_usize).prop_map(Op::Exits),
        2 => (1..60_u8).prop_map(Op::Pass),
    ]
}

pub(super) fn asks(images: [u8; 3], values: [u8; 4]) -> Wish {
    Wish {
        images,
        values,
        source: UpdateSource::NodePodUpdate,
        rollback: false,
        ignore: false,
        deadline: None,
    }
}
