//! Room for workloads and their revisions. Each is bounded by itself, and an author may make hundreds.
//!
//! Nothing is decided on a workload for which there is no room: it is not known, as one that nobody can read,
//! and its pods stay as they are. Of its revisions all is kept but the templates. It is fetched when there is
//! room again. No workload is planned while a template of a revision is missing: a revision that is there
//! would be made again, and pods would get it. So its objects are read first.

use std::collections::BTreeSet;

use berth_workloads_policy::{
    holdings::{Held, Holdings},
    revision::Revision,
    store::Stored,
};

use super::Cluster;
use crate::{
    absent::Absent,
    kinds::{Kind, Set},
    object::Filed,
    owned::{Concerned, Listed, Ownable},
    room::{count, uids},
    spared::Spared,
    trimmed::is_unread,
    watch::{Input, Shown},
};

/// Bytes that workloads and their revisions may take, where nothing else is said.
pub(crate) const MOST_HELD: usize = 384 << 20;

/// Watch of revisions.
const REVISIONS: &str = "controllerrevisions";

/// Lack of a workload: with it the workload cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Labels of this pod of its are not known, since there are too many.
    Labels(String),
    /// There is no room for revisions that it may adopt.
    Room,
    /// Templates of its revisions are not known.
    Templates,
}

impl Cluster {
    /// One with room for so many bytes of workloads and their revisions.
    pub(crate) fn with_room(most: usize) -> Self {
        Self { holdings: Holdings::new(most), ..Self::default() }
    }

    /// Counts what a watch shows of workloads. `None`: there is no room for the one that it shows.
    pub(super) fn set_with_room(
        &mut self,
        kind: &'static Kind,
        shown: Shown<Filed<Set>>,
    ) -> Option<Shown<Filed<Set>>> {
        match &shown {
            Shown::ListBegins => self.holdings.list_begins(kind.plural),
            Shown::ListEnds => {
                let mut shelf = self.shelves.iter_mut().find(|shelf| shelf.kind.plural == kind.plural);
                for gone in self.holdings.list_ends(kind.plural) {
                    // An answer of a plan of before, which comes late, does not bring it back.
                    if self.absent.remove(&gone).is_some()
                        && let Some(shelf) = &mut shelf
                    {
                        shelf.sets.gone(&gone);
                    }
                }
            }
            Shown::Applied(filed) => {
                let (namespace, uid) = (filed.object.namespace(), filed.uid());
                let held = Held { kind: kind.plural, uid, namespace, group: uid, bytes: filed.bytes };
                if !self.holdings.shown(&held) {
                    let absent = Absent::of(&filed.object);
                    self.is_absent(absent);
                    return None;
                }
                self.absent.remove(uid);
            }
            Shown::Gone(uid) => {
                self.holdings.gone(uid);
                self.absent.remove(uid);
            }
        }
        Some(shown)
    }

    /// Takes in what the watch of revisions shows.
    pub(super) fn take_revision(&mut self, shown: Shown<Revision>) -> Concerned {
        count(&mut self.holdings, REVISIONS, &shown);
        let shown = shown.map(|revision| self.fitting(revision));
        self.revisions.take(shown)
    }

    /// A write to a revision was answered with this.
    pub(crate) fn wrote_revision(&mut self, revision: Revision) {
        let revision = self.fitting(revision);
        let uid = revision.uid.clone();
        self.revisions.wrote(revision);
        self.answered(&[uid]);
    }

    /// Takes in the revisions of a workload, as they were read at once.
    pub(crate) fn read_revisions(&mut self, set: &str, listed: Listed<Revision>) {
        let (uids, listed) = (uids(&listed), self.all_fitting(listed));
        self.revisions.found(&[set], listed);
        self.answered(&uids);
    }

    /// Revisions were counted that came as answers, late perhaps: what is not known of them is gone.
    pub(super) fn answered(&mut self, uids: &[String]) {
        for uid in uids.iter().filter(|uid| self.revisions.get(uid).is_none()) {
            self.holdings.gone(uid);
        }
    }

    /// Revisions that were read, as far as there is room for them.
    pub(super) fn all_fitting(&mut self, listed: Listed<Revision>) -> Listed<Revision> {
        let objects = listed.objects.into_iter().map(|revision| self.fitting(revision)).collect();
        Listed { version: listed.version, objects }
    }

