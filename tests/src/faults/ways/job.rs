//! The main container of a Job ends, and its sidecar, which does not by itself, has to.

use std::time::Instant;

use anyhow::{Result, ensure};
use berth_proto::cri::ContainerState;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use serde_json::json;

use super::super::bed::Bed;
use super::super::matrix::{Fault, Row};
use super::super::site::{GRACE, NAMESPACE, PATIENCE};
use crate::jobs::{Jobs, exits};
use crate::manifest::{Container, PodManifest};
use crate::recreate::{Evidence, HELD};
use crate::wait::await_condition;

/// The Jobs of all cells, whose pods are watched.
pub(super) struct JobRuns {
    jobs: Jobs,
}

impl JobRuns {
    pub(super) async fn start(bed: &Bed) -> Result<Self> {
        Ok(Self { jobs: Jobs::watch(&bed.client, NAMESPACE).await? })
    }

    pub(super) async fn play(&self, bed: &Bed, row: &Row) -> Result<Instant> {
        let job = row.object("job");
        let evidence = Evidence::new(bed.node.run(), NAMESPACE, &job)?;
        // Without its store berthd does not know that it was the one who ended it. Never would make a failure
        // of that.
        let policy = if row.fault == Fault::BrokenStore { "OnFailure" } else { "Never" };
        let hook = "echo hook >> /evidence/proxy; sleep 0.3";
        let hook = json!({ "preStop": { "exec": { "command": ["/bin/sh", "-c", hook] } } });
        let sidecar = evidence.mounted(exits("proxy", "echo term >> /evidence/proxy;", 143));
        let main = Container::new("main").only(HELD);
        let pod = PodManifest::new(NAMESPACE, &job).spec("restartPolicy", policy).grace(GRACE);
        let pod =
            evidence.mount(pod).container(evidence.mounted(main)).container(sidecar.field("lifecycle", hook));
        self.jobs.create(&pod, 0).await?;
        let pod = await_condition(format!("Job {job} runs"), PATIENCE, async || {
            let pod = self.jobs.pod_of(&job)?.last.name_any();
            bed.site.running(&pod, "main").await?;
            bed.site.running(&pod, "proxy").await?;
            Ok(pod)
        })
        .await?;
        bed.arm(row)?;
        evidence.let_go()?;
        let healed = bed.strike(row).await?;

        let status = self.jobs.over(&job).await?;
        let counted = (status.succeeded.unwrap_or(0), status.failed.unwrap_or(0));
        ensure!(counted == (1, 0), "Job {job}: (succeeded, failed) = {counted:?}");
        let (ended_at, phase) = self.jobs.pod_of(&job)?.ended().map(|(at, phase)| (at, phase.to_owned()))?;
        ensure!(phase == "Succeeded", "the pod of Job {job} has {phase}");
        let mut instances = bed.site.ran(&pod, "main").await?;
        instances.extend(bed.site.ran(&pod, "proxy").await?);
        ensure!(instances.len() == 2, "Job {job}: containers were started again: {instances:?}");
        for instance in &instances {
            let down = instance.state == ContainerState::ContainerExited && instance.finished_at <= ended_at;
            ensure!(down, "Job {job} was over at {ended_at}: {instance:?}");
        }
        let words = evidence.words("proxy")?;
        let hooks = words.iter().filter(|word| *word == "hook").count();
        ensure!(row.hooks().contains(&hooks), "Job {job}: {words:?}");
        ensure!(words.iter().filter(|word| *word == "term").count() == 1, "Job {job}: {words:?}");
        let jobs: Api<k8s_openapi::api::batch::v1::Job> = Api::namespaced(bed.client.clone(), NAMESPACE);
        jobs.delete(&job, &DeleteParams::background()).await?;
        Ok(healed)
    }
}
