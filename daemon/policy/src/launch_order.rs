//! Launch order: may this `CreateContainer` proceed?
//!
//! The gate is at `CreateContainer`, never at `StartContainer`: a container that was created and not started
//! is litter and raises the restart count. Images are pulled before it, so a waiting container has its image.
//!
//! ```text
//!   did this container run in this sandbox before? ---------------> Forward   (restarts are never gated)
//!   is its level's barrier open in this sandbox? -----------------> Forward
//!   every higher container satisfied? ----------------------------> Latch, then forward
//!   a higher one is not running ----------------------------------> Refuse    (the kubelet goes on to it)
//!   the agent's own probes of a higher one may succeed soon ------> Hold      (see `early_readiness`)
//!   a higher one was started in this very SyncPod ----------------> Refuse    (holding is a deadlock: its probes
//!                                                                              start after the pod worker returns)
//!   otherwise ----------------------------------------------------> Hold      (its probes run beside the worker)
//! ```
//!
//! A running container that has a probe is satisfied by the kubelet's Ready in the pod view, or by the
//! agent's own runs of all its probes, whichever comes first. Both speak of one instance, and both can be
//! taken back until the barrier is passed. For its own runs the agent holds a call also in the first SyncPod,
//! for [`crate::Config::early_hold`] from when the container began to run. It does so only if they can
//! succeed by then: with a longer initial delay the kubelet is not kept waiting. After that the rules are
//! those of the kubelet's probes alone.
//!
//! With [`crate::Config::distinct_seconds`] a call whose turn has come is held once more, see
//! `distinct_seconds`.
//!
//! A refusal costs nothing when the kubelet has a reason of its own to come back: a PLEG event or a changed
//! probe result starts the next SyncPod at once. A hold bridges the time in which the kubelet knows of a
//! readiness that the pod view does not show yet; refusing then would cost the flat retry of 10-16 s.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use crate::{
    call::{Call, CreateContainer, Declared},
    config::{UnknownPods, View},
    early_readiness::Early,
    launch_priority::{LaunchOrder, OrderError},
    model::{ContainerState, Pod, Readiness},
    node::{InFlightKind, Node},
    sandbox::{FRESH, Instance, Sandbox, Waiting},
    time::later,
    verdict::{HoldReason, Latch, Refusal, Verdict, named},
};

/// How long the pod view may take to show a pod whose container is created or stopped; a watch is behind by
/// milliseconds.
pub(crate) const PATIENCE_FOR_POD_VIEW: Duration = Duration::from_secs(2);
/// How long the runtime may take to list one sandbox. Mostly it takes milliseconds; where a node is busy, the
/// kubelet's own calls take as long.
const PATIENCE_FOR_RUNTIME: Duration = Duration::from_secs(20);
/// How long a container is held whose higher one has only a startup probe. That one becomes Ready with the
/// next SyncPod only; a hold can merely bridge the way of a status that was generated in this one.
const STARTUP_PROBE_HOLD: Duration = Duration::from_secs(1);

/// How long a Ready must last that a kubelet reports of a container it did not start itself.
///
/// A kubelet that restarts generates the status of a pod before it has started the pod's probes, and calls a
/// container without a probe worker Ready (`prober_manager.go`, `UpdatePodStatus`). The status of its next
/// SyncPod corrects that.
const READY_UNDER_NEW_KUBELET: Duration = Duration::from_secs(1);

/// Meaning of a higher container for the ones below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Satisfied,
    NotRunning,
    /// It runs; waiting may help for as long as this after the call came.
    NotReady(Duration),
    /// It runs, and cannot become Ready while this call waits.
    NotReadyInThisPass,
}

/// Where the order of a pod comes from.
pub(crate) enum Source<'a> {
    /// The pod view shows the pod.
    View(&'a Pod),
    /// A plan in the sandbox's annotations; nobody restarts its containers, and Ready is running.
    Plan(Result<Option<LaunchOrder>, OrderError>),
    /// Nobody knows the pod.
    Unknown,
}

impl Node {
    pub(crate) fn admit_create(&mut self, call: &Call, request: &CreateContainer, now: Instant) -> Verdict {
        self.note_create(call, request);
        let verdict = self.decide_create(call, request, now);
        self.note_waiting(request, &verdict, call.arrived);
        self.note_satisfied(call, request, &verdict);
        if let (Verdict::Latch(latch), Some(sandbox)) = (&verdict, self.sandboxes.get_mut(&request.sandbox)) {
            sandbox.latched.insert(latch.priority);
        }
        verdict
    }

