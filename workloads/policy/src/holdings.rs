//! Memory of what is held of authors' objects, and what of them is set aside when there is too much.
//!
//! Each object is bounded by itself, and an author may make thousands of them. So there is room for a number
//! of bytes in all, and where that is not enough each namespace has a share of it: the largest one with which
//! all shares fit. A namespace that takes less keeps all that it has, whatever others do. One that takes more
//! keeps its smallest groups, and the largest ones are set aside until there is room again. A group is what
//! can be decided on only together, such as a workload and its revisions.
//!
//! Groups that are set aside are counted as before: they are there, and come back by their size. Between what
//! sets one aside and what brings it back is an eighth of the share, and between two shares an eighth of all:
//! an object that grows and shrinks a little changes nothing.
//!
//! An event takes a time that grows with the logarithm of the number of objects. Shares are counted anew when
//! an eighth of all has changed, and that takes the time of sorting the namespaces.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// An object, as it is counted.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// Watch that shows it.
    pub kind: &'static str,
    /// Tells it from all others.
    pub uid: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Group that it belongs to, within its namespace.
    pub group: &'a str,
    /// Bytes that it takes.
    pub bytes: usize,
}

/// Objects that are held, and how much room there is for it.
#[derive(Clone, Debug)]
pub struct Holdings {
    /// Bytes of all.
    most: usize,
    /// Bytes of each namespace; the largest number there is while all of them have room.
    share: usize,
    /// Bytes of all namespaces, of each as far as its share goes.
    counted: usize,
    namespaces: BTreeMap<String, Namespace>,
    groups: BTreeMap<Key, Group>,
    objects: BTreeMap<String, Object>,
    /// Number of the list of each watch.
    lists: BTreeMap<&'static str, u64>,
    /// Groups that were set aside or brought back.
    news: BTreeSet<Key>,
}

/// Namespace of a group, and its name.
type Key = Arc<(String, String)>;

#[derive(Clone, Debug, Default)]
struct Namespace {
    /// Bytes of all its groups.
    bytes: usize,
    /// Bytes of those that are kept.
    held: usize,
    /// By size.
    kept: BTreeSet<(usize, Key)>,
    aside: BTreeSet<(usize, Key)>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    bytes: usize,
    is_aside: bool,
    /// UIDs.
    objects: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct Object {
    kind: &'static str,
    group: Key,
    bytes: usize,
    /// List that it was seen in or after.
    list: u64,
}

impl Holdings {
    /// Nothing yet, and room for so many bytes.
    pub const fn new(most: usize) -> Self {
        Self {
            most,
            share: usize::MAX,
            counted: 0,
            namespaces: BTreeMap::new(),
            groups: BTreeMap::new(),
            objects: BTreeMap::new(),
            lists: BTreeMap::new(),
            news: BTreeSet::new(),
        }
    }

    /// An object is as given. Tells whether there is room for its group.
    pub fn shown(&mut self, object: &Held<'_>) -> bool {
        let list = self.lists.get(object.kind).copied().unwrap_or_default();
        let before = self.objects.get(object.uid).map(|known| (known.group.clone(), known.bytes));
        let key = (object.namespace.to_owned(), object.group.to_owned());
        let group = match before {
            Some((group, bytes)) if *group == key => {
                if bytes != object.bytes {
                    self.weigh(&group, bytes, object.bytes);
                }
                group
            }
            before => {
                if let Some((other, bytes)) = before {
                    self.leave(&other, object.uid, bytes);
                }
                let known = self.groups.get_key_value(&key).map(|(known, _)| known.clone());
                let group = known.unwrap_or_else(|| Arc::new(key));
                let of = self.groups.entry(group.clone()).or_default();
                of.objects.insert(object.uid.to_owned());
                self.weigh(&group, 0, object.bytes);
                group
            }
        };
        let is_kept = self.groups.get(&group).is_none_or(|group| !group.is_aside);
        let known = Object { kind: object.kind, group, bytes: object.bytes, list };
        self.objects.insert(object.uid.to_owned(), known);
        is_kept
    }

    /// An object is gone.
    pub fn gone(&mut self, uid: &str) {
        if let Some(Object { group, bytes, .. }) = self.objects.remove(uid) {
            self.leave(&group, uid, bytes);
        }
    }

    /// All objects of a watch follow.
    pub fn list_begins(&mut self, kind: &'static str) {
        let list = self.lists.entry(kind).or_default();
        *list = list.saturating_add(1);
    }

    /// All of them were shown. UIDs of those that were not, and are gone.
    pub fn list_ends(&mut self, kind: &'static str) -> Vec<String> {
        let list = self.lists.get(kind).copied().unwrap_or_default();
        let is_old = |object: &Object| object.kind == kind && object.list < list;
        let old = self.objects.iter().filter(|(_, object)| is_old(object));
        let gone: Vec<String> = old.map(|(uid, _)| uid.clone()).collect();
        gone.iter().for_each(|uid| self.gone(uid));
        gone
    }

