//! ImagePullJobs, which pull images ahead of an update.

use berth_proto::crd::ImagePullJob;
use berth_workloads_policy::predownload::PullJobView;
use serde_json::Value;

use super::{End, Work, Wrote};

impl Work {
    /// Makes a job. Where that fails the update goes on without: its pods pull themselves.
    pub(super) async fn pull_ahead(&mut self, job: Value) -> End {
        let text = |what: &str| job["metadata"]["name"].as_str().map(|name| format!("{what} {name}"));
        let (made, failed) = (text("create ImagePullJob"), text("cannot create ImagePullJob"));
        match self.writer.create_untyped::<ImagePullJob>(&self.namespace, job).await {
            Ok(job) => {
                self.tell(false, "CreatedImagePullJob", made.unwrap_or_default());
                self.wrote.push(Wrote::PullJob(PullJobView::of(&job.metadata)));
                End::Done
            }
            Err(failure) => {
                let text = format!("{}: {}", failed.unwrap_or_default(), failure.text());
                self.tell(true, "FailedCreateImagePullJob", text.clone());
                End::PullFailed(text)
            }
        }
    }
}