    /// A revision as far as there is room for it.
    fn fitting(&mut self, revision: Revision) -> Revision {
        if revision.is_bare() {
            return revision;
        }
        // A reading has spared its template.
        let revision = match self.revisions.get(&revision.uid) {
            Some(known) if known.is_bare() && revision.template.is_empty() => return revision.bare(),
            Some(known) if revision.template.is_empty() => {
                Revision { template: known.template.clone(), ..revision }
            }
            _ => revision,
        };
        let (uid, namespace, group) = (&*revision.uid, &*revision.namespace, revision.key().into_owned());
        let held = Held { kind: REVISIONS, uid, namespace, group: &group, bytes: revision.memory() };
        if self.holdings.shown(&held) { revision } else { revision.bare() }
    }

    /// Sets aside that for which there is no room any more. UIDs of the workloads that it concerns, and of
    /// those for which there is room again.
    pub(crate) fn make_room(&mut self) -> Vec<String> {
        let mut concerned = Vec::new();
        for (namespace, group) in self.holdings.news() {
            if self.holdings.is_aside(&namespace, &group) {
                for uid in self.holdings.objects(&namespace, &group) {
                    self.revisions.reduce(&uid, Revision::bare);
                    self.let_go(&uid);
                }
            }
            concerned.extend(self.keyed(group));
        }
        concerned
    }

    /// Forgets a workload, if it is one.
    fn let_go(&mut self, uid: &str) {
        let Some(filed) = self.shelves.iter_mut().find_map(|shelf| shelf.sets.forget(uid)) else { return };
        self.unname(&filed.object, uid);
        self.is_absent(Absent::of(&filed.object));
    }

    fn is_absent(&mut self, absent: Absent) {
        if self.absent.insert(absent.uid.clone(), absent.clone()).is_none() {
            self.left_out.push(absent);
        }
    }

    /// Workloads that were set aside for want of room since this was asked last.
    pub(crate) fn left_out(&mut self) -> Vec<Absent> {
        std::mem::take(&mut self.left_out)
    }

    /// All that are.
    pub(crate) fn all_absent(&self) -> impl ExactSizeIterator<Item = &Absent> {
        self.absent.values()
    }

    /// Workload that is set aside for want of room.
    pub(crate) fn absent(&self, uid: &str) -> Option<&Absent> {
        self.absent.get(uid)
    }

    /// Workload that was set aside, and for which there is room again.
    pub(crate) fn returning(&self, uid: &str) -> Option<&Absent> {
        self.absent.get(uid).filter(|absent| !self.holdings.is_aside(&absent.namespace, uid))
    }

    /// UIDs of all of them.
    pub(crate) fn all_returning(&self) -> impl Iterator<Item = &str> {
        self.absent.keys().map(String::as_str).filter(move |uid| self.returning(uid).is_some())
    }

    /// A workload was fetched, since there is room for it again. The watch may have been faster.
    pub(crate) fn brought_back(&mut self, filed: Filed<Set>) -> Concerned {
        if self.returning(filed.uid()).is_none() {
            return Concerned::None;
        }
        self.take(Input::Set(filed.object.kind(), Shown::Applied(filed)))
    }

    /// Finds what a workload lacks before it can be planned.
    pub(crate) fn lack(&self, set: &Set) -> Option<Lack> {
        let mut own = self.pods.of(set.uid()).filter(|pod| pod.namespace == set.namespace());
        if let Some(pod) = own.find(|pod| is_unread(pod)) {
            return Some(Lack::Labels(pod.name.clone()));
        }
        let mut bare = self.revisions_of(set).into_iter().filter(|one| one.is_bare()).peekable();
        bare.peek()?;
        let is_aside = bare.any(|one| self.holdings.is_aside(&one.namespace, &one.key()));
        Some(if is_aside { Lack::Room } else { Lack::Templates })
    }

    /// Finds what a reading of these namespaces need not keep.
    pub(crate) fn spared(&self, namespaces: &BTreeSet<String>) -> Spared {
        let here = self.revisions.iter().filter(|one| namespaces.contains(&one.namespace));
        let mut spared = Spared::default();
        for revision in here {
            if !revision.is_bare() {
                spared.known.insert(revision.uid.clone());
                continue;
            }
            let key = revision.key();
            if self.holdings.is_aside(&revision.namespace, &key) {
                spared.aside.insert((revision.namespace.clone(), key.into_owned()));
            }
        }
        spared
    }
}

#[cfg(test)]
mod tests;
