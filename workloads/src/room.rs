//! Room for the objects that a picture decides on. Each is bounded by itself, and an author may make
//! hundreds.
//!
//! As much is kept of an object for which there is no room as tells it from others and says how far it is.
//! Nothing is decided on it. When there is room again it is read before anything is.

use std::collections::BTreeSet;

use berth_workloads_policy::{
    action::Note,
    holdings::{Held, Holdings},
    revision::Revision,
    store::{Store, Stored},
};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::ObjectMeta;

use crate::{
    object::{Bare, Filed, Object},
    owned::Listed,
    watch::Shown,
};

/// The longest text of an owner that is kept.
const LONGEST: usize = 253;

/// Room for so many bytes.
#[derive(Debug)]
pub(crate) struct Room {
    holdings: Holdings,
    /// UIDs of objects that were set aside.
    aside: BTreeSet<String>,
    /// Objects that were set aside since somebody asked.
    left_out: Vec<ObjectReference>,
}

/// An object that is set aside from now on, or not any more.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) uid: String,
    /// UIDs of what less is kept of: itself, and revisions of it.
    pub(crate) reduced: Vec<String>,
}

impl Room {
    pub(crate) const fn new(most: usize) -> Self {
        Self { holdings: Holdings::new(most), aside: BTreeSet::new(), left_out: Vec::new() }
    }

    /// Counts what a watch shows. Of an object for which there is no room less is kept.
    pub(crate) fn take<T: Object + Bare>(
        &mut self,
        kind: &'static str,
        shown: Shown<Filed<T>>,
    ) -> Shown<Filed<T>> {
        match shown {
            Shown::ListBegins => {
                self.holdings.list_begins(kind);
                Shown::ListBegins
            }
            Shown::ListEnds => {
                for gone in self.holdings.list_ends(kind) {
                    self.aside.remove(&gone);
                }
                Shown::ListEnds
            }
            Shown::Applied(filed) => Shown::Applied(self.fit(kind, filed)),
            Shown::Gone(uid) => {
                self.holdings.gone(&uid);
                self.aside.remove(&uid);
                Shown::Gone(uid)
            }
        }
    }

    /// An object as far as there is room for it.
    pub(crate) fn fit<T: Object + Bare>(&mut self, kind: &'static str, filed: Filed<T>) -> Filed<T> {
        if filed.is_bare {
            return filed;
        }
        let (uid, namespace) = (filed.uid(), filed.object.namespace());
        let is_kept = match filed.bytes {
            // Nobody has counted them: the watch will.
            0 => !self.holdings.is_aside(namespace, uid),
            bytes => self.holdings.shown(&Held { kind, uid, namespace, group: uid, bytes }),
        };
        if is_kept { filed } else { self.set_aside(filed) }
    }

    /// Objects of a list, as far as there is room for them.
    pub(crate) fn fit_all<T: Object + Bare>(
        &mut self,
        kind: &'static str,
        listed: Listed<Filed<T>>,
    ) -> Listed<Filed<T>> {
        let objects = listed.objects.into_iter().map(|filed| self.fit(kind, filed)).collect();
        Listed { version: listed.version, objects }
    }

    /// A revision as far as there is room for it and for the object that owns it.
    pub(crate) fn fit_revision(&mut self, kind: &'static str, revision: Revision) -> Revision {
        if revision.is_bare() {
            return revision;
        }
        let Revision { uid, namespace, owner, .. } = &revision;
        let held = Held { kind, uid, namespace, group: owner, bytes: revision.memory() };
        if self.holdings.shown(&held) { revision } else { revision.bare() }
    }

    /// Counts what a watch of revisions shows.
    pub(crate) fn take_revision(&mut self, kind: &'static str, shown: Shown<Revision>) -> Shown<Revision> {
        count(&mut self.holdings, kind, &shown);
        shown.map(|revision| self.fit_revision(kind, revision))
    }

