//! Trait of the indexes, and what several of them are told together.
//!
//! An index is a pure core about some kinds: facts go in, effects come out. It never reads a clock, never
//! awaits and knows nothing of clients: `now` is an argument, a write is a value.
//!
//! A new one is a folder, and a line of [`crate::indexes`]. A kind that none had before is a [`Kind`] too,
//! with its bytes in `wire` and its watch in `run`. An effect of a new sort is an [`Effect`], and has
//! somebody who carries it out.
//!
//! ```text
//!  watches ── apply / delete / list_begins / list_ends / view_broke ──▶ Set ── Pods ──┬─▶ Index ──▶ Vec<Effect>
//!  clock ──── time_passed, at next_deadline ──────────────────────────▶              ├─▶ Index ──▶ …
//!  lease ──── leads: everything that is owed, once more; rests ───────▶              └─▶ …
//! ```
//!
//! Pods are what all indexes look at, and there are tens of thousands: they are kept once, in `Pods`, and
//! an index is told what changes of them.

use std::{fmt::Debug, time::Instant};

use crate::{
    effect::Effect,
    metrics::Metrics,
    store::{Key, Kind, Now, Object, PodChange, Pods, Views},
    write::Target,
};

/// One index. Every call is followed by [`Index::settle`].
pub(crate) trait Index: Debug {
    /// The kinds it is decided by. It is told of no others.
    fn kinds(&self) -> &'static [Kind];

    /// Returns how far each kind's watch can be relied on.
    fn views(&mut self) -> &mut Views;

    /// A pod came, changed or went; `pods` shows it so.
    fn pod_changed(&mut self, change: &PodChange, pods: &Pods, now: Now);

    /// An object that is no pod is as given.
    fn apply(&mut self, object: &Object, pods: &Pods, now: Now);

    /// Removes an object that is no pod. `namespace` is empty for kinds without namespaces.
    fn remove(&mut self, kind: Kind, namespace: &str, name: &str, pods: &Pods, now: Now);

    /// Objects of a kind, pods excepted, that the newest list has not shown.
    fn vanished(&self, kind: Kind) -> Vec<Key>;

    /// Takes in that a list has ended, and what it has not shown was removed. `complete`: with it all kinds
    /// have been listed once.
    fn list_ended(&mut self, complete: bool, pods: &Pods, now: Now);

    /// Takes in that it is the time of [`Index::next_deadline`], or later.
    fn time_passed(&mut self, pods: &Pods, now: Now);

    /// Leads from now on: everything is owed, whatever was asked for before.
    fn leads(&mut self, pods: &Pods, now: Now);

    /// Rests: this replica does not lead any more. What it had asked for counts for nothing.
    fn rests(&mut self, pods: &Pods, now: Now);

    /// Notes that a write to an object of one of its kinds could not even be queued: it is owed again soon.
    /// Steps take no place in that queue.
    fn lost(&mut self, _: &Target, _: Now) {}

    /// Returns when to call [`Index::time_passed`], even if nothing happens.
    fn next_deadline(&self) -> Option<Instant>;

    /// Thinks through everything that was touched, and gives what is owed.
    fn settle(&mut self, now: Now) -> Vec<Effect>;

    /// Counts what is remembered.
    fn count(&self, metrics: &Metrics);
}

/// Indexes that share their pods. Whatever is told, what follows from it is given back.
#[derive(Debug)]
pub(crate) struct Set<'a, const N: usize> {
    pub(crate) pods: &'a mut Pods,
    pub(crate) indexes: [&'a mut dyn Index; N],
}

