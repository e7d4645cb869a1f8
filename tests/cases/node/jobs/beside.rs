//! Path `beside`: the sidecar is stopped all the same, but the kubelet sees what it exits with, and users are
//! told.

use anyhow::{Context, Result, ensure};
use berth_tests::jobs::{exits, ignores_term};
use berth_tests::manifest::Container;
use berth_tests::wait::await_condition;
use kube::ResourceExt;

use super::{Outcome, Scene};
use crate::case::{Case, PATIENCE, run_beside};

#[tokio::test]
async fn job_sidecars_beside() -> Result<()> {
    run_beside("job_sidecars_beside", async |case: &Case| {
        let scene = Scene::begin(case).await?;
        let hook = "echo hook >> /evidence/proxy";
        let table = [
            ("never-0", "Never", exits("proxy", "", 0), 0),
            ("never-143", "Never", exits("proxy", "", 143), 143),
            ("never-137", "Never", ignores_term("proxy", ""), 137),
            ("on-failure-0", "OnFailure", exits("proxy", "", 0), 0),
        ];
        for (job, policy, proxy, _) in table.clone() {
            let (pod, evidence) = scene.pod(job, policy)?;
            let hook = serde_json::json!({ "preStop": { "exec": { "command": ["/bin/sh", "-c", hook] } } });
            let proxy = evidence.mounted(proxy).field("lifecycle", hook);
            scene.jobs.create(&pod.container(main()).container(proxy), 0).await?;
        }
        let again = "on-failure-143";
        let (pod, _) = scene.pod(again, "OnFailure")?;
        scene.jobs.create(&pod.container(main()).container(exits("proxy", "", 143)), 100).await?;

        for (job, _, _, code) in table {
            let codes: &[_] = &[("main", 0), ("proxy", code)];
            let seen = scene.judge(&Outcome { job, succeeds: code == 0, codes, restarted: &[] }).await?;
            let means = if job.starts_with("never") { "fails the pod" } else { "does not complete" };
            let warnings = await_condition(format!("Job {job}: a warning"), PATIENCE, async || {
                let warnings = scene.warnings(&seen.last.name_any(), means).await?;
                ensure!(warnings > 0, "there is none");
                Ok(warnings)
            })
            .await?;
            ensure!(warnings == 1, "Job {job}: {warnings} warnings");
            let hooks = scene.pod(job, "Never")?.1.count("proxy", "hook")?;
            ensure!(hooks == 1, "Job {job}: {hooks} hooks");
        }
        // It is as the Event says: the kubelet starts it again, and it is stopped again.
        await_condition("a sidecar is stopped twice", PATIENCE, async || {
            let seen = scene.jobs.pod_of(again)?;
            ensure!(seen.restarts.get("proxy").is_some_and(|restarts| *restarts >= 1), "{:?}", seen.restarts);
            let warnings = scene.warnings(&seen.last.name_any(), "is started again").await?;
            ensure!(warnings >= 2, "{warnings} warnings");
            Ok(())
        })
        .await
    })
    .await
}

fn main() -> Container {
    Container::new("main").only("sleep 2")
}

impl Scene<'_> {
    /// How often it was said of a pod's sidecar; nothing else was.
    async fn warnings(&self, pod: &str, means: &str) -> Result<usize> {
        let events = self.events(pod).await?;
        for event in &events {
            let note = event.note.as_deref().context("no note")?;
            let right = note.contains("terminating sidecar proxy") && note.contains(means);
            ensure!(right && event.type_.as_deref() == Some("Warning"), "{event:?}");
        }
        Ok(events.len())
    }
}
