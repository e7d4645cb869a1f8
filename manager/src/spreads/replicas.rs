//! Reader of how many pods a workload wants: its scale, or the parallelism of a Job.

use std::time::Duration;

use berth_base::sent::Sent;
use berth_spread::Target;
use k8s_openapi::api::batch::v1::Job;
use kube::{Api, Client};
use tokio::time::timeout;

use crate::{
    budgets::{Fact, Workload, scale},
    reads,
    store::Owner,
};

/// An answer that takes longer is none.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Reads how many pods a workload wants; none, if it is gone.
pub(crate) async fn replicas(client: &Client, namespace: &str, target: &Target) -> Result<i32, String> {
    if target.kind == "Job" {
        let api: Api<Sent<Job>> = Api::namespaced(client.clone(), namespace);
        return match timeout(ANSWER_WITHIN, reads::read(&api, &target.name)).await {
            Ok(Ok(job)) => {
                Ok(job.and_then(|job| job.spec).map_or(0, |spec| spec.parallelism.unwrap_or(1).max(0)))
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err("the API server did not answer in time".to_owned()),
        };
    }
    let workload = Workload::from(&Owner {
        api_version: target.api_version.clone(),
        kind: target.kind.clone(),
        name: target.name.clone(),
        uid: String::new(),
    });
    match scale(client, namespace, &workload).await? {
        Fact::Wants { replicas, .. } => Ok(replicas),
        Fact::Forbidden(remedy) => Err(remedy),
        _ => Ok(0),
    }
}
