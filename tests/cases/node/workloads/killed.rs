//! A program that is killed after any of its writes, in rollouts with claims, a hook and pods that are to go:
//! the one that is started after it brings each of them to its end, and nothing is done twice. A field of
//! the template that the program's types do not know reaches every pod.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::CloneSet;
use berth_tests::node::{ControlPlane, Workloads, crds, deploy, token};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::image;
use super::witness::{USER, Witness, live, serves};
use crate::api_server::namespace;
use crate::case::{PATIENCE, ROLLOUT};

const SPACE: &str = "killed";
const SET: &str = "shop";
/// Pods of the set, and how many of them may be unavailable.
const PODS: usize = 6;
const MOST: usize = 2;
const ALL: i32 = PODS as i32;
/// The most writes of a rollout after which the program is killed: it makes more than twice as many.
const LAST: usize = 12;
/// A new pod is Ready after it.
const READY_AFTER: Duration = Duration::from_millis(150);
const INSTANCE: &str = "apps.kruise.io/cloneset-instance-id";
/// Value of a field of pods that the API server knows and the types of these programs do not.
const HOST_NAME: &str = "one-name-for-all";

/// Writes of the program, as the log of the API server has them: on the disk before they are answered.
struct Log {
    path: PathBuf,
    /// Bytes that were read.
    read: u64,
}

impl Log {
    /// Counts the writes since the last time; its Lease and what it tells in Events are none.
    fn more(&mut self) -> Result<usize> {
        let mut file = File::open(&self.path).context("the log of writes")?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        // The last line may still be written.
        text.truncate(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1));
        self.read += u64::try_from(text.len())?;
        let mut count = 0;
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event: Value = serde_json::from_slice(line).context("a line of the log")?;
            let resource = &event["objectRef"]["resource"];
            let is_done = event["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300);
            let is_write = resource != "leases" && resource != "events";
            count += usize::from(event["user"]["username"] == USER && is_done && is_write);
        }
        Ok(count)
    }

    /// Waits until so many were made. Gives how many it are by then.
    async fn has(&mut self, least: usize) -> Result<usize> {
        let (mut made, begun) = (0, Instant::now());
        while made < least {
            ensure!(begun.elapsed() < PATIENCE, "{made} writes, and {least} were waited for");
            sleep(Duration::from_millis(2)).await;
            made += self.more()?;
        }
        Ok(made)
    }
}

struct Stage {
    workloads: Workloads,
    sets: Api<CloneSet>,
    pods: Api<Pod>,
    claims: Api<PersistentVolumeClaim>,
}

fn template(image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": SET, "busy": "1" } },
        "spec": { "containers": [{ "name": "main", "image": image }], "hostnameOverride": HOST_NAME },
    })
}

/// Lets each pod go that is held before its deletion, as who minds the hook would.
async fn let_go(pods: Api<Pod>) -> Result<()> {
    let held = ListParams::default().labels("lifecycle.apps.kruise.io/state=PreparingDelete,busy=1");
    let patch = json!({ "metadata": { "labels": { "busy": null } } });
    loop {
        for pod in pods.list(&held).await? {
            // It may be gone meanwhile.
            drop(pods.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await);
        }
        sleep(Duration::from_millis(50)).await;
    }
}