    /// Tells whether a group is set aside.
    pub fn is_aside(&self, namespace: &str, group: &str) -> bool {
        // None is, nearly always.
        self.share != usize::MAX
            && self.groups.get(&(namespace.to_owned(), group.to_owned())).is_some_and(|group| group.is_aside)
    }

    /// Takes out the groups that were set aside or brought back since this was asked last: namespace and
    /// name of each.
    pub fn news(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.news).into_iter().map(|key| (*key).clone()).collect()
    }

    /// UIDs of the objects of a group.
    pub fn objects(&self, namespace: &str, group: &str) -> Vec<String> {
        let group = self.groups.get(&(namespace.to_owned(), group.to_owned()));
        group.into_iter().flat_map(|group| group.objects.iter().cloned()).collect()
    }

    /// An object leaves its group.
    fn leave(&mut self, group: &Key, uid: &str, bytes: usize) {
        self.weigh(group, bytes, 0);
        let Some(of) = self.groups.get_mut(group) else { return };
        of.objects.remove(uid);
        if of.objects.is_empty() {
            let last = (of.bytes, group.clone());
            self.groups.remove(group);
            self.news.remove(group);
            let (name, _) = &**group;
            if let Some(of) = self.namespaces.get_mut(name) {
                of.kept.remove(&last);
                of.aside.remove(&last);
                if of.kept.is_empty() && of.aside.is_empty() {
                    self.namespaces.remove(name);
                }
            }
        }
    }

    /// An object of a group takes more or less than before.
    fn weigh(&mut self, key: &Key, less: usize, more: usize) {
        let changed = |bytes: usize| bytes.saturating_sub(less).saturating_add(more);
        let (namespace, _) = &**key;
        let group = self.groups.entry(key.clone()).or_default();
        let of = self.namespaces.entry(namespace.clone()).or_default();
        let before = (group.bytes, key.clone());
        group.bytes = changed(group.bytes);
        let groups = if group.is_aside { &mut of.aside } else { &mut of.kept };
        groups.remove(&before);
        groups.insert((group.bytes, key.clone()));
        if !group.is_aside {
            of.held = changed(of.held);
        }
        self.counted = self.counted.saturating_sub(of.bytes.min(self.share));
        of.bytes = changed(of.bytes);
        self.counted = self.counted.saturating_add(of.bytes.min(self.share));
        self.settle(namespace);
        self.share_anew();
    }

    /// Sets groups of a namespace aside for which its share has no room, or brings back those for which it
    /// has.
    fn settle(&mut self, namespace: &str) {
        let share = self.share;
        let Some(of) = self.namespaces.get_mut(namespace) else { return };
        while of.held > share
            && let Some((bytes, key)) = of.kept.pop_last()
        {
            of.held = of.held.saturating_sub(bytes);
            if let Some(group) = self.groups.get_mut(&key) {
                group.is_aside = true;
            }
            self.news.insert(key.clone());
            of.aside.insert((bytes, key));
        }
        let room = if share == usize::MAX { share } else { share.saturating_sub(share / 8) };
        while let Some((bytes, key)) = of.aside.pop_first() {
            let held = of.held.saturating_add(bytes);
            if held > room {
                of.aside.insert((bytes, key));
                break;
            }
            of.held = held;
            if let Some(group) = self.groups.get_mut(&key) {
                group.is_aside = false;
            }
            self.news.insert(key.clone());
            of.kept.insert((bytes, key));
        }
    }

    /// Counts the share anew where it is too large, or much too small.
    fn share_anew(&mut self) {
        let is_short = self.counted > self.most;
        let has_room = self.share != usize::MAX && self.counted < self.most.saturating_sub(self.most / 4);
        if !is_short && !has_room {
            return;
        }
        let before = self.share;
        let share = self.largest_share();
        self.share = share;
        let counted = self.namespaces.values().map(|of| of.bytes.min(share));
        self.counted = counted.fold(0, usize::saturating_add);
        let least = before.min(share);
        let differ = self.namespaces.iter().filter(|(_, of)| of.bytes > least || !of.aside.is_empty());
        let differ: Vec<String> = differ.map(|(namespace, _)| namespace.clone()).collect();
        differ.iter().for_each(|namespace| self.settle(namespace));
    }

    /// The largest share with which all fit, and an eighth of all is left.
    fn largest_share(&self) -> usize {
        let mut all: Vec<usize> = self.namespaces.values().map(|of| of.bytes).collect();
        all.sort_unstable();
        let (mut room, mut left) = (self.most.saturating_sub(self.most / 8), all.len());
        for bytes in all {
            let share = room.checked_div(left).unwrap_or_default();
            if bytes > share {
                return share;
            }
            room = room.saturating_sub(bytes);
            left = left.saturating_sub(1);
        }
        usize::MAX
    }
}

#[cfg(test)]
mod tests;
