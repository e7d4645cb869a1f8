//! State of a marked container that the kubelet is shown, when it is nudged, and the grace that its stop
//! gets.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use crate::{
    call::{Call, StopContainer},
    model::{CallId, ConnectionId, ContainerId, ContainerState, Hook, PodUid},
    node::{InFlightKind, Node},
    recreate::{
        MarkPhase, RecreateMark,
        liveness::{PodLiveness, Standing},
        state::{Marked, Request, Stop},
    },
    time::later,
    verdict::{Amendment, HookTurn, Nudge, Showing, Verdict},
};

/// A kubelet looks within a second of its next relist. One that did not was busy, or the list was not for
/// PLEG (garbage collection and log rotation list everything too).
const NUDGE_AGAIN: Duration = Duration::from_millis(2500);
/// The shortest time between stop signal and SIGKILL, the kubelet's own.
const FLOOR: Duration = Duration::from_secs(2);

/// Answer to a ContainerStatus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restate {
    /// This.
    Show(Showing),
    /// A changed definition, once this mark is durable and was given back as [`crate::Event::MarkWritten`].
    Once(RecreateMark),
    /// To be asked again after the next look at the runtime, or its first list: whether the container has
    /// exited makes the difference.
    Later,
}

/// Decision about a hook that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// This.
    Take(HookTurn),
    /// It runs, once this mark is durable.
    Once(RecreateMark),
}

impl Node {
    /// Returns the answer to the kubelet on this connection about a container; it asked at `asked`.
    pub fn restate(&self, connection: ConnectionId, container: &ContainerId, asked: Instant) -> Restate {
        if self.is_completed(container) {
            return Restate::Show(Showing::Completed);
        }
        let Some((marked, request)) = self.marked(container) else { return Restate::Show(Showing::Truth) };
        let mark = &marked.mark;
        let standing = self.standing_in(&request.asked.pod, &mark.name, &mark.container);
        if !self.runtime_listed && matches!(standing, Standing::Absent) {
            return Restate::Later; // the truth may be the pod's end
        }
        if self.is_stranded(request, marked) {
            match standing {
                // As one that was not started it would come back, too, but not with kubelet 1.36, if it was
                // restarted before: that one goes on to report the end of the instance before it, which makes
                // it the pod's end.
                Standing::OldExited(_) => return Restate::Show(Showing::StillRunning),
                // The call that created the next one was lost: the kubelet would take the exit for the pod's
                // end.
                Standing::Replaced(next) if next.container.state == ContainerState::Created => {
                    return Restate::Show(Showing::NotStarted);
                }
                Standing::OldRuns if self.is_deserted(marked) && !self.is_looked_at(container, asked) => {
                    return Restate::Later;
                }
                _ => {}
            }
        }
        let again = self.may_be_asked_again(marked, request) || marked.shown_to == Some(connection);
        match mark.phase {
            _ if !matches!(standing, Standing::OldRuns) => Restate::Show(Showing::Truth),
            MarkPhase::Armed => Restate::Once(RecreateMark { phase: MarkPhase::Shown, ..mark.clone() }),
            MarkPhase::Shown | MarkPhase::Hooked if again => Restate::Show(Showing::OtherDefinition),
            MarkPhase::Shown | MarkPhase::Hooked | MarkPhase::Stopping => Restate::Show(Showing::Truth),
        }
    }

    /// The kubelet begins a command without a time limit in this container, which is a lifecycle hook.
    pub fn hook_begins(&self, container: &ContainerId) -> Turn {
        if self.sidecars.is_hooked(container) {
            return Turn::Take(HookTurn::AlreadyRun);
        }
        let Some((marked, request)) = self.marked(container) else { return Turn::Take(HookTurn::Run) };
        let standing = self.standing_in(&request.asked.pod, &marked.mark.name, container);
        match marked.mark.phase {
            // The kubelet was shown it as running.
            _ if matches!(standing, Standing::OldExited(_)) => Turn::Take(HookTurn::AlreadyRun),
            MarkPhase::Shown => Turn::Once(RecreateMark { phase: MarkPhase::Hooked, ..marked.mark.clone() }),
            MarkPhase::Hooked => Turn::Take(HookTurn::AlreadyRun),
            MarkPhase::Armed | MarkPhase::Stopping => Turn::Take(HookTurn::Run),
        }
    }

