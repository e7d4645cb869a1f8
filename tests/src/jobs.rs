//! Jobs whose pods have sidecars, made by a user and run by the real job controller; and what it takes to be
//! sure what came of them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use kube::Client;
use kube::api::{Api, PostParams};

use crate::manifest::{Container, PodManifest};
use crate::observe::{PodWatch, Seen};
use crate::wait::await_condition;

/// Makes a container a job sidecar, where it is true.
pub const JOB_SIDECAR: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT";
/// By which the job controller finds its pods.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// Nothing here takes a tenth of it on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// A job sidecar that runs until it is told to end, takes `last` (a script) then and exits with `code`.
pub fn exits(name: &str, last: &str, code: i32) -> Container {
    sidecar(Container::new(name).only(&format!("trap '{last} exit {code}' TERM\nsleep 1000000 & wait")))
}

/// A job sidecar that takes `told` when it is told to end, and goes on.
pub fn ignores_term(name: &str, told: &str) -> Container {
    sidecar(Container::new(name).only(&format!("trap '{told}' TERM\nwhile :; do sleep 1000000 & wait; done")))
}

/// Makes it a job sidecar.
pub fn sidecar(container: Container) -> Container {
    // Any case of it will do.
    container.env(JOB_SIDECAR, "True")
}

/// The Jobs of a namespace, whose pods are watched.
pub struct Jobs {
    api: Api<Job>,
    pods: PodWatch,
}

impl Jobs {
    /// Begins to watch.
    pub async fn watch(client: &Client, namespace: &str) -> Result<Self> {
        let pods = PodWatch::start(Api::namespaced(client.clone(), namespace)).await?;
        Ok(Self { api: Api::namespaced(client.clone(), namespace), pods })
    }

    /// Makes a Job of a pod.
    pub async fn create(&self, pod: &PodManifest, backoff_limit: i32) -> Result<()> {
        self.api.create(&PostParams::default(), &pod.job(backoff_limit)?).await.context("create a Job")?;
        Ok(())
    }

    /// Waits until the job controller calls a Job over, well or not, and the end of its pods was seen here,
    /// too.
    pub async fn over(&self, name: &str) -> Result<JobStatus> {
        await_condition(format!("Job {name} is over"), PATIENCE, async || {
            let status = self.api.get(name).await?.status.unwrap_or_default();
            let mut conditions = status.conditions.iter().flatten();
            let over = conditions.any(|condition| {
                ["Complete", "Failed"].contains(&condition.type_.as_str()) && condition.status == "True"
            });
            let pods: Vec<_> = self.pods_of(name).into_iter().map(|seen| seen.last.status).collect();
            ensure!(over, "{} {}", serde_json::to_string(&status)?, serde_json::to_string(&pods)?);
            self.pods_of(name).iter().try_for_each(|seen| seen.ended().map(drop))?;
            Ok(status)
        })
        .await
    }

    /// Returns the record of the pods of a Job.
    pub fn pods_of(&self, name: &str) -> Vec<Seen> {
        self.pods.labelled(JOB_NAME, name)
    }

    /// Returns the record of the only pod of a Job.
    pub fn pod_of(&self, name: &str) -> Result<Seen> {
        let mut pods = self.pods_of(name);
        ensure!(pods.len() == 1, "Job {name} has {} pods", pods.len());
        pods.pop().context("no pod")
    }
}
