//! Two replicas of berth-workloads in the midst of a rollout: the one that leads is killed, and later another
//! one is stopped for longer than the Lease lasts and goes on. The log of the API server says who wrote what.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_tests::node::{ControlPlane, Replica, Workloads, crds, deploy, token};
use berth_tests::wait::{await_condition, await_rest};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::witness::{USER, Witness, live, serves};
use crate::api_server::namespace;
use crate::case::{PATIENCE, ROLLOUT};

const SPACE: &str = "two-replicas";
/// Pods of each set, and how many of them may be unavailable.
const PODS: usize = 16;
const MOST: usize = 2;
/// A new pod is Ready after it.
const READY_AFTER: Duration = Duration::from_millis(400);
/// Lease of the two. The shorter it is, the sooner a leader that gets no processor loses it, and the less
/// time its last writes have to come to the API server before those of the next one.
const LEASE: &str = "--lease-duration=6";
/// Longer than that.
const STOPPED_FOR: Duration = Duration::from_secs(9);

/// A replica, and how the log of the API server names its token.
struct One {
    workloads: Workloads,
    credential: String,
}

impl One {
    async fn start(plane: &ControlPlane, replica: Replica) -> Result<Self> {
        let token = token::of(&plane.client().await?, "berth-workloads", None).await?;
        let kubeconfig = plane.api().kubeconfig_with(&format!("{replica:?}"), &token)?;
        let workloads = Workloads::launch_as(plane.run(), replica, &kubeconfig, "berth-system", &[LEASE])?;
        workloads.ready().await?;
        let claims = token.split('.').nth(1).context("no claims")?;
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims)?)?;
        let credential = format!("JTI={}", claims["jti"].as_str().context("a token without an ID")?);
        Ok(Self { workloads, credential })
    }

    async fn leads(&self) -> Result<bool> {
        Ok(self.workloads.metric("berth_workloads_leads").await? == 1.0)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.workloads.service().pid().context("it does not run")?;
        kill(Pid::from_raw(i32::try_from(pid)?), signal).context("signal")
    }
}

struct Stage {
    pods: Api<Pod>,
    sets: Vec<(Api<DynamicObject>, &'static str)>,
}

fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": { "containers": [{ "name": "main", "image": image }] },
    })
}

impl Stage {
    async fn make(&mut self, client: &kube::Client) -> Result<()> {
        for (kind, version, name, strategy) in [
            ("CloneSet", "v1alpha1", "shop", json!({ "maxUnavailable": MOST })),
            ("StatefulSet", "v1beta1", "db", json!({ "rollingUpdate": { "maxUnavailable": MOST } })),
        ] {
            let mut set = json!({
                "apiVersion": format!("apps.kruise.io/{version}"), "kind": kind,
                "metadata": { "name": name, "namespace": SPACE },
                "spec": {
                    "replicas": PODS, "selector": { "matchLabels": { "app": name } },
                    "template": template(name, "a:1"), "updateStrategy": strategy,
                },
            });
            if kind == "StatefulSet" {
                set["spec"]["serviceName"] = name.into();
                set["spec"]["podManagementPolicy"] = "Parallel".into();
            }
            let set: DynamicObject = serde_json::from_value(set)?;
            let api = deploy::api(client, &set)?;
            api.create(&PostParams::default(), &set).await.with_context(|| format!("make {kind} {name}"))?;
            self.sets.push((api, name));
        }
        Ok(())
    }

    async fn update(&self) -> Result<()> {
        for (api, name) in &self.sets {
            let patch = json!({ "spec": { "template": template(name, "a:2") } });
            api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.context("edit")?;
        }
        Ok(())
    }

    /// Waits until so many pods of each set have the image, and serve.
    async fn serve(&self, image: &str, least: usize) -> Result<()> {
        await_condition(format!("{least} pods of each set have {image}"), ROLLOUT, async || {
            let pods = self.pods.list(&ListParams::default()).await?;
            for (_, app) in &self.sets {
                let is_new = |pod: &&Pod| {
                    let spec = pod.spec.as_ref().and_then(|spec| spec.containers.first()?.image.as_deref());
                    serves(pod)
                        && pod.labels().get("app").map(String::as_str) == Some(app)
                        && spec == Some(image)
                };
                let count = pods.iter().filter(is_new).count();
                ensure!(count >= least, "{count} of {app}");
            }
            Ok(())
        })
        .await
    }
}

async fn await_leads(one: &One) -> Result<()> {
    await_condition("it leads", PATIENCE, async || {
        ensure!(one.leads().await?, "not yet");
        Ok(())
    })
    .await
}

/// Waits until it writes nothing any more: as many pods as may be are out of service, and none gets Ready.
async fn rests(one: &One) -> Result<()> {
    let writes = async || one.workloads.metric("berth_workloads_writes_total").await;
    await_rest("it rests", PATIENCE, writes).await.map(drop)
}

/// Waits until one of them leads; gives that one first.
async fn leader<'a>(one: &'a One, other: &'a One) -> Result<(&'a One, &'a One)> {
    await_condition("one of them leads", PATIENCE, async || {
        for (one, other) in [(one, other), (other, one)] {
            if one.leads().await? {
                return Ok((one, other));
            }
        }
        bail!("none does")
    })
    .await
}

