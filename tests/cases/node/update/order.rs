//! Order of updates: what is updated, by how many restarts, and when.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::UpdatePhase;
use berth_tests::manifest::Container;
use berth_tests::node::images::{BUSYBOX, BUSYBOX_NEXT};
use berth_tests::update::Update;
use berth_tests::wait::await_condition;
use serde_json::json;

use super::{A_WHILE, META, STATE, Scene, annotation, container, gate, image};
use crate::case::{Case, container as status, is_ready, run_updating};

#[tokio::test]
async fn update_one_image() -> Result<()> {
    run_updating("update_one_image", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            // For one that reads a label the annotation of what runs is kept.
            let other = container(evidence, "other", &[("TIER", "metadata.labels['tier']")]);
            pod.container(container(evidence, "main", &[])).container(other)
        })
        .await?;
        let before = scene.now().await?;
        let other = scene.running("other").await?;
        let asked = scene.ask("next", &Update::new("pod").image("main", BUSYBOX_NEXT)).await?;
        let status = asked.succeeded().await?;
        let [state] = &status.container_update_states[..] else { anyhow::bail!("{status:?}") };
        ensure!((state.name.as_str(), state.phase) == ("main", UpdatePhase::Succeeded), "{state:?}");

        let now = scene.now().await?;
        ensure!(now.metadata.uid == before.metadata.uid, "it is another pod");
        ensure!(image(&now, "main")? == BUSYBOX_NEXT && image(&now, "other")? == BUSYBOX, "wrong images");
        ensure!(scene.restarts("main").await? == 1, "not restarted once");
        ensure!(scene.running("other").await?.id == other.id, "the other container was restarted");
        ensure!(gate(&now)? == "True", "the gate is closed");
        case.await_pod("pod", "Ready again", is_ready).await?;

        let record = annotation(&now, STATE)?;
        ensure!(record["updateImages"] == true && record["updateEnvFromMetadata"].is_null(), "{record}");
        ensure!(record["containerBatchesRecord"][0]["containers"] == json!(["main"]), "{record}");
        ensure!(
            record["lastContainerStatuses"]["main"]["imageID"]
                .as_str()
                .is_some_and(|id| id.contains("sha256:")),
            "{record}"
        );
        let running = scene.running("main").await?.id;
        let told = case
            .await_pod("pod", "its annotation shows what runs", |pod| {
                let meta = annotation(pod, META)?;
                let id = meta["containers"][0]["containerID"].as_str().context("no ID")?;
                ensure!(id.ends_with(&running), "{meta}");
                Ok(())
            })
            .await?;
        let meta = annotation(&told, META)?;
        ensure!(meta["containers"][0]["hashes"]["extractedEnvFromMetadataHash"] == 86_995_377, "{meta}");
        Ok(())
    })
    .await
}

