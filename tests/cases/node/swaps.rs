//! Hot upgrades from one end to the other: a web server as sidecar with twins, under requests all the time.
//! None of them fails, whatever becomes of the upgrade, and the app runs on.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::{NodePodUpdate, SidecarSet, TwinSwapStep, UpdatePhase};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::{Manager, NODE_NAME, Replica, program_images, token};
use berth_tests::wait::await_condition;
use berthd::agent::fault::Point;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::admission::{Door, install_admission};
use crate::case::{Case, PATIENCE, container, run_updating_alone};
use crate::faults::dies_and_comes_back;

const SET: &str = "web-twins";
const LABEL: &str = "swapped";
const POD: &str = "pod";
const EMPTY: &str = "berth.test/web:empty";
/// Longer than anything takes that is answered.
const ANSWERED: Duration = Duration::from_secs(20);
/// Between two requests without keep-alive.
const APART: Duration = Duration::from_millis(10);
/// Connections that are kept, and the pause between two requests of one.
const KEPT: usize = 10;
const KEPT_APART: Duration = Duration::from_millis(50);

fn web(tag: &str) -> String {
    format!("berth.test/web:{tag}")
}

/// The server as images: some that work, the empty one, one whose hook hangs, one that dies. Each has an ID
/// of its own: by that the manager sees which one runs.
pub(crate) async fn bring_images(case: &Case) -> Result<()> {
    let program = Path::new(env!("CARGO_BIN_EXE_berth-web"));
    let tags = ["1", "2", "3", "4", "5", "6", "7", "empty", "hangs", "dies"];
    let images: Vec<(String, String)> = tags.map(|tag| (web(tag), format!("WEB={tag}"))).into();
    let images: Vec<(&str, &str)> = images.iter().map(|(image, env)| (&**image, &**env)).collect();
    for archive in program_images::variants(case.node.run(), program, &images).await? {
        let archive = archive.to_str().context("path of an archive")?;
        case.node.containerd().ctr(&["images", "import", archive]).await?;
    }
    Ok(())
}

/// Requests that are made all the time, and those that failed.
struct Load {
    failed: Arc<Mutex<Vec<String>>>,
    answered: Arc<AtomicUsize>,
    _clients: JoinSet<()>,
}

impl Load {
    fn begin(address: String) -> Self {
        let (failed, answered) = (Arc::new(Mutex::default()), Arc::new(AtomicUsize::new(0)));
        let mut clients = JoinSet::new();
        let count = {
            let (failed, answered) = (failed.clone(), answered.clone());
            move |outcome: Result<()>| match outcome {
                Ok(()) => drop(answered.fetch_add(1, Ordering::Relaxed)),
                Err(error) => {
                    let failed: &Mutex<Vec<String>> = &failed;
                    failed.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{error:#}"));
                }
            }
        };
        let (to, told) = (address.clone(), count.clone());
        clients.spawn(async move {
            let (mut tick, mut requests) = (interval(APART), JoinSet::new());
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                let (to, told) = (to.clone(), told.clone());
                requests.spawn(async move { told(once(&to).await.context("without keep-alive")) });
                while requests.try_join_next().is_some() {}
            }
        });
        for _ in 0..KEPT {
            let (to, told) = (address.clone(), count.clone());
            clients.spawn(async move {
                let mut kept = None;
                loop {
                    told(again(&to, &mut kept).await.context("with keep-alive"));
                    sleep(KEPT_APART).await;
                }
            });
        }
        Self { failed, answered, _clients: clients }
    }

    fn all_answered(&self) -> Result<usize> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let answered = self.answered.load(Ordering::Relaxed);
        ensure!(failed.is_empty(), "{} of {answered} requests failed: {:?}", failed.len(), failed.first());
        Ok(answered)
    }
}

async fn once(address: &str) -> Result<()> {
    let asked = async {
        let mut stream = TcpStream::connect(address).await.context("connect")?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n").await.context("ask")?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.context("read")?;
        ensure!(text.starts_with("HTTP/1.1 200"), "{text:?}");
        Ok(())
    };
    timeout(ANSWERED, asked).await.context("no answer in time")?
}