    /// Takes note of a creation, whatever is decided about it.
    pub(crate) fn note_create(&mut self, call: &Call, request: &CreateContainer) {
        let seq = self.seq;
        let new = self.track(
            call.id,
            call.connection,
            InFlightKind::Create {
                sandbox: request.sandbox.clone(),
                container: request.container.clone(),
                attempt: request.attempt,
            },
        );
        self.sandboxes
            .entry(request.sandbox.clone())
            .or_insert_with(|| Sandbox::new(request.pod.clone(), request.declared.clone(), seq));
        if new {
            self.note_attempt(call, request);
        }
    }

    fn note_attempt(&mut self, call: &Call, request: &CreateContainer) {
        let index = match self.source(request) {
            Source::View(Pod { order: Ok(Some(order)), .. }) => order.index(&request.container),
            Source::View(_) | Source::Plan(_) | Source::Unknown => None,
        };
        if let Some(sandbox) = self.sandboxes.get_mut(&request.sandbox) {
            sandbox.pass.attempt(call.connection, &request.container, index);
        }
    }

    /// Remembers since when a container waits and for whom, for people; the verdict does not depend on it.
    fn note_waiting(&mut self, request: &CreateContainer, verdict: &Verdict, arrived: Instant) {
        let Some(sandbox) = self.sandboxes.get_mut(&request.sandbox) else { return };
        let names = match verdict {
            Verdict::Hold { why: HoldReason::NotReady(names), .. }
            | Verdict::Refuse(Refusal::Waiting(names)) => names,
            Verdict::Hold { .. } => return,
            Verdict::Forward | Verdict::Latch(_) | Verdict::Amend(_) | Verdict::Refuse(_) => {
                sandbox.waiting.remove(&request.container);
                return;
            }
        };
        let waiting = sandbox
            .waiting
            .entry(request.container.clone())
            .or_insert_with(|| Waiting { since: arrived, waiting_for: Vec::new() });
        waiting.waiting_for.clone_from(names);
    }

    /// Remembers since when nothing is missing but the runtime's word: what it is asked from then on, it
    /// confirms, however long it takes.
    fn note_satisfied(&mut self, call: &Call, request: &CreateContainer, verdict: &Verdict) {
        let sandbox = self.sandboxes.get(&request.sandbox);
        let is_known = sandbox.is_some_and(|sandbox| self.inspected_since(call, sandbox));
        let awaits_word = is_known && matches!(verdict, Verdict::Hold { why: HoldReason::Inspection, .. });
        let seq = self.seq;
        if let Some(in_flight) = self.calls.get_mut(&call.id) {
            let since = in_flight.satisfied.unwrap_or(seq);
            in_flight.satisfied = awaits_word.then_some(since);
        }
    }

