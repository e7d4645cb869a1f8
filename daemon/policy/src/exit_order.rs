//! Exit order: when may this `StopContainer` go on, and how much of its grace is left?
//!
//! On the deletion of a pod the kubelet stops all containers at once. With an order declared the lower
//! containers stop first. The call for a higher one waits until they have exited, at most until 2 s of its
//! own grace are left (the kubelet's own floor). The time waited is taken off what is passed on. It is never
//! answered with an error: the kubelet would go on to `StopPodSandbox`, which kills the whole pod at once.
//!
//! Only the end of a whole pod is ordered. `StopContainer` says nothing of its reason. What tells is one of:
//!
//! - a `deletionTimestamp` in the pod view, or its word that the pod has ended (a deadline that passed);
//! - less grace than the kubelet gives to any stop of this container alone;
//! - a second container of the same pod that is being stopped at the same time, or whose preStop hook runs.
//!
//! Everything else (liveness, a changed image, a failed postStart) stops one container after the other.
//!
//! An eviction and the shutdown of a node are not in the pod view before all has exited. They may give all
//! containers less grace than the pod says. A hook that is no command does not pass here, and the stop after
//! it comes too late to be a sign: where all other containers have one, and the grace is that of the pod, the
//! first stop does not wait.
//!
//! An order is unknown and not absent as long as nobody has said which pods there are: the stop of a pod
//! that may have one waits for the pod view, for a moment of its grace.

use std::time::{Duration, Instant};

use crate::{
    call::{Call, StopContainer},
    config::View,
    launch_order::PATIENCE_FOR_POD_VIEW,
    launch_priority::LaunchOrder,
    model::{CallId, ContainerId, ContainerName, ContainerState, Hook, SandboxId},
    node::{InFlight, InFlightKind, Node},
    sandbox::{Instance, Sandbox},
    time::later,
    verdict::{Amendment, HoldReason, Verdict, named},
};

/// Minimum time that a container always gets between the stop signal and SIGKILL (kubelet
/// `minimumGracePeriodInSeconds`).
const FLOOR: Duration = Duration::from_secs(2);
/// The longest a call waits whatever its timeout, which comes from outside and may be any number.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a call may wait for a sign that the whole pod ends. The kubelet stops all containers in the same
/// millisecond, and a watch shows a deletion within a few.
const PATIENCE_FOR_POD_KILL: Duration = Duration::from_millis(100);
/// How long the runtime may take to list one sandbox.
const PATIENCE_FOR_RUNTIME: Duration = Duration::from_secs(1);

impl Node {
    pub(crate) fn admit_stop(&mut self, call: &Call, request: &StopContainer, now: Instant) -> Verdict {
        if let Some(verdict) = self.admit_marked_stop(call, request) {
            return verdict;
        }
        let budget = request.timeout.saturating_sub(FLOOR).min(LONGEST);
        let Some(sandbox) = self.containers.get(&request.container).cloned() else { return Verdict::Forward };
        if !self.config.exit_order {
            return Verdict::Forward;
        }
        let (grace, whole_pod) = self.note_stop(call, &sandbox, request);
        match self.reason_to_wait(call, request, &sandbox, whole_pod, grace, now) {
            Some((limit, why)) if now < later(call.arrived, limit.min(budget)) => {
                Verdict::Hold { until: later(call.arrived, limit.min(budget)), why }
            }
            Some(_) | None => pass_on(request.timeout, now.saturating_duration_since(call.arrived), grace),
        }
    }

    /// Takes note of a stop, whatever is decided about it.
    fn note_stop(&mut self, call: &Call, sandbox: &SandboxId, request: &StopContainer) -> (Grace, bool) {
        self.track(
            call.id,
            call.connection,
            InFlightKind::Stop {
                sandbox: sandbox.clone(),
                container: request.container.clone(),
                whole_pod: false,
                grace: None,
            },
        );
        (self.note_grace(call.id, sandbox), self.note_pod_kill(call, sandbox, request))
    }

