//! BroadcastJobs and AdvancedCronJobs at a real API server: berth-workloads has the rights and policies of
//! `deploy/jobs`, and no others. One pod runs; the other nodes are objects alone.

use std::cell::RefCell;
use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::{AdvancedCronJob, BroadcastJob, MissedRuns};
use berth_tests::node::images::BUSYBOX;
use berth_tests::node::{NODE_NAME, Workloads, deploy, token};
use berth_tests::wait::await_condition;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::case::{Case, PATIENCE, run_updating_alone};

const LABEL: &str = "berth.dev/takes-broadcast-jobs";
const SIMULATED: [&str; 3] = ["simulated-a", "simulated-b", "simulated-c"];

async fn start(case: &Case) -> Result<(Client, Workloads)> {
    let client = case.node.client().await?;
    for file in [
        "workloads/role.yaml",
        "workloads/policy.yaml",
        "jobs/policy.yaml",
        "jobs/broadcastjobs/role.yaml",
        "jobs/cronjobs/role.yaml",
    ] {
        deploy::apply(&client, file).await?;
    }
    deploy::add_conditions(&client, "jobs/kustomization.yaml").await?;
    let token = token::of(&client, "berth-workloads", None).await?;
    let kubeconfig = case.node.api()?.kubeconfig_with("berth-workloads", &token)?;
    let more = ["--broadcastjobs", "--cronjobs"];
    let workloads = Workloads::start_with(case.node.run(), &kubeconfig, "berth-system", &more).await?;
    Ok((client, workloads))
}

#[tokio::test]
async fn broadcast_and_cron_jobs_run() -> Result<()> {
    run_updating_alone("broadcast_and_cron_jobs_run", async |case: &Case| {
        let (client, workloads) = start(case).await?;
        let outcome = plays(case, &client, &workloads).await;
        let nodes: Api<Node> = Api::all(client.clone());
        for name in SIMULATED {
            if nodes.get_opt(name).await?.is_some() {
                nodes.delete(name, &DeleteParams::default()).await?;
            }
        }
        let crons: Api<AdvancedCronJob> = Api::namespaced(client, &case.namespace);
        crons.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        outcome
    })
    .await
}

async fn plays(case: &Case, client: &Client, workloads: &Workloads) -> Result<()> {
    refuses(case, client).await?;
    samples(case, client).await?;
    broadcasts(case, client).await?;
    ticks(case, client, workloads).await
}

/// Each wrong object is refused by the API server itself, in words that name field and remedy.
async fn refuses(case: &Case, client: &Client) -> Result<()> {
    let broadcast: Api<BroadcastJob> = Api::namespaced(client.clone(), &case.namespace);
    let cron: Api<AdvancedCronJob> = Api::namespaced(client.clone(), &case.namespace);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let (sixty_four, fifty_three) = ("a".repeat(64), "a".repeat(53));
    for (name, spec, words) in [
        ("a", json!({ "parallelism": -1 }), "parallelism"),
        ("a", json!({ "parallelism": "many" }), "give a number from 0 on"),
        (
            "a",
            json!({ "completionPolicy": { "type": "Never", "ttlSecondsAfterFinished": 1 } }),
            "leave them out",
        ),
        ("a", json!({ "completionPolicy": { "type": "Sometimes" } }), "neither Always nor Never"),
        ("a", json!({ "failurePolicy": { "type": "Weep" } }), "none of Continue, FailFast and Pause"),
        ("a", json!({ "failurePolicy": { "restartLimit": -1 } }), "restartLimit"),
        (
            "a",
            json!({ "template": { "metadata": { "labels": { "broadcastjob-name": "x" } } } }),
            "are the controller's",
        ),
        (sixty_four.as_str(), json!({}), "metadata.name of this kind has at most 63 letters"),
    ] {
        let mut given = json!({ "template": pod() });
        given.as_object_mut().context("a spec")?.extend(spec.as_object().cloned().context("a spec")?);
        let object = serde_json::from_value(named("BroadcastJob", name, given))?;
        refused(broadcast.create(&dry, &object).await.map(|_| ()), words)?;
    }
    for (name, spec, words) in [
        ("a", json!({ "schedule": "* * * *" }), "is no schedule"),
        ("a", json!({ "schedule": "@sometimes" }), "is no schedule"),
        ("a", json!({ "schedule": "TZ=UTC @daily", "timeZone": "UTC" }), "leave one of them out"),
        ("a", json!({ "timeZone": "" }), "is no time zone"),
        ("a", json!({ "timeZone": "LOCAL" }), "is no time zone"),
        ("a", json!({ "concurrencyPolicy": "Maybe" }), "none of Allow, Forbid and Replace"),
        ("a", json!({ "startingDeadlineSeconds": -1 }), "startingDeadlineSeconds"),
        ("a", json!({ "failedJobsHistoryLimit": -1 }), "failedJobsHistoryLimit"),
        ("a", json!({ "template": {} }), "has not exactly one of jobTemplate"),
        (
            "a",
            json!({ "template": { "jobTemplate": {}, "broadcastJobTemplate": {} } }),
            "has not exactly one",
        ),
        (fifty_three.as_str(), json!({}), "metadata.name of this kind has at most 52 letters"),
    ] {
        let mut given = json!({ "schedule": "@daily", "template": { "jobTemplate": { "spec": {} } } });
        given.as_object_mut().context("a spec")?.extend(spec.as_object().cloned().context("a spec")?);
        let object = serde_json::from_value(named("AdvancedCronJob", name, given))?;
        refused(cron.create(&dry, &object).await.map(|_| ()), words)?;
    }
    Ok(())
}

