//! How far each request is, decided anew from what is known.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{
    config::Path,
    model::{ContainerId, ContainerName, ContainerState, PodRef, RequestId, RestartPolicy},
    node::Node,
    recreate::{
        ContainerPhase, FailureReason, MarkPhase, Outcome,
        liveness::{PodLiveness, Standing},
        state::{Drain, Progress, Request},
    },
    set_aside::Subject,
    time::later,
};

/// OpenKruise's words, which its users look for.
const DEADLINE: &str = "recreating has exceeded the activeDeadlineSeconds";
const POD_GONE: &str = "pod has gone";
/// The same of a pod whose hooks, grace and restart policy nobody knows.
const POD_UNREAD: &str =
    "the pod cannot be read, mostly for too many lists and maps in it, such as env entries";
/// Its status, which others write, has the UID of any pod.
const ANOTHER_POD: &str = "the pod that it was assigned is not the one that it names; make a new request";
/// One whose source is still to be read may have stopped it already, and its hook is not begun twice.
const CLAIMED: &str = "waits until all requests are read: one of them was begun before berthd was restarted";
/// Time without a list of the kubelet after which the status asks whether it goes through berthd at all.
const KUBELET_IS_SILENT: Duration = Duration::from_secs(10);
/// Time after which the status tells of a kubelet that comes and stops nothing. One whose node is busy takes
/// less: that would be a write for each of its requests.
const KUBELET_IS_STUCK: Duration = Duration::from_secs(30);

/// Next change of one container.
enum Next {
    /// Nothing changes but perhaps the words.
    Wait(String),
    /// Its turn has come; this instance is to be replaced.
    Begin(ContainerId),
    /// It goes on.
    Going {
        killed: bool,
        message: String,
    },
    Succeeded {
        killed: bool,
    },
    Failed(String),
}

impl Node {
    /// Takes every request that is looked at as far as it is, and ends those whose deadline has passed.
    pub(crate) fn advance_recreates(&mut self, now: Instant) {
        for id in self.recreates.requests.overdue(now) {
            self.recreates.requests.change(&id, |request| {
                request.finish(Outcome::Failed(FailureReason::DeadlineExceeded), DEADLINE, now);
            });
            self.recreates.drop_marks(&id);
        }
        for id in self.in_hand() {
            let Some((mut request, before)) = self.recreates.requests.take(&id) else { continue };
            self.set_aside.evaluate(|| Subject::Request(id.clone()), now, || self.advance(&mut request, now));
            let over = request.end.is_some();
            self.recreates.requests.put_back(request, &before);
            if over {
                self.recreates.drop_marks(&id);
            }
        }
    }

    /// The open requests that are looked at, first come first. Those with a mark are, wherever they stand.
    fn in_hand(&self) -> Vec<RequestId> {
        let requests = &self.recreates.requests;
        let marked = self.recreates.marks.keys().filter_map(|(id, _)| requests.get(id));
        let marked = marked.filter(|request| request.end.is_none());
        let in_order: BTreeMap<u64, &RequestId> =
            requests.in_hand().chain(marked).map(|request| (request.arrival, &request.asked.id)).collect();
        in_order.into_values().cloned().collect()
    }

    fn advance(&self, request: &mut Request, now: Instant) {
        request.since.get_or_insert(now);
        self.unmirror(request);
        match self.pod_liveness(&request.asked.pod) {
            PodLiveness::Gone => {
                return request.finish(Outcome::Failed(FailureReason::PodGone), POD_GONE, now);
            }
            PodLiveness::Missing if request.gives_up(self.runs_unseen(&request.asked.pod), now) => {
                let why = if self.unread.contains(&request.asked.pod) { POD_UNREAD } else { POD_GONE };
                return request.finish(Outcome::Failed(FailureReason::PodGone), why, now);
            }
            PodLiveness::Missing | PodLiveness::Unclear => return,
            PodLiveness::Alive if !request.pod_seen && self.is_of_another(request) => {
                return request.finish(Outcome::Failed(FailureReason::InvalidRequest), ANOTHER_POD, now);
            }
            PodLiveness::Alive => request.pod_seen = true,
        }
        if request.asked.strategy.unready_grace.is_some() && request.unready == Drain::Not {
            let free = request.progress.iter().any(|(name, progress)| {
                let is_open = !request.is_done(name) && !self.is_claimed(request, &progress.target);
                is_open && self.goes_first(request, name).is_none()
            });
            if free {
                let gated = self.pods.get(&request.asked.pod).is_some_and(|pod| pod.unready.is_some());
                // Without the gate nobody can be told; the grace is kept all the same.
                request.unready = if gated { Drain::Wanted } else { Drain::Since(now) };
            }
        }
        let mut blocked = false;
        for name in self.container_order(request) {
            if request.is_done(&name) {
                continue;
            }
            let Some(progress) = request.progress.get(&name) else { continue };
            let next = self.next(request, &name, progress, blocked, now);
            let Some(progress) = request.progress.get_mut(&name) else { continue };
            match next {
                Next::Wait(message) => progress.message = message,
                Next::Begin(target) => {
                    (progress.phase, progress.target) = (ContainerPhase::Recreating, target);
                    progress.begun.get_or_insert(now);
                    progress.message.clear();
                }
                Next::Going { killed, message } => {
                    progress.phase = ContainerPhase::Recreating;
                    progress.killed |= killed;
                    progress.begun.get_or_insert(now);
                    progress.message = message;
                }
                Next::Succeeded { killed } => {
                    progress.phase = ContainerPhase::Succeeded;
                    progress.killed |= killed;
                    progress.message.clear();
                }
                Next::Failed(message) => {
                    (progress.phase, progress.message) = (ContainerPhase::Failed, message);
                }
            }
            blocked |=
                !request.is_done(&name) && (request.asked.strategy.ordered || self.goes(request, &name));
        }
        self.settle(request, now);
    }