    /// Decides on a creation, from what is known now.
    fn decide_create(&self, call: &Call, request: &CreateContainer, now: Instant) -> Verdict {
        let Some(sandbox) = self.sandboxes.get(&request.sandbox) else { return Verdict::Forward };
        let name = &request.container;
        if !self.config.launch_order {
            return Verdict::Forward;
        }
        if sandbox.newest(name).is_some() {
            return Verdict::Forward;
        }
        let source = self.source(request);
        let order = match &source {
            Source::View(Pod { order: Err(error), containers, .. })
                if containers.get(name).is_some_and(|container| !container.sidecar) =>
            {
                return Verdict::Refuse(Refusal::BadOrder(error.clone()));
            }
            Source::Plan(Err(error)) => return Verdict::Refuse(Refusal::BadOrder(error.clone())),
            Source::View(Pod { order: Ok(Some(order)), .. }) | Source::Plan(Ok(Some(order))) => order,
            Source::View(_) | Source::Plan(Ok(None)) => return Verdict::Forward,
            Source::Unknown => return self.decide_unknown(call, request, now),
        };
        let Some(priority) = order.priority(name) else { return Verdict::Forward };
        if matches!(source, Source::View(Pod { deletion: Some(_), .. })) {
            return Verdict::Refuse(Refusal::Terminating);
        }
        let above = order.above(priority);
        if above.is_empty() || sandbox.latched.contains(&priority) {
            return Verdict::Forward;
        }
        if sandbox.stopping {
            return Verdict::Refuse(Refusal::Terminating);
        }
        if !self.inspected_since(call, sandbox) {
            return ask_runtime(call, PATIENCE_FOR_RUNTIME, now);
        }

        let newest = sandbox.newest_of_each();
        let mut missing = above.iter().filter(|higher| !newest.contains_key(**higher));
        let before = match (&source, missing.next()) {
            (Source::View(pod), Some(_)) => self.succeeded_before(call, pod, &request.sandbox),
            _ => Some(BTreeSet::new()),
        };
        let Some(before) = before else { return ask_runtime(call, PATIENCE_FOR_RUNTIME, now) };
        let mut waiting_for = Vec::new();
        let mut wait = Duration::MAX;
        let mut may_hold = true;
        for &higher in &above {
            let instance = newest.get(higher).copied();
            match self.standing(call, sandbox, &source, instance, now) {
                Standing::Satisfied => continue,
                Standing::NotRunning if instance.is_none() && before.contains(higher) => continue,
                Standing::NotRunning | Standing::NotReadyInThisPass => may_hold = false,
                Standing::NotReady(limit) => wait = wait.min(limit),
            }
            waiting_for.push(higher);
        }
        if waiting_for.is_empty() {
            if let Some(held) = self.until_next_second(call, &newest, &above, now) {
                return held;
            }
            if !self.answer_counts(call, sandbox, now) {
                let early = if self.config.early_readiness { self.config.early_hold } else { Duration::ZERO };
                let hold = self.config.hold.max(early);
                // It was asked at the beginning, and is asked once more.
                let questions = PATIENCE_FOR_RUNTIME.saturating_mul(2);
                return ask_runtime(call, hold.saturating_add(questions), now);
            }
            return Verdict::Latch(Latch { sandbox: request.sandbox.clone(), priority });
        }
        let (until, waiting_for) = (patience(call, wait), named(waiting_for));
        if may_hold && now < until {
            Verdict::Hold { until, why: HoldReason::NotReady(waiting_for) }
        } else {
            Verdict::Refuse(Refusal::Waiting(waiting_for))
        }
    }

    /// The pod view does not show the pod (yet). Other containers of it may have a higher priority than this
    /// one, so the request alone cannot decide.
    fn decide_unknown(&self, call: &Call, request: &CreateContainer, now: Instant) -> Verdict {
        if self.config.view == View::None {
            return Verdict::Forward;
        }
        let Declared { hinted, foreign, .. } = request.declared;
        if foreign && self.strangers_pass() {
            return Verdict::Forward;
        }
        let until = patience(call, PATIENCE_FOR_POD_VIEW);
        // Of a pod that the view cannot read only the kubelet can show more, and has when it was asked once.
        let was_asked = self.kubelet_poll.ended.is_some_and(|ended| ended >= call.arrived);
        let may_be_shown = !self.unread.contains(&request.pod.uid) || self.config.kubelet_poll && !was_asked;
        if may_be_shown && now < until {
            return Verdict::Hold { until, why: HoldReason::PodUnknown };
        }
        if hinted || self.config.unknown_pods == UnknownPods::Closed {
            Verdict::Refuse(Refusal::PodUnknown)
        } else {
            Verdict::Forward
        }
    }

    /// Tells whether nobody waits for a pod that is not the kubelet's, whatever it declares beside a plan: no
    /// view will ever show it.
    pub(crate) fn strangers_pass(&self) -> bool {
        let config = &self.config;
        !config.launch_order || config.view == View::None || config.unknown_pods == UnknownPods::Open
    }

