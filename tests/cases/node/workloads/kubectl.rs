//! `kubectl berth` at a real API server with berth-workloads.

use std::path::PathBuf;
use std::process::Output;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{CloneSet, ContainerUpdateRequest, SidecarSet};
use berth_tests::node::{User, programs};
use berth_tests::wait::await_condition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::process::Command;

use super::{Sheet, has_images};
use crate::case::PATIENCE;

const SET: &str = "cloneset/shop";

struct Plugin {
    program: PathBuf,
    kubeconfig: PathBuf,
    namespace: &'static str,
}

impl Plugin {
    async fn run(&self, words: &str) -> Result<Output> {
        let mut command = Command::new(&self.program);
        command.args(words.split(' ')).arg("--kubeconfig").arg(&self.kubeconfig).args(["-n", self.namespace]);
        command.kill_on_drop(true).output().await.context("run kubectl-berth")
    }

    /// Text that a command prints which succeeds.
    async fn says(&self, words: &str) -> Result<String> {
        let done = self.run(words).await?;
        let (said, complained) = (String::from_utf8(done.stdout)?, String::from_utf8(done.stderr)?);
        ensure!(done.status.success(), "{words}: {} {complained}", done.status);
        Ok(said)
    }

    /// Runs a command that fails, and looks at its complaint.
    async fn fails(&self, words: &str, says: &str) -> Result<()> {
        let done = self.run(words).await?;
        let complained = String::from_utf8(done.stderr)?;
        ensure!(done.status.code() == Some(1), "{words}: {}", done.status);
        ensure!(complained.contains(says), "{words}: {complained}");
        Ok(())
    }
}

#[tokio::test]
async fn rollouts_are_led_by_the_plugin() -> Result<()> {
    let sheet = Sheet::take("kubectl-plugin").await?;
    let sets: Api<CloneSet> = Api::namespaced(sheet.client.clone(), sheet.namespace);
    let plugin = Plugin {
        program: programs::kubectl_plugin()?,
        kubeconfig: sheet.paper.plane.api().kubeconfig(User::Admin)?,
        namespace: sheet.namespace,
    };
    let set: CloneSet = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": { "name": "shop" },
        "spec": {
            "replicas": 2, "selector": { "matchLabels": { "app": "shop" } },
            "template": { "metadata": { "labels": { "app": "shop" } },
                "spec": { "containers": [{ "name": "main", "image": "a:1" }], "serviceAccountName": "default" } },
        },
    }))?;
    sets.create(&PostParams::default(), &set).await.context("make the set")?;
    let status = format!("rollout status {SET}");
    let complete = async || -> Result<()> {
        let said = plugin.says(&format!("{status} --watch=false")).await?;
        ensure!(said.contains("CloneSet rolling update complete 2 pods"), "{said}");
        Ok(())
    };
    sheet.serves_until("two pods serve", complete).await?;

    // Another image, followed until it is done.
    plugin.fails(&format!("set image {SET} other=a:2"), "unable to find container named \"other\"").await?;
    let said = plugin.says(&format!("set image {SET} main=a:2 --dry-run=server")).await?;
    ensure!(said == "cloneset.apps.kruise.io/shop image updated (server dry run)\n", "{said}");
    let said = plugin.says(&format!("set image {SET} main=a:2")).await?;
    ensure!(said == "cloneset.apps.kruise.io/shop image updated\n", "{said}");
    // At once: the counts are still those of before, and it is not done.
    let follow = format!("{status} --timeout=300s");
    let (followed, served) =
        tokio::join!(plugin.says(&follow), sheet.serves_until("the update is served", complete));
    served?;
    ensure!(followed?.ends_with("...\n"));
    let images: Vec<_> = sheet.all().await?.values().map(|pod| super::image(pod).to_owned()).collect();
    ensure!(images == ["a:2", "a:2"], "{images:?}");

    let said = plugin.says(&format!("rollout history {SET}")).await?;
    ensure!(
        said == "cloneset.apps.kruise.io/shop \nREVISION  CHANGE-CAUSE\n1         <none>\n2         <none>\n\n",
        "{said}"
    );
    let said = plugin.says(&format!("rollout history {SET} --revision=1")).await?;
    ensure!(said.contains("with revision #1\nPod Template:") && said.contains("a:1"), "{said}");

    // By labels, by a file, and with the object as it is then.
    plugin.fails("rollout history cloneset -l app=other", "no cloneset.apps.kruise.io found").await?;
    sets.patch(
        "shop",
        &PatchParams::default(),
        &Patch::Merge(json!({ "metadata": { "labels": { "app": "shop" } } })),
    )
    .await
    .context("label the set")?;
    let said = plugin.says("rollout history cloneset -l app=shop").await?;
    ensure!(said.starts_with("cloneset.apps.kruise.io/shop \n"), "{said}");
    let file = std::env::temp_dir().join(format!("berth-kubectl-{}.json", std::process::id()));
    std::fs::write(&file, serde_json::to_string(&set)?)?;
    let said =
        plugin.says(&format!("set image -f {} main=a:9 --dry-run=server -o json", file.display())).await;
    let here = plugin.says(&format!("set image -f {} main=a:8 --local -o json", file.display())).await;
    std::fs::remove_file(&file)?;
    for (said, image) in [(said?, "a:9"), (here?, "a:8")] {
        let printed: serde_json::Value = serde_json::from_str(&said)?;
        ensure!(printed["spec"]["template"]["spec"]["containers"][0]["image"] == image, "{printed}");
    }

    // While it rests nothing is updated; the way back is there all the same.
    ensure!(plugin.says(&format!("rollout pause {SET}")).await? == "cloneset.apps.kruise.io/shop paused\n");
    plugin.fails(&format!("rollout pause {SET}"), "is already paused").await?;
    let said = plugin.says(&format!("rollout undo {SET} --to-revision=2")).await?;
    ensure!(said.contains("skipped rollback (current template already matches revision 2)"), "{said}");
    plugin
        .fails(&format!("rollout undo {SET} --to-revision=7"), "unable to find specified revision 7")
        .await?;
    ensure!(
        plugin.says(&format!("rollout undo {SET}")).await? == "cloneset.apps.kruise.io/shop rolled back\n"
    );
    plugin.fails(&format!("{status} --timeout=2s"), "timed out waiting for the condition").await?;
    ensure!(plugin.says(&format!("rollout resume {SET}")).await? == "cloneset.apps.kruise.io/shop resumed\n");
    sheet.serves_until("the undo is served", complete).await?;
    ensure!(sheet.all().await?.values().all(|pod| super::image(pod) == "a:1"));

    ensure!(
        plugin.says(&format!("rollout restart {SET}")).await? == "cloneset.apps.kruise.io/shop restarted\n"
    );
    sheet.serves_until("the restart is served", complete).await?;
    let env = |pod: &k8s_openapi::api::core::v1::Pod| {
        let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
        container.and_then(|one| one.env.clone()).unwrap_or_default()
    };
    ensure!(sheet.all().await?.values().all(|pod| env(pod).iter().any(|one| one.name == "RESTARTED_AT")));

    asks_the_cluster(&sheet, &plugin).await?;
    sets_images_of_sidecars(&sheet, &plugin).await?;

    // One pod goes, with its replica; the other one stays.
    let names = sheet.names().await?;
    let (gone, stays) = (names.first().context("no pod")?, names.last().context("no pod")?);
    plugin.fails(&format!("scaledown {SET} --pods nobody"), "pods \"nobody\" not found").await?;
    let said = plugin.says(&format!("scaledown {SET} --pods {gone}")).await?;
    ensure!(said == "cloneset.apps.kruise.io/shop scaled down\n", "{said}");
    sheet
        .serves_until("one pod is left", async || has_images(&sheet.all().await?, &[(stays.as_str(), "a:1")]))
        .await?;
    plugin.fails("rollout status cloneset/nobody", "Error from server (NotFound)").await
}

