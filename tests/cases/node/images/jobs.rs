//! ImagePullJobs: from the manager to the agent and back, on a real node.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{ImagePullJob, ImagePullJobStatus};
use berth_tests::manifest::Container;
use berth_tests::node::{Manager, NODE_NAME, Replica, User};
use berth_tests::wait::await_condition;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::scene::{PATIENCE, Wanted, publish, registry, split};
use crate::case::{Case, run_alone};

/// The jobs of a case.
struct Jobs {
    api: Api<ImagePullJob>,
}

impl Jobs {
    async fn create(&self, name: &str, spec: Value) -> Result<()> {
        let object = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "ImagePullJob",
            "metadata": { "name": name },
            "spec": spec,
        }))?;
        self.api.create(&PostParams::default(), &object).await.with_context(|| format!("make job {name}"))?;
        Ok(())
    }

    async fn status(&self, name: &str) -> Result<ImagePullJobStatus> {
        Ok(self.api.get(name).await?.status.unwrap_or_default())
    }

    async fn until(
        &self,
        name: &str,
        what: &str,
        condition: impl Fn(&ImagePullJobStatus) -> bool,
    ) -> Result<ImagePullJobStatus> {
        await_condition(format!("job {name} {what}"), PATIENCE, async || {
            let status = self.status(name).await?;
            ensure!(condition(&status), "{status:?}");
            Ok(status)
        })
        .await
    }
}

fn counts(status: &ImagePullJobStatus) -> [Option<i32>; 4] {
    [status.desired, status.active, status.succeeded, status.failed]
}

fn says(status: &ImagePullJobStatus, condition: &str, value: &str, reason: &str) -> bool {
    let mut found = status.conditions.iter().filter(|found| found.type_ == condition);
    found.any(|found| found.status == value && found.reason == reason)
}

#[tokio::test]
async fn images_by_jobs() -> Result<()> {
    // A second manager would carry out what other cases do themselves.
    run_alone("images_by_jobs", async |case: &Case| {
        case.node.berthd()?.set_images("jobsInSpec: true").await?;
        let wanted = Wanted::of(case).await?;
        let image = publish(case, registry(case).await?, "jobs:v1", 50_000).await?;
        let kubeconfig = case.node.api()?.kubeconfig(User::Admin)?;
        let manager =
            Manager::start(case.node.run(), Replica::Second, &kubeconfig, (&case.namespace, 15)).await?;
        manager.leads().await?;
        let jobs = Jobs { api: Api::namespaced(case.node.client().await?, &case.namespace) };

        succeeds(case, &jobs, &wanted, &image).await?;
        pauses(&jobs, &wanted, &image).await?;
        fails(&jobs, &image).await?;
        goes_where_pods_are(case, &jobs, &image).await?;
        stays(&jobs, &wanted, &image).await
    })
    .await
}

async fn succeeds(case: &Case, jobs: &Jobs, wanted: &Wanted, image: &str) -> Result<()> {
    // Long enough for a look at what it has left on its node.
    let policy = json!({ "type": "Always", "ttlSecondsAfterFinished": 20 });
    jobs.create("once", json!({ "image": image, "completionPolicy": policy })).await?;
    let status = jobs.until("once", "has ended", |status| status.completion_time.is_some()).await?;
    ensure!(counts(&status) == [Some(1), Some(0), Some(1), Some(0)], "{status:?}");
    ensure!(status.message.as_deref() == Some("job has completed"), "{status:?}");
    ensure!(says(&status, "Complete", "True", "Succeeded"), "{status:?}");
    ensure!(case.cri.image(image).await?.is_some(), "it is not on the node");
    let entries = wanted.status().await?.desired_images;
    let entry = entries.iter().find(|entry| entry.image == image).context("no entry of the job")?;
    ensure!(entry.wanted_by.as_ref().is_some_and(|by| by.name == "once"), "{entry:?}");
    let (name, tag) = split(image)?;
    await_condition("the tag stands in the spec, with the job as its owner", PATIENCE, async || {
        let images = wanted.object().await?.spec.images;
        let tag = images.get(name).and_then(|image| image.tags.iter().find(|there| there.tag == tag));
        let owners = &tag.context("no such tag")?.owner_references;
        ensure!(owners.iter().map(|owner| owner.name.as_deref()).eq([Some("once")]), "{owners:?}");
        Ok(())
    })
    .await?;
    await_condition(
        "the job is deleted when its time is over, and its entry taken back",
        PATIENCE,
        async || {
            ensure!(jobs.api.get_opt("once").await?.is_none(), "the job is there");
            ensure!(wanted.status().await?.desired_images.is_empty(), "its entry is there");
            ensure!(!wanted.object().await?.spec.images.contains_key(name), "its tag is there");
            Ok(())
        },
    )
    .await
}

