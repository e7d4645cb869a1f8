//! `deploy/host`: its pod installs berthd as a service of its node, and the node goes back when that does not
//! work.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use berth_tests::node::tool::run as tool;
use berth_tests::node::{NODE_NAME, SystemdNode, deploy, program_images, programs};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, LogParams, PostParams};
use serde_json::{Value, json};

use super::is_as_before;
use super::pods::Pods;
use crate::case::{PATIENCE, is_ready};

const IMAGE: &str = "berth.test/berthctl:0.1.0";

/// The pod that the DaemonSet makes, with other arguments after those it has.
fn installer(name: &str, args: Value) -> Result<Pod> {
    let objects = deploy::objects("host/installer.yaml")?;
    let mut spec = objects.first().context("no DaemonSet")?.data["spec"]["template"]["spec"].clone();
    spec["nodeName"] = NODE_NAME.into();
    // Nobody has made these here.
    for key in ["priorityClassName", "nodeSelector", "serviceAccountName"] {
        spec.as_object_mut().context("a spec")?.remove(key);
    }
    // Nor the account whose token it is.
    spec["volumes"].as_array_mut().context("volumes")?.retain(|volume| volume["name"] != "token");
    let container = &mut spec["containers"][0];
    (container["image"], container["imagePullPolicy"]) = (IMAGE.into(), "Never".into());
    if !args.is_null() {
        container["args"] = args;
    }
    let pod = json!({ "metadata": { "name": name, "namespace": "default" }, "spec": spec });
    serde_json::from_value(pod).context("a pod")
}

async fn log_of(pods: &Pods, name: &str) -> Result<String> {
    pods.api.logs(name, &LogParams::default()).await.with_context(|| format!("log of {name}"))
}

async fn says(pods: &Pods, name: &str, words: &str) -> Result<()> {
    await_condition(format!("{name} says {words:?}"), PATIENCE, async || {
        let said = log_of(pods, name).await?;
        ensure!(said.contains(words), "{said}");
        Ok(())
    })
    .await
}

async fn becomes_ready(pods: &Pods, name: &str) -> Result<()> {
    let ready =
        await_condition(format!("{name} is Ready"), PATIENCE, async || is_ready(&pods.api.get(name).await?));
    match ready.await {
        Err(error) => Err(error.context(log_of(pods, name).await.unwrap_or_default())),
        ready => ready,
    }
}

#[tokio::test]
async fn installed_from_a_pod() -> Result<()> {
    let node = super::node().await?;
    let [berthctl, berthd, shim] =
        [programs::berth("berthctl")?, programs::berth("berthd")?, programs::berth("berth-shim")?];
    let archive = program_images::archive(node.systemd().of(), &[&*berthctl, &*berthd, &*shim]).await?;
    node.import(&archive).await?;
    let pods = Pods::of(&node).await?;
    let web = pods.plain("web").await?;

    // A program that is no berthd: it does not serve, and everything is put back by itself.
    let release = node.systemd().path("/usr/local/bin/berthd");
    std::fs::write(&release, "#!/bin/sh\nexit 1\n").context("a broken berthd")?;
    let create = async |pod: Pod| pods.api.create(&PostParams::default(), &pod).await.context("create a pod");
    create(installer("broken", json!(["install", "--on-node", "--stay", "--timeout=20s"]))?).await?;
    says(&pods, "broken", "failed; this pod stays").await?;
    let said = log_of(&pods, "broken").await?;
    ensure!(said.contains("everything is as it was before"), "{said}");
    ensure!(is_ready(&pods.api.get("broken").await?).is_err(), "Ready without a berthd");
    std::fs::remove_file(&release).context("the broken berthd")?;
    is_as_before(&node).await?;
    pods.untouched("web", &web).await?;
    pods.api.delete("broken", &DeleteParams::default()).await?;

    create(installer("installer", Value::Null)?).await?;
    becomes_ready(&pods, "installer").await?;
    says(&pods, "installer", "done; this pod stays").await?;
    pods.untouched("web", &web).await?;
    pods.ordered("ordered").await?;

    // The service has nothing to do with the pod.
    pods.api.delete("installer", &DeleteParams::default()).await?;
    pods.gone("installer").await?;
    pods.ordered("without-the-pod").await?;

    replaced_from_a_pod(&node, &pods, [&berthctl, &berthd, &shim]).await?;
    pods.untouched("web", &web).await?;

    create(installer("remover", json!(["uninstall", "--on-node", "--stay", "--purge"]))?).await?;
    says(&pods, "remover", "done; this pod stays").await?;
    is_as_before(&node).await?;
    pods.untouched("web", &web).await?;
    node.down()
}

/// A new image brings a new program: what is none is not taken, and what is one is handed over to.
async fn replaced_from_a_pod(node: &SystemdNode, pods: &Pods, programs: [&Path; 3]) -> Result<()> {
    let [berthctl, berthd, shim] = programs;
    let (run, systemd) = (node.systemd().of(), node.systemd());
    let main = async || systemd.property("berthd.service", "MainPID").await;
    let kubelet = systemd.property("kubelet.service", "MainPID").await?;
    let installed = systemd.path("/usr/local/bin/berthd");
    let (first, old) = (std::fs::read(&installed).context("berthd")?, main().await?);
    let create = async |name: &str, program: &Path| {
        node.import(&program_images::archive(run, &[berthctl, program, shim]).await?).await?;
        let pod = installer(name, Value::Null)?;
        pods.api.create(&PostParams::default(), &pod).await.context("create a pod")
    };

    let none = run.make_dir("no-berthd")?.join("berthd");
    std::fs::copy(berthctl, &none).context("another program")?;
    create("no-berthd", &none).await?;
    says(pods, "no-berthd", "failed; this pod stays").await?;
    let said = log_of(pods, "no-berthd").await?;
    ensure!(said.contains("not upgraded, nothing was changed"), "{said}");
    ensure!(is_ready(&pods.api.get("no-berthd").await?).is_err(), "Ready without the new berthd");
    ensure!(std::fs::read(&installed)? == first && main().await? == old, "berthd was replaced");
    pods.api.delete("no-berthd", &DeleteParams::default()).await?;

    let next = run.make_dir("next-berthd")?.join("berthd");
    let (note, next_berthd) =
        (format!(".release={}/Cargo.toml", env!("CARGO_MANIFEST_DIR")), next.display().to_string());
    tool("objcopy", &["--add-section", &note, &berthd.display().to_string(), &next_berthd]).await?;
    create("upgrader", &next).await?;
    becomes_ready(pods, "upgrader").await?;
    ensure!(std::fs::read(&installed)? != first, "berthd is the old one");
    ensure!(main().await? != old, "the old berthd serves");
    ensure!(systemd.property("kubelet.service", "MainPID").await? == kubelet, "the kubelet was restarted");
    ensure!(!systemd.path("/var/lib/berth/berthd.before").exists(), "the old berthd is left");
    pods.ordered("after-the-upgrade").await?;
    pods.api.delete("upgrader", &DeleteParams::default()).await?;
    pods.gone("upgrader").await
}
