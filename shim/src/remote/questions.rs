//! Questions that wait for their answers.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use berth_policy::{Call, CallId, ConnectionId, ContainerId, CredentialKey, HoldReason};
use tokio::sync::watch;

use super::{
    calls::{Beyond, call_to_wire, name, text, trace_to_wire},
    message::{self, Answers, Asks, OfContainer, PullMade},
};
use crate::trace::TraceParent;

/// A question to the agent.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    Call(Arc<Call>, Option<TraceParent>),
    Status { connection: ConnectionId, container: ContainerId },
    Hook { connection: ConnectionId, container: ContainerId },
    Relist(CallId),
    Pull { call: CallId, image: String, credential: CredentialKey, trace: Option<TraceParent> },
}

/// The last word of the agent on a question.
#[derive(Clone, Debug, Default)]
pub(crate) enum Heard {
    #[default]
    Nothing,
    Held(HoldReason),
    Answer(Answers),
}

/// All questions, by number.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    last: u64,
    waiting: BTreeMap<u64, (Question, watch::Sender<Heard>)>,
}

// === impl Question ===

impl Question {
    pub(crate) fn to_wire(&self, id: u64, now: Instant) -> Result<message::Question, Beyond> {
        let of = |connection: &ConnectionId, container: &ContainerId| {
            Ok(OfContainer { connection: connection.0, container: name(container.as_str())? })
        };
        let asks = match self {
            Self::Call(call, _) => Asks::Call(call_to_wire(call, now)?),
            Self::Status { connection, container } => Asks::Status(of(connection, container)?),
            Self::Hook { connection, container } => Asks::Hook(of(connection, container)?),
            Self::Relist(call) => Asks::Relist(call.0),
            Self::Pull { call, image, credential, .. } => {
                Asks::Pull(PullMade { call: call.0, image: text(image)?, credential: credential.0 })
            }
        };
        let trace = self.trace().as_ref().map(trace_to_wire);
        Ok(message::Question { id, asks: Some(asks), trace })
    }

    /// The connection that it tells of.
    pub(crate) fn connection(&self) -> Option<ConnectionId> {
        match self {
            Self::Call(call, _) => Some(call.connection),
            Self::Status { connection, .. } | Self::Hook { connection, .. } => Some(*connection),
            Self::Relist(_) | Self::Pull { .. } => None,
        }
    }

    fn trace(&self) -> Option<TraceParent> {
        match self {
            Self::Call(_, trace) | Self::Pull { trace, .. } => *trace,
            Self::Status { .. } | Self::Hook { .. } | Self::Relist(_) => None,
        }
    }
}

// === impl Questions ===

impl Questions {
    /// One more. Gives its number, and where the answer comes.
    pub(crate) fn ask(&mut self, question: Question) -> (u64, watch::Receiver<Heard>) {
        self.last += 1;
        let (sender, receiver) = watch::channel(Heard::Nothing);
        self.waiting.insert(self.last, (question, sender));
        (self.last, receiver)
    }

    /// Takes a word on a question. One that nobody waits for any more is passed over, and so is one after the
    /// answer.
    pub(crate) fn heard(&self, id: u64, heard: Heard) {
        let Some((_, waiting)) = self.waiting.get(&id) else { return };
        waiting.send_if_modified(|last| {
            let open = !matches!(last, Heard::Answer(_));
            if open {
                *last = heard;
            }
            open
        });
    }

    /// Withdraws a question: nobody waits for it any more.
    pub(crate) fn withdraw(&mut self, id: u64) {
        self.waiting.remove(&id);
    }

    /// All that wait, in the order in which they were asked.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, &Question)> {
        self.waiting.iter().map(|(id, (question, _))| (*id, question))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Locks; a panic elsewhere does not stop the data path.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