impl<const N: usize> Set<'_, N> {
    /// An object is as given.
    pub(crate) fn apply(mut self, object: &Object, now: Now) -> Vec<Effect> {
        if let Object::Pod(seen) = object {
            let change = self.pods.apply(seen);
            return self.pod_changed(change, now);
        }
        let Self { pods, indexes } = &mut self;
        for index in following(indexes, object.kind()) {
            index.apply(object, pods, now);
        }
        self.settle(now)
    }

    /// An object is gone. `namespace` is empty for kinds without namespaces.
    pub(crate) fn delete(mut self, kind: Kind, namespace: &str, name: &str, now: Now) -> Vec<Effect> {
        if kind == Kind::Pod {
            let change = self.pods.remove(namespace, name);
            return self.pod_changed(change, now);
        }
        let Self { pods, indexes } = &mut self;
        for index in following(indexes, kind) {
            index.remove(kind, namespace, name, pods, now);
        }
        self.settle(now)
    }

    fn pod_changed(mut self, change: Option<PodChange>, now: Now) -> Vec<Effect> {
        let Self { pods, indexes } = &mut self;
        if let Some(change) = change {
            for index in following(indexes, Kind::Pod) {
                index.pod_changed(&change, pods, now);
            }
        }
        self.settle(now)
    }

    /// All objects of a kind are about to be applied, and [`Set::list_ends`] says when that was the last one.
    pub(crate) fn list_begins(mut self, kind: Kind, now: Now) {
        if kind == Kind::Pod {
            self.pods.list_begins();
        }
        for index in following(&mut self.indexes, kind) {
            index.views().begins(kind, now.instant);
        }
    }

    /// Ends a list. Objects that it has not shown are gone.
    pub(crate) fn list_ends(mut self, kind: Kind, now: Now) -> Vec<Effect> {
        let Self { pods, indexes } = &mut self;
        let is_complete = |index: &mut dyn Index| {
            let kinds = index.kinds();
            index.views().complete_since(kinds).is_some()
        };
        let mut begun = Vec::with_capacity(N);
        for index in following(indexes, kind) {
            begun.push(is_complete(index));
            index.views().ends(kind, now.instant);
        }
        let gone = if kind == Kind::Pod { pods.vanished() } else { Vec::new() };
        for Key { namespace, name } in gone {
            let Some(change) = pods.remove(&namespace, &name) else { continue };
            for index in following(indexes, kind) {
                index.pod_changed(&change, pods, now);
            }
        }
        for (index, begun) in following(indexes, kind).zip(begun) {
            // A pod is none of its own.
            let gone = if kind == Kind::Pod { Vec::new() } else { index.vanished(kind) };
            for Key { namespace, name } in gone {
                index.remove(kind, &namespace, &name, pods, now);
            }
            let complete = !begun && is_complete(index);
            index.list_ended(complete, pods, now);
        }
        self.settle(now)
    }

    /// The watch of a kind broke: until it has recovered, an absence proves nothing.
    pub(crate) fn view_broke(mut self, kind: Kind, now: Now) {
        for index in following(&mut self.indexes, kind) {
            index.views().broke(kind, now.instant);
        }
    }

    /// Gives what is owed because time has passed.
    pub(crate) fn time_passed(mut self, now: Now) -> Vec<Effect> {
        let Self { pods, indexes } = &mut self;
        indexes.iter_mut().for_each(|index| index.time_passed(pods, now));
        self.settle(now)
    }

    /// Takes in that this replica leads from now on.
    pub(crate) fn leads(mut self, now: Now) -> Vec<Effect> {
        let Self { pods, indexes } = &mut self;
        indexes.iter_mut().for_each(|index| index.leads(pods, now));
        self.settle(now)
    }

    /// This replica does not lead any more.
    pub(crate) fn rests(mut self, now: Now) -> Vec<Effect> {
        let Self { pods, indexes } = &mut self;
        indexes.iter_mut().for_each(|index| index.rests(pods, now));
        self.settle(now)
    }

    /// A write of this object could not even be queued.
    pub(crate) fn lost(mut self, target: &Target, now: Now) {
        for index in following(&mut self.indexes, target.kind) {
            index.lost(target, now);
        }
    }

    /// Returns when to call [`Set::time_passed`], even if nothing happens.
    pub(crate) fn next_deadline(self) -> Option<Instant> {
        self.indexes.iter().filter_map(|index| index.next_deadline()).min()
    }

    /// Counts what is remembered.
    pub(crate) fn count(self, metrics: &Metrics) {
        metrics.pods(self.pods.len());
        self.indexes.iter().for_each(|index| index.count(metrics));
    }

    fn settle(mut self, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.indexes.iter_mut().for_each(|index| effects.append(&mut index.settle(now)));
        effects
    }
}

/// The indexes that are decided by a kind.
fn following<'s, 'a>(
    indexes: &'s mut [&'a mut (dyn Index + 'a)],
    kind: Kind,
) -> impl Iterator<Item = &'s mut (dyn Index + 'a)> {
    indexes.iter_mut().map(|index| &mut **index).filter(move |index| index.kinds().contains(&kind))
}

#[cfg(test)]
pub(crate) mod alone;