/// One request on a connection that is kept until the server says that it closes it.
async fn again(address: &str, kept: &mut Option<BufReader<TcpStream>>) -> Result<()> {
    let asked = async {
        let mut stream = match kept.take() {
            Some(stream) => stream,
            None => BufReader::new(TcpStream::connect(address).await.context("connect")?),
        };
        stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\n\r\n").await.context("ask")?;
        let (mut close, mut length, mut first) = (false, 0, String::new());
        stream.read_line(&mut first).await.context("read")?;
        ensure!(first.starts_with("HTTP/1.1 200"), "{first:?}");
        loop {
            let mut header = String::new();
            stream.read_line(&mut header).await.context("read")?;
            match header.trim().split_once(": ") {
                Some(("Connection", value)) => close = value == "close",
                Some(("Content-Length", value)) => length = value.parse()?,
                Some(_) => {}
                None => break,
            }
        }
        stream.read_exact(&mut vec![0; length]).await.context("read")?;
        *kept = (!close).then_some(stream);
        Ok(())
    };
    timeout(ANSWERED, asked).await.context("no answer in time")?
}

struct Stage<'a> {
    case: &'a Case,
    sets: Api<SidecarSet>,
    updates: Api<NodePodUpdate>,
}

impl Stage<'_> {
    async fn image(&self, tag: &str) -> Result<()> {
        let patch = json!({ "spec": { "containers": [sidecar(&web(tag))] } });
        self.sets.patch(SET, &PatchParams::default(), &Patch::Merge(&patch)).await.context("edit the set")?;
        Ok(())
    }

    /// Waits until one twin serves this version and the other one rests, and the set says so.
    async fn swapped(&self, tag: &str) -> Result<()> {
        let what = format!("{} serves", web(tag));
        let pod = self.case.await_pod(POD, &what, |pod| is_swapped(pod, &web(tag))).await?;
        ensure!(container(&pod, "app")?.restart_count == 0, "the app was restarted");
        await_condition(format!("the set says that {what}"), PATIENCE, async || {
            let set = self.sets.get(SET).await?;
            let status = set.status.clone().context("no status")?;
            let all = (status.updated_pods, status.ready_pods) == (Some(1), Some(1));
            ensure!(status.observed_generation == set.metadata.generation && all, "{status:?}");
            let status = self.updates.get(NODE_NAME).await?.status.unwrap_or_default();
            ensure!(status.desired_pods.is_empty(), "{status:?}");
            Ok(())
        })
        .await
    }

    /// Waits until the entry has failed with this reason, and the pod is as it was.
    async fn failed(&self, reason: &str, serves: &str) -> Result<()> {
        await_condition(format!("the entry has failed: {reason}"), PATIENCE, async || {
            let status = self.updates.get(NODE_NAME).await?.status.unwrap_or_default();
            let entry = status.pods.first().context("no entry")?;
            ensure!(entry.phase == UpdatePhase::Failed, "{entry:?}");
            ensure!(entry.reason.as_deref() == Some(reason), "{entry:?}");
            // The time is what the set says.
            ensure!(entry.message.as_deref().unwrap_or_default().contains("within 20 s"), "{entry:?}");
            ensure!(entry.swaps.iter().all(|swap| swap.step != TwinSwapStep::Migrating), "{entry:?}");
            Ok(())
        })
        .await?;
        let pod = self
            .case
            .await_pod(POD, &format!("{} serves again", web(serves)), |pod| is_swapped(pod, &web(serves)))
            .await?;
        ensure!(container(&pod, "app")?.restart_count == 0, "the app was restarted");
        Ok(())
    }

    /// Swaps, and tells how long that took.
    async fn swap(&self, load: &Load, tag: &str) -> Result<()> {
        let begun = Instant::now();
        self.image(tag).await?;
        self.swapped(tag).await?;
        eprintln!("{} serves after {:.1} s", web(tag), begun.elapsed().as_secs_f32());
        load.all_answered().map(drop).with_context(|| format!("at the swap to {}", web(tag)))
    }
}

