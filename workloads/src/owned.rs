//! Objects of a kind, and which set has which of them.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use berth_workloads_policy::{
    clone_set::ClaimView,
    pod::PodView,
    predownload::PullJobView,
    revision::Revision,
    store::{Store, Stored},
};

use crate::watch::Shown;

/// Objects of one kind and namespace, all there were at a version.
#[derive(Debug)]
pub(crate) struct Listed<T> {
    pub(crate) version: u64,
    pub(crate) objects: Vec<T>,
}

/// An object that a set decides on.
pub(crate) trait Ownable: Stored {
    /// UID of the set.
    fn owner(&self) -> &str;

    /// Key that it is found by: that UID, or of an object without an owner what it may belong to.
    fn key(&self) -> Cow<'_, str> {
        self.owner().into()
    }

    /// Tells whether nothing that is decided by differs from an earlier version.
    fn decides_as(&self, _earlier: &Self) -> bool {
        false
    }
}

impl Ownable for PodView {
    fn owner(&self) -> &str {
        Self::owner(self)
    }

    /// A pod that nothing decides on may be adopted by the set that it is named after.
    fn key(&self) -> Cow<'_, str> {
        match Self::owner(self) {
            "" => orphans(&self.namespace, self.name.rsplit_once('-').map_or("", |(set, _)| set)).into(),
            owner => owner.into(),
        }
    }

    /// Most versions of a pod say something of its containers that no set looks at.
    fn decides_as(&self, earlier: &Self) -> bool {
        Self { version: earlier.version.clone(), ..self.clone() } == *earlier
    }
}

/// Key of pods and revisions that nothing decides on, and that are named after a set.
pub(crate) fn orphans(namespace: &str, set: &str) -> String {
    format!("{namespace}/{set}")
}

impl Ownable for ClaimView {
    fn owner(&self) -> &str {
        Self::owner(self)
    }
}

impl Ownable for PullJobView {
    fn owner(&self) -> &str {
        &self.owner
    }
}

impl Ownable for Revision {
    fn owner(&self) -> &str {
        &self.owner
    }

    /// A revision that nothing owns yet is found by the set that its name says.
    fn key(&self) -> Cow<'_, str> {
        match self.owner.as_str() {
            "" => orphans(&self.namespace, self.name.rsplit_once('-').map_or("", |(set, _)| set)).into(),
            owner => owner.into(),
        }
    }
}

/// Objects by UID and by owner.
#[derive(Debug)]
pub(crate) struct Owned<T> {
    store: Store<T>,
    by_owner: BTreeMap<String, BTreeSet<String>>,
    /// All of them were listed once.
    pub(crate) listed: bool,
}

impl<T> Default for Owned<T> {
    fn default() -> Self {
        Self { store: Store::default(), by_owner: BTreeMap::new(), listed: false }
    }
}

/// Sets that an event concerns.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Concerned {
    None,
    /// These, by UID.
    Some(Vec<String>),
    All,
}

impl<T: Ownable> Owned<T> {
    /// Takes in what the watch shows.
    pub(crate) fn take(&mut self, shown: Shown<T>) -> Concerned {
        match shown {
            Shown::ListBegins => {
                self.store.list_begins();
                Concerned::None
            }
            Shown::ListEnds => {
                self.store.list_ends();
                self.by_owner.clear();
                for object in self.store.iter() {
                    let owner = self.by_owner.entry(object.key().into_owned()).or_default();
                    owner.insert(object.uid().to_owned());
                }
                self.listed = true;
                Concerned::All
            }
            Shown::Applied(object) => {
                let (uid, owner) = (object.uid().to_owned(), object.key().into_owned());
                let known = self.store.get(&uid);
                let before = known.map(|known| known.key().into_owned());
                let is_news = known.is_none_or(|known| !object.decides_as(known));
                if !self.store.applied(object) || !is_news {
                    return Concerned::None;
                }
                let mut concerned = vec![owner.clone()];
                if let Some(before) = before.filter(|before| *before != owner) {
                    self.unlink(&before, &uid);
                    concerned.push(before);
                }
                self.link(owner, uid);
                Concerned::Some(concerned)
            }
            Shown::Gone(uid) => match self.store.gone(&uid) {
                Some(object) => {
                    let owner = object.key().into_owned();
                    self.unlink(&owner, &uid);
                    Concerned::Some(vec![owner])
                }
                None => Concerned::None,
            },
        }
    }

    /// A write was answered with this object.
    pub(crate) fn wrote(&mut self, object: T) {
        let (uid, owner) = (object.uid().to_owned(), object.key().into_owned());
        let before = self.store.get(&uid).map(|known| known.key().into_owned());
        self.store.wrote(object);
        if self.store.get(&uid).is_some_and(|known| known.key() == owner) {
            if let Some(before) = before.filter(|before| *before != owner) {
                self.unlink(&before, &uid);
            }
            self.link(owner, uid);
        }
    }

    /// Less is kept of an object, if it is known. Its key stays.
    pub(crate) fn reduce(&mut self, uid: &str, reduce: impl FnMut(T) -> T) {
        self.store.reduce(uid, reduce);
    }

