//! One pod as its update sees it: judged from what the API server shows, what runs, and what is remembered.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    clock::Clock,
    leftovers::leftovers,
    pod::UpdatedPod,
    view::{ContainerStatusView, CreatedWith, DeclaredContainer, DeclaredHook, GateView, NodeView, PodView},
};
use crate::{
    in_place_update::{
        self as updates, ContainerView, Gate, ImageMatch, Instance, Leftovers, Life, Observed, Presence,
        record::last_patched,
    },
    instances::InstanceView,
    model::{ContainerName, ContainerState},
    time::later,
};

/// How much later than the second in which it was written a time of the API may have been.
const WHOLE_SECOND: Duration = Duration::from_secs(1);
/// Time in which a container that exited may be on its way to be started again, whatever its restart policy
/// says: the kubelet stops and starts a container whose definition has changed in one go.
const AFTERMATH: Duration = Duration::from_secs(10);
/// Time that a container has to run before the next batch may stop others, where the kubelet has not looked
/// at it yet. Its looks are a second apart: it calls a new one Ready after half of that on average.
const STEADY: Duration = Duration::from_millis(400);
/// Time that a container has to run that has fallen over before: the kubelet's own back-off begins with it.
const PROVEN: Duration = Duration::from_secs(10);

/// The judged pod, and when that changes by itself.
pub(crate) struct Picture {
    pub(crate) observed: Observed,
    pub(crate) again: Option<Instant>,
}

/// Sources of the picture.
struct Look<'a> {
    view: &'a PodView,
    node: &'a NodeView,
    pod: &'a UpdatedPod,
    clock: Clock,
    again: Vec<Instant>,
}

/// Judges a pod from its version `view`, which the kubelet knows from `settled` on.
pub(crate) fn snapshot(
    pod: &UpdatedPod,
    view: &PodView,
    settled: Instant,
    node: &NodeView,
    instances: &BTreeMap<ContainerName, InstanceView>,
    clock: Clock,
) -> Picture {
    let is_settled = settled <= clock.now;
    let again = if is_settled { Vec::new() } else { vec![settled] };
    let mut look = Look { view, node, pod, clock, again };
    let containers: Vec<ContainerView> =
        view.containers.iter().map(|container| look.container(container, instances)).collect();
    let observed = Observed {
        liveness: view.liveness,
        named: view.named.clone(),
        controller: view.controller.clone(),
        gate: look.gate(),
        record: None,
        records: view.records.clone(),
        is_record_old: false,
        kubelet_knows: is_settled && is_worked_on(view),
        kubelet_told: is_settled,
        images: look.images(),
        refused: pod.refused.clone(),
        held: pod.held.clone(),
        wall: clock.seconds(),
        before: None,
        metadata: view.metadata.clone(),
        containers,
    };
    Picture { observed, again: look.again.into_iter().min() }
}

fn is_worked_on(view: &PodView) -> bool {
    updates::is_worked_on(view.generation, view.observed_generation)
}

/// The kubelet's pod worker is between the stop of the old instance and the start of the new one: the old one
/// has exited and the worker is at the spec or the mark that says so, or the new one is there. It tells
/// nothing before it is through, and then of what it finds at its next look at the runtime.
fn is_being_started(view: &PodView, instance: &InstanceView, image: ImageMatch) -> bool {
    let has_image = image == ImageMatch::Wanted;
    match instance.state {
        ContainerState::Exited { .. } => {
            instance.stopping || !has_image && view.observed_generation.is_some() && is_worked_on(view)
        }
        ContainerState::Created => has_image,
        ContainerState::Running | ContainerState::Unknown => false,
    }
}

/// Tells whether nobody has said yet that its hook has ended: the kubelet says that it runs only after that.
fn is_in_hook(container: &DeclaredContainer, newest: &InstanceView) -> bool {
    let told = |status: &ContainerStatusView| status.id.as_ref() == Some(&newest.id) && status.runs;
    container.hook != DeclaredHook::None && !newest.hooked && !container.status.as_ref().is_some_and(told)
}

