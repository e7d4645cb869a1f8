//! The metrics of an agent at an address that is not loopback: for who may read them, as the API server says.

use anyhow::{Context, Result, anyhow, bail, ensure};
use berth_tests::node::deploy;
use berth_tests::wait::{Hopeless, await_condition};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::config::AuthInfo;
use kube::{Client, Config};
use serde_json::json;

use crate::case::{Case, PATIENCE, run};

const READER: &str = "berth-metrics-reader";

/// A GET of the page with this token: the page, or the status.
async fn scrape(case: &Case, token: Option<&str>) -> Result<Result<String, u16>> {
    let address = case.node.berthd()?.metrics_address();
    let mut config = Config::new(format!("https://{address}").parse()?);
    config.accept_invalid_certs = true;
    config.auth_info = AuthInfo { token: token.map(|token| token.to_owned().into()), ..AuthInfo::default() };
    let request = http::Request::get("/metrics").body(Vec::new())?;
    match Client::try_from(config)?.request_text(request).await {
        Ok(page) => Ok(Ok(page)),
        Err(kube::Error::Api(status)) => Ok(Err(status.code)),
        Err(error) => Err(error.into()),
    }
}

#[tokio::test]
async fn metrics_are_for_who_may_read_them() -> Result<()> {
    run("metrics_are_for_who_may_read_them", async |case: &Case| {
        let client = case.node.client().await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &case.namespace);
        let account = serde_json::from_value(json!({ "metadata": { "name": "scraper" } }))?;
        accounts.create(&PostParams::default(), &account).await?;
        let token = accounts
            .create_token_request("scraper", &PostParams::default(), &TokenRequest::default())
            .await?;
        let token = token.status.context("a token without a status")?.token;
        for (token, status) in [(None, 401), (Some("made-up"), 401), (Some(token.as_str()), 403)] {
            // berthd may not listen there yet, nor have the API server's word in time.
            await_condition(format!("a scraper is told {status}"), PATIENCE, async || {
                match scrape(case, token).await? {
                    Err(told) if told == status => Ok(()),
                    Err(told) => bail!("it is told {told}"),
                    Ok(page) => Err(Hopeless(format!("it is given the page: {page}")).into()),
                }
            })
            .await?;
        }

        // As deploy/agent-metrics has it.
        let roles: Api<ClusterRole> = Api::all(client.clone());
        let role = deploy::objects("agent-metrics/rbac.yaml")?
            .into_iter()
            .find(|object| object.metadata.name.as_deref() == Some(READER))
            .context("no role for scrapers")?;
        roles.patch(READER, &PatchParams::apply("kubectl"), &Patch::Apply(&role)).await?;
        let bindings: Api<ClusterRoleBinding> = Api::all(client);
        let binding = serde_json::from_value(json!({
            "metadata": { "name": READER },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": READER },
            "subjects": [{ "kind": "ServiceAccount", "name": "scraper", "namespace": case.namespace }],
        }))?;
        bindings.create(&PostParams::default(), &binding).await?;
        // A no counts for half a minute.
        let page = await_condition("the scraper reads", PATIENCE, async || {
            scrape(case, Some(&token)).await?.map_err(|status| anyhow!("{status}"))
        })
        .await;
        bindings.delete(READER, &DeleteParams::default()).await?;
        let page = page?;
        for metric in
            ["berth_agent_build_info{version=", "berth_agent_path{path=\"inline\"} 1", "berth_shim_calls"]
        {
            ensure!(page.contains(metric), "no {metric} in {page}");
        }
        let feature = "berth_agent_feature{feature=\"recreate\"} 1";
        ensure!(page.contains(feature), "no {feature}");
        Ok(())
    })
    .await
}