    /// The old instance is being stopped. The next one waits for its end, without an order too: stopped
    /// together, none is started again before the last one has ended. OpenKruise stops them so as well.
    fn goes(&self, request: &Request, name: &ContainerName) -> bool {
        let begun = request.progress.get(name).filter(|progress| progress.begun.is_some());
        begun.is_some_and(|progress| self.old_runs(request, name, &progress.target))
    }

    /// The API knows a static pod by the identity of its mirror.
    fn unmirror(&self, request: &mut Request) {
        if !self.pods.contains_key(&request.asked.pod) {
            let named = Some(&request.asked.pod);
            let pod = self.pods.values().find(|pod| pod.mirror.as_ref() == named);
            if let Some(pod) = pod.map(|pod| pod.pod.uid.clone()) {
                request.asked.pod = pod;
            }
        }
    }

    /// The pod of a request is another one than it names.
    fn is_of_another(&self, request: &Request) -> bool {
        let Some(named) = &request.asked.named else { return false };
        let is_named =
            |pod: &PodRef| named.split_once('/') == Some((pod.namespace.as_str(), pod.name.as_str()));
        self.pod_of(&request.asked.pod).is_some_and(|pod| !is_named(&pod))
    }

    /// The end of a request whose containers are all through, or of which one failed that must not.
    fn settle(&self, request: &mut Request, now: Instant) {
        let failed: Vec<&ContainerName> = request
            .progress
            .iter()
            .filter(|(_, progress)| progress.phase == ContainerPhase::Failed)
            .map(|(name, _)| name)
            .collect();
        let strict = !request.asked.strategy.ignore_failures;
        if let (true, Some(name)) = (strict, failed.first()) {
            let message = request.progress.get(*name).map(|progress| progress.message.clone());
            let message = format!("container {name} was not recreated: {}", message.unwrap_or_default());
            request.finish(Outcome::Failed(FailureReason::ContainerFailed), message, now);
        } else if request.progress.keys().all(|name| request.is_done(name)) {
            let names: Vec<&str> = failed.into_iter().map(ContainerName::as_str).collect();
            let message = match names.is_empty() {
                true => String::new(),
                false => format!("not recreated, and ignored: {}", names.join(", ")),
            };
            request.finish(Outcome::Complete, message, now);
        }
    }

    /// The containers in the order in which they have their turn: as listed, or as the pod has them when the
    /// order counts.
    pub(super) fn container_order(&self, request: &Request) -> Vec<ContainerName> {
        let mut names: Vec<ContainerName> =
            request.asked.containers.iter().map(|target| target.name.clone()).collect();
        if let (true, Some(pod)) = (request.asked.strategy.ordered, self.pods.get(&request.asked.pod)) {
            names.sort_by_key(|name| pod.containers.get(name).map_or(usize::MAX, |spec| spec.position));
        }
        names
    }

    fn next(
        &self,
        request: &Request,
        name: &ContainerName,
        progress: &Progress,
        blocked: bool,
        now: Instant,
    ) -> Next {
        let pod = &request.asked.pod;
        if let Some(view) = self.pods.get(pod)
            && !view.containers.contains_key(name)
        {
            return Next::Failed(format!(
                "pod {}/{} keeps no container {name} running; it is no container of it, or an init container that ends",
                view.pod.namespace, view.pod.name
            ));
        }
        let marked = self.recreates.mark_for(request, name);
        let target = marked.map_or(&progress.target, |marked| &marked.mark.container);
        let killed = marked.is_some_and(|marked| marked.is_killed());
        // What was not shown yet exited by itself, or by another request.
        let asked_for = marked.is_some_and(|marked| marked.mark.phase > MarkPhase::Armed);
        match self.standing_in(pod, name, target) {
            Standing::OldRuns if marked.is_some() || progress.begun.is_some() => {
                Next::Going { killed, message: self.silence(progress, killed, now) }
            }
            Standing::OldRuns => self.begin_or_wait(request, name, target, blocked, now),
            Standing::OldUnclear => Next::Wait(String::new()),
            Standing::OldExited(_) if asked_for => Next::Going { killed: true, message: String::new() },
            Standing::OldExited(code) => match self.left_exited(pod, name, target, code) {
                Some(policy) => Next::Failed(left_exited(code, policy)),
                None => Next::Going { killed, message: "it has exited and is restarted".to_owned() },
            },
            // Not listed yet: whether it may be touched is asked when it is known.
            Standing::Absent if marked.is_none() && progress.begun.is_none() => Next::Wait(String::new()),
            Standing::Absent => Next::Going { killed: killed || asked_for, message: String::new() },
            Standing::Replaced(instance) => {
                let twice = request.asked.strategy.force && !progress.killed && marked.is_none();
                let running = instance.running_since;
                if twice {
                    // Another request replaced it; what comes now is the one to restart.
                    let id = instance.container.id.clone();
                    return match running {
                        Some(_) => self.begin_or_wait(request, name, &id, blocked, now),
                        None => Next::Wait(String::new()),
                    };
                }
                if let ContainerState::Exited { code } = instance.container.state
                    && let Some(policy) = self.left_exited(pod, name, &instance.container.id, code)
                {
                    return Next::Failed(left_exited(code, policy));
                }
                let lasted =
                    running.is_some_and(|since| now >= later(since, request.asked.strategy.min_started));
                let killed = killed || asked_for;
                if lasted && self.is_ready(pod, instance) {
                    Next::Succeeded { killed }
                } else {
                    Next::Going { killed, message: String::new() }
                }
            }
        }
    }

