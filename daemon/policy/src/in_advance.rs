//! Decisions that are known before they are asked for, so that a data path in another process need not ask.
//!
//! Whatever is not in here has to be asked. What is in here stays true until [`Node::foretold`] changes: none
//! of it depends on the time.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use crate::{
    call::Request,
    creation_env::CreationEnv,
    event::Event,
    launch_priority::LaunchOrder,
    model::{ConnectionId, ContainerId, ContainerName, PodUid, SandboxId},
    node::Node,
    recreate::{Restate, Turn},
    sandbox::Sandbox,
    verdict::{HookTurn, Showing},
};

/// All that is known before it is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InAdvance {
    /// Creations, by sandbox.
    pub sandboxes: BTreeMap<SandboxId, Creations>,
    /// Stops, statuses and hooks, by container.
    pub containers: BTreeMap<ContainerId, Foretold>,
    /// Env values that the containers of a pod are created with, whatever the kubelet read.
    pub env: BTreeMap<PodUid, CreationEnv>,
    /// A list of containers may have to carry a nudge.
    pub nudges: bool,
    /// A pull goes on as it came: the agent has none that it could wait for.
    pub pulls_pass: bool,
    /// Creations in sandboxes that are not the kubelet's and have no plan go on as they came.
    pub strangers_pass: bool,
}

/// Rows of sandboxes and of containers.
pub(crate) type Rows = (BTreeMap<SandboxId, Creations>, BTreeMap<ContainerId, Foretold>);

/// Creations in a sandbox that pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Creations {
    /// All of them: nothing is ordered.
    All,
    /// The ones of these containers: their barrier is open, or has no container above it.
    Of(BTreeSet<ContainerName>),
}

/// Answers about one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foretold {
    /// A stop goes on as it came.
    pub stop_passes: bool,
    /// State that the kubelet is shown; `None` where that has to be asked.
    pub status: Option<Shown>,
    /// Outcome for a hook that begins; `None` where that has to be asked.
    pub hook: Option<HookTurn>,
    /// The status may have changed by the time it is asked for: with an agent there, it is asked.
    pub changing: bool,
    /// The kubelet's looks at it mean nothing, and nobody need be told of them.
    pub quiet: bool,
}

/// State of a container that the kubelet is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The state.
    pub showing: Showing,
    /// On this connection only; the truth on others.
    pub only_to: Option<ConnectionId>,
}

impl InAdvance {
    /// Tells whether this call goes on as it came, without a question.
    pub fn passes(&self, request: &Request) -> bool {
        match request {
            Request::CreateContainer(create) => match self.sandboxes.get(&create.sandbox) {
                Some(Creations::All) => true,
                Some(Creations::Of(open)) => open.contains(&create.container),
                None => false,
            },
            Request::StopContainer(stop) => {
                self.containers.get(&stop.container).is_some_and(|row| row.stop_passes)
            }
        }
    }
}

impl Node {
    /// A number that grows with everything that may alter [`Node::in_advance`].
    pub fn foretold(&self) -> u64 {
        self.foretold
    }

    /// Returns what is known before it is asked.
    pub fn in_advance(&self, now: Instant) -> InAdvance {
        let (sandboxes, containers) = self.rows(self.sandboxes.iter(), now);
        InAdvance {
            sandboxes,
            containers,
            env: self.creation_env.clone(),
            nudges: self.may_nudge(),
            pulls_pass: !self.images_busy,
            strangers_pass: self.strangers_pass(),
        }
    }

    /// Returns what is known of a pod alone, and what follows from all of them.
    pub(crate) fn foretold_of(&self, pod: &PodUid, now: Instant) -> (Rows, bool) {
        let own = self.sandboxes.iter().filter(|(_, sandbox)| sandbox.pod.uid == *pod);
        (self.rows(own, now), self.may_nudge())
    }

    fn may_nudge(&self) -> bool {
        self.recreates.has_marks() || self.sidecars_unseen().next().is_some()
    }