/// A SidecarSet is in no namespace, and has no rollout of its own.
async fn sets_images_of_sidecars(sheet: &Sheet, plugin: &Plugin) -> Result<()> {
    let sets: Api<SidecarSet> = Api::all(sheet.client.clone());
    let set: SidecarSet = serde_json::from_value(json!({
        "metadata": { "name": "plugin", "labels": { "team": "plugin" } },
        "spec": {
            "selector": { "matchLabels": { "app": "nowhere" } },
            "containers": [{ "name": "log", "image": "log:1" }],
        },
    }))?;
    sets.create(&PostParams::default(), &set).await.context("make the SidecarSet")?;
    let said = plugin.says("set image sidecarset/plugin log=log:2").await?;
    ensure!(said == "sidecarset.apps.kruise.io/plugin image updated\n", "{said}");
    let said = plugin.says("set image sidecarsets -l team=plugin log=log:3 --dry-run=server -o name").await?;
    ensure!(said == "sidecarset.apps.kruise.io/plugin\n", "{said}");
    plugin.fails("rollout undo sidecarset/plugin", "a SidecarSet has no pods of its own").await?;
    let set = serde_json::to_value(sets.get("plugin").await?)?;
    ensure!(set["spec"]["containers"][0]["image"] == "log:2", "{set}");
    sets.delete("plugin", &DeleteParams::default()).await.context("remove the SidecarSet")?;
    Ok(())
}

/// Lists, and requests whose ends are written here, for want of an agent.
async fn asks_the_cluster(sheet: &Sheet, plugin: &Plugin) -> Result<()> {
    let pod = sheet.names().await?.first().context("no pod")?.clone();
    // Other cases have nodes and sets in the same cluster, or not.
    for (said, nothing) in
        [(plugin.says("nodes").await?, "No nodes"), (plugin.says("sidecarsets").await?, "No SidecarSets")]
    {
        ensure!(said.starts_with("NAME") || said.starts_with(nothing), "{said}");
    }
    plugin.fails("revisions nobody", "there is no SidecarSet \"nobody\"").await?;

    plugin.fails(&format!("recreate {pod} -c other"), "no container \"other\"").await?;
    plugin.fails("recreate nobody", "there is no pod \"nobody\"").await?;
    let late = format!("recreate {pod} -c main --wait --timeout 1s");
    plugin.fails(&late, "has not ended in time, and goes on").await?;
    let said = plugin.says("requests -A").await?;
    ensure!(said.contains("recreate   shop-") && said.contains("main"), "{said}");
    let said = plugin.says("waiting -A").await?;
    ensure!(
        said.contains("ContainerRecreateRequest") && said.contains("not assigned to a node yet"),
        "{said}"
    );

    let requests: Api<ContainerUpdateRequest> = Api::namespaced(sheet.client.clone(), sheet.namespace);
    let end = async {
        let name = await_condition("the request is made", PATIENCE, async || {
            let all = requests.list(&ListParams::default()).await?.items;
            all.into_iter().find_map(|one| one.metadata.name).context("no request")
        })
        .await?;
        let status = json!({ "status": { "phase": "Completed", "conditions": [{ "type": "Failed", "status": "True",
            "reason": "ImageNotPulled", "message": "no such tag", "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
        requests.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
        anyhow::Ok(())
    };
    let update = format!("update {pod} main=a:2 --wait --timeout 90s");
    let (failed, ended) = tokio::join!(plugin.fails(&update, "failed (ImageNotPulled): no such tag"), end);
    ended?;
    failed
}