impl Look<'_> {
    fn gate(&self) -> Gate {
        match self.view.gate {
            GateView::Absent => Gate::Absent,
            GateView::Unwritten => Gate::Unwritten,
            GateView::Ready => Gate::Ready,
            GateView::NotReady { since } => {
                // The API's times have whole seconds: it may have been a second later.
                let written = since.map(|at| later(self.clock.instant(at), WHOLE_SECOND));
                Gate::NotReady { since: self.pod.closed.or(written).unwrap_or(self.clock.now) }
            }
        }
    }

    fn images(&self) -> BTreeMap<Arc<str>, Presence> {
        let judged = |presence: &Presence| match presence {
            Presence::Failed(why) if self.view.has_pull_secrets => Presence::Failed(format!(
                "{why}; if it takes the pod's imagePullSecrets, which the agent does not read: bring it to the node by an \
                 ImagePullJob with pullSecrets first"
            )),
            presence => presence.clone(),
        };
        self.node.images.iter().map(|(image, presence)| (image.clone(), judged(presence))).collect()
    }

    fn container(
        &mut self,
        container: &DeclaredContainer,
        instances: &BTreeMap<ContainerName, InstanceView>,
    ) -> ContainerView {
        let newest = instances.get(&container.name);
        ContainerView {
            name: container.name.clone(),
            image: container.image.clone(),
            priority: container.priority,
            reads: container.references.values().map(|reference| reference.key.clone()).collect(),
            env: container.env,
            instance: newest.map(|newest| self.instance(container, newest)),
            leftovers: newest.map_or(Leftovers::None, |newest| {
                leftovers(self.pod.removal.as_ref(), self.node, &container.name, &newest.id)
            }),
        }
    }

    fn instance(&mut self, container: &DeclaredContainer, newest: &InstanceView) -> Instance {
        let created = self.pod.created.get(&newest.id);
        let image = match created.and_then(|created| created.definition) {
            None => ImageMatch::Unknown,
            Some(definition) if definition == container.definition => ImageMatch::Wanted,
            Some(_) => ImageMatch::Other,
        };
        let life = match self.life(container, newest, created) {
            Life::Restarting if is_being_started(self.view, newest, image) => Life::Stopped,
            life => life,
        };
        Instance {
            id: newest.id.clone(),
            image,
            image_id: container.status.as_ref().map(|status| status.image_id.clone()).unwrap_or_default(),
            env: created.and_then(|created| created.env),
            life,
            early_ready: self.is_early_ready(container, newest),
            hooked: container.hook != DeclaredHook::None,
            in_hook: is_in_hook(container, newest),
            restarts: newest.attempt,
        }
    }

    fn life(
        &mut self,
        container: &DeclaredContainer,
        newest: &InstanceView,
        created: Option<&CreatedWith>,
    ) -> Life {
        let status = container.status.as_ref();
        let told = status.filter(|status| status.id.as_ref() == Some(&newest.id));
        let mut ready = told.is_some_and(|status| status.ready);
        if let Some(at) = told.and_then(|status| self.proven(&container.name, status))
            && at > self.clock.now
        {
            self.again.push(at);
            ready = false;
        }
        // By a rule that is not known here the kubelet may start again what the policy leaves: its status
        // says so.
        let backs_off = status.is_some_and(|status| status.backs_off);
        let policy = container.restart_policy.unwrap_or(self.view.restart_policy);
        let restarts = |code: Option<i32>| {
            policy.restarts(code) || container.restart_rules.iter().any(|rule| rule.takes_in(code))
        };
        match newest.state {
            // The kubelet has seen this very instance end. Nobody else need have: an exit between two looks
            // at the runtime tells nobody.
            ContainerState::Running if told.is_some_and(|status| status.backs_off) => Life::Crashing,
            ContainerState::Running if newest.stopping => Life::Restarting,
            ContainerState::Running => Life::Running { ready },
            ContainerState::Created | ContainerState::Unknown => Life::Restarting,
            ContainerState::Exited { .. } if backs_off => Life::Crashing,
            ContainerState::Exited { code } if restarts(code) => Life::Restarting,
            ContainerState::Exited { .. } => self.after_the_end(created),
        }
    }

    /// The restart policy leaves it as it is, unless the kubelet has stopped it a moment ago.
    fn after_the_end(&mut self, created: Option<&CreatedWith>) -> Life {
        let Some(end) = created.and_then(|created| created.finished) else { return Life::Restarting };
        let since = self.clock.wall.saturating_sub(end);
        if since >= AFTERMATH {
            return Life::Ended;
        }
        self.again.push(later(self.clock.now, AFTERMATH.saturating_sub(since)));
        Life::Restarting
    }

    /// Tells whether it runs steadily, has nothing that would have to succeed before it is Ready, and is the
    /// first one after the one that the kubelet told of last, which ran: it has not fallen over.
    fn is_early_ready(&mut self, container: &DeclaredContainer, newest: &InstanceView) -> bool {
        let follows = |status: &ContainerStatusView| {
            status.runs && status.ready && newest.attempt == status.restarts.saturating_add(1)
        };
        let runs = newest.state == ContainerState::Running && !newest.stopping;
        let is_hooked = container.hook == DeclaredHook::Command && newest.hooked;
        let waits_for_hook = container.hook != DeclaredHook::None && !is_hooked;
        if container.is_probed || waits_for_hook || !runs || !container.status.as_ref().is_some_and(follows) {
            return false;
        }
        // What it says itself counts more than that it has run for a while.
        if is_hooked {
            return true;
        }
        let Some(since) = self.pod.running.get(&newest.id) else { return false };
        let steady = later(*since, STEADY);
        if steady > self.clock.now {
            self.again.push(steady);
        }
        steady <= self.clock.now
    }

    /// Returns when a container that has fallen over since its batch was patched has run long enough to
    /// count: the kubelet calls one without a probe Ready whenever it is started. `None` for one that has
    /// not.
    fn proven(&self, name: &ContainerName, status: &ContainerStatusView) -> Option<Instant> {
        let patched = last_patched(&self.view.records, name)?;
        let before = i64::try_from(status.last_started?.as_secs()).unwrap_or(i64::MAX);
        let since = status.started?;
        // Times have whole seconds: one that was started in the second of the patch may have been started
        // before it.
        (before > patched).then(|| later(self.clock.instant(since), PROVEN))
    }
}
