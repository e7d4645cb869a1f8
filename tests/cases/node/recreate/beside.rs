//! Path `beside`: the kubelet speaks to containerd itself, and the agent runs the hook and stops the
//! container.
//!
//! What differs from the common node is only who stops: every kind of hook, its limit, and what cannot be
//! done from there.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::recreate::{Ask, Evidence};
use serde_json::{Value, json};

use super::{PATIENCE, Scene};
use crate::case::{Case, run_beside};

/// Time that a second hook would take: two containers that are stopped one after the other end that far
/// apart.
const HOOK: Duration = Duration::from_secs(2);

fn lifecycle(container: Container, pre_stop: Value) -> Container {
    container.field("lifecycle", json!({ "preStop": pre_stop }))
}

/// Notes each call on a port as a hook of `a`, by whatever serves the port.
fn listener(evidence: &Evidence, port: u16, serve: &str) -> Container {
    let note =
        "printf '#!/bin/sh\\necho hook >> /evidence/a\\necho; echo noted\\n' > /tmp/note; chmod +x /tmp/note";
    evidence
        .container("web", "")
        .shell(&format!("{note}\n{serve} &"))
        .ready_when(&format!("netstat -ltn | grep -q :{port}"))
}

/// Recreates `a`, whose hook is noted that often, and takes it for granted that its neighbours stay.
async fn recreate_a(scene: &Scene<'_>, hooks: usize) -> Result<()> {
    let before = scene.running("a").await?;
    let asked = scene.ask("again", &Ask::new("pod", &["a"])).await?;
    asked.succeeded(PATIENCE).await?;
    scene.replaced_once("a", &before, hooks).await?;
    ensure!(scene.evidence.count("a", "term")? == 1, "it was not told to end once");
    Ok(())
}

#[tokio::test]
async fn beside_exec() -> Result<()> {
    run_beside("beside_exec", async |case: &Case| {
        let scene =
            Scene::begin(case, "pod", |pod, evidence| pod.container(evidence.container("a", "sleep 1")))
                .await?;
        recreate_a(&scene, 1).await
    })
    .await
}

#[tokio::test]
async fn beside_http_get() -> Result<()> {
    run_beside("beside_http_get", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            let serve =
                "mkdir -p /tmp/www/cgi-bin; cp /tmp/note /tmp/www/cgi-bin; httpd -f -p 8080 -h /tmp/www";
            let hook = json!({ "httpGet": { "path": "/cgi-bin/note", "port": 8080 } });
            pod.container(lifecycle(evidence.container("a", ""), hook))
                .container(listener(evidence, 8080, serve))
        })
        .await?;
        recreate_a(&scene, 1).await
    })
    .await
}

#[tokio::test]
async fn beside_tcp_socket() -> Result<()> {
    run_beside("beside_tcp_socket", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            let hook = json!({ "tcpSocket": { "port": 9000 } });
            pod.container(lifecycle(evidence.container("a", ""), hook)).container(listener(
                evidence,
                9000,
                "nc -ll -p 9000 -e /tmp/note",
            ))
        })
        .await?;
        recreate_a(&scene, 1).await
    })
    .await
}

#[tokio::test]
async fn beside_sleep() -> Result<()> {
    run_beside("beside_sleep", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            let hook = json!({ "sleep": { "seconds": HOOK.as_secs() } });
            pod.container(lifecycle(evidence.container("a", ""), hook))
        })
        .await?;
        let asked_at = SystemTime::now().duration_since(UNIX_EPOCH)?;
        recreate_a(&scene, 0).await?;
        let slept = scene.evidence.ended_at("a")? - i64::try_from(asked_at.as_nanos())?;
        ensure!(slept >= i64::try_from(HOOK.as_nanos())?, "it was stopped after {slept} ns");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn beside_hook_is_cut_at_the_grace() -> Result<()> {
    run_beside("beside_hook_is_cut_at_the_grace", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            pod.container(evidence.container("a", "sleep 600; echo over >> /evidence/a")).grace(3)
        })
        .await?;
        recreate_a(&scene, 1).await?;
        ensure!(scene.evidence.count("a", "over")? == 0, "the hook ran to its end");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn beside_refuses_what_is_not_started_again() -> Result<()> {
    run_beside("beside_refuses_what_is_not_started_again", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            pod.spec("restartPolicy", "Never").container(evidence.container("a", "true"))
        })
        .await?;
        let before = scene.running("a").await?;
        let status =
            scene.ask("never", &Ask::new("pod", &["a"])).await?.failed("ContainerFailed", PATIENCE).await?;
        let said = serde_json::to_string(&status)?;
        ensure!(said.contains("restartPolicy is Never") && said.contains("beside the kubelet"), "{said}");
        ensure!(scene.running("a").await?.id == before.id, "it was stopped");
        for word in ["hook", "term"] {
            ensure!(scene.evidence.count("a", word)? == 0, "it had a {word}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn beside_unordered_stops_one_after_another() -> Result<()> {
    run_beside("beside_unordered_stops_one_after_another", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            let hook = format!("sleep {}", HOOK.as_secs());
            ["a", "b"]
                .map(|name| evidence.container(name, &hook))
                .into_iter()
                .fold(pod, PodManifest::container)
        })
        .await?;
        let before = [scene.running("a").await?, scene.running("b").await?];
        scene.ask("both", &Ask::new("pod", &["a", "b"])).await?.succeeded(PATIENCE).await?;
        let mut ends = Vec::new();
        for before in &before {
            scene.replaced_once(&before.name, before, 1).await?;
            ends.push(scene.evidence.ended_at(&before.name)?);
        }
        let apart = ends[1].saturating_sub(ends[0]);
        ensure!(i128::from(apart) >= i128::try_from(HOOK.as_nanos())?, "b ended {apart} ns after a");
        Ok(())
    })
    .await
}
