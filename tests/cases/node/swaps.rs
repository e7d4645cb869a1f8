//! Hot upgrades from one end to the other: web servers as sidecars with twins, under requests all the time.
//! None of them fails, whatever becomes of the upgrade, and the app runs on. Ten in a row, and more that goes
//! wrong: `berth-bench sidecarset`.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{NodePodUpdate, SidecarSet, TwinSwapStep, UpdatePhase};
use berth_proto::cri::ContainerState;
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::images::{BUSYBOX, BUSYBOX_NEXT, PAUSE};
use berth_tests::node::{Manager, NODE_NAME, Replica, deploy, token};
use berth_tests::observe::Instance;
use berth_tests::swaps::{
    LABEL, Load, Pace, Sockets, TWINS, address, bring_images, is_swapped, serves, set, sidecar, web,
};
use berth_tests::wait::await_condition;
use berthd::agent::fault::Point;
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::admission::{Door, install_admission};
use crate::case::{Case, PATIENCE, run_updating_alone};
use crate::faults;

/// Sets, each with a pod of its name, by how the next version comes to listen.
const SETS: [(&str, Sockets); 2] =
    [("web-handed-over", Sockets::HandedOver), ("web-shared", Sockets::Shared)];
/// Load on each of them: both together get 200 requests a second without keep-alive, and 50 connections
/// with it.
const PACE: Pace = Pace { anew: 100, kept: 25 };
/// Seconds that a new version has to take over: one that does, and one that never will. A kill of berthd may
/// break its hook off, and the kubelet starts it again after 10 s then, and after 20 s the second time.
const MIGRATION: (u32, u32) = (300, 12);

struct Stage<'a> {
    case: &'a Case,
    sets: Api<SidecarSet>,
    updates: Api<NodePodUpdate>,
}