async fn pauses(jobs: &Jobs, wanted: &Wanted, image: &str) -> Result<()> {
    let spec = json!({ "image": image, "parallelism": 0, "completionPolicy": {} });
    jobs.create("paused", spec).await?;
    let paused = |status: &ImagePullJobStatus| {
        status.message.as_deref().is_some_and(|message| message.contains("paused"))
    };
    jobs.until("paused", "says so", paused).await?;
    // Nothing happens: there is nothing to await.
    tokio::time::sleep(Duration::from_secs(1)).await;
    ensure!(wanted.status().await?.desired_images.is_empty(), "a node was asked");
    let patch = Patch::Merge(json!({ "spec": { "parallelism": "50%" } }));
    jobs.api.patch("paused", &PatchParams::default(), &patch).await.context("let it go")?;
    jobs.until("paused", "has ended", |status| status.succeeded == Some(1)).await?;
    Ok(())
}

async fn fails(jobs: &Jobs, image: &str) -> Result<()> {
    let spec = json!({
        "image": format!("{image}-missing"),
        "pullPolicy": { "backoffLimit": 0 },
        "completionPolicy": {},
    });
    jobs.create("missing", spec).await?;
    let status = jobs.until("missing", "has ended", |status| status.completion_time.is_some()).await?;
    ensure!(status.failed_nodes == [NODE_NAME], "{status:?}");
    ensure!(says(&status, "Failed", "True", "NodesFailed"), "{status:?}");

    jobs.create("bad", json!({ "image": "Not An Image", "completionPolicy": {} })).await?;
    let status =
        jobs.until("bad", "is refused", |status| says(status, "Accepted", "False", "InvalidSpec")).await?;
    ensure!(status.message.as_deref().is_some_and(|message| message.contains("image")), "{status:?}");
    Ok(())
}

async fn goes_where_pods_are(case: &Case, jobs: &Jobs, image: &str) -> Result<()> {
    let spec = |app: &str| json!({ "image": image, "podSelector": { "matchLabels": { "app": app } }, "completionPolicy": {} });
    let mut manifest = case.manifest("pod").container(Container::new("main")).pod()?;
    manifest.metadata.labels = Some([("app".to_owned(), "here".to_owned())].into());
    case.pods.create(&PostParams::default(), &manifest).await.context("create a pod")?;
    case.await_ready("pod").await?;
    jobs.create("here", spec("here")).await?;
    jobs.create("nowhere", spec("nowhere")).await?;
    for (name, nodes) in [("here", Some(1)), ("nowhere", Some(0))] {
        let status = jobs.until(name, "has ended", |status| status.completion_time.is_some()).await?;
        ensure!((status.desired, status.succeeded) == (nodes, nodes), "{name}: {status:?}");
    }
    Ok(())
}

async fn stays(jobs: &Jobs, wanted: &Wanted, image: &str) -> Result<()> {
    jobs.create("never", json!({ "image": image, "completionPolicy": { "type": "Never" } })).await?;
    let status = jobs.until("never", "is on its node", |status| status.succeeded == Some(1)).await?;
    ensure!(status.completion_time.is_none(), "{status:?}");
    let uid = jobs.api.get("never").await?.metadata.uid.context("no UID")?;
    let has_entry = async || {
        let entries = wanted.status().await?.desired_images;
        anyhow::Ok(entries.iter().any(|entry| entry.uid == uid))
    };
    ensure!(has_entry().await?, "its entry is gone");
    jobs.api.delete("never", &DeleteParams::default()).await.context("delete a job")?;
    await_condition("the entry of a deleted job is taken back", PATIENCE, async || {
        ensure!(!has_entry().await?, "it is there");
        Ok(())
    })
    .await
}
