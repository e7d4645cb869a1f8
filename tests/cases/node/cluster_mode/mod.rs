//! The agent's side towards a real API server: which requests it is given, what it writes, and as whom.

mod side;
mod token;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_policy::{
    ContainerPhase, Outcome, PodEffect, PodRef, RecreateReport, RequestEffect, RequestPhase, StepOutcome,
};
use berth_proto::crd::{ContainerRecreateRequest, RecreatePhase};
use berth_tests::manifest::Container;
use berth_tests::node::{NODE_NAME, User};
use berth_tests::wait::await_condition;
use berthd::cluster::identity::Who;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use self::side::{Side, assigned, context_of_a, install, namespaced, progress};
use crate::case::{Case, PATIENCE, is_ready, run, run_alone};

/// Lets the test be the only agent: the real one would answer the same requests and write to the same pods.
async fn without_agent(case: &Case, test: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    let berthd = case.node.berthd()?;
    berthd.service().stop()?;
    let outcome = test().await;
    berthd.service().start()?;
    berthd.ready().await?;
    outcome
}

/// The agent itself: it finds the kind although it was not there at its start, and ends a request it cannot
/// carry out.
#[tokio::test]
async fn request_that_cannot_be_carried_out_is_refused() -> Result<()> {
    run("request_that_cannot_be_carried_out_is_refused", async |case: &Case| {
        let client = case.node.client().await?;
        install(&client).await?;
        let requests: Api<ContainerRecreateRequest> = namespaced(case, &client);
        assigned(
            &requests,
            "bad",
            json!([{ "name": "b", "containerID": "containerd://abc", "restartCount": 0 }]),
        )
        .await?;
        let request = await_condition("the request is refused", PATIENCE, async || {
            let request = requests.get("bad").await?;
            let phase = request.status.as_ref().and_then(|status| status.phase);
            ensure!(phase == Some(RecreatePhase::Completed), "{:?}", request.status);
            Ok(request)
        })
        .await?;
        let status = request.status.context("status")?;
        let message = status.message.context("no message")?;
        ensure!(message.contains("no container a") && message.contains("make a new request"), "{message}");
        ensure!(status.completion_time.is_some(), "no completionTime");
        ensure!(
            status.container_recreate_states[0].phase == RecreatePhase::Failed,
            "{:?}",
            status.container_recreate_states
        );
        let [failed] = &status.conditions[..] else { anyhow::bail!("{:?}", status.conditions) };
        ensure!(
            (failed.type_.as_str(), failed.reason.as_str()) == ("Failed", "InvalidRequest"),
            "{failed:?}"
        );
        // The manager's part stays the manager's.
        ensure!(status.node_name.as_deref() == Some(NODE_NAME), "{:?}", status.node_name);
        ensure!(status.container_status_contexts.len() == 1, "{:?}", status.container_status_contexts);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn reports_are_written_by_the_kubelets_identity() -> Result<()> {
    run_alone("reports_are_written_by_the_kubelets_identity", async |case: &Case| {
        without_agent(case, async || written_by_the_kubelets_identity(case).await).await
    })
    .await
}

async fn written_by_the_kubelets_identity(case: &Case) -> Result<()> {
    let client = case.node.client().await?;
    install(&client).await?;
    let requests: Api<ContainerRecreateRequest> = namespaced(case, &client);
    let request = assigned(&requests, "again", context_of_a()).await?;
    let id = berth_policy::RequestId::from(request.uid().context("uid")?);
    let side = Side::start(case.node, User::Node, "")?;
    side.follows().await?;
    let (requests_of_node, registry) = side.stop_watching();
    let report = async |report: &RecreateReport| {
        requests_of_node.change(&id, &RequestEffect::Report(report.clone())).await
    };
    let status = async || anyhow::Ok(requests.get("again").await?.status.context("status")?);

    let begun =
        RecreateReport { unready: true, ..progress(RequestPhase::Recreating, ContainerPhase::Recreating) };
    ensure!(report(&begun).await == StepOutcome::Done, "not written");
    let first = status().await?;
    ensure!(
        first.phase == Some(RecreatePhase::Recreating) && first.container_recreate_states[0].is_killed,
        "{first:?}"
    );
    let grace = first.conditions[0].clone();
    ensure!(grace.type_ == "PreRecreateGrace", "{grace:?}");
    ensure!(report(&begun).await == StepOutcome::Done, "the same again");
    let mut encoded = String::new();
    prometheus_client::encoding::text::encode(&mut encoded, &registry)?;
    let writes = "berth_agent_api_writes_total{write=\"report\",outcome=\"done\"} 1";
    ensure!(encoded.contains(writes), "the same was written twice:\n{encoded}");

    // Somebody labels it meanwhile: another version, and no reason to give up.
    let label = json!({ "metadata": { "labels": { "seen": "yes" } } });
    requests.patch("again", &PatchParams::default(), &Patch::Merge(label)).await?;
    let done = RecreateReport {
        outcome: Some(Outcome::Complete),
        unready: true,
        ..progress(RequestPhase::Completed, ContainerPhase::Succeeded)
    };
    tokio::time::sleep(Duration::from_millis(1100)).await;
    ensure!(report(&done).await == StepOutcome::Done, "not written after a conflict");
    let last = status().await?;
    ensure!(last.phase == Some(RecreatePhase::Completed) && last.completion_time.is_some(), "{last:?}");
    ensure!(last.conditions.contains(&grace), "the time of {grace:?} moved: {:?}", last.conditions);
    ensure!(
        last.node_name.as_deref() == Some(NODE_NAME) && last.container_status_contexts.len() == 1,
        "{last:?}"
    );

    ensure!(requests_of_node.change(&id, &RequestEffect::Delete).await == StepOutcome::Done, "not deleted");
    ensure!(requests.get_opt("again").await?.is_none(), "it is still there");
    // A new one of that name is another one.
    assigned(&requests, "again", context_of_a()).await?;
    ensure!(
        requests_of_node.change(&id, &RequestEffect::Delete).await == StepOutcome::Gone,
        "another request was deleted"
    );
    ensure!(requests.get_opt("again").await?.is_some(), "another request was deleted");
    ensure!(report(&begun).await == StepOutcome::Gone, "another request was written to");
    Ok(())
}

/// The node was away so long that the manager gave up: that is not taken back.
#[tokio::test]
async fn what_the_manager_ended_stays_ended() -> Result<()> {
    run_alone("what_the_manager_ended_stays_ended", async |case: &Case| {
        without_agent(case, async || ended_by_the_manager(case).await).await
    })
    .await
}

async fn ended_by_the_manager(case: &Case) -> Result<()> {
    let client = case.node.client().await?;
    install(&client).await?;
    let requests: Api<ContainerRecreateRequest> = namespaced(case, &client);
    let request = assigned(&requests, "late", context_of_a()).await?;
    let id = berth_policy::RequestId::from(request.uid().context("uid")?);
    let side = Side::start(case.node, User::Node, "")?;
    side.follows().await?;
    let (requests_of_node, _) = side.stop_watching();
    let ended = json!({ "status": { "phase": "Completed", "completionTime": "2026-01-01T00:00:00Z", "message": "no agent" } });
    requests.patch_status("late", &PatchParams::default(), &Patch::Merge(ended)).await?;
    for report in [
        progress(RequestPhase::Recreating, ContainerPhase::Recreating),
        RecreateReport {
            outcome: Some(Outcome::Complete),
            ..progress(RequestPhase::Completed, ContainerPhase::Succeeded)
        },
    ] {
        let outcome = requests_of_node.change(&id, &RequestEffect::Report(report)).await;
        ensure!(outcome == StepOutcome::Gone, "{outcome:?}");
    }
    let status = requests.get("late").await?.status.context("status")?;
    ensure!(status.message.as_deref() == Some("no agent"), "{status:?}");
    ensure!(status.container_recreate_states.is_empty(), "{status:?}");
    Ok(())
}

fn gate(pod: &Pod) -> Result<&PodCondition> {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .find(|found| found.type_ == "KruisePodReady")
        .context("no KruisePodReady")
}

#[tokio::test]
async fn readiness_has_several_writers() -> Result<()> {
    run_alone("readiness_has_several_writers", async |case: &Case| {
        let manifest = case
            .manifest("pod")
            .spec("readinessGates", json!([{ "conditionType": "KruisePodReady" }]))
            .container(Container::new("a"));
        case.create(&manifest).await?;
        // Nobody but the agent opens the gate.
        let pod = case.await_ready("pod").await?;
        without_agent(case, async || several_writers(case, pod).await).await
    })
    .await
}

async fn several_writers(case: &Case, pod: Pod) -> Result<()> {
    let set = |status: &str, entries: Value| {
        json!({ "status": { "conditions": [{
                "type": "KruisePodReady", "status": status, "message": entries.to_string(),
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }] } })
    };
    let theirs = json!({ "userAgent": "Lifecycle", "key": "preDeleteHook" });
    let merge =
        async |patch| case.pods.patch_status("pod", &PatchParams::default(), &Patch::Strategic(patch)).await;
    let pod = PodRef {
        uid: pod.uid().context("uid")?.into(),
        namespace: case.namespace.clone(),
        name: "pod".to_owned(),
    };
    // Two agents, so that nothing but the API server can keep them apart.
    let sides = [Side::start(case.node, User::Node, "")?, Side::start(case.node, User::Node, "")?];
    let key = |number: usize| format!("shop/r{number}");
    let all = async |hold: bool| {
        let steps = (0..4).map(|number| {
            let (pod, key) = (pod.clone(), key(number));
            let effect = if hold { PodEffect::HoldUnready(key) } else { PodEffect::ReleaseUnready(key) };
            let requests_of_node = &sides[number % 2].requests;
            async move { requests_of_node.change_pod(&pod, &effect).await }
        });
        futures::future::join_all(steps).await
    };
    // One that loses four times in a row is tried again, as the policy does it.
    let until_done = async |hold: bool| {
        await_condition("all of them wrote", PATIENCE, async || {
            let outcomes = all(hold).await;
            ensure!(outcomes.iter().all(|outcome| *outcome == StepOutcome::Done), "{outcomes:?}");
            Ok(())
        })
        .await
    };
    until_done(true).await?;
    // A kubelet that has not seen the gate yet may write once more that the pod is Ready.
    let found = case
        .await_pod("pod", "not Ready", |pod| {
            ensure!(is_ready(pod).is_err(), "{:?}", pod.status);
            Ok(())
        })
        .await?;
    let entries: Value = serde_json::from_str(gate(&found)?.message.as_deref().unwrap_or(""))?;
    let ours = |number| json!({ "userAgent": "ContainerRecreateRequest", "key": key(number) });
    ensure!(entries == json!([ours(0), ours(1), ours(2), ours(3)]), "{entries}");
    ensure!(gate(&found)?.status == "False", "{:?}", found.status);

    merge(set("False", json!([ours(0), ours(1), ours(2), ours(3), theirs]))).await?;
    until_done(false).await?;
    let found = case.pods.get("pod").await?;
    ensure!(gate(&found)?.status == "False", "{:?}", gate(&found)?);
    let entries: Value = serde_json::from_str(gate(&found)?.message.as_deref().unwrap_or(""))?;
    ensure!(entries == json!([theirs]), "{entries}");
    merge(set("False", json!([ours(0)]))).await?;
    until_done(false).await?;
    let found = case.await_ready("pod").await?;
    ensure!(gate(&found)?.message.as_deref() == Some("[]"), "{:?}", gate(&found)?);

    let other = PodRef { uid: "another".into(), ..pod.clone() };
    let outcome = sides[0].requests.change_pod(&other, &PodEffect::HoldUnready(key(0))).await;
    ensure!(outcome == StepOutcome::Gone, "{outcome:?}");
    let gone = PodRef { name: "none".to_owned(), ..pod };
    let outcome = sides[0].requests.change_pod(&gone, &PodEffect::HoldUnready(key(0))).await;
    ensure!(outcome == StepOutcome::Gone, "{outcome:?}");
    Ok(())
}

#[tokio::test]
async fn the_kubelets_identity_and_its_features() -> Result<()> {
    run("the_kubelets_identity_and_its_features", async |case: &Case| {
        let side = Side::start(case.node, User::Node, "")?;
        let identity = side.identity().await?;
        ensure!(identity.who == Who::Kubelet && identity.warning.is_none(), "{identity:?}");
        let off: Vec<_> = identity
            .features
            .iter()
            .filter(|feature| feature.off.is_some())
            .map(|feature| feature.name)
            .collect();
        ensure!(off == ["in-place updates", "probe markers"], "{identity:?}");
        Ok(())
    })
    .await
}
