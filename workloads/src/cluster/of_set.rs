//! Objects that a workload has by its UID, and those that it may adopt. An author may name an owner of
//! another namespace, and a UID is no secret: what is elsewhere is none of its.

use berth_workloads_policy::{pod::PodView, predownload::PullJobView, revision::Revision};

use super::Cluster;
use crate::{kinds::Set, owned::orphans};

impl Cluster {
    /// Pods of a workload, and those that it may adopt.
    pub(super) fn pods_of(&self, set: &Set) -> Vec<&PodView> {
        let orphans = set.adopts().then(|| orphans(set.namespace(), set.name()));
        let orphans = orphans.iter().flat_map(|key| self.pods.of(key));
        let all = self.pods.of(set.uid()).chain(orphans);
        all.filter(|pod| pod.namespace == set.namespace()).collect()
    }

    /// The same of revisions.
    pub(super) fn revisions_of(&self, set: &Set) -> Vec<&Revision> {
        let orphans = set.adopts().then(|| orphans(set.namespace(), set.name()));
        let orphans = orphans.iter().flat_map(|key| self.revisions.of(key));
        let all = self.revisions.of(set.uid()).chain(orphans);
        all.filter(|one| one.namespace == set.namespace()).collect()
    }

    /// Jobs that pull images ahead of its updates.
    pub(super) fn pull_jobs_of(&self, set: &Set) -> Vec<&PullJobView> {
        self.pull_jobs.of(set.uid()).filter(|job| job.namespace == set.namespace()).collect()
    }
}
