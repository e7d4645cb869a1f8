//! A cluster of a real OpenKruise moves to Berth and back. Its manager comes from its own module, so these
//! cases run by `tests/openkruise.sh` alone.

mod objects;
mod ours;
mod theirs;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{ContainerRecreateRequest, RecreatePhase};
use berth_tests::node::images::{BUSYBOX, BUSYBOX_NEXT};
use berth_tests::node::{Node, deploy};
use berth_tests::wait::{START_UP, await_condition};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use self::objects::{Definition, NAMESPACE, PODS, SIDECAR, Standing, kind_of, standing};
use self::ours::Berth;
use self::theirs::OpenKruise;
use crate::api_server::namespace;
use crate::case::{ROLLOUT, container, is_ready};

/// Time in which whoever decides differently would have begun: both look at everything once in the first
/// seconds.
const QUIET: Duration = Duration::from_secs(30);

struct Move {
    client: Client,
    pods: Api<Pod>,
}

#[tokio::test]
#[ignore = "it needs OpenKruise's manager, which takes minutes to build: tests/openkruise.sh"]
async fn a_cluster_moves_over_and_back() -> Result<()> {
    // As whoever installs Berth: what Berth's manifests leave out is taken back.
    moves("kubectl", over_and_back).await
}

#[tokio::test]
#[ignore = "it needs OpenKruise's manager, which takes minutes to build: tests/openkruise.sh"]
async fn berth_waits_beside_an_openkruise() -> Result<()> {
    moves("helm", beside).await
}

/// Brings up a cluster of an OpenKruise that was applied by this field manager, with one object of each kind.
async fn moves(
    by: &'static str,
    story: impl AsyncFnOnce(&Node, &Move, &OpenKruise) -> Result<()>,
) -> Result<()> {
    crate::slots::take().await;
    let node = Node::builder().berth(false).controllers(true).start().await?;
    let client = node.client().await?;
    no_kinds(&client).await?;
    let openkruise = OpenKruise::install(&node, &client, by).await?;
    let pods = Api::namespaced(client.clone(), NAMESPACE);
    let here = Move { client, pods };
    let told = async {
        openkruise.start().await?;
        here.make_all().await?;
        story(&node, &here, &openkruise).await
    };
    let outcome = told.await;
    if outcome.is_err() {
        eprintln!("OpenKruise's manager: {}", openkruise.last_words());
    }
    outcome?;
    node.down()
}

/// Berth comes when OpenKruise has gone, and goes again.
async fn over_and_back(node: &Node, here: &Move, openkruise: &OpenKruise) -> Result<()> {
    let client = &here.client;
    let before = here.at_rest().await?;
    let definitions = openkruise.definitions().await?;

    openkruise.stop().await?;
    let berth = Berth::install(node, client, NAMESPACE).await?;
    berth.decides().await?;
    here.nothing_moves(&before, "after the change").await?;
    here.updates(BUSYBOX_NEXT, "by Berth").await?;
    here.scales(2).await?;
    here.recreates().await?;
    let between = here.at_rest().await?;

    berth.remove().await?;
    restore(client, definitions).await?;
    openkruise.start().await?;
    here.nothing_moves(&between, "after the way back").await?;
    here.updates(BUSYBOX, "by OpenKruise").await?;
    here.scales(1).await
}

/// Berth is there before OpenKruise goes, and when it comes again.
async fn beside(node: &Node, here: &Move, openkruise: &OpenKruise) -> Result<()> {
    let before = here.at_rest().await?;
    let berth = Berth::install(node, &here.client, NAMESPACE).await?;
    deploy::apply(&here.client, "openkruise/writers.yaml").await?;
    berth.yields(2.0).await?;
    here.nothing_moves(&before, "beside OpenKruise").await?;
    here.updates(BUSYBOX_NEXT, "by OpenKruise, with Berth beside it").await?;
    let before = here.at_rest().await?;

    openkruise.stop().await?;
    berth.decides().await?;
    here.nothing_moves(&before, "after the change").await?;
    here.updates(BUSYBOX, "by Berth").await?;
    let before = here.at_rest().await?;

    openkruise.start().await?;
    berth.yields(2.0).await?;
    here.nothing_moves(&before, "when OpenKruise is back").await?;
    here.updates(BUSYBOX_NEXT, "by the OpenKruise that is back").await
}

/// Takes the definitions away that every node of the tests has.
async fn no_kinds(client: &Client) -> Result<()> {
    let all: Api<Definition> = Api::all(client.clone());
    let of_both = async || -> Result<Vec<String>> {
        let names = all.list_metadata(&ListParams::default()).await?.into_iter().map(|one| one.name_any());
        Ok(names.filter(|name| name.ends_with("kruise.io")).collect())
    };
    for name in of_both().await? {
        all.delete(&name, &DeleteParams::default()).await.context("a definition")?;
    }
    await_condition("no kind of both is left", START_UP, async || {
        let left = of_both().await?;
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })
    .await
}

/// Puts definitions back as `kubectl replace` does.
async fn restore(client: &Client, definitions: Vec<Definition>) -> Result<()> {
    let all: Api<Definition> = Api::all(client.clone());
    for mut definition in definitions {
        let name = definition.name_any();
        let now = all.get_metadata(&name).await.context("a definition")?;
        definition.metadata.resource_version = now.metadata.resource_version;
        definition.metadata.managed_fields = None;
        all.replace(&name, &PostParams::default(), &definition).await.context("a definition goes back")?;
    }
    Ok(())
}