    /// Takes note of a stop that goes on already.
    pub(crate) fn stop_passed(&mut self, call: &Call, request: &StopContainer) {
        if self.admit_marked_stop(call, request).is_some() {
            return;
        }
        if let Some(sandbox) = self.containers.get(&request.container).cloned() {
            self.note_stop(call, &sandbox, request);
        }
    }

    /// Gives the reason why this call waits and the time that it may wait, from its arrival; `None` when it
    /// may go on.
    fn reason_to_wait(
        &self,
        call: &Call,
        request: &StopContainer,
        sandbox: &SandboxId,
        whole_pod: bool,
        grace: Grace,
        now: Instant,
    ) -> Option<(Duration, HoldReason)> {
        let sandbox = self.sandboxes.get(sandbox)?;
        if self.may_be_ordered(sandbox) && !sandbox.stopping {
            return Some((PATIENCE_FOR_POD_VIEW, HoldReason::PodUnknown));
        }
        let order = self.order_of(sandbox)?;
        let name = &sandbox.instances.get(&request.container)?.container.name;
        let below = order.below(order.priority(name)?);
        if sandbox.stopping || below.is_empty() || grace == Grace::Shortened {
            return None;
        }
        if !whole_pod {
            return Some((PATIENCE_FOR_POD_KILL, HoldReason::PodKillUnclear));
        }
        if !self.inspected_since(call, sandbox) && now < later(call.arrived, PATIENCE_FOR_RUNTIME) {
            return Some((PATIENCE_FOR_RUNTIME, HoldReason::Inspection));
        }
        let newest = sandbox.newest_of_each();
        let runs = |name: &&ContainerName| newest.get(*name).is_some_and(|instance| is_running(instance));
        let running = named(below.into_iter().filter(runs));
        (!running.is_empty()).then_some((Duration::MAX, HoldReason::StillRunning(running)))
    }

    /// The order that counts for a sandbox outside a `CreateContainer`: that of the pod view, or its own
    /// plan.
    pub(crate) fn order_of(&self, sandbox: &Sandbox) -> Option<LaunchOrder> {
        match self.pods.get(&sandbox.pod.uid) {
            Some(pod) => pod.order.clone().ok().flatten(),
            None => match sandbox.declared.plan.clone()? {
                Ok(plan) => LaunchOrder::planned(plan).ok().flatten(),
                Err(_) => None, // refused at launch: nothing runs here
            },
        }
    }

    /// Its order is not known yet: a view will show its pod, and was not listed so far.
    pub(crate) fn may_be_ordered(&self, sandbox: &Sandbox) -> bool {
        let is_shown = self.pods_are_listed || self.pods.contains_key(&sandbox.pod.uid);
        let declared = &sandbox.declared;
        self.config.view == View::Watched && !is_shown && declared.plan.is_none() && !declared.foreign
    }

    /// Remembers the grace of the deletion when it is first seen, to notice when a second delete shortens it.
    fn note_grace(&mut self, call: CallId, sandbox: &SandboxId) -> Grace {
        let current = self
            .sandboxes
            .get(sandbox)
            .and_then(|sandbox| self.pods.get(&sandbox.pod.uid))
            .and_then(|pod| pod.deletion)
            .map(|deletion| deletion.grace);
        match (self.calls.get_mut(&call).map(|call| &mut call.kind), current) {
            (Some(InFlightKind::Stop { grace: Some(first), .. }), Some(current)) if current < *first => {
                Grace::Shortened
            }
            (Some(InFlightKind::Stop { grace: first @ None, .. }), Some(current)) => {
                *first = Some(current);
                Grace::Unchanged
            }
            _ => Grace::Unchanged,
        }
    }