/// The samples as they are: a pod on the node, and a time that has not come.
async fn samples(case: &Case, client: &Client) -> Result<()> {
    for sample in ["samples/broadcast-job.yaml", "samples/cron-job.yaml"] {
        deploy::apply_in(client, sample, &case.namespace).await?;
    }
    let jobs: Api<BroadcastJob> = Api::namespaced(client.clone(), &case.namespace);
    let crons: Api<AdvancedCronJob> = Api::namespaced(client.clone(), &case.namespace);
    await_condition("the samples are decided on", PATIENCE, async || {
        let status = jobs.get("sweep").await?.status.context("no status")?;
        ensure!(status.desired > 0 && status.active + status.succeeded > 0, "{status:?}");
        let status = crons.get("report").await?.status.context("no status")?;
        ensure!(status.type_.as_deref() == Some("Job") && status.active.is_empty(), "{status:?}");
        Ok(())
    })
    .await?;
    jobs.delete("sweep", &DeleteParams::background()).await?;
    crons.delete("report", &DeleteParams::background()).await?;
    await_condition("the pods of the sample go", PATIENCE, async || {
        let labelled = ListParams::default().labels("broadcastjob-name=sweep");
        let pods = case.pods.list(&labelled).await?.items;
        ensure!(pods.is_empty(), "{} pods are there", pods.len());
        Ok(())
    })
    .await
}

fn named(kind: &str, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec })
}

fn refused(answer: kube::Result<()>, words: &str) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) => {
            ensure!(status.message.contains(words), "no {words:?} in {:?}", status.message);
            Ok(())
        }
        Err(error) => Err(error.into()),
        Ok(()) => bail!("was let in, and should be refused for {words:?}"),
    }
}

fn pod() -> Value {
    json!({ "metadata": { "labels": { "app": "sweep" } }, "spec": {
        "restartPolicy": "Never",
        "nodeSelector": { LABEL: "yes" },
        "tolerations": [{ "operator": "Exists" }],
        "containers": [{ "name": "main", "image": BUSYBOX, "command": ["true"] }],
    }})
}

/// One pod on each node, a node that comes later too; when all have ended, the job, and then it goes.
async fn broadcasts(case: &Case, client: &Client) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let label = json!({ "metadata": { "labels": { LABEL: "yes" } } });
    nodes.patch(NODE_NAME, &PatchParams::default(), &Patch::Merge(&label)).await?;
    let simulate = async |name: &str| {
        let node = serde_json::from_value(json!({
            "metadata": { "name": name, "labels": { LABEL: "yes" } },
            "spec": { "taints": [{ "key": "berth.dev/simulated", "effect": "NoSchedule" }] },
            "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "110" } },
        }))?;
        nodes.create(&PostParams::default(), &node).await.context("make a node")?;
        anyhow::Ok(())
    };
    for name in &SIMULATED[..2] {
        simulate(name).await?;
    }
    let jobs: Api<BroadcastJob> = Api::namespaced(client.clone(), &case.namespace);
    // One that its definition lets pass while nobody admits it: it is set aside, and holds no other one up.
    let mut never_ends = pod();
    never_ends["spec"]["restartPolicy"] = "Always".into();
    let wrong = serde_json::from_value(named("BroadcastJob", "wrong", json!({ "template": never_ends })))?;
    jobs.create(&PostParams::default(), &wrong).await.context("make a wrong job")?;
    let spec = json!({ "template": pod(), "completionPolicy": { "ttlSecondsAfterFinished": 3 } });
    let mut job = named("BroadcastJob", "sweep", spec);
    // Its end is to be seen, however late somebody looks.
    job["metadata"]["finalizers"] = json!(["berth.test/seen"]);
    jobs.create(&PostParams::default(), &serde_json::from_value(job)?).await.context("make the job")?;
    let status = async |what: &str, counts: (i32, i32, i32, i32)| {
        await_condition(format!("BroadcastJob: {what}"), PATIENCE, async || {
            let status = jobs.get("sweep").await?.status.context("no status")?;
            let found = (status.desired, status.active, status.succeeded, status.failed);
            ensure!(found == counts, "{status:?}");
            Ok(status)
        })
        .await
    };
    let at_first = status("the real pod has ended", (3, 2, 1, 0)).await?;
    ensure!(at_first.phase.as_deref() == Some("running") && at_first.start_time.is_some(), "{at_first:?}");
    simulate(SIMULATED[2]).await?;
    status("a node that came later has its pod", (4, 3, 1, 0)).await?;
    // Nobody runs these pods.
    for pod in case.pods.list(&ListParams::default().labels("broadcastjob-name=sweep")).await?.items {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if phase != Some("Succeeded") {
            let patch = json!({ "status": { "phase": "Succeeded" } });
            case.pods
                .patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&patch))
                .await
                .context("end a pod")?;
        }
    }
    let at_last = status("all pods have ended", (4, 0, 4, 0)).await?;
    ensure!(at_last.phase.as_deref() == Some("completed"), "{at_last:?}");
    let seen = json!({ "metadata": { "finalizers": [] } });
    jobs.patch("sweep", &PatchParams::default(), &Patch::Merge(&seen)).await.context("let the job go")?;
    await_condition("the job deletes itself, and its pods go", PATIENCE, async || {
        ensure!(jobs.get_opt("sweep").await?.is_none(), "it is there");
        let pods: Vec<Pod> =
            case.pods.list(&ListParams::default().labels("broadcastjob-name=sweep")).await?.items;
        ensure!(pods.is_empty(), "{} pods are there", pods.len());
        Ok(())
    })
    .await?;
    let status = jobs.get("wrong").await?.status.context("nothing is said of the wrong job")?;
    let invalid = status.conditions.iter().find(|one| one.type_ == "InvalidSpec").context("no condition")?;
    let says = invalid.message.as_deref().unwrap_or_default();
    ensure!(says.starts_with("spec.template.spec.restartPolicy is neither Never nor"), "{invalid:?}");
    jobs.delete("wrong", &DeleteParams::background()).await?;
    Ok(())
}