    fn rows<'a>(&self, sandboxes: impl Iterator<Item = (&'a SandboxId, &'a Sandbox)>, now: Instant) -> Rows {
        let (mut of_sandboxes, mut of_containers) = Rows::default();
        for (sandbox_id, sandbox) in sandboxes.filter(|(_, sandbox)| sandbox.confirmed) {
            let ordered =
                self.config.exit_order && (self.order_of(sandbox).is_some() || self.may_be_ordered(sandbox));
            let creations = self.creations(sandbox);
            // Where creations are in an order, a look is a sign of how far the kubelet is.
            let quiet = creations == Creations::All;
            for id in sandbox.instances.keys() {
                of_containers.insert(id.clone(), self.foretell(id, ordered, quiet, now));
            }
            of_sandboxes.insert(sandbox_id.clone(), creations);
        }
        (of_sandboxes, of_containers)
    }

    fn foretell(&self, id: &ContainerId, ordered: bool, quiet: bool, now: Instant) -> Foretold {
        let marked = self.recreates.has_mark_of(id);
        let hook = match self.hook_begins(id) {
            Turn::Take(turn) => Some(turn),
            Turn::Once(_) => None,
        };
        Foretold {
            stop_passes: !ordered && !marked,
            status: self.shown(id, now),
            hook,
            changing: marked,
            quiet: quiet && !marked && self.looks_mean_nothing(id),
        }
    }

    fn shown(&self, id: &ContainerId, now: Instant) -> Option<Shown> {
        // No connection has this one, so what it is shown all are.
        let to = |connection| match self.restate(connection, id, now) {
            Restate::Show(showing) => Some(showing),
            Restate::Once(_) | Restate::Later => None,
        };
        let to_all = to(ConnectionId(u64::MAX))?;
        let only = self.recreates.shown_to(id).filter(|_| to_all == Showing::Truth);
        let to_one = only.and_then(|only| Some((only, to(only)?)));
        Some(match to_one {
            Some((only, showing)) if showing != Showing::Truth => Shown { showing, only_to: Some(only) },
            _ => Shown { showing: to_all, only_to: None },
        })
    }

    fn creations(&self, sandbox: &Sandbox) -> Creations {
        if !self.config.launch_order {
            return Creations::All;
        }
        let created = || sandbox.instances.values().map(|instance| instance.container.name.clone());
        let (order, deleting) = match (self.pods.get(&sandbox.pod.uid), &sandbox.declared.plan) {
            (Some(pod), _) => (pod.order.clone(), pod.deletion.is_some()),
            (None, Some(plan)) => (plan.clone().and_then(LaunchOrder::planned), false),
            (None, None) => return Creations::Of(created().collect()),
        };
        match order {
            Ok(None) => Creations::All,
            // The restart of a container is never gated.
            Err(_) => Creations::Of(created().collect()),
            Ok(Some(_)) if deleting => Creations::Of(created().collect()),
            Ok(Some(order)) => {
                let mut sequence = order.launch_sequence().peekable();
                // Nothing is above these.
                let first = sequence.peek().map(|(_, priority)| *priority);
                let is_open = |priority| first == Some(priority) || sandbox.latched.contains(&priority);
                let open = sequence.filter(|(_, priority)| is_open(*priority));
                Creations::Of(open.map(|(name, _)| name.clone()).chain(created()).collect())
            }
        }
    }

    /// Returns what is known of the pod that an event shows. With a mark, any event may alter anything.
    pub(crate) fn foretold_of_shown(&self, event: &Event, now: Instant) -> Option<(PodUid, (Rows, bool))> {
        let Event::PodSeen(pod) = event else { return None };
        let uid = &pod.pod.uid;
        (!self.recreates.has_marks()).then(|| (uid.clone(), self.foretold_of(uid, now)))
    }

    /// Takes note of an event that may alter what is known in advance.
    pub(crate) fn note_foretold(&mut self, event: &Event) {
        let told_often_and_alters_nothing = matches!(
            event,
            Event::RelistAsked { .. }
                | Event::RelistAnswered { .. }
                | Event::StatusAsked { .. }
                | Event::HookAsked { .. }
                | Event::PullPassed { .. }
                | Event::CallEnded(_)
                | Event::ConnectionClosed(_)
                | Event::InspectionStarted(_)
                | Event::InspectionFailed(_)
                | Event::ProbeBegan(_)
                | Event::ProbeEnded(..)
                | Event::ViewFresh(_)
                | Event::KubeletPollStarted
                | Event::KubeletPollEnded
        );
        // The kubelet looks: it need not be nudged any more.
        let looks =
            matches!(event, Event::StatusAsked { container, .. } if self.sidecars.is_marked(container));
        if !told_often_and_alters_nothing || looks || self.recreates.has_marks() {
            self.foretold += 1;
        }
    }
}