/// An image and values that come from an annotation and a label, for two containers, the second of them
/// lower.
#[tokio::test]
async fn update_two_levels_of_image_and_env() -> Result<()> {
    run_updating("update_two_levels_of_image_and_env", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            let main = [("CONFIG", "metadata.annotations['config']"), ("TIER", "metadata.labels['tier']")];
            // Its successor is not Ready until the test has seen that main waits for it.
            let sidecar = evidence.container("sidecar", "touch /evidence/hold");
            let version = json!({ "fieldPath": "metadata.annotations['version']" });
            let version = json!({ "name": "VERSION", "valueFrom": { "fieldRef": version } });
            pod.annotation("config", "one")
                .container(container(evidence, "main", &main).priority(1))
                .container(sidecar.env_entry(version).priority(5).ready_when("! test -f /evidence/hold"))
        })
        .await?;
        let update = Update::new("pod")
            .image("main", BUSYBOX_NEXT)
            .image("sidecar", BUSYBOX_NEXT)
            .annotation("config", "two")
            .annotation("version", "2")
            .annotation("unread", "by anybody")
            .label("tier", "back");
        let asked = scene.ask("both", &update).await?;
        // Main waits for the sidecar, and the pod says so.
        let record = case
            .await_pod("pod", "the first batch is recorded", |pod| annotation(pod, STATE).map(drop))
            .await
            .and_then(|pod| annotation(&pod, STATE))?;
        ensure!(record["nextContainerImages"] == json!({ "main": BUSYBOX_NEXT }), "{record}");
        ensure!(
            record["nextContainerRefMetadata"]
                == json!({ "main": { "labels": { "tier": "back" }, "annotations": { "config": "two" } } }),
            "{record}"
        );
        ensure!(
            record["preCheckBeforeNext"] == json!({ "containersRequiredReady": ["sidecar"] }),
            "{record}"
        );
        await_condition("the sidecar is held", A_WHILE, async || scene.evidence.take("hold")).await?;
        asked.succeeded().await?;
        for name in ["main", "sidecar"] {
            ensure!(scene.restarts(name).await? == 1, "{name} was restarted more than once");
            ensure!(image(&scene.now().await?, name)? == BUSYBOX_NEXT, "{name} has the old image");
        }
        scene.in_order("sidecar", "main").await?;
        ensure!(
            scene.env("main", "CONFIG").await? == "two" && scene.env("main", "TIER").await? == "back",
            "old env"
        );
        ensure!(scene.env("sidecar", "VERSION").await? == "2", "old env");
        let now = scene.now().await?;
        let record = annotation(&now, STATE)?;
        ensure!(record["containerBatchesRecord"][0]["containers"] == json!(["sidecar"]), "{record}");
        ensure!(record["containerBatchesRecord"][1]["containers"] == json!(["main"]), "{record}");
        ensure!(
            record["nextContainerImages"].is_null() && record["preCheckBeforeNext"].is_null(),
            "{record}"
        );
        ensure!(
            now.metadata.annotations.as_ref().is_some_and(|all| all["unread"] == "by anybody"),
            "an annotation nobody reads was not set"
        );
        Ok(())
    })
    .await
}

/// A container with a postStart hook is waited for until the kubelet says that it is Ready: what comes next
/// is stopped in a later second than that of the hook's end, as a status has them.
#[tokio::test]
async fn update_waits_for_a_hook() -> Result<()> {
    run_updating("update_waits_for_a_hook", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            let hook = json!({ "postStart": { "exec": { "command": ["sleep", "2"] } } });
            pod.container(container(evidence, "lower", &[]).priority(1))
                .container(Container::new("upper").priority(5).field("lifecycle", hook))
        })
        .await?;
        let update = Update::new("pod").image("upper", BUSYBOX_NEXT).image("lower", BUSYBOX_NEXT);
        scene.ask("both", &update).await?.succeeded().await?;
        let pod = scene.now().await?;
        let (upper, lower) = (status(&pod, "upper")?, status(&pod, "lower")?);
        let running = upper.state.as_ref().and_then(|state| state.running.as_ref());
        let ended = lower.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        let ended = ended.and_then(|ended| ended.finished_at.as_ref()).map(|ended| ended.0.as_second());
        // The kubelet's garbage collection may have taken the instance, and its status with it.
        let ended =
            ended.map_or_else(|| scene.evidence.ended_at("lower").map(|ns| ns / 1_000_000_000), Ok)?;
        let began = running.and_then(|running| running.started_at.as_ref()).context("upper does not run")?;
        ensure!(ended > began.0.as_second() + 2, "{began:?} {ended:?}");
        Ok(())
    })
    .await
}

