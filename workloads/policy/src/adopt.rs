//! Pods and revisions that nothing decides on: a set adopts those that are its own by name and labels, as
//! Kubernetes' own do, before anything else is decided. Who deletes a set, leaves its pods behind and makes
//! it anew finds them as they were: with their revision they need no update.
//!
//! One that cannot be adopted stalls nothing. It is tried again after pauses, and the plan goes on beside it:
//! a pod keeps its place, and a revision counts as it is, so no pod that has it is updated for nothing.
//!
//! Kubernetes' own DaemonSets go by labels alone; here the name counts as well, since nobody looks at all
//! pods of a cluster that have no owner.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

use crate::{
    action::Action,
    clone_set::template_labels,
    pod::PodView,
    revision::{Owner, Revision},
    selector::{Labels, Selector},
    time::until,
};

/// Pause after the first failure, and the longest one.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// Failures that are remembered; past them all are forgotten.
const MOST_FAILED: usize = 4096;

/// Objects of a set that could not be adopted.
#[derive(Clone, Debug, Default)]
pub struct Unadopted {
    /// By UID.
    failed: BTreeMap<String, Failed>,
    pause: Duration,
    /// Time at which they are tried again.
    again: Timestamp,
}

#[derive(Clone, Debug)]
struct Failed {
    tried: Timestamp,
    why: String,
}

/// A set that adopts.
pub(crate) struct Adopting<'a> {
    pub(crate) selector: &'a Selector,
    pub(crate) owner: Owner<'a>,
    /// It adopts none.
    pub(crate) is_going: bool,
    pub(crate) unadopted: &'a Unadopted,
    pub(crate) now: Timestamp,
}

/// Objects of a set, and writes by which it adopts others.
#[derive(Debug)]
pub(crate) struct Split<'a> {
    pub(crate) pods: Vec<&'a PodView>,
    /// Revisions that count: those that could not be adopted are among them.
    pub(crate) revisions: Vec<&'a Revision>,
    pub(crate) adopts: Vec<Action>,
    /// Nothing else is decided before these are adopted.
    pub(crate) comes_first: bool,
    /// Pods that are to be the set's and are not.
    pub(crate) orphans: Vec<&'a PodView>,
    /// Words for what could not be adopted.
    pub(crate) refused: Option<String>,
    /// Time until those are tried again.
    pub(crate) again: Option<Duration>,
}

/// An object that is to be adopted.
struct Orphan<'a> {
    uid: &'a str,
    title: String,
    is_revision: bool,
    adopt: Action,
}

impl Unadopted {
    /// Takes in UIDs of objects that could not be adopted a moment ago, and why.
    pub fn failed(&mut self, objects: Vec<(String, String)>, now: Timestamp) {
        if objects.is_empty() {
            return;
        }
        if self.failed.len().saturating_add(objects.len()) > MOST_FAILED {
            self.failed.clear();
        }
        let longest = i64::try_from(LONGEST.as_secs()).unwrap_or(i64::MAX);
        let was_quiet = until(self.again, longest, now).is_zero();
        self.pause = if was_quiet { FIRST } else { self.pause.saturating_mul(2).clamp(FIRST, LONGEST) };
        self.again = now.checked_add(self.pause).unwrap_or(Timestamp::MAX);
        let failed = objects.into_iter().map(|(uid, why)| (uid, Failed { tried: now, why }));
        self.failed.extend(failed.take(MOST_FAILED));
    }

    /// Time until they are tried again; `None`: they are now. A clock that was set back holds nothing up.
    fn rests(&self, now: Timestamp) -> Option<Duration> {
        Some(until(self.again, 0, now)).filter(|left| !left.is_zero() && *left <= LONGEST)
    }
}

