//! Decision of the one next step of an update, in the order that the drawing of the parent module shows: what
//! can never come about fails first, what is under way is waited for, and only then is more begun.

mod leftovers;
mod swaps;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    in_place_update::{
        ContainerView, Failure, FailureReason, Gate, Liveness, Next, Observed, Presence, Record, Update, Why,
        batch,
        diff::{Diff, counts_env},
    },
    model::ContainerName,
    time::later,
};

/// How long after its batch was patched a container may fall over. By then the kubelet has waited 10 s and 20
/// s.
const CRASHES_FOR: Duration = Duration::from_secs(30);
/// A kubelet that can stops a container within it once its spec says something else.
const HELD_AFTER: Duration = Duration::from_secs(3);

/// The one next step towards `update`. `now` is when the pod is seen so.
pub fn next(update: &Update, seen: &Observed, now: Instant) -> Next {
    Decision { update, seen, diff: Diff::of(update, seen), now }.next()
}

struct Decision<'a> {
    update: &'a Update,
    seen: &'a Observed,
    diff: Diff<'a>,
    now: Instant,
}

impl Decision<'_> {
    /// The next step; a failure that comes first hides those after it.
    fn next(&self) -> Next {
        if let Some((reason, message)) = self.unfit() {
            return Next::Failed(Failure { reason, message });
        }
        if let Some(name) = self.unknown() {
            let message = format!("the pod has no container {name}; init containers are not updated");
            return self.fail(FailureReason::ContainerNotFound, message);
        }
        if let Some(ended) = self.ended() {
            let message = format!(
                "container {} has ended and its restart policy leaves it so; create the pod anew",
                ended.name
            );
            return self.fail(FailureReason::ContainerEnded, message);
        }
        let under_way = self.under_way();
        if self.diff.is_empty() && under_way.is_none() {
            return self.finish();
        }
        if self.update.deadline.is_some_and(|deadline| deadline <= self.now) {
            let why = match under_way {
                Some(Next::Wait { why, .. }) => Some(why.to_string()),
                _ => self.seen.held_back(),
            };
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            let message = format!("the update has exceeded its deadline{why}");
            return self.fail(FailureReason::DeadlineExceeded, message);
        }
        if matches!(under_way, Some(Next::Wait { why: Why::Ready { .. } | Why::Restart(_), .. }))
            && self.may_open()
        {
            return Next::SetReady;
        }
        // What another update has begun is replaced, not waited for.
        if let Some(next) = under_way
            && (self.diff.is_empty() || self.own_record().is_some())
        {
            return next;
        }
        if let Some(next) = self.images() {
            return next;
        }
        // The same would be said again; what is wrong is in the request, or in what others allow it.
        if let Some((_, why)) =
            self.seen.refused.as_ref().filter(|(revision, _)| *revision == self.update.revision)
        {
            return self
                .fail(FailureReason::Refused, format!("the pod cannot be changed in this way: {why}"));
        }
        if let (false, Some(next)) = (self.diff.changes.is_empty(), self.make_way()) {
            return match next {
                Next::Wait { why: Why::Grace, .. } if self.is_announced() => {
                    Next::Patch(batch::announce(self.update, self.seen, &self.diff))
                }
                next => next,
            };
        }
        Next::Patch(batch::patch(self.update, self.seen, &self.diff))
    }

    /// A pod that cannot be updated at all.
    fn unfit(&self) -> Option<(FailureReason, String)> {
        match self.seen.liveness {
            Liveness::Static => Some((
                FailureReason::StaticPod,
                "a static pod cannot be updated in place: the kubelet replaces it as a whole when its manifest changes"
                    .to_owned(),
            )),
            Liveness::Gone => Some((FailureReason::PodGone, "pod has gone".to_owned())),
            Liveness::Ended => Some((FailureReason::PodEnded, "the pod has run to its end".to_owned())),
            Liveness::Alive => None,
        }
    }

    /// A container that the update names and the pod does not have.
    fn unknown(&self) -> Option<&ContainerName> {
        let is_known = |name: &ContainerName| self.seen.containers.iter().any(|known| known.name == *name);
        self.update.images.keys().find(|name| !is_known(name))
    }

    /// A container that is to be moved, or was, and that the kubelet never starts again.
    fn ended(&self) -> Option<&ContainerView> {
        self.seen
            .containers
            .iter()
            .filter(|container| container.has_ended())
            .find(|container| self.diff.changes.contains_key(&container.name) || self.has_moved(container))
    }

    fn own_record(&self) -> Option<&Record> {
        self.seen.record.as_ref().filter(|record| record.is_of(&self.update.revision))
    }

    fn has_moved(&self, container: &ContainerView) -> bool {
        self.own_record().is_some_and(|record| record.has_moved(&container.name))
    }

    /// Returns the next step while something that was patched, by whomever, has not come about yet. Between
    /// two batches only the containers that this update patched count; in the end also what another one left
    /// under way, and all that this one asks for.
    fn under_way(&self) -> Option<Next> {
        let watched = self.watched();
        let owes_env = |container: &ContainerView| self.owes_env(container);
        let recreated: BTreeMap<_, _> = watched
            .iter()
            .filter(|container| container.is_running() && !container.is_image_stale() && owes_env(container))
            .filter_map(|container| Some((container.name.clone(), container.instance.as_ref()?.id.clone())))
            .collect();
        if let Some(held) = self.held() {
            return Some(held);
        }
        if !self.seen.kubelet_knows && !self.only_finishes_swaps() {
            return Some(self.wait(Why::Kubelet));
        }
        if let Some(late) = self.late_migration() {
            return Some(late);
        }
        if !recreated.is_empty() {
            return Some(self.drain().unwrap_or(Next::Recreate(recreated)));
        }
        // Before those that are only slow: they may wait for it.
        let crashing = watched.iter().filter(|container| {
            let is_wanted = !container.is_image_stale() && !owes_env(container);
            container.is_crashing() && is_wanted && !self.is_left_behind(container)
        });
        if let Some(container) = crashing.max_by_key(|container| self.since_batch(container)) {
            return Some(self.crashing(container));
        }
        watched.iter().find_map(|container| {
            let Some(instance) = container.instance.as_ref() else {
                return Some(self.wait(Why::Restart(container.name.clone())));
            };
            if container.is_image_stale() || owes_env(container) {
                return Some(self.wait(Why::Restart(container.name.clone())));
            }
            if self.time_left(container).is_some() && !container.is_ready() {
                return Some(self.wait(Why::Migration(container.name.clone())));
            }
            let (name, restarts) = (container.name.clone(), instance.restarts);
            let ready = container.is_ready() || !self.diff.is_empty() && self.may_be_left(container);
            (!ready).then(|| self.wait(Why::Ready { container: name, restarts }))
        })
    }

    /// The end is what the kubelet says; what comes next need not wait for that. It does for one with a hook:
    /// what follows is to begin a kubelet's look after the hook's end, in the whole seconds of a status too.
    /// A new version of twins is left as soon as it has taken over.
    fn may_be_left(&self, container: &ContainerView) -> bool {
        container.is_early_ready() && (!container.is_hooked() || self.has_taken_over(container))
    }

    /// Stops what holds the kubelet: until a hook ends, its worker looks at nothing else of the pod.
    fn held(&self) -> Option<Next> {
        let twins = self.update.migrations.iter().flat_map(|migration| [&migration.target, &migration.other]);
        let held: BTreeMap<_, _> = twins
            .filter_map(|twin| self.seen.containers.iter().find(|container| container.name == *twin))
            .filter(|container| container.is_in_hook() && container.is_image_stale())
            .filter(|container| self.since_batch(container) >= HELD_AFTER)
            .filter_map(|container| Some((container.name.clone(), container.instance.as_ref()?.id.clone())))
            .collect();
        (!held.is_empty()).then_some(Next::Stop(held))
    }

    /// The containers that have to come about.
    fn watched(&self) -> Vec<&ContainerView> {
        let at_the_end = self.diff.is_empty();
        let watched = |container: &&ContainerView| {
            let asked = || {
                self.update.images.contains_key(&container.name)
                    || container.reads.iter().any(|key| self.update.metadata.contains_key(key))
            };
            // One that is patched again anyway is not waited for.
            !self.diff.changes.contains_key(&container.name)
                && (self.has_moved(container)
                    || at_the_end && !container.has_ended() && (asked() || container.is_image_stale()))
        };
        self.seen.containers.iter().filter(watched).collect()
    }

    fn owes_env(&self, container: &ContainerView) -> bool {
        container.is_env_stale() && counts_env(self.update, self.seen, container)
    }

    /// Tells whether nothing is stopped any more, and the gate is still shut. A container that is not Ready
    /// keeps the pod out by itself; the kubelet looks at containers and gates together, once a second: opened
    /// now, both are seen in one look. So it is for one that the kubelet has stopped and is about to start:
    /// opened after that, the gate would miss that look.
    fn may_open(&self) -> bool {
        let runs = |container: &&ContainerView| {
            container.is_running() && !container.is_image_stale() && !self.owes_env(container)
        };
        let next_is_right = |container: &&ContainerView| {
            let named = container.reads.iter().any(|key| self.update.metadata.contains_key(key));
            container.was_stopped() && (named || !container.is_env_stale())
        };
        let shut = matches!(self.seen.gate, Gate::Unwritten | Gate::NotReady { .. });
        let watched = self.watched();
        shut && self.diff.is_empty()
            && watched.iter().all(|container| runs(container) || next_is_right(container))
    }

    /// Returns how long ago the container was patched last, by whomever; where an update that this one
    /// replaced did that and its record is gone, how long ago this one began.
    fn since_batch(&self, container: &ContainerView) -> Duration {
        self.patched_at(container).map_or(Duration::ZERO, |at| self.seen.since(at))
    }

    /// Time of the batch of a container, or of the update that has none for it; in seconds since the epoch.
    fn patched_at(&self, container: &ContainerView) -> Option<i64> {
        let batches = self.seen.record.as_ref().map(|record| record.container_batches_record.as_slice());
        let last = batches.into_iter().flatten().rfind(|batch| batch.containers.contains(&container.name));
        last.map(|batch| batch.timestamp).or_else(|| self.own_record().map(|record| record.update_timestamp))
    }

    /// One that falls over may come up yet, when what it needs is there; but not for ever. A pod that was
    /// never patched has had its time before anybody asked. A workload waits for ever: its pod stays.
    fn crashing(&self, container: &ContainerView) -> Next {
        let restarts = container.instance.as_ref().map_or(0, |instance| instance.restarts);
        if self.update.bears_crashes {
            return self.wait(Why::Ready { container: container.name.clone(), restarts });
        }
        // What another update has left as it was it had before that one.
        let other = || self.seen.record.as_ref().map(|record| record.update_timestamp);
        let since = self.patched_at(container).or_else(other).map_or(CRASHES_FOR, |at| self.seen.since(at));
        match CRASHES_FOR.checked_sub(since) {
            Some(left) if !left.is_zero() => {
                let until = later(self.now, left);
                Next::Wait {
                    until: Some(self.update.deadline.map_or(until, |deadline| deadline.min(until))),
                    why: Why::Ready { container: container.name.clone(), restarts },
                }
            }
            _ => self.fail(
                FailureReason::CrashLoop,
                format!(
                    "container {} runs what is wanted and falls over again and again (restart count {restarts})",
                    container.name
                ),
            ),
        }
    }

    /// Every image of the whole update, before anything is stopped for it.
    fn images(&self) -> Option<Next> {
        let mut wanted: BTreeSet<&Arc<str>> =
            self.diff.changes.values().filter_map(|change| change.image).collect();
        if !self.diff.changes.is_empty() {
            wanted.extend(self.update.migrations.iter().map(|migration| &migration.empty_image));
        }
        let mut missing = BTreeSet::new();
        for image in wanted {
            match self.seen.images.get(image) {
                Some(Presence::Present) => {}
                Some(Presence::Failed(why)) => {
                    let message = format!("image {image} could not be pulled: {why}");
                    return Some(self.fail(FailureReason::ImageNotPulled, message));
                }
                Some(Presence::Unknown) | None => {
                    missing.insert(image.clone());
                }
            }
        }
        (!missing.is_empty()).then_some(Next::Pull(missing))
    }

    /// Drains the pod: before anything is restarted it is set not ready, and the grace passes.
    fn drain(&self) -> Option<Next> {
        match self.seen.gate {
            Gate::Absent => None,
            Gate::Unwritten | Gate::Ready => Some(Next::SetNotReady),
            Gate::NotReady { since } => {
                let until = later(since, self.update.grace);
                (self.now < until).then(|| Next::Wait {
                    until: Some(self.update.deadline.map_or(until, |deadline| deadline.min(until))),
                    why: Why::Grace,
                })
            }
        }
    }

    /// Tells whether a pod says its revision from the beginning of its grace, as with OpenKruise. By that
    /// label the pods of a workload are counted.
    fn is_announced(&self) -> bool {
        self.update.bears_crashes && self.update.migrations.is_empty() && !self.diff.unread.is_empty()
    }

    fn wait(&self, why: Why) -> Next {
        let migrations = self.seen.containers.iter().filter_map(|container| self.time_left(container));
        let held = self.update.migrations.iter().flat_map(|migration| [&migration.target, &migration.other]);
        let held = held
            .filter_map(|twin| self.seen.containers.iter().find(|container| container.name == *twin))
            .filter(|container| container.is_in_hook() && container.is_image_stale())
            .map(|container| HELD_AFTER.saturating_sub(self.since_batch(container)));
        // Records have whole seconds.
        let times = migrations.chain(held).filter(|left| !left.is_zero()).map(|left| later(self.now, left));
        let until = self.update.deadline.into_iter().chain(times).filter(|until| *until > self.now).min();
        Next::Wait { until, why }
    }

    /// All is as wanted; what is left is to say so.
    fn finish(&self) -> Next {
        let stale = |record: &Record| !record.is_of(&self.update.revision) || record.has_next();
        if self.seen.is_record_old || self.seen.record.as_ref().is_some_and(stale) {
            return Next::Patch(batch::close(self.update, self.seen));
        }
        let exited = self.leftovers_of_swapped();
        if !exited.is_empty() {
            return Next::Clear(exited);
        }
        match self.seen.gate {
            Gate::Absent | Gate::Ready => Next::Done,
            Gate::Unwritten | Gate::NotReady { .. } => Next::SetReady,
        }
    }

    /// The way back, where it is wanted and there is one. A pod that stays as it is goes back into service if
    /// all of it runs as its spec says; if not, it stays out until somebody asks for something else.
    fn fail(&self, reason: FailureReason, message: String) -> Next {
        let failure = Failure { reason, message };
        if let (true, Some(before)) = (self.update.rollback_on_failure, &self.seen.before)
            && before.differs(self.seen)
        {
            return Next::RollBack(before.restored(self.update, self.seen), failure);
        }
        if !matches!(self.seen.gate, Gate::NotReady { .. }) {
            return Next::Failed(failure);
        }
        let owes_env = |container: &ContainerView| container.is_env_stale() && self.has_moved(container);
        let mut restless =
            self.seen.containers.iter().filter(|container| {
                !container.is_ready() || container.is_image_stale() || owes_env(container)
            });
        // The update that this one replaced, and that nobody wants any more, is about to come to rest. A
        // restart that the kubelet does not make by itself is not made any more.
        let settles = |container: &ContainerView| {
            matches!(reason, FailureReason::ImageNotPulled | FailureReason::ContainerNotFound)
                && !container.is_crashing()
                && !(container.is_running() && !container.is_image_stale() && owes_env(container))
                && self.seen.record.as_ref().is_some_and(|record| record.has_moved(&container.name))
        };
        match restless.next() {
            None if !self.seen.kubelet_knows => self.wait(Why::Kubelet),
            None => Next::SetReady,
            Some(container) if settles(container) => self.wait(Why::Restart(container.name.clone())),
            Some(_) => Next::Failed(failure),
        }
    }
}