/// Three levels by env alone, two containers on one of them.
#[tokio::test]
async fn update_three_levels_by_env() -> Result<()> {
    run_updating("update_three_levels_by_env", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            let of = |name: &str, key: &str, priority: i64| {
                let path = format!("metadata.annotations['{key}']");
                container(evidence, name, &[("VALUE", path.as_str())]).priority(priority)
            };
            pod.annotation("low", "1")
                .container(of("low", "low", 0))
                .container(of("high", "high", 9))
                .container(of("middle-a", "middle-a", 4))
                .container(of("middle-b", "middle-b", 4))
        })
        .await?;
        let names = ["low", "high", "middle-a", "middle-b"];
        let update =
            names.into_iter().fold(Update::new("pod"), |update, name| update.annotation(name, "new value"));
        scene.ask("all", &update).await?.succeeded().await?;
        for name in names {
            ensure!(scene.restarts(name).await? == 1, "{name} was restarted more than once");
            ensure!(scene.env(name, "VALUE").await? == "new value", "{name} has the old value");
        }
        for (higher, lower) in
            [("high", "middle-a"), ("high", "middle-b"), ("middle-a", "low"), ("middle-b", "low")]
        {
            scene.in_order(higher, lower).await?;
        }
        let record = annotation(&scene.now().await?, STATE)?;
        let batches: Vec<_> = record["containerBatchesRecord"]
            .as_array()
            .context("no batches")?
            .iter()
            .map(|batch| batch["containers"].clone())
            .collect();
        ensure!(batches == [json!(["high"]), json!(["middle-a", "middle-b"]), json!(["low"])], "{batches:?}");
        Ok(())
    })
    .await
}

/// No priorities: one batch. One of the containers gets the same image under another name, and its env has
/// what env can have.
#[tokio::test]
async fn update_unordered_same_digest_and_odd_values() -> Result<()> {
    run_updating("update_unordered_same_digest_and_odd_values", async |case: &Case| {
        const SAME: &str = "berth.test/busybox:same";
        const ODD: &str = "  two\nlines = and \t blanks, übergröße 漢字 $(HOME) <&> ";
        case.node.containerd().ctr(&["images", "tag", "--force", BUSYBOX, SAME]).await?;
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            pod.container(container(evidence, "a", &[])).container(container(
                evidence,
                "b",
                &[("VALUE", "metadata.annotations['value']")],
            ))
        })
        .await?;
        let asked = scene.ask("same", &Update::new("pod").image("a", SAME).annotation("value", ODD)).await?;
        asked.succeeded().await?;
        for name in ["a", "b"] {
            ensure!(scene.restarts(name).await? == 1, "{name} was restarted more than once");
        }
        ensure!(scene.env("b", "VALUE").await? == ODD, "{:?}", scene.env("b", "VALUE").await?);
        let record = annotation(&scene.now().await?, STATE)?;
        ensure!(record["containerBatchesRecord"].as_array().is_some_and(|all| all.len() == 1), "{record}");
        // The same again is done already.
        let again = scene.ask("again", &Update::new("pod").image("a", SAME).annotation("value", ODD)).await?;
        again.succeeded().await?;
        ensure!(scene.restarts("a").await? == 1 && scene.restarts("b").await? == 1, "restarted for nothing");
        Ok(())
    })
    .await
}

/// Five times in a row: the last is done as the first was, without a back-off of the kubelet.
#[tokio::test]
async fn update_in_a_row() -> Result<()> {
    run_updating("update_in_a_row", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            pod.container(container(evidence, "a", &[("VALUE", "metadata.annotations['value']")]))
        })
        .await?;
        for round in 1..=5 {
            let new = if round % 2 == 1 { BUSYBOX_NEXT } else { BUSYBOX };
            scene
                .ask(&format!("image-{round}"), &Update::new("pod").image("a", new))
                .await?
                .succeeded()
                .await?;
            down(&scene).await.with_context(|| format!("image, round {round}"))?;
        }
        for round in 1..=5 {
            let value = format!("value {round}");
            let update = Update::new("pod").annotation("value", &value);
            scene.ask(&format!("env-{round}"), &update).await?.succeeded().await?;
            ensure!(scene.env("a", "VALUE").await? == value, "old env");
            down(&scene).await.with_context(|| format!("env, round {round}"))?;
        }
        ensure!(scene.restarts("a").await? == 10, "{} restarts", scene.restarts("a").await?);
        Ok(())
    })
    .await
}

/// Measured by `berth-bench update`; here only: no back-off, which would be 10 s for the second restart, and
/// twice as long for each that follows.
async fn down(scene: &Scene<'_>) -> Result<()> {
    let (ended, now) = (scene.evidence.ended_at("a")?, scene.running("a").await?);
    let down = Duration::from_nanos(u64::try_from(now.started_at - ended)?);
    ensure!(down < Duration::from_secs(30), "down for {down:?}");
    Ok(())
}
