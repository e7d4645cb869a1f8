//! A stolen credential of the manager: whoever writes a `NodePodProbe` runs no command that no live marker
//! asks for.

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::ProbeState;
use berth_tests::manifest::Container;
use berth_tests::markers::Marker;
use berth_tests::node::NODE_NAME;
use berth_tests::wait::await_condition;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{MANAGER, Stage, exec, run_alone};
use crate::case::PATIENCE;

/// The thief's wish in a pod of somebody else.
const OWN: &str = "touch /tmp/owned";
/// A probe that is asked for, by which time is told.
const TICK: &str = "echo >> /tmp/ticks";

/// The condition of this type.
pub(super) async fn await_condition_of(
    stage: &Stage<'_>,
    kind: &str,
    status: &str,
    words: &str,
) -> Result<Condition> {
    await_condition(format!("{kind} is {status} {words:?}"), PATIENCE, async || {
        let conditions = stage.objects.get(NODE_NAME).await?.status.unwrap_or_default().conditions;
        match conditions.into_iter().find(|condition| condition.type_ == kind) {
            Some(found) if found.status == status && found.message.contains(words) => Ok(found),
            other => bail!("{other:?}"),
        }
    })
    .await
}

/// So many runs of the probe that is asked for, from now on: what is not run by then is not run.
async fn let_time_pass(stage: &Stage<'_>) -> Result<()> {
    stage.case.inside("victim", "main", "rm -f /tmp/ticks").await?;
    await_condition("the other probe runs", PATIENCE, async || {
        stage.case.inside("victim", "main", "test $(wc -l < /tmp/ticks) -ge 4").await
    })
    .await
}

async fn is_owned(stage: &Stage<'_>) -> bool {
    stage.case.inside("victim", "main", "test -e /tmp/owned").await.is_ok()
}

#[tokio::test]
async fn a_node_pod_probe_runs_no_command_of_its_own() -> Result<()> {
    run_alone("a_node_pod_probe_runs_no_command_of_its_own", async |stage: &Stage| {
        stage.case.create(&stage.manifest("victim").container(Container::new("main"))).await?;
        let pod = stage.case.await_ready("victim").await?;
        stage.mark(&Marker::new("clock", "victim").probe("tick", "main", exec(TICK))).await?;
        stage.await_says("victim", "tick", "True", "").await?;
        // It would put its own list in the place of the forged one.
        MANAGER.lock().await.as_ref().context("no manager")?.service().stop()?;
        let probe = |marker: &str, name: &str, script: &str| {
            json!({
                "name": format!("{marker}#{name}"), "containerName": "main", "probe": exec(script),
                "podConditionType": format!("probes.test/{name}"),
            })
        };
        let probes = [probe("clock", "tick", TICK), probe("own", "owned", OWN)];
        let forge = async |probes: &[Value]| {
            let entry = json!({
                "name": "victim", "namespace": stage.case.namespace, "uid": pod.metadata.uid, "IP": "", "probes": probes,
            });
            let patch = json!({ "status": { "desiredPodProbes": [entry] } });
            stage.objects.patch_status(NODE_NAME, &PatchParams::default(), &Patch::Merge(&patch)).await
        };
        forge(&probes).await?;
        await_condition_of(stage, "Verified", "False", "there is no PodProbeMarker").await?;
        let_time_pass(stage).await?;
        ensure!(!is_owned(stage).await, "a command that nobody asks for was run");
        let told = stage.told("victim").await?;
        let own = told.iter().find(|state| state.name == "own#owned").context("nothing is told")?;
        ensure!(own.state == ProbeState::Unknown, "{told:?}");
        let events: Api<Event> = Api::namespaced(stage.client.clone(), &stage.case.namespace);
        await_condition("an Event", PATIENCE, async || {
            let events = events.list(&Default::default()).await?.items;
            let notes: Vec<_> = events.iter().filter_map(|event| event.note.as_deref()).collect();
            let said = notes.iter().any(|note| note.contains("own#owned: the probe is not run: there is no"));
            ensure!(said, "{notes:?}");
            Ok(())
        })
        .await?;
        let metrics = stage.case.node.berthd()?.metrics().await?;
        ensure!(metrics.contains("berth_agent_probe_entries_refused 1"), "not counted");

        // A marker that asks for something else.
        stage.mark(&Marker::new("own", "victim").probe("owned", "main", exec("true"))).await?;
        await_condition_of(stage, "Verified", "False", "asks for another action").await?;
        let_time_pass(stage).await?;
        ensure!(!is_owned(stage).await, "another command than the marker's was run");

        // It is what stood in the way: asked for, the same entry is run.
        stage.mark(&Marker::new("own", "victim").probe("owned", "main", exec(OWN))).await?;
        await_condition_of(stage, "Verified", "True", "").await?;
        await_condition("the command of the marker is run", PATIENCE, async || {
            ensure!(is_owned(stage).await, "not yet");
            Ok(())
        })
        .await?;
        stage.unmark("own").await?;
        await_condition_of(stage, "Verified", "False", "there is no PodProbeMarker").await?;
        stage.case.inside("victim", "main", "rm /tmp/owned").await?;
        let_time_pass(stage).await?;
        ensure!(!is_owned(stage).await, "the command of a marker that is gone was run");
        forge(&[]).await?;
        await_condition_of(stage, "Verified", "True", "").await?;
        // A client that knows no conditions writes the status whole.
        let without = json!({ "status": { "conditions": null } });
        let patched =
            stage.objects.patch_status(NODE_NAME, &PatchParams::default(), &Patch::Merge(&without)).await?;
        let left = patched.status.unwrap_or_default().conditions;
        ensure!(left.is_empty(), "{left:?}");
        await_condition_of(stage, "Verified", "True", "").await?;
        Ok(())
    })
    .await
}