impl Stage<'_> {
    async fn image(&self, tag: &str) -> Result<()> {
        self.image_within(tag, MIGRATION.0).await
    }

    /// Asks for a version that has so many seconds to take over.
    async fn image_within(&self, tag: &str, migration: u32) -> Result<()> {
        let annotations = json!({ "berth.dev/migration-seconds": migration.to_string() });
        for (set, sockets) in SETS {
            let spec = json!({ "containers": [sidecar(tag, sockets)] });
            let patch = json!({ "metadata": { "annotations": annotations }, "spec": spec });
            let edited = self.sets.patch(set, &PatchParams::default(), &Patch::Merge(&patch)).await;
            edited.with_context(|| format!("edit {set}"))?;
        }
        Ok(())
    }

    /// Waits until one twin of each pod serves this version and the other one rests, and the sets say so.
    async fn swapped(&self, tag: &str) -> Result<()> {
        for (set, _) in SETS {
            let what = format!("{} serves", web(tag));
            self.case.await_pod(set, &what, |pod| is_swapped(pod, tag)).await?;
            await_condition(format!("{set} says that {what}"), PATIENCE, async || {
                let set = self.sets.get(set).await?;
                let status = set.status.clone().context("no status")?;
                let all = (status.updated_pods, status.ready_pods) == (Some(1), Some(1));
                ensure!(status.observed_generation == set.metadata.generation && all, "{status:?}");
                Ok(())
            })
            .await?;
        }
        await_condition("nothing is asked for any more", PATIENCE, async || {
            let status = self.updates.get(NODE_NAME).await?.status.unwrap_or_default();
            ensure!(status.desired_pods.is_empty(), "{status:?}");
            Ok(())
        })
        .await
    }

    /// How often the twins were restarted, pod by pod.
    async fn restarts(&self) -> Result<Vec<i32>> {
        let mut restarts = Vec::new();
        for (set, _) in SETS {
            let pod = self.case.pods.get(set).await?;
            let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
            let twins = statuses.filter(|status| TWINS.contains(&&*status.name));
            restarts.extend(twins.map(|status| status.restart_count));
        }
        ensure!(restarts.len() == SETS.len() * TWINS.len(), "{restarts:?}");
        Ok(restarts)
    }

    /// Asks for this version and waits until it serves, whatever happens meanwhile: each twin is restarted
    /// once for that.
    async fn swap(&self, tag: &str, meanwhile: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
        let once: Vec<i32> = self.restarts().await?.into_iter().map(|before| before + 1).collect();
        self.image(tag).await?;
        meanwhile().await?;
        self.swapped(tag).await?;
        let restarts = self.restarts().await?;
        ensure!(restarts == once, "{}: restarts {restarts:?}, not {once:?}", web(tag));
        Ok(())
    }

    /// Waits until berthctl says this of a twin of each pod.
    async fn explained(&self, what: &str) -> Result<()> {
        for (set, _) in SETS {
            let pod = format!("{}/{set}", self.case.namespace);
            await_condition(format!("{set}: {what}"), PATIENCE, async || {
                let text = self.case.node.berthd()?.ctl(&["explain", &pod]).await?;
                ensure!(text.contains(what), "{text}");
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// Instances of twins that run, by their IDs.
    async fn running(&self) -> Result<BTreeSet<String>> {
        let mut running = BTreeSet::new();
        for (set, _) in SETS {
            let all = self.case.cri.containers(&self.case.namespace, set).await?;
            let twins = all.into_iter().filter(|one| TWINS.contains(&&*one.name));
            let runs = |one: &Instance| one.state == ContainerState::ContainerRunning;
            running.extend(twins.filter(runs).map(|one| one.id));
        }
        Ok(running)
    }

    /// Takes the API server away while new versions take over; `before` ran before that. Both twins stay up:
    /// the second patch waits for it, and the agent says so.
    async fn without_api_server(&self, before: &BTreeSet<String>) -> Result<()> {
        self.explained(" to take over.").await?;
        // The kubelet has heard of the first patch then, and the hooks go on for a while.
        await_condition("the new versions run", PATIENCE, async || {
            let now = self.running().await?;
            let new = now.difference(before).count();
            ensure!(new == SETS.len(), "{new} of {}", SETS.len());
            Ok(())
        })
        .await?;
        let explained = async || self.explained(" has taken over, and ").await;
        faults::without_api_server(self.case, explained).await
    }

    /// Waits until the agent has told this of each pod.
    async fn told(&self, reason: &str) -> Result<()> {
        let events: Api<Event> = Api::namespaced(self.sets.clone().into_client(), &self.case.namespace);
        for (set, _) in SETS {
            await_condition(format!("{set}: Event {reason}"), PATIENCE, async || {
                let all = events.list(&ListParams::default()).await?.items;
                let is_told = |event: &Event| {
                    let pod = event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref());
                    let from = event.reporting_instance.as_deref();
                    (pod, from, event.reason.as_deref()) == (Some(set), Some(NODE_NAME), Some(reason))
                };
                ensure!(all.iter().any(is_told), "not among {} Events", all.len());
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// Waits until the new version was given up in each pod, and the pods are as they were.
    async fn returned(&self, serves: &str) -> Result<()> {
        await_condition("the entries have failed", PATIENCE, async || {
            let status = self.updates.get(NODE_NAME).await?.status.unwrap_or_default();
            ensure!(status.pods.len() == SETS.len(), "{:?}", status.pods);
            for entry in &status.pods {
                ensure!(entry.phase == UpdatePhase::Failed, "{entry:?}");
                ensure!(entry.reason.as_deref() == Some("MigrationTimeout"), "{entry:?}");
                // The time is what the set says.
                let within = format!("within {} s", MIGRATION.1);
                ensure!(entry.message.as_deref().unwrap_or_default().contains(&within), "{entry:?}");
                ensure!(entry.swaps.iter().all(|swap| swap.step != TwinSwapStep::Migrating), "{entry:?}");
            }
            Ok(())
        })
        .await?;
        for (set, _) in SETS {
            let what = format!("{} serves again", web(serves));
            self.case.await_pod(set, &what, |pod| is_swapped(pod, serves)).await?;
        }
        Ok(())
    }

    /// Deletes the sets while this version takes over, and waits until it serves and nothing is said any
    /// more.
    async fn withdrawn(&self, tag: &str) -> Result<()> {
        self.explained(" to take over.").await?;
        for (set, _) in SETS {
            self.sets.delete(set, &DeleteParams::default()).await?;
        }
        for (set, _) in SETS {
            let what = format!("{} serves without its set", web(tag));
            self.case.await_pod(set, &what, |pod| is_swapped(pod, tag)).await?;
        }
        await_condition("the node has forgotten them", PATIENCE, async || {
            let status = self.updates.get(NODE_NAME).await?.status.unwrap_or_default();
            ensure!(status.desired_pods.is_empty() && status.pods.is_empty(), "{status:?}");
            Ok(())
        })
        .await
    }

    /// Asks for this image, and kills berthd at each of these points on the way, one after the other.
    async fn killed_at(&self, points: &[Point], tag: &str, migration: u32) -> Result<()> {
        let points: Vec<&str> = points.iter().map(|point| point.name()).collect();
        let asked = async || self.image_within(tag, migration).await;
        self.case.node.berthd()?.dies_at_each(&points, PATIENCE, asked).await
    }
}

#[tokio::test]
async fn sidecars_are_swapped_without_a_failed_request() -> Result<()> {
    run_updating_alone("sidecars_are_swapped_without_a_failed_request", async |case: &Case| {
        bring_images(case.node, 4).await?;
        let client = case.node.client().await?;
        let (_door, manager) = admitted(case, &client).await?;
        let stage = Stage { case, sets: Api::all(client.clone()), updates: Api::all(client) };
        for (name, sockets) in SETS {
            let set = set(name, "1", sockets, MIGRATION.0);
            await_condition(format!("set {name} is taken"), PATIENCE, async || {
                let set = serde_json::from_value(set.clone())?;
                stage.sets.create(&PostParams::default(), &set).await.map(drop).context("make the set")
            })
            .await?;
        }
        let outcome = swaps(&stage).await;
        for (set, _) in SETS {
            // The last scene deletes them.
            if stage.sets.get_opt(set).await?.is_some() {
                stage.sets.delete(set, &DeleteParams::default()).await?;
            }
        }
        manager.service().stop()?;
        outcome
    })
    .await
}

/// Brings up a manager that admits pods, and the way to it.
pub(crate) async fn admitted(case: &Case, client: &Client) -> Result<(Door, Manager)> {
    install_admission(client, case.node.run()).await?;
    let door = Door::open(case.node.run()).await?;
    let token = token::of(client, "berth-manager", None).await?;
    let kubeconfig = case.node.api()?.kubeconfig_with("berth-manager", &token)?;
    let lease = ("berth-system", 15);
    Ok((door, Manager::admitting(case.node.run(), Replica::Second, &kubeconfig, lease).await?))
}

/// The sample that users are shown, as it is but for the images: its pod asks all the time, and no answer
/// fails.
#[tokio::test]
async fn the_sample_is_swapped_without_a_failed_request() -> Result<()> {
    run_updating_alone("the_sample_is_swapped_without_a_failed_request", async |case: &Case| {
        let client = case.node.client().await?;
        let (_door, manager) = admitted(case, &client).await?;
        let outcome = async {
            sample(case, &client).await?;
            // An entry that stays would be in the way of others on this node.
            let nodes: Api<NodePodUpdate> = Api::all(client.clone());
            await_condition("the node has forgotten it", PATIENCE, async || {
                let status = nodes.get(NODE_NAME).await?.status.context("no status")?;
                ensure!(status.pods.iter().all(|pod| pod.owner != "SidecarSet/mesh"), "{:?}", status.pods);
                Ok(())
            })
            .await
        };
        let outcome = outcome.await;
        let sets: Api<SidecarSet> = Api::all(client);
        let deleted = sets.delete("mesh", &DeleteParams::default()).await;
        manager.service().stop()?;
        outcome?;
        deleted.map(drop).context("delete the set")
    })
    .await
}

async fn sample(case: &Case, client: &Client) -> Result<()> {
    let [mut set, mut pod] =
        <[_; 2]>::try_from(deploy::objects("samples/hot-upgrade.yaml")?).ok().context("a set and a pod")?;
    let sidecar = &mut set.data["spec"]["containers"][0];
    sidecar["image"] = BUSYBOX.into();
    sidecar["upgradeStrategy"]["hotUpgradeEmptyImage"] = PAUSE.into();
    pod.data["spec"]["containers"][0]["image"] = BUSYBOX.into();
    pod.metadata.namespace = Some(case.namespace.clone());
    await_condition("the set is taken", PATIENCE, async || {
        deploy::apply_object(client, &set).await.map(drop)
    })
    .await?;
    deploy::apply_object(client, &pod).await?;
    let name = "asks-mesh";
    case.await_ready(name).await?;
    case.await_pod(name, "the first version serves", |pod| serves(pod, "mesh", BUSYBOX, PAUSE)).await?;
    answers(case, name, "1").await?;
    let sets: Api<SidecarSet> = Api::all(client.clone());
    let next = json!([{ "op": "replace", "path": "/spec/containers/0/image", "value": BUSYBOX_NEXT }]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(next)?);
    sets.patch("mesh", &PatchParams::default(), &patch).await.context("another image")?;
    case.await_pod(name, "the next version serves", |pod| serves(pod, "mesh", BUSYBOX_NEXT, PAUSE)).await?;
    answers(case, name, "2").await
}

/// Waits until the app was answered by this version, and nothing it asked for has failed.
async fn answers(case: &Case, name: &str, version: &str) -> Result<()> {
    let params = LogParams { container: Some("app".to_owned()), ..LogParams::default() };
    let log = await_condition(format!("version {version} answers"), PATIENCE, async || {
        let log = case.pods.logs(name, &params).await.context("log of the app")?;
        ensure!(log.lines().any(|line| line == version), "{log}");
        Ok(log)
    })
    .await?;
    ensure!(!log.contains("failed"), "{log}");
    Ok(())
}

fn manifest(case: &Case, set: &str, name: &str) -> PodManifest {
    // An old version answers what it has before it ends, which takes a slow machine a while.
    case.manifest(name).label(LABEL, set).grace(60).container(Container::new("app"))
}

async fn swaps(stage: &Stage<'_>) -> Result<()> {
    let case = stage.case;
    let mut loads = Vec::new();
    for (set, _) in SETS {
        await_condition(format!("the API server asks for pods of {set}"), PATIENCE, async || {
            let params = PostParams { dry_run: true, ..PostParams::default() };
            let pod = case.pods.create(&params, &manifest(case, set, "probe").pod()?).await?;
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers).count();
            ensure!(containers == 3, "{containers} containers");
            Ok(())
        })
        .await?;
        case.create(&manifest(case, set, set)).await?;
        loads.push(Load::begin(&address(&case.await_ready(set).await?)?, PACE));
    }
    let answered = |when: &str| -> Result<usize> {
        let all = loads.iter().zip(SETS);
        all.map(|(load, (set, _))| load.all_answered().with_context(|| format!("{set}: {when}"))).sum()
    };
    stage.swapped("1").await?;

    let begun = Instant::now();
    stage.swap("2", async || Ok(())).await?;
    stage.told("ResetContainerSucceed").await?;
    answered("swapped")?;
    eprintln!("swapped after {:.1} s", begun.elapsed().as_secs_f32());

    let before = stage.running().await?;
    stage.swap("slow", async || stage.without_api_server(&before).await).await?;
    answered("the API server away on the way")?;
    eprintln!("without API server, swapped after {:.1} s", begun.elapsed().as_secs_f32());

    // A killed agent goes on, wherever it was.
    let there = [Point::SwapStarting, Point::SwapStarted, Point::SwapFinishing, Point::SwapFinished];
    stage.killed_at(&there, "3", MIGRATION.0).await?;
    stage.swapped("3").await?;
    answered("berthd killed on the way")?;
    eprintln!("killed on the way, swapped after {:.1} s", begun.elapsed().as_secs_f32());

    // A version that never takes over is given up, by an agent that is killed on the way back too; and what
    // was before is wanted again, which is as it is.
    let back = [Point::SwapReturning, Point::SwapReturned, Point::Unholding, Point::Unheld];
    stage.killed_at(&back, "hangs", MIGRATION.1).await?;
    stage.returned("3").await?;
    answered("berthd killed on the way back")?;
    eprintln!("killed on the way back, returned after {:.1} s", begun.elapsed().as_secs_f32());
    stage.image("3").await?;
    stage.swapped("3").await?;

    // An image that the agent cannot pull is left to the kubelet, which has the credentials of the pod.
    stage.image_within("none", MIGRATION.1).await?;
    stage.returned("3").await?;
    stage.told("ResetContainerFailed").await?;
    answered("an image that is nowhere")?;
    stage.swap("4", async || Ok(())).await?;
    answered("swapped after that")?;

    // Sets that go while new versions take over leave one version and one twin that rests.
    stage.image("slow").await?;
    stage.withdrawn("slow").await?;
    let answered = answered("without their sets")?;
    eprintln!("{answered} requests in {:.1} s, none failed", begun.elapsed().as_secs_f32());
    ensure!(answered > 1000, "only {answered} requests were made");
    Ok(())
}
