//! A gate that does as the test says and remembers what it was told.

use std::sync::Mutex;

use berth_policy::{Call, CallId, ContainerId, Event, Latch, Nudge, Verdict};
use berth_shim::Gate;
use tokio::sync::watch;

type Script = Box<dyn FnMut(&Call) -> Verdict + Send>;

/// See the module.
pub(crate) struct ScriptedGate {
    script: Mutex<Script>,
    events: watch::Sender<Vec<Event>>,
    changes: watch::Sender<u64>,
    latched: Mutex<Vec<Latch>>,
}

impl ScriptedGate {
    /// Forwards everything until told otherwise.
    pub(crate) fn new() -> Self {
        Self {
            script: Mutex::new(Box::new(|_| Verdict::Forward)),
            events: watch::Sender::new(Vec::new()),
            changes: watch::Sender::new(0),
            latched: Mutex::new(Vec::new()),
        }
    }

    /// From now on answers like this, also calls that are held now.
    pub(crate) fn answer(&self, script: impl FnMut(&Call) -> Verdict + Send + 'static) {
        *self.script.lock().unwrap() = Box::new(script);
        self.changes.send_modify(|number| *number += 1);
    }

    /// All it was told, in order.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.borrow().clone()
    }

    /// Waits until it was told something of which this is true.
    pub(crate) async fn told(&self, what: impl Fn(&Event) -> bool) {
        self.events.subscribe().wait_for(|events| events.iter().any(&what)).await.unwrap();
    }

    /// The latches it was to make durable.
    pub(crate) fn latched(&self) -> Vec<Latch> {
        self.latched.lock().unwrap().clone()
    }
}

impl Gate for ScriptedGate {
    async fn restates(&self, _: &ContainerId) -> bool {
        false
    }

    fn nudges(&self, _: CallId) -> Vec<Nudge> {
        Vec::new()
    }

    fn admit(&self, call: &Call) -> Verdict {
        (self.script.lock().unwrap())(call)
    }

    fn observe(&self, event: Event) {
        self.events.send_modify(|events| events.push(event));
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn persist(&self, latch: Latch) {
        self.latched.lock().unwrap().push(latch);
    }
}
