//! Room for the objects of authors that the indexes keep. Each is bounded by itself, and whoever may write in
//! one namespace may make thousands.
//!
//! Where they do not fit, the largest ones of the namespaces that take most are set aside. To its index such
//! an object is one that cannot be read: nothing is decided on it, nothing is written to it, and what was
//! written for it stays, as do pods, jobs and entries. It is counted as before, and when there is room again
//! all of its kind are listed: so it comes back by the way that all come.
//!
//! SidecarSets are the whole cluster's, and have their own room: whoever may write in some namespaces takes
//! nothing of it. Admission lets no more of them in than there is room for, so one is set aside only where it
//! was stored without being asked about. It has no pods then, as one whose spec is wrong: what nodes were
//! asked for is taken back.
//!
//! Pure. Kinds of which little is kept are not counted, see [`Object::weighed`].

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use berth_workloads_policy::holdings::{Held, Holdings};

use crate::{
    store::{Kind, Object, Weighed},
    time::later,
};

/// A kind is listed for objects that come back once in it at the most: no request is assigned while those of
/// its kind are listed, and an author may make room and take it again and again.
const LISTED_EVERY: Duration = Duration::from_secs(300);

/// Kinds that are counted.
const KINDS: [Kind; 7] = [
    Kind::Request,
    Kind::Update,
    Kind::ImagePullJob,
    Kind::Budget,
    Kind::Spread,
    Kind::PodState,
    Kind::SidecarSet,
];

/// Bytes of all SidecarSets: their specs, of which admission lets half of it in, and their revisions.
const OF_SETS: usize = 96 << 20;

/// Room for so many bytes.
#[derive(Debug)]
pub(crate) struct Room {
    holdings: Holdings,
    /// SidecarSets.
    sets: Holdings,
    /// Objects that are set aside, and those that are not any more and are to be shown, by UID.
    aside: BTreeMap<String, Absent>,
    /// Objects that were set aside since somebody asked.
    left_out: Vec<Absent>,
    /// Kinds of objects for which there is room again, or that are to be shown again.
    returning: BTreeSet<Kind>,
    /// When a list of each kind was asked for last.
    listed: BTreeMap<Kind, Instant>,
}

/// An object that is set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Absent {
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl Room {
    pub(crate) const fn new(most: usize) -> Self {
        Self {
            holdings: Holdings::new(most),
            sets: Holdings::new(OF_SETS),
            aside: BTreeMap::new(),
            left_out: Vec::new(),
            returning: BTreeSet::new(),
            listed: BTreeMap::new(),
        }
    }

    /// All objects of a kind follow.
    pub(crate) fn list_begins(&mut self, kind: Kind) {
        if KINDS.contains(&kind) {
            self.of(kind).list_begins(kind.name());
        }
    }

    /// All of them were shown. Objects that were not, and were set aside: they are gone.
    pub(crate) fn list_ends(&mut self, kind: Kind) -> Vec<Absent> {
        if !KINDS.contains(&kind) {
            return Vec::new();
        }
        let gone = self.of(kind).list_ends(kind.name());
        let mut gone: Vec<Absent> = gone.iter().filter_map(|uid| self.aside.remove(uid)).collect();
        // There may be another one of that name by now.
        let holdings = self.of(kind);
        gone.retain(|one| holdings.objects(&one.namespace, &group(kind, &one.name)).is_empty());
        gone
    }

    /// An object is gone.
    pub(crate) fn gone(&mut self, kind: Kind, namespace: &str, name: &str) {
        if !KINDS.contains(&kind) {
            return;
        }
        for uid in self.of(kind).objects(namespace, &group(kind, name)) {
            self.of(kind).gone(&uid);
            self.aside.remove(&uid);
        }
    }

    /// Counts an object that is shown, and returns as much of it as there is room for.
    pub(crate) fn fit(&mut self, object: Object) -> Object {
        let kind = object.kind();
        let Some(Weighed { namespace, name, uid, bytes }) = object.weighed() else { return object };
        let group = group(kind, name);
        if self.of(kind).shown(&Held { kind: kind.name(), uid, namespace, group: &group, bytes }) {
            self.aside.remove(uid);
            return object;
        }
        let text = str::to_owned;
        self.set_aside(Absent { kind, namespace: text(namespace), name: text(name), uid: text(uid) });
        object.aside()
    }

    /// Takes out the objects that were set aside since this was asked last, as the indexes are to know them.
    pub(crate) fn news(&mut self) -> Vec<Object> {
        let mut all = Vec::new();
        let news = self.holdings.news().into_iter().chain(self.sets.news());
        for (namespace, group) in news {
            let Some((kind, name)) = named(&group) else { continue };
            let holdings = self.of(kind);
            if !holdings.is_aside(&namespace, &group) {
                self.returning.insert(kind);
                continue;
            }
            for uid in holdings.objects(&namespace, &group) {
                all.extend(Object::absent(kind, &namespace, name, &uid));
                self.set_aside(Absent { kind, namespace: namespace.clone(), name: name.to_owned(), uid });
            }
        }
        all
    }

    /// All objects of a kind are to be shown again.
    pub(crate) fn asks(&mut self, kind: Kind) {
        self.returning.insert(kind);
    }

    /// Takes out the kinds that are to be listed now, since there is room for objects of theirs again.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Kind> {
        let listed = &self.listed;
        let is_due = |kind: &Kind| listed.get(kind).is_none_or(|at| later(*at, LISTED_EVERY) <= now);
        let due: Vec<Kind> = self.returning.iter().copied().filter(is_due).collect();
        for kind in &due {
            self.returning.remove(kind);
            self.listed.insert(*kind, now);
        }
        due
    }

    /// Time at which a kind is to be listed that was listed a moment ago.
    pub(crate) fn next(&self) -> Option<Instant> {
        let listed = self.returning.iter().filter_map(|kind| self.listed.get(kind));
        listed.map(|at| later(*at, LISTED_EVERY)).min()
    }

    /// Objects that were set aside since this was asked last.
    pub(crate) fn left_out(&mut self) -> Vec<Absent> {
        std::mem::take(&mut self.left_out)
    }

    /// All that are.
    pub(crate) fn all_left_out(&self) -> impl ExactSizeIterator<Item = &Absent> {
        self.aside.values()
    }

    /// Room of a kind.
    fn of(&mut self, kind: Kind) -> &mut Holdings {
        match kind {
            Kind::SidecarSet => &mut self.sets,
            _ => &mut self.holdings,
        }
    }

    fn set_aside(&mut self, absent: Absent) {
        if !self.aside.contains_key(&absent.uid) {
            self.left_out.push(absent.clone());
            self.aside.insert(absent.uid.clone(), absent);
        }
    }
}

/// Group of an object, within its namespace: each is one by itself.
fn group(kind: Kind, name: &str) -> String {
    format!("{}/{name}", kind.name())
}

/// Kind and name that a group has.
fn named(group: &str) -> Option<(Kind, &str)> {
    let (plural, name) = group.split_once('/')?;
    let kind = KINDS.into_iter().find(|kind| kind.name() == plural)?;
    Some((kind, name))
}

#[cfg(test)]
mod tests;
