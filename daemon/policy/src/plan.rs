//! Plan: the steps that are due on the node right now, and when to ask again.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use crate::{
    model::SandboxId,
    node::{InFlightKind, Node},
    sandbox::{AskedAt, FRESH, Sandbox},
    step::{PodEffect, Question, Step},
    time::later,
    verdict::HoldReason,
};

/// How often the runtime is asked about a sandbox while a call waits for its containers. Starts and stops
/// that pass through the agent are known at once; this is for what happens beside it.
const INSPECTION_PERIOD: Duration = Duration::from_millis(200);
/// How many sandboxes the runtime is asked about at once: a crowd of waiting calls must not keep it from the
/// kubelet's own.
const MOST_INSPECTIONS: usize = 16;
/// How often the kubelet is asked for its pods while something waits for them.
const KUBELET_POLL_PERIOD: Duration = Duration::from_millis(250);

impl Node {
    /// The effects due now; empty when all is done or under way. What follows from the time alone happens
    /// here too.
    pub fn plan(&mut self, now: Instant) -> Vec<Step> {
        self.looked = Some(now);
        self.set_aside_is_kept();
        self.effects_in_flight.forget_unused(now);
        if self.handed_over {
            return self.questions(now, self.inspections()).collect();
        }
        self.advance_recreates(now);
        self.advance_early_readiness(now);
        let inspections =
            self.inspections().chain(self.recreate_inspections()).chain(self.followed_inspections());
        let mut steps: Vec<Step> = self.questions(now, inspections).collect();
        steps.extend(self.forgotten.iter().cloned().map(Step::ForgetLatches));
        steps.extend(self.recreate_steps(now));
        steps.extend(self.sidecar_steps(now));
        steps.extend(self.probe_runs(now).into_iter().map(|run| Question::Probe(run).into()));
        self.tell_of_endless_sidecars(now);
        self.tell_what_is_set_aside();
        steps.extend(
            self.notices.iter().cloned().map(|(pod, notice)| Step::of_pod(pod, PodEffect::Tell(notice))),
        );
        steps.retain(|step| self.effects_in_flight.may_begin(step, now));
        self.recreates.times_are_looked_at();
        steps
    }

    /// Returns the questions that are to be asked now: to the runtime about these sandboxes, and to the
    /// kubelet about its pods. If there are more sandboxes than room, the ones that nobody has asked about
    /// come first, and then the ones with the oldest question: each has its turn.
    fn questions<'a>(
        &self,
        now: Instant,
        inspections: impl Iterator<Item = (&'a SandboxId, Option<Instant>)>,
    ) -> impl Iterator<Item = Step> {
        let is_due = |due: Option<Instant>| due.is_none_or(|due| due <= now);
        let due: BTreeSet<&SandboxId> =
            inspections.filter(|(_, at)| is_due(*at)).map(|(sandbox, _)| sandbox).collect();
        let mut due: Vec<&SandboxId> = due.into_iter().collect();
        due.sort_by_key(|id| self.sandboxes.get(*id).and_then(|sandbox| sandbox.inspection.asked));
        due.truncate(self.room_for_inspections());
        let kubelet = self.kubelet_poll_due().is_some_and(is_due).then_some(Question::PollKubelet);
        let inspections = due.into_iter().map(|sandbox| Question::InspectSandbox(sandbox.clone()));
        inspections.chain(kubelet).map(Step::Question)
    }

    fn room_for_inspections(&self) -> usize {
        let asked = self.sandboxes.values().filter(|sandbox| sandbox.inspection.in_flight).count();
        MOST_INSPECTIONS.saturating_sub(asked)
    }

    /// Tells whether something waits for a change, so that the next fact is worth waking somebody. On a quiet
    /// node nothing does, and facts cost no more than their own bookkeeping.
    pub fn is_waiting(&self) -> bool {
        let held = self.calls.values().any(|call| call.hold.is_some());
        if self.handed_over {
            return held;
        }
        !self.forgotten.is_empty()
            || self.recreates.is_active()
            || self.effects_in_flight.is_busy()
            || self.awaits_sidecars()
            || !self.notices.is_empty()
            || !self.only_asked && !self.probed.is_empty()
            || self.has_gates()
            || self.has_probes_to_run()
            || held
    }