/// Both twins run what the spec says: one this image, the other one the empty one.
fn is_swapped(pod: &Pod, image: &str) -> Result<()> {
    let mut images = Vec::new();
    for twin in ["web-1", "web-2"] {
        let status = container(pod, twin)?;
        let of_spec = pod.spec.iter().flat_map(|spec| &spec.containers).find(|one| one.name == twin);
        images.push(of_spec.and_then(|one| one.image.clone()).unwrap_or_default());
        ensure!(status.ready, "{status:?}");
    }
    images.sort_unstable();
    let mut wanted = [image.to_owned(), EMPTY.to_owned()];
    wanted.sort_unstable();
    ensure!(images == wanted, "{images:?}");
    Ok(())
}

fn sidecar(image: &str) -> Value {
    json!({
        "name": "web",
        "image": image,
        "lifecycle": { "postStart": { "exec": { "command": ["/bin/berth-web", "post-start"] } } },
        "upgradeStrategy": { "upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": EMPTY },
    })
}

#[tokio::test]
async fn sidecars_are_swapped_without_a_failed_request() -> Result<()> {
    run_updating_alone("sidecars_are_swapped_without_a_failed_request", async |case: &Case| {
        bring_images(case).await?;
        let client = case.node.client().await?;
        install_admission(&client, case.node.run()).await?;
        let _door = Door::open(case.node.run()).await?;
        let token = token::of(&client, "berth-manager", None).await?;
        let kubeconfig = case.node.api()?.kubeconfig_with("berth-manager", &token)?;
        let lease = ("berth-system", 15);
        let manager = Manager::admitting(case.node.run(), Replica::Second, &kubeconfig, lease).await?;
        let stage = Stage { case, sets: Api::all(client.clone()), updates: Api::all(client) };
        let set = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet",
            "metadata": { "name": SET, "annotations": { "berth.dev/migration-seconds": "20" } },
            "spec": {
                "selector": { "matchLabels": { LABEL: "web" } },
                "containers": [sidecar(&web("1"))],
            },
        });
        await_condition("the set is taken", PATIENCE, async || {
            let set = serde_json::from_value(set.clone())?;
            stage.sets.create(&PostParams::default(), &set).await.map(drop).context("make the set")
        })
        .await?;
        let outcome = swaps(&stage).await;
        stage.sets.delete(SET, &DeleteParams::default()).await?;
        manager.service().stop()?;
        outcome
    })
    .await
}

fn manifest(case: &Case, name: &str) -> PodManifest {
    case.manifest(name).label(LABEL, "web").container(Container::new("app"))
}

async fn swaps(stage: &Stage<'_>) -> Result<()> {
    let case = stage.case;
    await_condition("the API server asks for pods of the set", PATIENCE, async || {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let pod = case.pods.create(&params, &manifest(case, "probe").pod()?).await?;
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers).count();
        ensure!(containers == 3, "{containers} containers");
        Ok(())
    })
    .await?;
    case.create(&manifest(case, POD)).await?;
    let pod = case.await_ready(POD).await?;
    let Some(address) = pod.status.and_then(|status| status.pod_ip) else { bail!("no address") };
    let load = Load::begin(format!("{address}:8080"));
    stage.swapped("1").await?;

    for tag in ["2", "3", "4"] {
        stage.swap(&load, tag).await?;
    }

    // A killed agent goes on, wherever it was.
    for (point, tag) in [(Point::SwapStarted, "5"), (Point::SwapFinishing, "6")] {
        case.node.berthd()?.die_at(point.name())?;
        stage.image(tag).await?;
        dies_and_comes_back(case, point, PATIENCE, async || Ok(false)).await?;
        stage.swapped(tag).await?;
        load.all_answered().with_context(|| format!("killed at {}", point.name()))?;
    }

    // What cannot be had, and what never takes over, go back by themselves; and what was before is wanted
    // again, which is as it is.
    // An image that the agent cannot pull is left to the kubelet, which has the credentials of the pod.
    for tag in ["none", "hangs", "dies"] {
        stage.image(tag).await?;
        stage.failed("MigrationTimeout", "6").await?;
        load.all_answered().with_context(|| format!("image {}", web(tag)))?;
        stage.image("6").await?;
        stage.swapped("6").await?;
    }
    stage.swap(&load, "7").await?;
    let answered = load.all_answered()?;
    ensure!(answered > 1000, "only {answered} requests were made");
    eprintln!("{answered} requests, none failed");
    Ok(())
}
