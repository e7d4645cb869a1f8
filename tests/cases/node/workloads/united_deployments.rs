//! UnitedDeployments on paper: CloneSets of theirs make pods, and Deployments take their place.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::{CloneSet, UnitedDeployment, UnitedDeploymentStatus};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::Sheet;

const NAME: &str = "zones";
const SUBSET: &str = "apps.kruise.io/subset-name";

struct Stage {
    sheet: Sheet,
    united: Api<UnitedDeployment>,
    clones: Api<CloneSet>,
}

fn pods(image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": NAME } },
        "spec": { "containers": [{ "name": "main", "image": image }], "serviceAccountName": "default" },
    })
}

fn clone_sets(image: &str) -> Value {
    json!({ "cloneSetTemplate": { "spec": { "template": pods(image) } } })
}

/// One that its definition lets pass, and of which no workload can be built.
fn wrong() -> Result<UnitedDeployment> {
    let mut template = clone_sets("w:1");
    let pods = &mut template["cloneSetTemplate"]["spec"]["template"];
    pods["metadata"]["labels"]["app"] = "wrong".into();
    pods["spec"]["affinity"] = "everywhere".into();
    Ok(serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedDeployment", "metadata": { "name": "wrong" },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": { "app": "wrong" } }, "template": template,
            "topology": { "subsets": [{ "name": "a", "nodeSelectorTerm": term("a") }] },
        },
    }))?)
}

fn term(zone: &str) -> Value {
    json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": [zone] }] })
}

impl Stage {
    async fn edit(&self, spec: Value) -> Result<()> {
        let patch = json!({ "spec": spec });
        self.united.patch(NAME, &PatchParams::default(), &Patch::Merge(&patch)).await.context("edit")?;
        Ok(())
    }

    /// Replicas of the CloneSets by subset.
    async fn subsets(&self) -> Result<BTreeMap<String, i32>> {
        let all = self.clones.list(&ListParams::default().labels(SUBSET)).await?;
        let of = |one: CloneSet| (one.labels()[SUBSET].clone(), one.spec.replicas.unwrap_or(1));
        Ok(all.into_iter().filter(|one| one.metadata.owner_references.is_some()).map(of).collect())
    }

    /// Waits until the subsets have so many pods, so many have an image, and the status says something.
    async fn has(
        &self,
        what: &str,
        subsets: &[(&str, i32)],
        images: &[(&str, usize)],
        says: impl Fn(&UnitedDeploymentStatus) -> bool,
    ) -> Result<()> {
        let holds = async || {
            let found = self.subsets().await?;
            let found: Vec<(&str, i32)> = found.iter().map(|(name, count)| (name.as_str(), *count)).collect();
            ensure!(found == subsets, "{found:?}");
            let all = self.sheet.all().await?;
            let alive = all.values().filter(|pod| pod.metadata.deletion_timestamp.is_none());
            let mut of: BTreeMap<&str, usize> = BTreeMap::new();
            alive.for_each(|pod| *of.entry(super::image(pod)).or_default() += 1);
            let of: Vec<(&str, usize)> = of.into_iter().collect();
            ensure!(of == images, "{of:?}");
            let united = self.united.get(NAME).await?;
            let status = united.status.context("no status")?;
            ensure!(status.observed_generation == united.metadata.generation && says(&status), "{status:?}");
            Ok(())
        };
        self.sheet.serves_until(what, holds).await
    }
}

fn is_true(status: &UnitedDeploymentStatus, type_: &str) -> bool {
    status.conditions.iter().any(|one| one.type_ == type_ && one.status == "True")
}

fn done(status: &UnitedDeploymentStatus) -> bool {
    is_true(status, "SubsetProvisioned")
        && is_true(status, "SubsetUpdated")
        && !status.conditions.iter().any(|one| one.type_ == "SubsetFailure")
}