impl Adopting<'_> {
    /// Splits pods and revisions: those that the set owns, and those that it adopts; others are none of its
    /// own. A set that goes adopts none, and no pod is adopted that goes itself. `is_named`: a pod of this
    /// name may be one of the set's.
    pub(crate) fn split<'a>(
        &self,
        pods: &[&'a PodView],
        revisions: &[&'a Revision],
        is_named: impl Fn(&str) -> bool,
    ) -> Split<'a> {
        let (pods, orphans): (Vec<&PodView>, Vec<&PodView>) =
            pods.iter().copied().partition(|pod| !pod.owner().is_empty());
        let (revisions, loose): (Vec<&Revision>, Vec<&Revision>) =
            revisions.iter().copied().partition(|one| !one.owner.is_empty());
        let takes = |labels: &Labels| !self.is_going && self.selector.takes(labels);
        let loose: Vec<&Revision> =
            loose.into_iter().filter(|one| takes(&template_labels(&one.template))).collect();
        let orphans: Vec<&PodView> = orphans
            .into_iter()
            .filter(|pod| !pod.terminating && is_named(&pod.name) && takes(&pod.labels))
            .collect();
        let all = loose.iter().map(|one| self.revision(one)).chain(orphans.iter().map(|pod| self.pod(pod)));
        let mut split = Split {
            pods,
            revisions,
            adopts: Vec::new(),
            comes_first: false,
            orphans: Vec::new(),
            refused: None,
            again: None,
        };
        self.sort(all.collect(), &mut split);
        if !split.comes_first {
            split.revisions.extend(loose);
            split.orphans = orphans;
        }
        split
    }

    /// Sorts what is to be adopted: new ones come first, then those that wait the longest.
    fn sort(&self, all: Vec<Orphan<'_>>, split: &mut Split<'_>) {
        let rests = self.unadopted.rests(self.now);
        let mut again: Vec<(Timestamp, Action)> = Vec::new();
        let mut is_new_revision = false;
        for Orphan { uid, title, is_revision, adopt } in all {
            let Some(failed) = self.unadopted.failed.get(uid) else {
                is_new_revision |= is_revision;
                split.adopts.push(adopt);
                continue;
            };
            split.refused.get_or_insert_with(|| format!("{title} is not adopted: {}", failed.why));
            match rests {
                Some(left) => split.again = Some(left),
                None => again.push((failed.tried, adopt)),
            }
        }
        // Revisions tell which pods are old: none is passed over before it was tried once.
        let is_first = split.refused.is_none() && !split.adopts.is_empty();
        split.comes_first = is_first || is_new_revision;
        again.sort_by_key(|(tried, _)| *tried);
        split.adopts.extend(again.into_iter().map(|(_, adopt)| adopt));
    }

    fn revision<'a>(&self, one: &'a Revision) -> Orphan<'a> {
        let adopt = Action::AdoptRevision(one.target(), self.with_owner(&[]));
        Orphan { uid: &one.uid, title: format!("revision {}", one.name), is_revision: true, adopt }
    }

    fn pod<'a>(&self, pod: &'a PodView) -> Orphan<'a> {
        let adopt = Action::AdoptPod(pod.target(), self.with_owner(&pod.owners));
        Orphan { uid: &pod.uid, title: format!("pod {}", pod.name), is_revision: false, adopt }
    }

    fn with_owner(&self, others: &[OwnerReference]) -> serde_json::Value {
        let mut owners: Vec<serde_json::Value> = others.iter().map(|owner| json!(owner)).collect();
        owners.push(self.owner.reference());
        json!({ "metadata": { "ownerReferences": owners } })
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn fails(unadopted: &mut Unadopted, uids: &[&str], now: Timestamp) {
        unadopted.failed(uids.iter().map(|uid| ((*uid).to_owned(), "refused".to_owned())).collect(), now);
    }

    #[test]
    fn what_cannot_be_adopted_is_tried_less_and_less() {
        let (mut unadopted, mut now) = (Unadopted::default(), Timestamp::constant(1_000, 0));
        let mut pauses = Vec::new();
        for _ in 0..8 {
            fails(&mut unadopted, &["a", "b"], now);
            let left = unadopted.rests(now).unwrap();
            pauses.push(left.as_secs());
            now = now.checked_add(left).unwrap();
            assert_eq!(unadopted.rests(now), None);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        let hour = SignedDuration::from_secs(3600);
        let (earlier, later) = (now.checked_sub(hour).unwrap(), now.checked_add(hour).unwrap());
        assert_eq!(unadopted.rests(earlier), None, "a clock that was set back");
        fails(&mut unadopted, &["a"], later);
        assert_eq!(unadopted.rests(later), Some(FIRST), "quiet for an hour");
        fails(&mut unadopted, &[], later);
        assert_eq!(unadopted.rests(later), Some(FIRST));
    }

    #[test]
    fn few_are_remembered() {
        let mut unadopted = Unadopted::default();
        for _ in 0..3 {
            let many = (0..MOST_FAILED + 1).map(|uid| (uid.to_string(), String::new())).collect();
            unadopted.failed(many, Timestamp::UNIX_EPOCH);
            assert_eq!(unadopted.failed.len(), MOST_FAILED);
        }
    }
}
