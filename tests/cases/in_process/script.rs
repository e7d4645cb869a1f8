//! A gate that does as the test says and remembers what it was told.

use std::{collections::BTreeMap, sync::Mutex};

use berth_policy::{
    Call, CallId, ContainerId, Event, Foretold, InAdvance, Latch, Nudge, Showing, ShownInAdvance, Verdict,
};
use berth_shim::{Answer, BoxFuture, Gate, Query, remote::Foresight};
use tokio::sync::watch;

type Script = Box<dyn FnMut(&Call) -> Verdict + Send>;

/// See the module.
pub(crate) struct ScriptedGate {
    script: Mutex<Script>,
    events: watch::Sender<Vec<Event>>,
    changes: watch::Sender<u64>,
    foretold: watch::Sender<u64>,
    latched: Mutex<Vec<Latch>>,
    marked: Mutex<Vec<ContainerId>>,
    ended: Mutex<Vec<ContainerId>>,
    hooked: Mutex<Vec<ContainerId>>,
    /// Images that the gate pulls itself, and their results.
    pulls: watch::Sender<BTreeMap<String, Option<String>>>,
    /// Nudges that are to be given, and the call to which each was given.
    nudges: Mutex<Vec<(Nudge, Option<CallId>)>>,
}

impl ScriptedGate {
    /// Forwards everything until told otherwise.
    pub(crate) fn new() -> Self {
        Self {
            script: Mutex::new(Box::new(|_| Verdict::Forward)),
            events: watch::Sender::new(Vec::new()),
            changes: watch::Sender::new(0),
            foretold: watch::Sender::new(0),
            latched: Mutex::new(Vec::new()),
            marked: Mutex::new(Vec::new()),
            ended: Mutex::new(Vec::new()),
            hooked: Mutex::new(Vec::new()),
            pulls: watch::Sender::default(),
            nudges: Mutex::new(Vec::new()),
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

    /// From now on shows the kubelet a changed definition of this container.
    pub(crate) fn mark(&self, container: &str) {
        self.marked.lock().unwrap().push(container.into());
    }

    /// From now on finds out too late that this container is to be shown as completed: when its status is
    /// there.
    pub(crate) fn end(&self, container: &str) {
        self.ended.lock().unwrap().push(container.into());
        self.foretold.send_modify(|number| *number += 1);
    }

    /// From now on says that the hook of this container was begun before.
    pub(crate) fn hook_has_run(&self, container: &str) {
        self.hooked.lock().unwrap().push(container.into());
    }

    /// From now on pulls this image itself.
    pub(crate) fn pulls(&self, image: &str) {
        self.pulls.send_modify(|pulls| drop(pulls.insert(image.to_owned(), None)));
    }

    /// Its pull of it ends: with this, or without an image.
    pub(crate) fn pulled(&self, image: &str, image_ref: Option<&str>) {
        self.pulls.send_modify(|pulls| match image_ref {
            Some(image_ref) => drop(pulls.insert(image.to_owned(), Some(image_ref.to_owned()))),
            None => drop(pulls.remove(image)),
        });
    }

    /// Waits until somebody waits for its pull.
    pub(crate) async fn joined(&self) {
        while self.pulls.receiver_count() == 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Adds this to the next list of the kubelet that is answered.
    pub(crate) fn nudge(&self, nudge: Nudge) {
        self.nudges.lock().unwrap().push((nudge, None));
    }

    /// The latches it was to make durable.
    pub(crate) fn latched(&self) -> Vec<Latch> {
        self.latched.lock().unwrap().clone()
    }

    async fn joins(&self, image: &str) -> Option<String> {
        let wanted = |pulls: &BTreeMap<String, Option<String>>| pulls.get(image).cloned();
        let mut pulls = self.pulls.subscribe();
        wanted(&pulls.borrow())?;
        let ended = pulls.wait_for(|pulls| wanted(pulls).is_none_or(|image_ref| image_ref.is_some())).await;
        ended.ok().and_then(|pulls| wanted(&pulls).flatten())
    }
}

/// Answers that can be given before they are asked for, where the gate is at the other end of a line.
impl Foresight for ScriptedGate {
    fn changes(&self) -> watch::Receiver<u64> {
        self.foretold.subscribe()
    }

    fn foretold(&self) -> u64 {
        *self.foretold.borrow()
    }

    fn in_advance(&self) -> Option<InAdvance> {
        let completed = ShownInAdvance { showing: Showing::Completed, only_to: None };
        let row = Foretold {
            stop_passes: false,
            status: Some(completed),
            hook: None,
            changing: false,
            quiet: false,
        };
        let ended = self.ended.lock().unwrap();
        let containers = ended.iter().map(|container| (container.clone(), row)).collect();
        Some(InAdvance { containers, nudges: true, ..InAdvance::default() })
    }

    fn told(&self, _: Option<u64>) {}
}

impl Gate for ScriptedGate {
    fn answer<'a>(&'a self, query: Query<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            match query {
                Query::Hook { container, .. } => {
                    let begun = self.hooked.lock().unwrap().contains(container);
                    if begun { Answer::Done } else { Answer::Pass }
                }
                Query::Status { container, .. } => {
                    // Waits, as for a disk.
                    tokio::task::yield_now().await;
                    let marked = self.marked.lock().unwrap().contains(container);
                    Answer::Shown(if marked { Showing::OtherDefinition } else { Showing::Truth })
                }
                Query::Pull { image, .. } => self.joins(image).await.map_or(Answer::Pass, Answer::Pulled),
                Query::Relist(relist) => {
                    let mut nudges = self.nudges.lock().unwrap();
                    nudges.iter_mut().for_each(|(_, given)| *given = Some(relist));
                    Answer::Nudged(nudges.iter().map(|(nudge, _)| nudge.clone()).collect())
                }
                Query::Create(_) => Answer::Pass,
            }
        })
    }

    fn is_completed(&self, container: &ContainerId) -> bool {
        self.ended.lock().unwrap().contains(container)
    }

    fn admit(&self, call: &Call) -> Verdict {
        (self.script.lock().unwrap())(call)
    }

    fn observe(&self, event: Event) {
        if let Event::RelistAnswered { call, .. } = &event {
            self.nudges.lock().unwrap().retain(|(_, given)| *given != Some(*call));
        }
        self.events.send_modify(|events| events.push(event));
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn persist(&self, latch: Latch) -> BoxFuture<'_, ()> {
        self.latched.lock().unwrap().push(latch);
        Box::pin(std::future::ready(()))
    }
}