    /// May this container be touched now?
    fn begin_or_wait(
        &self,
        request: &Request,
        name: &ContainerName,
        target: &ContainerId,
        blocked: bool,
        now: Instant,
    ) -> Next {
        if let Some(other) = self.goes_first(request, name) {
            return Next::Wait(format!("waits for request {}", other.asked.key));
        }
        if self.is_claimed(request, target) {
            return Next::Wait(CLAIMED.to_owned());
        }
        if blocked {
            return Next::Wait(String::new());
        }
        let policy = self.restart_policy(&request.asked.pod, name);
        if self.config.path == Path::Beside && policy == Some(RestartPolicy::Never) {
            return Next::Failed(
                "restartPolicy is Never, and on this node the agent is beside the kubelet: what it stops is not \
                 started again; install berthd between kubelet and runtime"
                    .to_owned(),
            );
        }
        let drained = match (request.asked.strategy.unready_grace, request.unready) {
            (None, _) => true,
            (Some(grace), Drain::Since(since)) => now >= later(since, grace),
            (Some(_), Drain::Not | Drain::Wanted) => false,
        };
        if drained { Next::Begin(target.clone()) } else { Next::Wait("the pod is drained first".to_owned()) }
    }

    /// Another request that has this container in hand; or else, of those that came earlier, the last: it
    /// stays the one to wait for until it ends.
    pub(super) fn goes_first(&self, request: &Request, name: &ContainerName) -> Option<&Request> {
        let others = || {
            let others = self.recreates.requests.in_hand_of(&request.asked.pod);
            // A container that is not in a request is done there.
            others.filter(|other| other.arrival != request.arrival && !other.is_done(name))
        };
        let begun =
            |other: &&Request| other.progress.get(name).is_some_and(|progress| progress.begun.is_some());
        let earlier = || others().filter(|other| other.arrival < request.arrival);
        let found = others().find(begun).or_else(|| self.marked_before(request, name));
        found.or_else(|| earlier().max_by_key(|other| other.arrival))
    }

    /// Another request of which an earlier process has begun this container. That one may have taken up the
    /// requests in another order: those of one second have none, and files are listed before objects.
    fn marked_before(&self, request: &Request, name: &ContainerName) -> Option<&Request> {
        let marks = self.recreates.marks.keys().filter(|(_, marked)| marked == name);
        let mut marked = marks.filter_map(|(id, _)| self.recreates.requests.get(id));
        marked.find(|other| {
            let is_other = other.arrival != request.arrival && other.asked.pod == request.asked.pod;
            is_other && other.end.is_none() && !other.is_done(name)
        })
    }

    /// Gives the message when the kubelet does not come.
    fn silence(&self, progress: &Progress, killed: bool, now: Instant) -> String {
        let waits = |limit| progress.begun.is_some_and(|begun| now >= later(begun, limit));
        if killed || self.config.path == Path::Beside {
            return String::new();
        }
        let lists = self.recreates.has_relisted_within(KUBELET_IS_SILENT, now);
        if lists && waits(KUBELET_IS_STUCK) {
            "the kubelet has not stopped it yet: its preStop hook may run; otherwise look into the kubelet's log"
                .to_owned()
        } else if !lists && waits(KUBELET_IS_SILENT) {
            "the kubelet has not stopped it yet; is its containerRuntimeEndpoint the socket of berthd?"
                .to_owned()
        } else {
            // What was said stays until there is more to say: to take it back is a write, too.
            progress.message.clone()
        }
    }
}

fn left_exited(code: Option<i32>, policy: RestartPolicy) -> String {
    let code = code.map_or_else(|| "an unknown code".to_owned(), |code| code.to_string());
    format!("it exited with {code}, and restartPolicy {policy:?} leaves it so")
}
