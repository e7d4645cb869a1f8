//! Berth's kinds on a real API server.

use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt};

use super::deploy;
use crate::wait::{START_UP, await_condition};

/// Applies the kinds, those of the workloads too, and waits until the server serves every one. Doing it twice
/// changes nothing.
pub async fn install(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut all = deploy::apply(client, "crds").await?;
    all.extend(deploy::apply(client, "workloads/crds").await?);
    all.extend(deploy::apply(client, "jobs/crds").await?);
    all.extend(deploy::apply(client, "uniteddeployments/crds").await?);
    all.extend(deploy::apply(client, "distribution/crds").await?);
    for applied in all {
        let name = applied.name_any();
        await_condition(format!("{name} is served"), START_UP, async || {
            is_served(&definitions.get(&name).await?)
        })
        .await?;
    }
    Ok(())
}

/// Accepts a kind that the server serves.
pub fn is_served(definition: &CustomResourceDefinition) -> Result<()> {
    let conditions = definition.status.iter().flat_map(|status| &status.conditions).flatten();
    let mut established = conditions.filter(|condition| condition.type_ == "Established");
    let established = established.next().context("no answer yet")?;
    ensure!(established.status == "True", "{}", established.message.as_deref().unwrap_or_default());
    Ok(())
}
