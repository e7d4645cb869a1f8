//! The example that users are shown, and two probes in one container.

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::{PodProbe, ProbeState};
use berth_tests::manifest::Container;
use berth_tests::markers::{Marker, says};
use berth_tests::node::images::BUSYBOX;
use berth_tests::node::{NODE_NAME, deploy};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::{Stage, exec, label, run};
use crate::case::PATIENCE;

const SAMPLE: &str = "samples/probe-marker.yaml";
const NAME: &str = "game-server";
const IDLE: &str = "game.kruise.io/idle";
const LABEL: &str = "gameserver-idle";
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Status and message of the condition, and the values of label and annotation.
type Marks<'p> = (Option<(&'p str, &'p str)>, Option<&'p str>, Option<&'p str>);

fn marks(pod: &Pod) -> Marks<'_> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let idle = conditions.into_iter().find(|condition| condition.type_ == IDLE);
    let cost = pod.metadata.annotations.as_ref().and_then(|all| all.get(COST));
    let says = idle.map(|idle| (idle.status.as_str(), idle.message.as_deref().unwrap_or_default()));
    (says, label(pod, LABEL), cost.map(String::as_str))
}

/// As in the file, but for the image, and for a period that nobody has to wait for.
async fn apply_sample(stage: &Stage<'_>) -> Result<()> {
    for mut object in deploy::objects(SAMPLE)? {
        object.metadata.namespace = Some(stage.case.namespace.clone());
        ensure!(object.name_any() == NAME, "{SAMPLE} has another object");
        match object.types.as_ref().map(|types| types.kind.as_str()) {
            Some("Pod") => object.data["spec"]["containers"][0]["image"] = BUSYBOX.into(),
            Some("PodProbeMarker") => object.data["spec"]["probes"][0]["probe"]["periodSeconds"] = 1.into(),
            kind => bail!("{SAMPLE} has a {kind:?}"),
        }
        deploy::apply_object(&stage.client, &object).await?;
    }
    Ok(())
}

/// The entry of the pod in `spec.podProbes`.
async fn listed(stage: &Stage<'_>) -> Result<Option<PodProbe>> {
    let pod = stage.case.pods.get(NAME).await?;
    let mut all = stage.objects.get(NODE_NAME).await?.spec.pod_probes.into_iter();
    Ok(all.find(|entry| Some(&entry.uid) == pod.metadata.uid.as_ref()))
}

#[tokio::test]
async fn a_game_server_says_that_it_is_idle() -> Result<()> {
    run("a_game_server_says_that_it_is_idle", async |stage: &Stage| {
        apply_sample(stage).await?;
        stage.case.await_ready(NAME).await?;
        for idle in [false, true, false, true] {
            // Busy is what it is to begin with.
            if idle {
                stage.case.inside(NAME, "game", "touch /tmp/idle").await?;
            } else {
                stage.case.inside(NAME, "game", "rm -f /tmp/idle").await?;
            }
            let (status, value, cost) = if idle { ("True", "true", "-10") } else { ("False", "false", "10") };
            let says = |pod: &Pod| {
                let found = marks(pod);
                let expected = found.0.is_some_and(|(found, _)| found == status)
                    && (found.1, found.2) == (Some(value), Some(cost));
                ensure!(expected, "{found:?}");
                Ok(())
            };
            stage.case.await_pod(NAME, &format!("idle is {idle}"), says).await?;
        }
        await_condition("it is told beside the pod", PATIENCE, async || {
            let told = stage.told(NAME).await?;
            let [one] = &told[..] else { bail!("{told:?}") };
            ensure!(one.name == "game-server#idle" && one.state == ProbeState::Succeeded, "{one:?}");
            ensure!(one.last_probe_time.is_some() && one.last_transition_time.is_some(), "{one:?}");
            Ok(())
        })
        .await?;
        await_condition("clients of OpenKruise find it in the spec", PATIENCE, async || {
            let listed = listed(stage).await?;
            let Some([one]) = listed.as_ref().map(|pod| &pod.probes[..]) else { bail!("{listed:?}") };
            ensure!((&*one.name, &*one.container_name) == ("game-server#idle", "game"), "{one:?}");
            ensure!(one.probe.exec.is_some() && one.marker_policy.is_empty(), "{one:?}");
            Ok(())
        })
        .await?;

        stage.unmark(NAME).await?;
        await_condition("it is taken out of the spec", PATIENCE, async || {
            let listed = listed(stage).await?;
            ensure!(listed.is_none(), "{listed:?}");
            Ok(())
        })
        .await?;
        let pod = stage
            .case
            .await_pod(NAME, "has no marks any more", |pod| {
                let found = marks(pod);
                ensure!(found.1.is_none() && found.2.is_none(), "{found:?}");
                ensure!(found.0.is_some_and(|(status, _)| status == "Unknown"), "{found:?}");
                Ok(())
            })
            .await?;
        let (_, message) = marks(&pod).0.context("no condition")?;
        ensure!(message == "no probe asks for this condition any more", "{message:?}");
        ensure!(label(&pod, "app") == Some(NAME), "a label of the user's is gone: {:?}", pod.metadata.labels);
        stage.await_untold(NAME).await
    })
    .await
}

/// Each has its own outcome, beside the other, in one container or in two.
#[tokio::test]
async fn probes_do_not_mix() -> Result<()> {
    run("probes_do_not_mix", async |stage: &Stage| {
        let manifest =
            stage.manifest("pod").container(Container::new("one")).container(Container::new("two"));
        stage.case.create(&manifest).await?;
        let marker = Marker::new("two", "pod")
            .probe("a", "one", exec("echo a; test -f /tmp/a"))
            .label("a")
            .probe("b", "one", exec("echo b; test -f /tmp/b"))
            .label("b");
        stage.mark(&marker).await?;
        // Another marker may have a probe of the same name.
        let other = Marker::new("other", "pod").probe("c", "two", exec("echo c; test -f /tmp/a")).label("c");
        stage.mark(&other).await?;
        stage.case.await_ready("pod").await?;
        for (container, script, expected) in [
            ("one", "touch /tmp/a", [("a", "True"), ("b", "False"), ("c", "False")]),
            ("one", "rm /tmp/a; touch /tmp/b", [("a", "False"), ("b", "True"), ("c", "False")]),
            ("two", "touch /tmp/a", [("a", "False"), ("b", "True"), ("c", "True")]),
        ] {
            stage.case.inside("pod", container, script).await?;
            let as_expected = |pod: &Pod| {
                for (probe, status) in expected {
                    says(pod, probe, status, probe)?;
                    let value = label(pod, probe).context("no label")?;
                    ensure!(value == status.to_ascii_lowercase(), "label {probe} is {value}");
                }
                Ok(())
            };
            stage.case.await_pod("pod", &format!("{expected:?}"), as_expected).await?;
        }
        await_condition("all three are told", PATIENCE, async || {
            let told = stage.told("pod").await?;
            let mut states: Vec<_> = told.iter().map(|one| (one.name.as_str(), one.state)).collect();
            states.sort_by_key(|(name, _)| *name);
            let expected = [
                ("other#c", ProbeState::Succeeded),
                ("two#a", ProbeState::Failed),
                ("two#b", ProbeState::Succeeded),
            ];
            ensure!(states == expected, "{states:?}");
            Ok(())
        })
        .await
    })
    .await
}
