//! Pods and revisions that nothing decides on: a set adopts those that are its own by name and labels, as
//! Kubernetes' own do, before anything else is decided. Who deletes a set, leaves its pods behind and makes
//! it anew finds them as they were: with their revision they need no update.
//!
//! Kubernetes' own DaemonSets go by labels alone; here the name counts as well, since nobody looks at all
//! pods of a cluster that have no owner.

use serde_json::json;

use crate::{
    action::Action,
    clone_set::template_labels,
    pod::PodView,
    revision::{Owner, Revision},
    selector::Selector,
};

/// Objects that a set owns, and writes by which it adopts others.
#[derive(Debug)]
pub(crate) struct Split<'a> {
    pub(crate) pods: Vec<&'a PodView>,
    pub(crate) revisions: Vec<&'a Revision>,
    pub(crate) adopts: Vec<Action>,
}

/// Splits pods and revisions: those that the set owns, and those that it adopts; others are none of its own.
/// A set that goes adopts none, and no pod is adopted that goes itself. `is_named`: a pod of this name may be
/// one of the set's.
pub(crate) fn split<'a>(
    pods: &[&'a PodView],
    revisions: &[&'a Revision],
    selector: &Selector,
    owner: Owner<'_>,
    is_going: bool,
    is_named: impl Fn(&str) -> bool,
) -> Split<'a> {
    let (owned, orphans): (Vec<&PodView>, Vec<&PodView>) =
        pods.iter().copied().partition(|pod| !pod.owner().is_empty());
    let (revisions, loose): (Vec<&Revision>, Vec<&Revision>) =
        revisions.iter().copied().partition(|one| !one.owner.is_empty());
    let is_revision = |one: &&Revision| !is_going && selector.takes(&template_labels(&one.template));
    let is_pod =
        |pod: &&PodView| !is_going && !pod.terminating && is_named(&pod.name) && selector.takes(&pod.labels);
    let with_owner = |mut owners: Vec<serde_json::Value>| {
        owners.push(owner.reference());
        json!({ "metadata": { "ownerReferences": owners } })
    };
    let loose = loose.into_iter().filter(is_revision);
    let loose = loose.map(|one| Action::AdoptRevision(one.target(), with_owner(Vec::new())));
    let orphans = orphans.into_iter().filter(is_pod).map(|pod| {
        let others = pod.owners.iter().map(|owner| json!(owner)).collect();
        Action::AdoptPod(pod.target(), with_owner(others))
    });
    Split { pods: owned, revisions, adopts: loose.chain(orphans).collect() }
}
