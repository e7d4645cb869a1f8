//! Entries of `spec.podProbes`, which OpenKruise's own controllers write. Where the node's configuration
//! accepts them it answers, and the pod is theirs to write; elsewhere it says that it does not.

use anyhow::{Result, bail, ensure};
use berth_proto::crd::ProbeState;
use berth_tests::manifest::Container;
use berth_tests::node::NODE_NAME;
use berth_tests::wait::await_condition;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{Stage, exec, forged::await_condition_of, run_alone};
use crate::case::PATIENCE;

#[tokio::test]
async fn probes_of_openkruise_are_answered() -> Result<()> {
    run_alone("probes_of_openkruise_are_answered", async |stage: &Stage| {
        stage.case.create(&stage.manifest("pod").container(Container::new("main"))).await?;
        let pod = stage.case.await_ready("pod").await?;
        let ask = async |pods: Value| {
            let patch = json!({ "spec": { "podProbes": pods } });
            stage.objects.patch(NODE_NAME, &PatchParams::default(), &Patch::Merge(&patch)).await
        };
        let probe = |name: &str, script: &str| json!({ "name": name, "containerName": "main", "probe": exec(script) });
        ask(json!([{
            "name": "pod", "namespace": stage.case.namespace, "uid": pod.metadata.uid, "IP": "",
            "probes": [probe("m#good", "echo good"), probe("m#bad", "echo bad; false")],
        }]))
        .await?;
        await_condition_of(stage, "SpecAccepted", "False", "probes.acceptSpec: true").await?;
        ensure!(stage.told("pod").await?.is_empty(), "answered without having been accepted");
        stage.case.node.berthd()?.configure("probes:\n  acceptSpec: true\n").await?;
        await_condition_of(stage, "SpecAccepted", "True", "").await?;
        await_condition("both are told", PATIENCE, async || {
            let told = stage.told("pod").await?;
            let [bad, good] = &told[..] else { bail!("{told:?}") };
            let says = (good.state, bad.state, good.message.as_deref(), bad.message.as_deref());
            let expected = (ProbeState::Succeeded, ProbeState::Failed, Some("good"), Some("bad"));
            ensure!(says == expected, "{told:?}");
            Ok(())
        })
        .await?;
        ask(json!([])).await?;
        stage.await_untold("pod").await?;
        let after = stage.case.pods.get("pod").await?;
        ensure!(after.metadata.labels == pod.metadata.labels, "{:?}", after.metadata.labels);
        ensure!(after.metadata.annotations == pod.metadata.annotations, "{:?}", after.metadata.annotations);
        let count = |pod: &k8s_openapi::api::core::v1::Pod| {
            pod.status.iter().flat_map(|status| status.conditions.iter().flatten()).count()
        };
        ensure!(count(&after) == count(&pod), "{:?}", after.status);
        Ok(())
    })
    .await
}