#[tokio::test]
async fn united_deployments_have_a_workload_for_each_subset() -> Result<()> {
    let sheet = Sheet::take("united-deployments").await?;
    let united: Api<UnitedDeployment> = Api::namespaced(sheet.client.clone(), sheet.namespace);
    let clones: Api<CloneSet> = Api::namespaced(sheet.client.clone(), sheet.namespace);
    let stage = Stage { sheet, united, clones };
    refuses(&stage).await?;
    // Labels as those of a subset's workload, and nobody who decides on it.
    let stranger: CloneSet = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": { "name": "stranger", "labels": { "app": NAME, SUBSET: "a" } },
        "spec": { "replicas": 0, "selector": { "matchLabels": { "app": NAME } }, "template": pods("x") },
    }))?;
    stage.clones.create(&PostParams::default(), &stranger).await.context("make the stranger")?;

    // Nobody admits it here. It is set aside, and holds the other one up in nothing.
    stage.united.create(&PostParams::default(), &wrong()?).await.context("make a wrong one")?;
    let subsets = json!([
        { "name": "a", "replicas": 1, "nodeSelectorTerm": term("a") },
        { "name": "b", "replicas": "50%", "tolerations": [{ "key": "edge", "operator": "Exists" }] },
        { "name": "c" },
    ]);
    let object: UnitedDeployment = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedDeployment", "metadata": { "name": NAME },
        "spec": {
            "replicas": 6, "selector": { "matchLabels": { "app": NAME } }, "template": clone_sets("a:1"),
            "topology": { "subsets": subsets },
        },
    }))?;
    stage.united.create(&PostParams::default(), &object).await.context("make it")?;
    let all_new = |count: i32| {
        move |status: &UnitedDeploymentStatus| {
            let counts = (status.replicas, status.ready_replicas, status.updated_ready_replicas);
            let update = status.update_status.as_ref().and_then(|update| update.updated_revision.as_deref());
            counts == (count, count, count) && update == Some(&status.current_revision) && done(status)
        }
    };
    let first = [("a", 1), ("b", 3), ("c", 2)];
    stage.has("three subsets", &first, &[("a:1", 6)], all_new(6)).await?;
    for pod in stage.sheet.all().await?.values() {
        let spec = pod.spec.as_ref().context("no spec")?;
        let (subset, tolerations) = (&pod.labels()[SUBSET], json!(spec.tolerations));
        ensure!(spec.affinity.is_some() == (subset == "a"), "{subset}: {:?}", spec.affinity);
        ensure!(tolerations.to_string().contains("edge") == (subset == "b"), "{subset}: {tolerations}");
    }

    // As far as the partitions let go, and one that was written while nobody looked.
    let edit = json!({
        "template": clone_sets("a:2"),
        "updateStrategy": { "manualUpdate": { "partitions": { "b": 2, "c": 9 } } },
    });
    stage.sheet.paper.without_the_program(async || stage.edit(edit).await).await?;
    let partly = |status: &UnitedDeploymentStatus| {
        status.updated_ready_replicas == 2 && status.ready_replicas == 6 && done(status)
    };
    stage.has("two pods are updated", &first, &[("a:1", 4), ("a:2", 2)], partly).await?;
    let edit = json!({ "replicas": 8, "updateStrategy": { "manualUpdate": { "partitions": null } } });
    stage.edit(edit).await?;
    stage.has("all are", &[("a", 1), ("b", 4), ("c", 3)], &[("a:2", 8)], all_new(8)).await?;

    // A subset goes; there is no garbage collector here, so its pods stay.
    let kept = json!([{ "name": "b", "replicas": "50%", "tolerations": [{ "key": "edge", "operator": "Exists" }] },
        { "name": "c" }]);
    stage.edit(json!({ "topology": { "subsets": kept } })).await?;
    stage.has("two subsets", &[("b", 4), ("c", 4)], &[("a:2", 9)], all_new(8)).await?;

    // Another kind takes their place. Nobody makes its pods here.
    let template =
        json!({ "cloneSetTemplate": null, "deploymentTemplate": { "spec": { "template": pods("a:3") } } });
    stage.edit(json!({ "template": template })).await?;
    let done = |status: &UnitedDeploymentStatus| done(status) && status.replicas == 0;
    stage.has("Deployments", &[], &[("a:2", 9)], done).await?;
    let deployments: Api<Deployment> = Api::namespaced(stage.sheet.client.clone(), stage.sheet.namespace);
    let deployments = deployments.list(&ListParams::default()).await?.items;
    let counts: Vec<Option<i32>> =
        deployments.iter().map(|one| one.spec.as_ref().and_then(|spec| spec.replicas)).collect();
    ensure!(counts == [Some(4), Some(4)], "{counts:?}");
    let stranger = stage.clones.get("stranger").await.context("the stranger is gone")?;
    ensure!(
        stranger.metadata.owner_references.is_none() && stranger.spec.replicas == Some(0),
        "{stranger:?}"
    );
    let status = stage.united.get("wrong").await?.status.context("nothing is said of the wrong one")?;
    let failure = status.conditions.iter().find(|one| one.type_ == "SubsetFailure").context("no failure")?;
    let says = failure.message.as_deref().unwrap_or_default();
    ensure!(says.contains("spec.template.spec.affinity is no object: correct it"), "{failure:?}");
    Ok(())
}

/// The API server itself refuses what makes no sense, in words that name field and remedy.
async fn refuses(stage: &Stage) -> Result<()> {
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    for (spec, words) in [
        (
            json!({ "selector": { "matchExpressions": [{ "key": "app", "operator": "Exists" }] } }),
            "has no matchLabels",
        ),
        (json!({ "selector": { "matchLabels": { "app": "other" } } }), "are not those of selector: give"),
        (json!({ "template": {} }), "has not exactly one of statefulSetTemplate"),
        (
            json!({ "template": { "deploymentTemplate": { "spec": { "replicas": 1, "template": pods("a") } } } }),
            "leave them out of the template",
        ),
        (
            json!({ "topology": { "subsets": [{ "name": "a" }, { "name": "a" }] } }),
            "give each a name of its own",
        ),
        (json!({ "topology": { "subsets": [{ "name": "A" }] } }), "name is no DNS label"),
        (
            json!({ "topology": { "subsets": [{ "name": "a", "replicas": "101%" }] } }),
            "a share from 0% to 100%",
        ),
        (
            json!({ "topology": { "subsets": [{ "name": "a", "replicas": 6 }] } }),
            "have more replicas together",
        ),
        (json!({ "topology": { "subsets": [{ "name": "a", "replicas": 4 }] } }), "and less together than"),
        (
            json!({ "updateStrategy": { "manualUpdate": { "partitions": { "z": 1 } } } }),
            "names a subset that",
        ),
        (json!({ "updateStrategy": { "type": "Auto" } }), "is not Manual"),
    ] {
        let mut given = json!({
            "replicas": 5, "selector": { "matchLabels": { "app": NAME } }, "template": clone_sets("a"),
            "topology": { "subsets": [{ "name": "a" }] },
        });
        given.as_object_mut().context("a spec")?.extend(spec.as_object().cloned().context("a spec")?);
        let object = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedDeployment", "metadata": { "name": NAME },
            "spec": given,
        }))?;
        match stage.united.create(&dry, &object).await {
            Err(kube::Error::Api(status)) => {
                ensure!(status.message.contains(words), "no {words:?} in {:?}", status.message);
            }
            Err(error) => return Err(error.into()),
            Ok(_) => bail!("was let in, and should be refused for {words:?}"),
        }
    }
    Ok(())
}
