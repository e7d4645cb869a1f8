//! Sets that are nested deeper than a parser goes: they are set aside, and the others are looked at.

use anyhow::{Context, Result, ensure};
use berth_tests::wait::await_condition;
use kube::api::{DeleteParams, PostParams, Request};
use serde_json::{Value, json};

use super::Sheet;
use crate::case::PATIENCE;

const NAMESPACE: &str = "workload-depth";

/// A CloneSet of one pod whose template has this beside its containers.
fn set(name: &str, more: &Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": { "name": name },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "main", "image": "registry.test/a:1" }], "more": more },
            },
        },
    })
}

fn sets() -> Request {
    Request::new(format!("/apis/apps.kruise.io/v1alpha1/namespaces/{NAMESPACE}/clonesets"))
}

/// The answer is as deep as the set: it is read as a text.
async fn make(sheet: &Sheet, set: &Value) -> Result<()> {
    let request = sets().create(&PostParams::default(), serde_json::to_vec(set)?)?;
    sheet.client.request_text(request).await.context("make a set")?;
    Ok(())
}

/// The program lists it at its start: a list that cannot be read would have it wait for ever.
#[tokio::test]
async fn a_set_that_is_nested_too_deep_holds_no_other_one_up() -> Result<()> {
    let sheet = Sheet::take(NAMESPACE).await?;
    let deep = (0..200).fold(Value::Null, |inner, _| json!([inner]));
    let program = &sheet.paper.workloads;
    sheet.paper.without_the_program(async || make(&sheet, &set("deep", &deep)).await).await?;
    make(&sheet, &set("shop", &Value::Null)).await?;
    sheet
        .serves_until("the other set has its pod, and the deep one none", async || {
            let names = sheet.names().await?;
            ensure!(names.len() == 1 && names.iter().all(|name| name.starts_with("shop-")), "{names:?}");
            Ok(())
        })
        .await?;
    // Another test may have killed it just now, and it counts anew from each start on.
    await_condition("the deep one is set aside", PATIENCE, async || {
        let aside = program.metric("berth_workloads_set_aside_total").await?;
        ensure!(aside >= 1.0, "{aside} were set aside");
        Ok(())
    })
    .await
    .with_context(|| program.service().last_words())?;
    sheet.client.request_text(sets().delete("deep", &DeleteParams::default())?).await?;
    Ok(())
}
