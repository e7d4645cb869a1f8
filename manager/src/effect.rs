//! Effects: all that indexes ask for, as values. The controller hands each to who carries it out.

use std::sync::Arc;

use crate::{
    budgets::Step, images::Fetch, notes::Note, podstates::PodStateStep, requests::Ask, spreads::SpreadStep,
    write::Write,
};

/// Effect that an index asks for.
#[derive(Clone, Debug)]
pub enum Effect {
    /// A write.
    Write(Write),
    /// Secrets are to be read; `ImageIndex::secrets_ready` or `secrets_missing` says what came of it.
    Fetch(Fetch),
    /// Secrets that were read for this job are not needed any more.
    Forget(Arc<str>),
    /// News to be told of an object.
    Note(Note),
    /// The budget of a pod is to be asked; `RequestIndex::permitted` says what it answered.
    Ask(Ask),
    /// Step for a budget.
    Budget(Step),
    /// Step for a WorkloadSpread.
    Spread(SpreadStep),
    /// Step for a PersistentPodState.
    PodState(PodStateStep),
}
