//! Events of the manager: one for the end of a request, and none about what is not its business.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use berth_tests::node::Replica;
use berth_tests::wait::await_condition;
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::{Stage, asks_for};
use crate::case::PATIENCE;

const NAMESPACE: &str = "manager-events";

#[tokio::test]
async fn an_end_is_told_once_and_nothing_else() -> Result<()> {
    let stage = Stage::set(NAMESPACE).await?;
    let events: Api<Event> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let told = async || {
        let all = events.list(&ListParams::default()).await?.items;
        let of_request = all.into_iter().filter(|event| {
            let about = event.regarding.as_ref();
            about.is_some_and(|about| about.kind.as_deref() == Some("ContainerRecreateRequest"))
        });
        anyhow::Ok(of_request.collect::<Vec<_>>())
    };
    let manager = stage.manager(Replica::First).await?;
    manager.leads().await?;
    stage.ask("r", asks_for("nowhere", &["a"])).await?;
    stage.await_failed("r").await?;
    let event = await_condition("the end is told", PATIENCE, async || match &told().await?[..] {
        [event] => Ok(event.clone()),
        events => bail!("{events:?}"),
    })
    .await?;
    ensure!(event.type_.as_deref() == Some("Warning"), "{event:?}");
    ensure!(event.reason.as_deref() == Some("RecreateFailed"), "{event:?}");
    let note = event.note.as_deref().unwrap_or_default();
    ensure!(note.starts_with("0 of 1 containers of pod nowhere recreated; PodNotFound: "), "{event:?}");

    // Another one that leads has not seen the request before its end.
    manager.service().stop()?;
    let next = stage.manager(Replica::Second).await?;
    next.leads().await?;
    stage.ask("later", asks_for("nowhere", &["a"])).await?;
    stage.await_failed("later").await?;
    await_condition("the next end is told", PATIENCE, async || {
        ensure!(told().await?.len() == 2, "not yet");
        Ok(())
    })
    .await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    ensure!(told().await?.len() == 2, "told twice: {:?}", told().await?);
    next.service().stop()?;

    let kubeconfig = Kubeconfig::read_from(&stage.kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let thief: Api<Event> = Api::namespaced(Client::try_from(config)?, NAMESPACE);
    let about = |version: &str, kind: &str, author: &str| -> Value {
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": { "generateName": "x-" },
            "regarding": { "apiVersion": version, "kind": kind, "namespace": NAMESPACE, "name": "x" },
            "type": "Warning", "reason": "Evicted", "action": "Evicted", "note": "made up",
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": author, "reportingInstance": "x",
        })
    };
    let params = PostParams { dry_run: true, ..PostParams::default() };
    // The policy may have been made a moment ago.
    await_condition("the policy holds", PATIENCE, async || {
        let event: Event = serde_json::from_value(about("v1", "Pod", "berth-manager"))?;
        ensure!(thief.create(&params, &event).await.is_err(), "not yet");
        Ok(())
    })
    .await?;
    for (version, kind, author, taken) in [
        ("apps.kruise.io/v1alpha1", "ImagePullJob", "berth-manager", true),
        ("berth.dev/v1alpha1", "ContainerUpdateRequest", "berth-manager", true),
        ("v1", "Pod", "berth-manager", false),
        ("v1", "Node", "berth-manager", false),
        ("apps.kruise.io/v1alpha1", "CloneSet", "berth-manager", false),
        ("apps.kruise.io/v1alpha1", "ImagePullJob", "kubelet", false),
    ] {
        let event: Event = serde_json::from_value(about(version, kind, author))?;
        let tried = thief.create(&params, &event).await;
        match tried {
            Ok(_) => ensure!(taken, "an Event of {author} about {kind} was let in"),
            Err(kube::Error::Api(status)) if !taken => {
                ensure!(status.message.contains("the Events of the manager"), "{kind}: {status:?}");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