    /// Answers were counted that may have come late: what is not known of them is gone.
    pub(crate) fn answered(&mut self, uids: &[String], is_known: impl Fn(&str) -> bool) {
        for uid in uids.iter().filter(|uid| !is_known(uid)) {
            self.holdings.gone(uid);
            self.aside.remove(uid);
        }
    }

    /// Takes out what has changed since this was asked last.
    pub(crate) fn news(&mut self) -> Vec<News> {
        let mut all = Vec::new();
        for (namespace, uid) in self.holdings.news() {
            let is_aside = self.holdings.is_aside(&namespace, &uid);
            if !is_aside {
                self.aside.remove(&uid);
            }
            let reduced = if is_aside { self.holdings.objects(&namespace, &uid) } else { Vec::new() };
            all.push(News { uid, reduced });
        }
        all
    }

    /// Keeps less of an object that was set aside, if it is in this store.
    pub(crate) fn reduce<T: Object + Bare>(&mut self, store: &mut Store<Filed<T>>, uid: &str) {
        store.reduce(uid, |filed| if filed.is_bare { filed } else { self.set_aside(filed) });
    }

    /// Tells whether there is no room for an object.
    pub(crate) fn is_aside(&self, object: &impl Object) -> bool {
        self.holdings.is_aside(object.namespace(), object.uid())
    }

    /// UIDs of all that are set aside.
    pub(crate) const fn aside(&self) -> &BTreeSet<String> {
        &self.aside
    }

    /// Objects that were set aside since this was asked last.
    pub(crate) fn left_out(&mut self) -> Vec<ObjectReference> {
        std::mem::take(&mut self.left_out)
    }

    /// Objects of a store that are set aside.
    pub(crate) fn all_left_out<'a, T: Object + 'a>(
        &self,
        all: impl Iterator<Item = &'a Filed<T>>,
    ) -> Vec<ObjectReference> {
        let all = all.map(|filed| &filed.object).filter(|object| self.is_aside(*object));
        all.map(Object::reference).collect()
    }

    fn set_aside<T: Object + Bare>(&mut self, filed: Filed<T>) -> Filed<T> {
        if self.aside.insert(filed.uid().to_owned()) {
            self.left_out.push(filed.object.reference());
        }
        filed.bare()
    }
}

/// Counts what a watch shows, but for the objects themselves: who keeps them counts them.
pub(crate) fn count<T>(holdings: &mut Holdings, kind: &'static str, shown: &Shown<T>) {
    match shown {
        Shown::ListBegins => holdings.list_begins(kind),
        Shown::ListEnds => drop(holdings.list_ends(kind)),
        Shown::Gone(uid) => holdings.gone(uid),
        Shown::Applied(_) => {}
    }
}

/// UIDs of all that was listed.
pub(crate) fn uids<T: Stored>(listed: &Listed<T>) -> Vec<String> {
    listed.objects.iter().map(|object| object.uid().to_owned()).collect()
}

/// Metadata that tell an object from others, and who decides on it.
pub(crate) fn bare_meta(meta: &ObjectMeta) -> ObjectMeta {
    let mut owners = meta.owner_references.clone().unwrap_or_default();
    owners.retain(|owner| {
        let texts = [&owner.api_version, &owner.kind, &owner.name, &owner.uid];
        owner.controller == Some(true) && texts.into_iter().all(|text| text.len() <= LONGEST)
    });
    owners.truncate(1);
    ObjectMeta {
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        generation: meta.generation,
        creation_timestamp: meta.creation_timestamp.clone(),
        deletion_timestamp: meta.deletion_timestamp.clone(),
        owner_references: Some(owners),
        ..ObjectMeta::default()
    }
}

/// Note on an object for which there is no room: who shares the room with it, why it is the one, and what
/// makes some.
pub(crate) fn no_room(all: &str, why: &str, remedy: &str) -> Note {
    let text = format!(
        "set aside: {all} take more memory than there is for them, and {why}. What it has made stays as it is. {remedy}"
    );
    Note { warning: true, reason: "SetAside", text }
}