#[tokio::test]
async fn a_rollout_goes_on_when_its_leader_is_killed_or_stopped() -> Result<()> {
    crate::slots::take().await;
    let plane = ControlPlane::audited().await?;
    let client = plane.client().await?;
    deploy::apply(&client, "namespace.yaml").await?;
    crds::install(&client).await?;
    deploy::apply(&client, "workloads/role.yaml").await?;
    deploy::apply(&client, "workloads/policy.yaml").await?;
    namespace(&client, SPACE).await?;
    let first = One::start(&plane, Replica::First).await?;
    let second = One::start(&plane, Replica::Second).await?;

    let mut stage = Stage { pods: Api::namespaced(client.clone(), SPACE), sets: Vec::new() };
    let witness = Witness::new(&["shop", "db"], PODS);
    let watching = tokio::spawn(witness.clone().watch(stage.pods.clone()));
    let pods = stage.pods.clone();
    let lives = || tokio::spawn(live(pods.clone(), READY_AFTER));
    let mut living = lives();
    stage.make(&client).await?;
    stage.serve("a:1", PODS).await?;

    // Killed in the midst of the rollout.
    stage.update().await?;
    stage.serve("a:2", 3).await?;
    let (leads, other) = leader(&first, &second).await?;
    leads.workloads.service().kill()?;
    // Pods that the killed one made go on to be Ready without anyone: their number says nothing.
    await_leads(other).await.context("the other one follows")?;
    stage.serve("a:2", 6).await.context("the other one goes on")?;
    // No pod gets Ready for a while. A write that is on its way when its writer is stopped goes on with it,
    // and comes when another one leads, which no program can help: so there is none.
    living.abort();
    leads.workloads.service().start()?;
    leads.workloads.ready().await?;

    // Stopped for a while, and there again when it has been followed.
    rests(other).await?;
    other.signal(Signal::SIGSTOP)?;
    let stopped = Instant::now();
    living = lives();
    await_leads(leads).await.context("the stopped one is followed")?;
    sleep(STOPPED_FOR.saturating_sub(stopped.elapsed())).await;
    other.signal(Signal::SIGCONT)?;
    stage.serve("a:2", PODS).await.context("the rollout ends")?;
    sleep(Duration::from_secs(2)).await;
    ensure!(!watching.is_finished() && !living.is_finished(), "nobody watched to the end");
    let (most, fewest) = (witness.most(), witness.fewest());
    ensure!(most == PODS, "{most} pods of a set were there at once");
    ensure!(fewest >= PODS - MOST, "only {fewest} pods of a set served");
    ensure!(fewest < PODS, "nothing was seen of the rollout");
    let log = std::fs::read_to_string(plane.api().audit_log()).context("the log of writes")?;
    let (terms, writes) = who_wrote(&log, [&first.credential, &second.credential])?;
    ensure!(terms >= 3, "{terms} terms");
    ensure!(writes.iter().all(|count| *count > 5), "{writes:?} writes");
    println!("{terms} terms, {writes:?} writes, at least {fewest} of {PODS} served");
    watching.abort();
    living.abort();
    drop((first, second));
    plane.down()
}

/// Term of a leader: from the request that took the Lease to the answer to the next one's. The Lease changes
/// hands between request and answer, and the log does not say when: there two terms overlap.
#[derive(Debug)]
struct Term {
    by: usize,
    from: Timestamp,
    until: Timestamp,
}

/// Sees to it that each write was the leader's. Gives the number of terms, and of the writes of each of
/// these.
fn who_wrote(log: &str, credentials: [&str; 2]) -> Result<(usize, [usize; 2])> {
    let (mut leases, mut written) = (Vec::new(), Vec::new());
    // The last line may still be written.
    let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
    for line in whole.lines() {
        let event: Value = serde_json::from_str(line).context("a line of the log")?;
        let (user, object) = (&event["user"], &event["objectRef"]);
        if user["username"] != USER || object["resource"] == "events" {
            continue;
        }
        let credential = &user["extra"]["authentication.kubernetes.io/credential-id"][0];
        let by = credentials.iter().position(|one| credential == one).context("somebody else's token")?;
        let time =
            |name: &str| -> Result<Timestamp> { Ok(event[name].as_str().context("no time")?.parse()?) };
        let received = time("requestReceivedTimestamp")?;
        if object["resource"] != "leases" {
            written.push((received, by, format!("{} {object}", event["verb"])));
        } else if event["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300) {
            leases.push((received, time("stageTimestamp")?, by));
        }
    }
    // Each of these is on the version that the one before it wrote.
    leases.sort();
    let mut terms: Vec<Term> = Vec::new();
    for (from, answered, by) in leases {
        if terms.last().is_some_and(|last| last.by == by) {
            continue;
        }
        if let Some(last) = terms.last_mut() {
            last.until = answered;
        }
        terms.push(Term { by, from, until: Timestamp::MAX });
    }
    let mut writes = [0, 0];
    for (at, by, what) in written {
        let leads = terms.iter().any(|term| term.by == by && term.from <= at && at <= term.until);
        ensure!(leads, "{at}: {by} writes, and does not lead: {what}; {terms:?}");
        writes[by] += 1;
    }
    Ok((terms.len(), writes))
}
