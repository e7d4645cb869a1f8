//! Admission policies that are not there: the agent notices, whichever identity it has, and says so.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use berth_proto::crd::NodePodProbe;
use berth_tests::node::{User, deploy};
use berth_tests::wait::await_condition;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::api::{Api, DeleteParams, PostParams};

use crate::case::{Case, PATIENCE, run_alone, run_updating_alone};

const POLICY: &str = "berth-node-objects";
/// The agent tries every minute while something is missing; once it may try too early.
const TRIES: Duration = Duration::from_secs(240);

/// Waits until the API server itself goes by the policy, or not any more; tried as a kubelet.
async fn await_refusal(case: &Case, refused: bool) -> Result<()> {
    let kubelet = case.node.api()?.client(User::Node).await?;
    let objects: Api<NodePodProbe> = Api::all(kubelet);
    let params = PostParams { dry_run: true, ..PostParams::default() };
    await_condition(format!("refused: {refused}"), PATIENCE, async || {
        let object = NodePodProbe::new("another-node", Default::default());
        match (objects.create(&params, &object).await, refused) {
            (Ok(_), false) => Ok(()),
            (Err(kube::Error::Api(status)), true) if status.message.contains(POLICY) => Ok(()),
            (outcome, _) => bail!("{outcome:?}"),
        }
    })
    .await
}

/// Waits until the agent says whether the policies hold.
async fn await_said(case: &Case, hold: bool) -> Result<()> {
    let berthd = case.node.berthd()?;
    await_condition(format!("the agent says: {hold}"), TRIES, async || {
        let metrics = berthd.metrics().await?;
        let line = format!("berth_agent_admission_policies_hold {}", u8::from(hold));
        ensure!(metrics.lines().any(|found| found == line), "no {line}");
        let status = berthd.ctl(&["status"]).await?;
        let warned = status.contains("deploy/policies is part of it");
        ensure!(warned != hold, "{status}");
        Ok(())
    })
    .await
}

async fn with_and_without(case: &Case) -> Result<()> {
    let client = case.node.client().await?;
    await_said(case, true).await?;
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    bindings.delete(POLICY, &DeleteParams::default()).await?;
    let noticed = async {
        await_refusal(case, false).await?;
        case.node.berthd()?.crash().await?;
        await_said(case, false).await
    };
    let noticed = noticed.await;
    // The other tests need it.
    deploy::apply(&client, "policies/node-objects.yaml").await?;
    noticed?;
    await_refusal(case, true).await?;
    // Nobody has to start it anew.
    await_said(case, true).await
}

#[tokio::test]
async fn missing_policies_are_noticed_as_kubelet() -> Result<()> {
    run_alone("missing_policies_are_noticed_as_kubelet", with_and_without).await
}

#[tokio::test]
async fn missing_policies_are_noticed_with_a_token() -> Result<()> {
    run_updating_alone("missing_policies_are_noticed_with_a_token", with_and_without).await
}