    /// A write has ended this object.
    pub(crate) fn ended(&mut self, uid: &str) {
        if let Some(owner) = self.store.get(uid).map(|known| known.key().into_owned()) {
            self.unlink(&owner, uid);
        }
        self.store.ended(uid);
    }

    /// All objects of an owner, as they were read at once: what is not among them is gone.
    pub(crate) fn read(&mut self, owner: &str, objects: Vec<T>) {
        let there: BTreeSet<&str> = objects.iter().map(Stored::uid).collect();
        let known = self.of(owner).filter(|known| !there.contains(known.uid()));
        let gone: Vec<String> = known.map(|known| known.uid().to_owned()).collect();
        gone.iter().for_each(|uid| self.ended(uid));
        objects.into_iter().for_each(|object| self.wrote(object));
    }

    /// All objects of these owners that there were at a version: an older one that is not among them is gone.
    /// Keys of those that something new was found for: the watch, which comes later, shows no news then.
    pub(crate) fn found(&mut self, owners: &[&str], listed: Listed<T>) -> Vec<String> {
        self.found_by(owners, listed, |_| true)
    }

    /// The same of a list that was asked for `selected` ones alone. One that is not among them may be there,
    /// and not selected any more: see [`Self::was_unselected`].
    pub(crate) fn found_by(
        &mut self,
        owners: &[&str],
        listed: Listed<T>,
        selected: impl Fn(&T) -> bool,
    ) -> Vec<String> {
        let there: BTreeSet<&str> = listed.objects.iter().map(Stored::uid).collect();
        let known = owners.iter().flat_map(|owner| self.of(owner)).filter(|known| selected(known));
        let gone = known.filter(|known| known.version() <= listed.version && !there.contains(known.uid()));
        let gone: Vec<(String, String)> =
            gone.map(|known| (known.key().into_owned(), known.uid().to_owned())).collect();
        let mut concerned = Vec::new();
        for (owner, uid) in gone {
            self.unlink(&owner, &uid);
            self.store.missing(&uid, listed.version);
            concerned.push(owner);
        }
        for object in listed.objects {
            let known = self.store.get(object.uid());
            if known.is_none_or(|known| known.version() < object.version() && !object.decides_as(known)) {
                concerned.extend(known.map(|known| known.key().into_owned()));
                concerned.push(object.key().into_owned());
            }
            self.wrote(object);
        }
        concerned
    }

    /// The watch is about to show an object that lists by a selector did not have. Whether that says anything
    /// is told by `is_selected`.
    pub(crate) fn was_unselected(&mut self, uid: &str, is_selected: impl FnOnce() -> bool) {
        if self.store.is_missing(uid) && !is_selected() {
            self.store.may_be_there(uid);
        }
    }

    /// The object of that UID.
    pub(crate) fn get(&self, uid: &str) -> Option<&T> {
        self.store.get(uid)
    }

    /// All objects.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.store.iter()
    }

    /// Objects of an owner.
    pub(crate) fn of(&self, owner: &str) -> impl Iterator<Item = &T> {
        self.by_owner.get(owner).into_iter().flatten().filter_map(|uid| self.store.get(uid))
    }

    pub(crate) fn len(&self) -> usize {
        self.store.count()
    }

    fn link(&mut self, owner: String, uid: String) {
        self.by_owner.entry(owner).or_default().insert(uid);
    }

    fn unlink(&mut self, owner: &str, uid: &str) {
        if let Some(uids) = self.by_owner.get_mut(owner) {
            uids.remove(uid);
            if uids.is_empty() {
                self.by_owner.remove(owner);
            }
        }
    }
}

/// Takes in what the watch of objects shows that a controller decides on.
pub(crate) fn take<T: Stored>(store: &mut Store<T>, shown: Shown<T>) -> Concerned {
    match shown {
        Shown::ListBegins => {
            store.list_begins();
            Concerned::None
        }
        Shown::ListEnds => {
            store.list_ends();
            Concerned::All
        }
        Shown::Applied(object) => {
            let uid = object.uid().to_owned();
            if store.applied(object) { Concerned::Some(vec![uid]) } else { Concerned::None }
        }
        Shown::Gone(uid) => {
            store.gone(&uid);
            Concerned::Some(vec![uid])
        }
    }
}

/// Takes in all objects that there were at a version: an older one of those that are `known` to be there and
/// that is not among them is gone. UIDs of those that are, and of others that differ from what was known.
pub(crate) fn found<T: Stored>(store: &mut Store<T>, known: &[String], listed: Listed<T>) -> Vec<String> {
    let there: BTreeSet<&str> = listed.objects.iter().map(Stored::uid).collect();
    let is_old = |uid: &str| store.get(uid).is_some_and(|known| known.version() <= listed.version);
    let gone = known.iter().filter(|uid| !there.contains(uid.as_str()) && is_old(uid));
    let mut concerned: Vec<String> = gone.cloned().collect();
    concerned.iter().for_each(|uid| store.missing(uid, listed.version));
    for object in listed.objects {
        if store.get(object.uid()).is_none_or(|known| known.version() < object.version()) {
            concerned.push(object.uid().to_owned());
        }
        store.wrote(object);
    }
    concerned
}

#[cfg(test)]
mod tests;
