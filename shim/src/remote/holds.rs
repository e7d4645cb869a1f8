//! Why a call waits, as the agent says it to the shim.

use std::sync::{Arc, Mutex};

use berth_policy::HoldReason;

use super::{
    answers::held_to_wire,
    frame::Outgoing,
    message::{Said, ToShim},
    questions::locked,
};
use crate::{gate::Holds, trace::TraceParent};

/// Says to the shim why a call waits.
pub(super) struct HoldsOfShim {
    question: u64,
    trace: Option<TraceParent>,
    outgoing: Arc<Outgoing>,
    /// The last reason that was said.
    said: Mutex<Option<HoldReason>>,
}

impl HoldsOfShim {
    /// Nothing is said yet about the call of this question.
    pub(super) fn new(question: u64, trace: Option<TraceParent>, outgoing: Arc<Outgoing>) -> Self {
        Self { question, trace, outgoing, said: Mutex::default() }
    }
}

impl Holds for HoldsOfShim {
    fn trace(&self) -> Option<TraceParent> {
        self.trace
    }

    /// A crowd of calls looks again after each fact: only what is new is worth a message.
    fn held(&self, why: &HoldReason) {
        let mut said = locked(&self.said);
        if said.as_ref() == Some(why) {
            return;
        }
        *said = Some(why.clone());
        // An answer that cannot be written ends the connection; this one is only for people.
        let held = held_to_wire(self.question, why);
        let _ = self.outgoing.put(&ToShim { said: Some(Said::Held(held)) });
    }
}