    /// The made-up entries for this relist: one for each pod that the kubelet is to look at again.
    pub fn nudges(&mut self, relist: CallId, now: Instant) -> Vec<Nudge> {
        if self.handed_over {
            return Vec::new(); // what the kubelet would look for cannot be made durable any more
        }
        // An older one says nothing, and its pod may be gone.
        self.recreates.nudged.retain(|_, at| now < later(*at, NUDGE_AGAIN));
        // With the time of the newest mark that nobody has looked at: a nudge before that was not for it.
        let mut pods: BTreeMap<PodUid, Option<Instant>> = BTreeMap::new();
        for ((id, _), marked) in &self.recreates.marks {
            let Some(request) = self.recreates.requests.get(id) else { continue };
            if request.end.is_none() && self.wants_a_look(marked, request) {
                let made = (marked.mark.phase == MarkPhase::Armed).then_some(marked.since);
                let newest = pods.entry(request.asked.pod.clone()).or_default();
                *newest = made.max(*newest);
            }
        }
        for (pod, since) in self.sidecars_unseen() {
            let newest = pods.entry(pod.clone()).or_default();
            *newest = Some(since).max(*newest);
        }
        pods.retain(|pod, marked| {
            let nudged = self.recreates.nudged.get(pod);
            let lately = nudged
                .is_some_and(|at| now < later(*at, NUDGE_AGAIN) && marked.is_none_or(|made| made <= *at));
            let on_the_way = self.recreates.nudging.values().any(|pods| pods.contains(pod));
            !lately && !on_the_way
        });
        let pods: BTreeSet<PodUid> = pods.into_keys().collect();
        let mut nudges = Vec::new();
        for pod in &pods {
            let newest = self.sandboxes.iter().filter(|(_, sandbox)| sandbox.pod.uid == *pod);
            let Some((sandbox, known)) = newest.max_by_key(|(_, sandbox)| sandbox.since) else { continue };
            self.recreates.nudges_made += 1;
            let container = format!("berth-nudge-{}-{}", relist.0, self.recreates.nudges_made);
            nudges.push(Nudge {
                pod: known.pod.clone(),
                sandbox: sandbox.clone(),
                container: container.into(),
            });
        }
        if !nudges.is_empty() {
            self.recreates.nudging.insert(relist, pods);
        }
        nudges
    }

    /// Notes the kubelet's StopContainer of a marked instance. It is the stop of one container: nothing waits
    /// for it, and the request's grace takes the place of the pod's.
    pub(crate) fn admit_marked_stop(&mut self, call: &Call, stop: &StopContainer) -> Option<Verdict> {
        let (marked, request) = self.marked(&stop.container)?;
        if marked.mark.phase == MarkPhase::Armed {
            return None;
        }
        let pod = self.pods.get(&request.asked.pod);
        let timeout = request.asked.strategy.grace.map(|grace| {
            // What the hook took is off the timeout already.
            let used = pod.map_or(Duration::ZERO, |pod| pod.grace.saturating_sub(stop.timeout));
            grace.saturating_sub(used).max(FLOOR)
        });
        let sandbox = self.containers.get(&stop.container)?.clone();
        let container = stop.container.clone();
        self.track(
            call.id,
            call.connection,
            InFlightKind::Stop { sandbox, container, whole_pod: false, grace: None },
        );
        if let Some(marked) = self.recreates.mark_of_mut(&stop.container) {
            marked.stop = Stop::InFlight(call.id, call.connection);
        }
        Some(match timeout {
            Some(timeout) if timeout != stop.timeout => Verdict::Amend(Amendment::StopTimeout(timeout)),
            Some(_) | None => Verdict::Forward,
        })
    }

    /// The mark of an instance whose pod is there, and its request while that is not over.
    fn marked(&self, container: &ContainerId) -> Option<(&Marked, &Request)> {
        let marked = self.recreates.mark_of(container)?;
        let request = self.recreates.requests.get(&marked.mark.request)?;
        let alive = self.pod_liveness(&request.asked.pod) == PodLiveness::Alive;
        (request.end.is_none() && alive).then_some((marked, request))
    }

    /// Asking the kubelet again cannot run a hook twice: there is none, or it passes through the agent. Where
    /// the container would not come back otherwise, a second run of a hook that does not is the lesser evil.
    pub(super) fn may_be_asked_again(&self, marked: &Marked, request: &Request) -> bool {
        let visible = matches!(
            self.hook_of(&request.asked.pod, &marked.mark.name),
            Some(None | Some(Hook::Exec { .. }))
        );
        marked.mark.phase <= MarkPhase::Hooked && (visible || self.stays_exited(request, marked))
    }

    /// The kubelet has not been seen to act on this mark, and may be asked to look (again). One whose hook
    /// must not run twice has to forget what an earlier agent showed it.
    fn wants_a_look(&self, marked: &Marked, request: &Request) -> bool {
        let idle = matches!(marked.stop, Stop::NotAsked | Stop::Failed);
        match marked.mark.phase {
            MarkPhase::Armed => true,
            MarkPhase::Shown => {
                idle && (self.may_be_asked_again(marked, request) || self.is_deserted(marked))
            }
            MarkPhase::Hooked => idle && self.is_deserted(marked),
            MarkPhase::Stopping => false,
        }
    }

    /// Reports whether the connection that had begun to act on the mark is gone, or its stop has failed.
    pub(super) fn is_deserted(&self, marked: &Marked) -> bool {
        let gone = marked.shown_to.is_none_or(|connection| !self.is_connected(connection));
        marked.stop == Stop::Failed || marked.mark.phase == MarkPhase::Stopping || gone
    }

    /// The runtime was asked about its sandbox since then, and has answered.
    fn is_looked_at(&self, container: &ContainerId, since: Instant) -> bool {
        let sandbox = self.containers.get(container).and_then(|sandbox| self.sandboxes.get(sandbox));
        sandbox.is_none_or(|sandbox| sandbox.inspection.answered.is_some_and(|asked| asked.at >= since))
    }
}
