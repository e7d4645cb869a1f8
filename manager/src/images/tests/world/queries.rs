//! Words of the cluster about its jobs and images.

use berth_proto::crd::ImagePullJobStatus;

use super::*;

impl World {
    /// There is no room for a job any more, or there is again.
    pub(in crate::images::tests) fn has_room(&mut self, job: &str, has_some: bool) {
        let seen = Object::ImagePullJob(Box::new(self.jobs[job].clone()));
        self.show(&if has_some { seen } else { seen.aside() });
    }

    /// Nodes with an entry of the job that has not ended, in the order of names.
    pub(in crate::images::tests) fn asked(&self, job: &str) -> Vec<String> {
        let uid = &self.jobs[job].uid;
        let asked = self.images.values().filter(|image| {
            let ended = |pull: &PullStatus| matches!(pull.phase, ImagePhase::Succeeded | ImagePhase::Failed);
            image.desired.iter().any(|entry| entry.uid == *uid)
                && !image.pulls.iter().any(|pull| pull.uid == *uid && ended(pull))
        });
        asked.map(|image| image.name.clone()).collect()
    }

    /// Nodes with an entry of this UID.
    pub(in crate::images::tests) fn placed(&self, uid: &str) -> Vec<String> {
        let placed = self.images.values().filter(|image| image.desired.iter().any(|entry| entry.uid == uid));
        placed.map(|image| image.name.clone()).collect()
    }

    pub(in crate::images::tests) fn status(&self, job: &str) -> &ImagePullJobStatus {
        self.jobs[job].status.as_ref().expect("a status")
    }

    /// desired, active, succeeded, failed.
    pub(in crate::images::tests) fn counts(&self, job: &str) -> [i32; 4] {
        let status = self.status(job);
        [status.desired, status.active, status.succeeded, status.failed].map(|count| count.unwrap_or(-1))
    }

    pub(in crate::images::tests) fn message(&self, job: &str) -> &str {
        self.status(job).message.as_deref().unwrap_or_default()
    }

    pub(in crate::images::tests) fn condition(&self, job: &str, kind: &str) -> Option<&Condition> {
        self.status(job).conditions.iter().find(|condition| condition.type_ == kind)
    }

    pub(in crate::images::tests) fn is_over(&self, job: &str) -> bool {
        self.status(job).completion_time.is_some()
    }
}