    /// Ask again by then, even if nothing happens; `None` when only an event can change anything.
    pub fn next_deadline(&self) -> Option<Instant> {
        let holds = self.calls.values().filter_map(|call| call.hold.as_ref()).map(|hold| hold.until);
        let polls = self.kubelet_poll_due().flatten();
        // Without room it is the next answer that makes some, and that is an event.
        let room = self.room_for_inspections() > 0;
        let asks = |inspections: &(&SandboxId, Option<Instant>)| inspections.1.filter(|_| room);
        if self.handed_over {
            return holds.chain(self.inspections().filter_map(|due| asks(&due))).chain(polls).min();
        }
        let inspections =
            self.inspections().chain(self.recreate_inspections()).chain(self.followed_inspections());
        let inspections = inspections.filter_map(|due| asks(&due));
        let timers =
            self.recreate_deadlines().chain(self.sidecar_deadlines()).chain(self.effects_in_flight.retries());
        // What was due at the last look waits for something else, such as a call whose client is away.
        let is_to_come = |deadline: &Instant| self.looked.is_none_or(|looked| *deadline > looked);
        let (timers, holds) = (timers.filter(is_to_come), holds.filter(is_to_come));
        let timers = timers.chain(self.looked.and_then(|looked| self.set_aside.next(looked)));
        holds.chain(inspections).chain(polls).chain(timers).chain(self.probe_deadlines()).min()
    }

    /// The sandboxes to ask the runtime about, with the time when; `None` = at once.
    fn inspections(&self) -> impl Iterator<Item = (&SandboxId, Option<Instant>)> {
        let asked = self.calls.values().filter_map(|call| {
            let hold = call.hold.as_ref()?;
            let id = match &call.kind {
                InFlightKind::Create { sandbox, .. } | InFlightKind::Stop { sandbox, .. } => sandbox,
                InFlightKind::Hook { .. } | InFlightKind::Relist => return None,
            };
            let inspection = &self.sandboxes.get(id)?.inspection;
            if inspection.in_flight {
                return None;
            }
            let again = inspection.ended.map(|ended| later(ended, INSPECTION_PERIOD));
            match hold.why {
                HoldReason::Inspection => {
                    match inspection.asked.filter(|asked| asked.seq > call.arrived_at) {
                        None => Some((id, None)), // the first question of a call does not wait
                        asked if asked == inspection.answered => {
                            Some((id, asked.map(|asked| later(asked.at, FRESH))))
                        }
                        Some(_) => Some((id, again)), // it failed
                    }
                }
                HoldReason::NotReady(_) | HoldReason::StillRunning(_) => Some((id, again)),
                HoldReason::PodUnknown
                | HoldReason::SameSecond(_)
                | HoldReason::PodKillUnclear
                | HoldReason::AgentAway => None,
            }
        });
        asked.chain(self.earlier_inspections())
    }

    /// The same of the sandboxes before those in which a creation waits for the runtime's word.
    fn earlier_inspections(&self) -> impl Iterator<Item = (&SandboxId, Option<Instant>)> {
        let creations = self.calls.values().filter_map(|call| {
            let waits = call.hold.as_ref().is_some_and(|hold| hold.why == HoldReason::Inspection);
            let InFlightKind::Create { sandbox, .. } = &call.kind else { return None };
            let pod = self.pods.get(&self.sandboxes.get(sandbox).filter(|_| waits)?.pod.uid)?;
            Some((call.arrived_at, pod, sandbox))
        });
        creations.flat_map(|(arrived_at, pod, current)| {
            self.untold_before(pod, current).filter_map(move |(id, Sandbox { inspection, .. })| {
                let is_newer = |asked: &AskedAt| asked.seq > arrived_at;
                if inspection.in_flight || inspection.answered.as_ref().is_some_and(is_newer) {
                    return None;
                }
                let failed = inspection.asked.as_ref().is_some_and(is_newer);
                let again = inspection.ended.filter(|_| failed);
                Some((id, again.map(|ended| later(ended, INSPECTION_PERIOD))))
            })
        })
    }

    /// Returns when to ask the kubelet: `None` = no need, `Some(None)` = at once.
    fn kubelet_poll_due(&self) -> Option<Option<Instant>> {
        let waits_for_view =
            self.calls.values().filter_map(|call| call.hold.as_ref()).any(|hold| match hold.why {
                // A pod the API server does not show (yet) may be a static one.
                HoldReason::PodUnknown => true,
                HoldReason::NotReady(_) => !self.view_fresh,
                HoldReason::Inspection
                | HoldReason::SameSecond(_)
                | HoldReason::PodKillUnclear
                | HoldReason::StillRunning(_)
                | HoldReason::AgentAway => false,
            });
        let waits_for_view = waits_for_view || (!self.view_fresh && self.recreates_wait_for_view());
        (waits_for_view && self.config.kubelet_poll && !self.kubelet_poll.in_flight)
            .then(|| self.kubelet_poll.ended.map(|ended| later(ended, KUBELET_POLL_PERIOD)))
    }
}
