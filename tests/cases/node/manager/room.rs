//! Jobs of one author that are larger than a node's object: the author is told, and others notice nothing.

use berth_proto::crd::{DesiredImage, ImagePullJob, ImagePullJobStatus};
use berth_proto::sealing::NodeKey;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::images::{Paper, accepted};
use super::*;

const FLOOD: &str = "room-flood";
/// Annotations of the jobs that were made before there were bounds.
const LARGE: usize = 800_000;

fn job(name: &str, node: &str, annotations: usize) -> Result<ImagePullJob> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob", "metadata": { "name": name },
        "spec": {
            "image": format!("registry.example/{name}:1"), "completionPolicy": {}, "selector": { "names": [node] },
            "sandboxConfig": { "annotations": { "a": "x".repeat(annotations) } },
        },
    }))?)
}

/// As the definition was before.
async fn without_bounds(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut definition = serde_json::to_value(definitions.get("imagepulljobs.apps.kruise.io").await?)?;
    let config = definition
        .pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/sandboxConfig")
        .and_then(Value::as_object_mut)
        .context("sandboxConfig")?;
    config.remove("x-kubernetes-validations").context("a rule")?;
    let values =
        config["properties"]["annotations"]["additionalProperties"].as_object_mut().context("values")?;
    values.remove("maxLength").context("a bound")?;
    let definition = serde_json::from_value(definition)?;
    definitions.replace("imagepulljobs.apps.kruise.io", &PostParams::default(), &definition).await?;
    Ok(())
}

async fn flood(jobs: &Api<ImagePullJob>, name: &str, node: &str, annotations: usize) -> Result<()> {
    // Until the API server has taken notice of the definition.
    await_condition(format!("{name} is made"), PATIENCE, async || {
        jobs.create(&PostParams::default(), &job(name, node, annotations)?).await.context("make a job")
    })
    .await
    .map(drop)
}

/// Three jobs with annotations of 800 kB, as the definition let them in before, and eight as large as it lets
/// them in now.
#[tokio::test]
async fn jobs_that_fill_a_node_hold_up_nobody_and_say_why_they_wait() -> Result<()> {
    let key = NodeKey::generate();
    let paper = Paper::set("room-shop", &key).await?;
    let client = &paper.stage.client;
    namespace(client, FLOOD).await?;
    let jobs: Api<ImagePullJob> = Api::namespaced(client.clone(), FLOOD);
    let manager = paper.stage.manager(Replica::First).await?;
    manager.leads().await?;

    let refused = jobs.create(&PostParams::default(), &job("refused", &paper.node, LARGE)?).await;
    let Err(kube::Error::Api(refused)) = refused else { anyhow::bail!("it was let in: {refused:?}") };
    ensure!(refused.code == 422 && refused.message.contains("4096"), "{refused:?}");
    without_bounds(client).await?;
    let made = async {
        for number in 0..3 {
            flood(&jobs, &format!("old-{number}"), &paper.node, LARGE).await?;
        }
        anyhow::Ok(())
    }
    .await;
    crds::install(client).await?;
    made?;
    for number in 0..8 {
        flood(&jobs, &format!("new-{number}"), &paper.node, 3900).await?;
    }

    // The other tenant, while all of them are there.
    let begun = Instant::now();
    paper.job("j", json!({ "image": "registry.example/app:1", "completionPolicy": {} })).await?;
    let wish = await_condition("the node is asked for the other one's", PATIENCE, async || {
        let status = paper.images.get(&paper.node).await?.status.context("no status")?;
        let is_its = |wish: &DesiredImage| wish.image == "registry.example/app:1";
        status.desired_images.into_iter().find(is_its).context("not asked")
    })
    .await?;
    let added = begun.elapsed();
    eprintln!("from the other job's creation to the wish, seen: {added:.2?}");
    ensure!(added < 2 * AT_ONCE, "{added:?}");
    let pull = json!({ "uid": wish.uid, "version": wish.version, "phase": "Succeeded", "progress": 100 });
    paper.say(json!({ "sealingKey": key.sealing_key().encoded(), "pulls": [pull] })).await?;
    paper.await_status("j", "is over", |status| status.completion_time.is_some()).await?;

    let status = async |name: &str, what: &str, is_so: &dyn Fn(&ImagePullJobStatus) -> bool| {
        await_condition(format!("job {name} {what}"), PATIENCE, async || {
            let status = jobs.get(name).await?.status.context("no status")?;
            ensure!(is_so(&status), "{:?}", status.message);
            Ok(status)
        })
        .await
    };
    for number in 0..3 {
        let refused = |status: &ImagePullJobStatus| accepted(status, "InvalidSpec").is_some();
        let status = status(&format!("old-{number}"), "is refused", &refused).await?;
        ensure!(status.message.is_some_and(|message| message.contains("smaller")), "it says no remedy");
    }
    let waits = |status: &ImagePullJobStatus| {
        status.message.as_ref().is_some_and(|message| message.contains("1 nodes wait for room"))
    };
    for number in 3..8 {
        status(&format!("new-{number}"), "says that it waits", &waits).await?;
    }
    // Room comes with the end of the first, and goes to the next.
    let entries = async || -> Result<Vec<String>> {
        let status = paper.images.get(&paper.node).await?.status.context("no status")?;
        let of = status.desired_images.into_iter().filter(|wish| wish.sandbox_config.is_some());
        let mut images: Vec<_> = of.map(|wish| wish.image).collect();
        images.sort();
        Ok(images)
    };
    let three_from =
        |first: usize| (first..first + 3).map(|number| format!("registry.example/new-{number}:1"));
    await_condition("the first ones have their turn", PATIENCE, async || {
        let entries = entries().await?;
        ensure!(entries.iter().cloned().eq(three_from(0)), "{entries:?}");
        Ok(())
    })
    .await?;
    jobs.delete("new-0", &DeleteParams::default()).await?;
    await_condition("the next one has its turn", PATIENCE, async || {
        let entries = entries().await?;
        ensure!(entries.iter().cloned().eq(three_from(1)), "{entries:?}");
        Ok(())
    })
    .await
}