/// A run each second; the program is killed, and comes back: each time is run once, or told as missed.
async fn ticks(case: &Case, client: &Client, workloads: &Workloads) -> Result<()> {
    let crons: Api<AdvancedCronJob> = Api::namespaced(client.clone(), &case.namespace);
    let jobs: Api<Job> = Api::namespaced(client.clone(), &case.namespace);
    // Suspended: they need no pods.
    let template = json!({ "spec": {
        "suspend": true,
        "template": { "spec": {
            "restartPolicy": "Never", "containers": [{ "name": "main", "image": BUSYBOX, "command": ["true"] }],
        }},
    }});
    let spec = json!({ "schedule": "@every 2s", "template": { "jobTemplate": template } });
    let cron = serde_json::from_value(named("AdvancedCronJob", "tick", spec))?;
    crons.create(&PostParams::default(), &cron).await.context("make the cron job")?;
    // The status has the last times alone that runs were missed, and a slow machine misses some again and
    // again.
    let told = RefCell::new(BTreeSet::<(i64, i64)>::new());
    let made = async || {
        let status = crons.get("tick").await?.status.unwrap_or_default();
        let missed = status.missed.into_iter().chain(status.missed_before);
        let times = |missed: MissedRuns| Some((missed.first?.0.as_second(), missed.last?.0.as_second()));
        told.borrow_mut().extend(missed.filter_map(times));
        let all = jobs.list(&ListParams::default()).await?.items;
        let times = all.iter().filter_map(|job| job.name_any().strip_prefix("tick-")?.parse::<i64>().ok());
        anyhow::Ok(times.collect::<BTreeSet<i64>>())
    };
    let at_least = async |count: usize| {
        await_condition(format!("{count} runs"), PATIENCE, async || {
            let made = made().await?;
            ensure!(made.len() >= count, "{made:?}");
            Ok(())
        })
        .await
    };
    at_least(3).await?;
    workloads.service().kill()?;
    let before = made().await?.len();
    workloads.service().start()?;
    workloads.ready().await?;
    at_least(before + 3).await?;
    let pause = json!({ "spec": { "paused": true } });
    crons.patch("tick", &PatchParams::default(), &Patch::Merge(&pause)).await?;
    let cron = await_condition("it rests, and its status has all", PATIENCE, async || {
        let (cron, made) = (crons.get("tick").await?, made().await?);
        let status = cron.status.clone().context("no status")?;
        ensure!(status.observed_generation == cron.metadata.generation, "{status:?}");
        let last = status.last_schedule_time.as_ref().map(|time| time.0.as_second());
        ensure!(last == made.last().copied() && status.active.len() == made.len(), "{status:?} {made:?}");
        Ok(cron)
    })
    .await?;
    let status = cron.status.context("no status")?;
    ensure!(status.type_.as_deref() == Some("Job"), "{status:?}");
    let made = made().await?;
    let (first, last) = (*made.first().context("no run")?, *made.last().context("no run")?);
    let told = told.take();
    for time in (first..=last).step_by(2) {
        let is_told = told.iter().any(|(first, last)| (*first..=*last).contains(&time));
        ensure!(made.contains(&time) != is_told, "{time}: {made:?} {told:?}");
    }
    ensure!(made.iter().all(|time| (time - first) % 2 == 0), "{made:?}");
    Ok(())
}
