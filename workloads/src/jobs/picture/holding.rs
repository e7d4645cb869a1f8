//! Memory that jobs and what they have made may take, and for whom.

use berth_workloads_policy::{broadcast_job::PodView, cron_job::ChildView};

use super::{
    super::object::{AnyJob, Filed},
    Jobs,
};
use crate::object::Object;

/// Bytes that jobs of both kinds may take together. An ordinary one takes some 20 KB.
pub(super) const MOST_HELD: usize = 64 << 20;

impl Jobs {
    /// Pods of a job. An author may name an owner of another namespace, whose UID is no secret.
    pub(super) fn pods_of(&self, job: &AnyJob) -> Vec<&PodView> {
        self.pods.of(job.uid()).filter(|pod| pod.namespace == job.namespace()).collect()
    }

    /// The same of what an AdvancedCronJob has made.
    pub(super) fn children_of(&self, job: &AnyJob) -> Vec<&ChildView> {
        let all = self.jobs.of(job.uid()).chain(self.broadcasts.of(job.uid()));
        all.filter(|child| child.namespace == job.namespace()).collect()
    }

    /// The object of that UID, if its controller runs.
    pub(super) fn filed(&self, uid: &str) -> Option<&Filed> {
        let broadcast = self.broadcast_jobs.get(uid).filter(|_| self.settings.broadcast_jobs);
        broadcast.or_else(|| self.cron_jobs.get(uid).filter(|_| self.settings.cron_jobs))
    }

    /// Sets aside that for which there is no room any more. UIDs of what was, or is not any more.
    pub(super) fn make_room(&mut self) -> Vec<String> {
        let news = self.room.news();
        for uid in news.iter().flat_map(|news| &news.reduced) {
            self.room.reduce(&mut self.broadcast_jobs, uid);
            self.room.reduce(&mut self.cron_jobs, uid);
        }
        news.into_iter().map(|news| news.uid).collect()
    }
}