    /// Tells whether the whole pod is being stopped; once known it stays known for this call.
    fn note_pod_kill(&mut self, call: &Call, sandbox: &SandboxId, request: &StopContainer) -> bool {
        let id = call.id;
        let Some(InFlight { kind: InFlightKind::Stop { whole_pod, .. }, .. }) = self.calls.get(&id) else {
            return false;
        };
        // All calls are looked through last: where many pods end at once there are many, and each asks often.
        let is_known = *whole_pod
            || self.is_ending_pod(sandbox)
            || self.has_less_grace(call, sandbox, request)
            || self.has_partner(sandbox, &request.container);
        if let Some(InFlight { kind: InFlightKind::Stop { whole_pod, .. }, .. }) = self.calls.get_mut(&id) {
            *whole_pod = is_known;
        }
        is_known
    }

    /// Tells whether the pod view says that the pod of this sandbox ends.
    fn is_ending_pod(&self, sandbox: &SandboxId) -> bool {
        let pod = self.sandboxes.get(sandbox).and_then(|sandbox| self.pods.get(&sandbox.pod.uid));
        pod.is_some_and(|pod| pod.deletion.is_some() || pod.ended)
    }

    /// Tells whether the stop has less grace than any stop of this container alone. A client that lists all
    /// pods is the kubelet; somebody else who stops a container gives it what they like.
    fn has_less_grace(&self, call: &Call, sandbox: &SandboxId, request: &StopContainer) -> bool {
        let lists = self.connections.get(&call.connection).is_some_and(|client| client.relisted.is_some());
        let Some(home) = self.sandboxes.get(sandbox).filter(|_| lists) else { return false };
        let Some(instance) = home.instances.get(&request.container) else { return false };
        let Some(pod) = self.pods.get(&home.pod.uid) else { return false };
        let graces = pod.containers.get(&instance.container.name).map(|spec| &spec.graces);
        request.timeout < pod.grace
            && graces.is_some_and(|graces| !graces.is_empty() && !graces.contains(&request.timeout))
    }

    /// Tells whether another container in this sandbox is being stopped, or its preStop hook runs.
    fn has_partner(&self, sandbox: &SandboxId, container: &ContainerId) -> bool {
        self.calls.values().any(|other| match &other.kind {
            InFlightKind::Stop { sandbox: home, container: its, .. } => home == sandbox && its != container,
            InFlightKind::Hook { container: its } => its != container && self.is_pre_stop(sandbox, its),
            InFlightKind::Create { .. } | InFlightKind::Relist => false,
        })
    }

    /// Tells whether a hook in this container may be the preStop of one in the sandbox. Any other command
    /// that somebody has the kubelet run says nothing.
    fn is_pre_stop(&self, sandbox: &SandboxId, container: &ContainerId) -> bool {
        let Some(home) = self.sandboxes.get(sandbox) else { return false };
        let Some(instance) = home.instances.get(container) else { return false };
        let Some(pod) = self.pods.get(&home.pod.uid) else { return true };
        let spec = pod.containers.get(&instance.container.name);
        spec.is_some_and(|spec| matches!(spec.pre_stop, Some(Hook::Exec { .. })))
    }
}

/// Whether the grace of the pod's deletion is still the one this call came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grace {
    Unchanged,
    /// A second delete wants it over sooner.
    Shortened,
}

fn is_running(instance: &Instance) -> bool {
    instance.container.state == ContainerState::Running
}

/// Forwards with what is left of the timeout: whole seconds, rounded up, never below the floor and never more
/// than asked for.
fn pass_on(timeout: Duration, waited: Duration, grace: Grace) -> Verdict {
    let left = match grace {
        Grace::Unchanged => timeout.saturating_sub(waited),
        Grace::Shortened => FLOOR,
    };
    let whole = Duration::from_secs(left.as_secs().saturating_add(u64::from(left.subsec_nanos() > 0)));
    let left = whole.max(FLOOR).min(timeout);
    if left == timeout { Verdict::Forward } else { Verdict::Amend(Amendment::StopTimeout(left)) }
}
