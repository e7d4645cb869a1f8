//! ImagePullJobs, which pull images ahead of an update.

use berth_proto::crd::ImagePullJob;
use berth_workloads_policy::{action::Target, predownload::PullJobView};
use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::Value;

use super::{End, Work, Wrote, patch::has_metadata};
use crate::watch::Revisions;

impl Work {
    /// Makes a job. Where that fails the update goes on without: its pods pull themselves.
    pub(super) async fn pull_ahead(&mut self, job: Value) -> End {
        let text = |what: &str| job["metadata"]["name"].as_str().map(|name| format!("{what} {name}"));
        let (made, failed) = (text("create ImagePullJob"), text("cannot create ImagePullJob"));
        match self.writer.create_untyped::<ImagePullJob>(&self.namespace, job).await {
            Ok(job) => {
                self.tell("CreatedImagePullJob", made.unwrap_or_default());
                self.wrote.push(Wrote::PullJob(PullJobView::of(&job.metadata)));
                End::Done
            }
            Err(failure) => {
                let text = format!("{}: {}", failed.unwrap_or_default(), failure.text());
                self.warn("FailedCreateImagePullJob", text.clone());
                End::PullFailed(text)
            }
        }
    }

    /// Says on a revision whether its images are pulled ahead. Where that fails, or the cluster changes it,
    /// the update goes on without.
    pub(super) async fn mark_revision(&mut self, target: Target, patch: Value) -> End {
        let written = self.patch::<ControllerRevision>(&target, patch.clone()).await;
        let is_changed = matches!(&written, Ok(Some(one)) if !has_metadata(&one.metadata, &patch));
        let (there, gone) = (Wrote::Revision, Wrote::RevisionGone);
        let end = self.settle::<Revisions>(written, &target.uid, there, gone, End::PullFailed).await;
        let what = format!("labels of revision {}", target.name);
        if is_changed { self.changed(&what, End::PullFailed).await } else { end }
    }
}
