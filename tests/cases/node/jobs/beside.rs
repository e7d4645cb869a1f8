//! Path `beside`: the sidecar is stopped all the same, but the kubelet sees what it exits with, and users are
//! told.

use anyhow::{Context, Result, ensure};
use berth_tests::jobs::sidecar;
use berth_tests::manifest::Container;
use berth_tests::wait::await_condition;
use kube::ResourceExt;

use super::{LISTENS, Outcome, Scene};
use crate::case::{Case, PATIENCE, run_beside};

/// Goes on until the signal comes.
const WAIT: &str = "sleep 1000000 & wait";

#[tokio::test]
async fn job_sidecars_beside() -> Result<()> {
    run_beside("job_sidecars_beside", async |case: &Case| {
        let scene = Scene::begin(case).await?;
        let hook = "echo hook >> /evidence/proxy";
        let table = [
            ("never-0", "Never", proxy("exit 0", WAIT), 0),
            ("never-143", "Never", proxy("exit 143", WAIT), 143),
            ("never-137", "Never", proxy("", "while :; do sleep 1000000 & wait; done"), 137),
            ("on-failure-0", "OnFailure", proxy("exit 0", WAIT), 0),
        ];
        for (job, policy, proxy, code) in table.clone() {
            let (pod, evidence) = scene.pod(job, policy)?;
            let pod = if code == 137 { pod } else { pod.grace(LISTENS) };
            let hook = serde_json::json!({ "preStop": { "exec": { "command": ["/bin/sh", "-c", hook] } } });
            let proxy = evidence.mounted(proxy).field("lifecycle", hook);
            scene.jobs.create(&pod.container(evidence.mounted(main())).container(proxy), 0).await?;
        }
        let again = "on-failure-143";
        let (pod, evidence) = scene.pod(again, "OnFailure")?;
        let [main, proxy] = [main(), proxy("exit 143", WAIT)].map(|container| evidence.mounted(container));
        scene.jobs.create(&pod.container(main).container(proxy), 100).await?;

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

/// Ends a second after the sidecar has said that it listens: one that is told before that does not hear it.
fn main() -> Container {
    Container::new("main").only("until test -f /evidence/up; do sleep 0.1; done; sleep 1")
}

/// A job sidecar that does `told` when it is told to end, says that it listens, and goes on with `then`.
fn proxy(told: &str, then: &str) -> Container {
    sidecar(Container::new("proxy").only(&format!("trap '{told}' TERM\ntouch /evidence/up\n{then}")))
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
