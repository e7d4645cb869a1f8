//! Whatever a sidecar exits with, the Job is what its main container says.

use anyhow::{Context, Result, ensure};
use berth_tests::jobs::{exits, ignores_term, sidecar};
use berth_tests::manifest::Container;
use kube::ResourceExt;

use super::{Outcome, Scene};
use crate::case::{Case, run_updating};

type Made = fn() -> Container;

/// How sidecars take it when they are told to end.
const SIDECARS: [(&str, Made); 3] = [
    ("exits-0", || exits("proxy", "", 0)),
    ("exits-143", || exits("proxy", "", 143)),
    ("ignores-term", || ignores_term("proxy", "")),
];

fn main(script: &str) -> Container {
    Container::new("main").only(script)
}

#[tokio::test]
async fn job_counts_what_its_main_exits_with() -> Result<()> {
    run_updating("job_counts_what_its_main_exits_with", async |case: &Case| {
        let scene = Scene::begin(case).await?;
        let table = SIDECARS.iter().flat_map(|row| ["Never", "OnFailure"].map(|policy| (row, policy)));
        let table: Vec<_> = table.flat_map(|(row, policy)| [0, 3].map(|code| (row, policy, code))).collect();
        let name = |kind: &str, policy: &str, code| format!("{}-{code}-{kind}", policy.to_lowercase());
        for ((kind, made), policy, code) in &table {
            let (pod, _) = scene.pod(&name(kind, policy, *code), policy)?;
            let pod = pod.container(main(&format!("sleep 2; exit {code}"))).container(made());
            scene.jobs.create(&pod, 0).await?;
        }
        for ((kind, _), policy, code) in &table {
            let job = &name(kind, policy, *code);
            // It would be tried again, which is all there is for the job controller to count: it deletes the
            // pod.
            if (*policy, *code) == ("OnFailure", 3) {
                failed_by_tries(&scene, job).await.with_context(|| format!("Job {job}"))?;
                continue;
            }
            let codes: &[_] = &[("main", *code), ("proxy", 0)];
            let seen = scene.judge(&Outcome { job, succeeds: *code == 0, codes, restarted: &[] }).await?;
            scene.told(&seen, &["proxy"]).await.with_context(|| format!("Job {job}"))?;
        }
        Ok(())
    })
    .await
}

/// The main container would have been started again, so the sidecar was not ended by us.
async fn failed_by_tries(scene: &Scene<'_>, job: &str) -> Result<()> {
    let status = scene.jobs.over(job).await?;
    let counted = (status.succeeded.unwrap_or(0), status.failed.unwrap_or(0));
    ensure!(counted == (0, 1), "(succeeded, failed) = {counted:?}");
    let seen = scene.jobs.pod_of(job)?;
    let (_, phase) = seen.ended()?;
    ensure!(phase == "Failed", "the pod has {phase}");
    ensure!(seen.restarts["main"] >= 1, "the main container was not started again");
    ensure!(seen.restarts["proxy"] == 0, "the sidecar was restarted");
    let said = scene.events(&seen.last.name_any()).await?;
    ensure!(said.is_empty(), "{said:?}");
    Ok(())
}

/// The sidecar goes on while its main container is tried again.
#[tokio::test]
async fn job_succeeds_at_the_third_try() -> Result<()> {
    run_updating("job_succeeds_at_the_third_try", async |case: &Case| {
        let scene = Scene::begin(case).await?;
        let table = [("exits-143", exits("proxy", "", 143)), ("ignores-term", ignores_term("proxy", ""))];
        for (job, proxy) in table.clone() {
            let (pod, evidence) = scene.pod(job, "OnFailure")?;
            let script = "echo start >> /evidence/main; test $(wc -l < /evidence/main) = 3 || exit 3";
            scene.jobs.create(&pod.container(evidence.mounted(main(script))).container(proxy), 6).await?;
        }
        for (job, _) in &table {
            let codes: &[_] = &[("main", 0), ("proxy", 0)];
            let seen = scene.judge(&Outcome { job, succeeds: true, codes, restarted: &["main"] }).await?;
            ensure!(seen.restarts["main"] == 2, "{:?}", seen.restarts);
            scene.told(&seen, &["proxy"]).await?;
        }
        Ok(())
    })
    .await
}

/// One that never lives long: the kubelet starts it again and again, or is about to, when the main container
/// ends.
#[tokio::test]
async fn job_with_a_sidecar_that_restarts_itself() -> Result<()> {
    run_updating("job_with_a_sidecar_that_restarts_itself", async |case: &Case| {
        let scene = Scene::begin(case).await?;
        // Before the back-off and in it, or so: it has to be right at any time.
        let table =
            ["1", "2.3", "3.6", "5", "8"].map(|after| (format!("after-{}", after.replace('.', "-")), after));
        for (job, after) in &table {
            let (pod, _) = scene.pod(job, "OnFailure")?;
            let proxy = sidecar(Container::new("proxy").only("sleep 1; exit 1"));
            scene.jobs.create(&pod.container(main(&format!("sleep {after}"))).container(proxy), 100).await?;
        }
        for (job, _) in &table {
            let codes: &[_] = &[("main", 0), ("proxy", 0)];
            scene.judge(&Outcome { job, succeeds: true, codes, restarted: &["proxy"] }).await?;
        }
        Ok(())
    })
    .await
}