impl Stage {
    async fn make(&self, image: &str) -> Result<()> {
        let set: CloneSet = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": { "name": SET },
            "spec": {
                "replicas": PODS,
                "selector": { "matchLabels": { "app": SET } },
                "updateStrategy": { "type": "ReCreate", "maxUnavailable": MOST },
                "lifecycle": { "preDelete": { "labelsHandler": { "busy": "1" } } },
                "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Mi" } } } }],
                "template": template(image),
            },
        }))?;
        self.sets.create(&PostParams::default(), &set).await.context("make the set")?;
        Ok(())
    }

    /// Another image, and one pod that is to go by name.
    async fn update(&self, image: &str, victim: &str) -> Result<()> {
        let scale = json!({ "podsToDelete": [victim] });
        let patch = json!({ "spec": { "template": template(image), "scaleStrategy": scale } });
        self.sets.patch(SET, &PatchParams::default(), &Patch::Merge(&patch)).await.context("edit the set")?;
        Ok(())
    }

    /// Pods that are not on their way out.
    async fn there(&self) -> Result<Vec<Pod>> {
        let pods = self.pods.list(&ListParams::default()).await?.items;
        Ok(pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect())
    }

    /// Waits until all pods have the image and serve, each with its one claim, and the set says so.
    async fn ends(&self, wanted: &str) -> Result<()> {
        await_condition(format!("all pods have {wanted}"), ROLLOUT, async || {
            self.workloads.service().check_running()?;
            let pods = self.there().await?;
            let is_new = pods.iter().all(|pod| image(pod) == wanted && serves(pod));
            ensure!(is_new && pods.len() == PODS, "{} pods, all new: {is_new}", pods.len());
            let instances: BTreeSet<&str> = pods.iter().map(|pod| pod.labels()[INSTANCE].as_str()).collect();
            ensure!(instances.len() == PODS, "an instance has two pods: {instances:?}");
            let claims = self.claims.list(&ListParams::default()).await?.items;
            let staying = claims.iter().filter(|claim| claim.metadata.deletion_timestamp.is_none());
            let claimed: Vec<&str> = staying.map(|claim| claim.labels()[INSTANCE].as_str()).collect();
            let is_theirs = claimed.len() == PODS && claimed.iter().all(|one| instances.contains(one));
            ensure!(is_theirs, "claims of {claimed:?} for {instances:?}");
            let set = self.sets.get(SET).await?;
            let scale = set.spec.scale_strategy.as_ref();
            ensure!(scale.is_none_or(|scale| scale.pods_to_delete.is_empty()), "{scale:?}");
            let status = set.status.as_ref().context("no status")?;
            let counts = (status.replicas, status.available_replicas, status.updated_ready_replicas);
            ensure!(
                counts == (ALL, ALL, ALL)
                    && status.observed_generation == set.metadata.generation
                    && status.current_revision == status.update_revision,
                "{status:?}"
            );
            Ok(())
        })
        .await
        .with_context(|| format!("berth-workloads said:\n{}", self.workloads.service().last_words()))
    }
}

#[tokio::test]
async fn a_rollout_ends_well_wherever_its_program_is_killed() -> Result<()> {
    crate::slots::take().await;
    let plane = ControlPlane::audited().await?;
    let client = plane.client().await?;
    deploy::apply(&client, "namespace.yaml").await?;
    crds::install(&client).await?;
    deploy::apply(&client, "workloads/role.yaml").await?;
    deploy::apply(&client, "workloads/policy.yaml").await?;
    namespace(&client, SPACE).await?;
    let token = token::of(&client, "berth-workloads", None).await?;
    let kubeconfig = plane.api().kubeconfig_with("berth-workloads", &token)?;
    let workloads = Workloads::start(plane.run(), &kubeconfig, "berth-system").await?;
    let stage = Stage {
        workloads,
        sets: Api::namespaced(client.clone(), SPACE),
        pods: Api::namespaced(client.clone(), SPACE),
        claims: Api::namespaced(client, SPACE),
    };
    let witness = Witness::new(&[SET], PODS);
    let tasks = [
        tokio::spawn(witness.clone().watch(stage.pods.clone())),
        tokio::spawn(live(stage.pods.clone(), READY_AFTER)),
        tokio::spawn(let_go(stage.pods.clone())),
    ];
    stage.make("a:0").await?;
    stage.ends("a:0").await?;

    let mut log = Log { path: plane.api().audit_log(), read: 0 };
    let mut moments = BTreeSet::new();
    for least in 1..=LAST {
        let wanted = format!("a:{least}");
        let victim = stage.there().await?.first().context("no pod")?.name_any();
        log.more()?;
        stage.update(&wanted, &victim).await?;
        let made = log.has(least).await?;
        stage.workloads.service().kill()?;
        let left = stage.there().await?.iter().filter(|pod| image(pod) != wanted).count();
        ensure!(left > 0, "the rollout had ended after {made} writes");
        moments.insert(made);
        stage.workloads.service().start()?;
        stage.workloads.ready().await?;
        stage.ends(&wanted).await.with_context(|| format!("killed after {made} writes"))?;
        let (most, fewest) = (witness.most(), witness.fewest());
        ensure!(most == PODS, "killed after {made} writes: {most} pods were there at once");
        ensure!(fewest >= PODS - MOST, "killed after {made} writes: only {fewest} pods served");
    }
    ensure!(tasks.iter().all(|task| !task.is_finished()), "nobody watched to the end");
    ensure!(witness.fewest() < PODS, "nothing was seen of the rollouts");
    ensure!(moments.len() >= LAST / 3, "killed after {moments:?} writes");
    println!("killed after {moments:?} writes, at least {} of {PODS} served", witness.fewest());
    let untyped: Api<DynamicObject> =
        Api::namespaced_with(plane.client().await?, SPACE, &ApiResource::erase::<Pod>(&()));
    for pod in untyped.list(&ListParams::default()).await? {
        ensure!(pod.data["spec"]["hostnameOverride"] == HOST_NAME, "{pod:?}");
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    drop(stage);
    plane.down()
}