impl Move {
    /// Makes one object of each kind, and waits until their pods run.
    async fn make_all(&self) -> Result<()> {
        namespace(&self.client, NAMESPACE).await?;
        for object in objects::all()? {
            let what = format!("{} {} is made", kind_of(&object), object.name_any());
            // Its webhooks are asked a little after it is ready.
            let made = async || deploy::apply_object(&self.client, &object).await.map(drop);
            await_condition(what, START_UP, made).await?;
        }
        self.all_run().await
    }

    /// Waits until all pods run, with the sidecar where there is to be one.
    async fn all_run(&self) -> Result<()> {
        for (app, count) in PODS {
            self.run(app, count).await?;
        }
        for pod in self.of("shop").await? {
            container(&pod, SIDECAR)?;
        }
        Ok(())
    }

    /// Waits until there are so many pods of an app, all Ready.
    async fn run(&self, app: &str, count: usize) -> Result<()> {
        await_condition(format!("{count} pods of {app} run"), ROLLOUT, async || {
            let pods = self.of(app).await?;
            ensure!(pods.len() == count, "{} pods", pods.len());
            pods.iter().try_for_each(is_ready)
        })
        .await
    }

    async fn of(&self, app: &str) -> Result<Vec<Pod>> {
        let params = ListParams::default().labels(&format!("app={app}"));
        Ok(self.pods.list(&params).await.context("pods")?.items)
    }

    /// Waits until nothing has changed for a while.
    async fn at_rest(&self) -> Result<Standing> {
        await_condition("nothing changes", ROLLOUT, async || {
            let before = standing(&self.pods).await?;
            tokio::time::sleep(QUIET / 3).await;
            let after = standing(&self.pods).await?;
            ensure!(before == after, "{before:?}, then {after:?}");
            Ok(after)
        })
        .await
    }

    /// Looks for a while whether a pod is made anew, or a container restarts.
    async fn nothing_moves(&self, before: &Standing, when: &str) -> Result<()> {
        let begun = tokio::time::Instant::now();
        while begun.elapsed() < QUIET {
            let now = standing(&self.pods).await?;
            ensure!(now == *before, "{when}: {before:?}, now {now:?}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }

    /// Edits the image of each workload and of the sidecar: the same pods run it afterwards.
    async fn updates(&self, image: &str, by: &str) -> Result<()> {
        let uids = async || -> Result<BTreeSet<_>> {
            let kept = [self.of("shop").await?, self.of("store").await?].concat();
            Ok(kept.iter().filter_map(ResourceExt::uid).collect())
        };
        let before = uids().await?;
        for (kind, name) in [("CloneSet", "shop"), ("StatefulSet", "store")] {
            self.edit(kind, name, "/spec/template/spec/containers/0/image", json!(image)).await?;
        }
        self.edit("SidecarSet", "logs", "/spec/containers/0/image", json!(image)).await?;
        await_condition(format!("the pods run {image} in place {by}"), ROLLOUT, async || {
            for (app, name) in [("shop", "main"), ("store", "main"), ("shop", SIDECAR)] {
                for pod in self.of(app).await? {
                    is_ready(&pod)?;
                    let runs = &container(&pod, name)?.image;
                    ensure!(runs.ends_with(image), "{name} of {} runs {runs}", pod.name_any());
                }
            }
            Ok(())
        })
        .await?;
        ensure!(before == uids().await?, "pods were made anew {by}");
        Ok(())
    }

    /// Scales the StatefulSet.
    async fn scales(&self, replicas: usize) -> Result<()> {
        self.edit("StatefulSet", "store", "/spec/replicas", json!(replicas)).await?;
        self.run("store", replicas).await
    }

    /// Has a container made anew.
    async fn recreates(&self) -> Result<()> {
        let requests: Api<ContainerRecreateRequest> = Api::namespaced(self.client.clone(), NAMESPACE);
        let request = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest", "metadata": { "name": "anew" },
            "spec": { "podName": "store-0", "containers": [{ "name": "main" }] },
        }))?;
        requests.create(&PostParams::default(), &request).await.context("a request")?;
        await_condition("the container was made anew", ROLLOUT, async || {
            let status = requests.get("anew").await?.status.context("no status")?;
            ensure!(status.phase == Some(RecreatePhase::Completed), "{status:?}");
            Ok(())
        })
        .await
    }

    /// Sets one value of an object.
    async fn edit(&self, kind: &str, name: &str, path: &str, value: Value) -> Result<()> {
        let object =
            objects::all()?.into_iter().find(|object| kind_of(object) == kind && object.name_any() == name);
        let api = deploy::api(&self.client, &object.context("an object of that name")?)?;
        let patch = json!([{ "op": "replace", "path": path, "value": value }]);
        let patch = Patch::<()>::Json(serde_json::from_value(patch)?);
        // Webhooks that have just come are asked a little later.
        await_condition(format!("{kind} {name} is edited"), START_UP, async || {
            api.patch(name, &PatchParams::default(), &patch).await.map(drop).context("edit")
        })
        .await
    }
}