    pub(crate) fn source(&self, request: &CreateContainer) -> Source<'_> {
        match (self.pods.get(&request.pod.uid), &request.declared.plan) {
            (Some(pod), _) => Source::View(pod),
            (None, Some(plan)) => Source::Plan(plan.clone().and_then(LaunchOrder::planned)),
            (None, None) => Source::Unknown,
        }
    }

    /// The answer that the decision goes by is as good as a new one: it was asked for a moment ago, or since
    /// nothing else was missing. A slow runtime has no answer that is younger than its question.
    fn answer_counts(&self, call: &Call, sandbox: &Sandbox, now: Instant) -> bool {
        let satisfied = self.calls.get(&call.id).and_then(|in_flight| in_flight.satisfied);
        sandbox.inspection.answered.is_some_and(|asked| {
            now <= later(asked.at, FRESH) || satisfied.is_some_and(|since| asked.seq > since)
        })
    }

    /// The runtime was asked about the sandbox after this call came.
    pub(crate) fn inspected_since(&self, call: &Call, sandbox: &Sandbox) -> bool {
        let answered = sandbox.inspection.answered.map(|asked| asked.seq);
        self.calls.get(&call.id).is_none_or(|in_flight| answered > Some(in_flight.arrived_at))
    }

    /// Finds whether a container of a higher priority is ready enough; `higher` is its newest instance.
    fn standing(
        &self,
        call: &Call,
        sandbox: &Sandbox,
        source: &Source<'_>,
        higher: Option<&Instance>,
        now: Instant,
    ) -> Standing {
        let Some(instance) = higher else { return Standing::NotRunning };
        match (instance.container.state, source) {
            (ContainerState::Running, Source::View(pod)) => {
                self.standing_of_running(call, sandbox, pod, instance, now)
            }
            (ContainerState::Running, Source::Plan(_) | Source::Unknown) => Standing::Satisfied,
            (ContainerState::Exited { code }, Source::View(pod))
                if pod.leaves_exited(&instance.container.name, &instance.container.id, code) =>
            {
                Standing::Satisfied
            }
            // The kubelet is shown that it has succeeded, and starts it no more.
            (ContainerState::Exited { .. }, Source::View(_)) if self.is_completed(&instance.container.id) => {
                Standing::Satisfied
            }
            (ContainerState::Exited { .. }, Source::Plan(_)) => Standing::Satisfied,
            (ContainerState::Created | ContainerState::Exited { .. } | ContainerState::Unknown, _) => {
                Standing::NotRunning
            }
        }
    }

    /// The same of an instance that runs, of a pod that the view shows.
    fn standing_of_running(
        &self,
        call: &Call,
        sandbox: &Sandbox,
        pod: &Pod,
        instance: &Instance,
        now: Instant,
    ) -> Standing {
        let name = &instance.container.name;
        let (probed, limit) = match pod.containers.get(name).map(|container| container.readiness) {
            None | Some(Readiness::Running) => return Standing::Satisfied,
            Some(Readiness::PostStart) => (false, Duration::MAX),
            Some(Readiness::StartupProbe) => (true, STARTUP_PROBE_HOLD),
            Some(Readiness::ReadinessProbe) => (true, Duration::MAX),
        };
        // A report about an older instance says nothing about this one.
        let ready =
            pod.statuses.get(name).is_some_and(|report| report.ready && report.id == instance.container.id);
        let client = self.connections.get(&call.connection);
        let reported_anew = client.zip(instance.ready_since).is_some_and(|(client, since)| {
            probed && instance.start.at < client.since_seq && since >= client.since
        });
        let first_pass = sandbox.pass.on_connection < 2;
        let lasted = instance.ready_since.is_some_and(|since| now >= later(since, READY_UNDER_NEW_KUBELET));
        if ready && (!reported_anew || (lasted && !first_pass)) {
            return Standing::Satisfied;
        }
        let early = match self.early(pod, instance) {
            Early::Ready => return Standing::Satisfied,
            Early::Until(end) => Some(end.saturating_duration_since(call.arrived)),
            Early::Silent => None,
        };
        let earlier_pass = instance.start.pass < sandbox.pass.number;
        let relisted = client.is_some_and(|client| client.relisted > Some(instance.start.at));
        let status_asked = instance
            .status_asked
            .is_some_and(|(connection, asked)| connection == call.connection && asked > instance.start.at);
        // Only the next SyncPod takes a false Ready back: holding this one would keep it from coming.
        let correction_due = ready && first_pass;
        let by_kubelet = (earlier_pass && (relisted || status_asked) && !correction_due)
            .then(|| limit.min(self.config.hold));
        early.max(by_kubelet).map_or(Standing::NotReadyInThisPass, Standing::NotReady)
    }
}

fn ask_runtime(call: &Call, limit: Duration, now: Instant) -> Verdict {
    let until = patience(call, limit);
    if now < until {
        Verdict::Hold { until, why: HoldReason::Inspection }
    } else {
        Verdict::Refuse(Refusal::RuntimeSilent)
    }
}

/// The end of a hold: `limit` after the call came, and at the latest when half of its own deadline is used
/// up, so that the runtime has the other half to do it.
pub(crate) fn patience(call: &Call, limit: Duration) -> Instant {
    let half = call.deadline.map(|deadline| deadline.saturating_duration_since(call.arrived) / 2);
    let wait = half.map_or(limit, |half| half.min(limit));
    call.arrived.checked_add(wait).unwrap_or(call.arrived)
}
