//! `berth-shim` and berthd on a real node: whatever of the two goes, nobody notices, and everything that is
//! in the middle of something comes to its end.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::ImagePhase;
use berth_tests::jobs::{Jobs, exits};
use berth_tests::manifest::Container;
use berth_tests::node::images::{BUSYBOX_NEXT, sized};
use berth_tests::node::{Berthd, Day, Gateway, Registry, Service};
use berth_tests::observe::{Caller, Recorder, complaints, node_ready, warnings};
use berth_tests::recreate::{Ask, Asked, Evidence, HELD};
use berth_tests::update::{Update, Updated};
use berth_tests::wait::await_condition;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::{Api, Client};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::case::{Case, PATIENCE, container, run_behind_shim, waits_for};
use crate::images::scene::{Wanted, is_phase, split};
use crate::{recreate, update};

/// Time that a call waits for a berthd that is away, all such times together.
const WAITS: Duration = Duration::from_secs(5);
/// Time for which berthd stands still, and once more when the hooks have ended: longer than [`WAITS`] and the
/// time in which it is noticed.
const STANDS_STILL: Duration = Duration::from_secs(7);
/// A berthd that stands still may have been asked whether it is there so long before: it has two seconds for
/// the answer, and is looked for once a second.
const ASKED_BEFORE: Duration = Duration::from_secs(3);
/// Grace of all pods with a hook that is held, in seconds: far more than what happens meanwhile takes.
const GRACE: i64 = 300;
/// Words of berthd's log when it is about to list the runtime for its shim.
const CONNECTED: &str = "Shim connected";
/// Words of its log when the API server is too slow for its start: it knows of no order then.
const NOT_LISTED: &str = "Pods not listed yet";
/// Bytes of the image that a client pulls all the time.
const PULLED: usize = 2 << 20;
const PULL_PAUSE: Duration = Duration::from_millis(200);
/// Random bytes of the image that berthd pulls and a pod needs.
const JOINED: usize = 6 << 20;
/// The most bytes that a gateway holds back at once, and more.
const PIECE: u64 = 64 << 10;

#[tokio::test]
async fn everything_goes_on_when_berthd_is_killed() -> Result<()> {
    unnoticed("two_programs_killed", async |berthd, _| {
        let (away, before) = (Timestamp::now(), said(berthd, CONNECTED)?);
        let slow = said(berthd, NOT_LISTED)?;
        berthd.service().kill()?;
        berthd.service().start()?;
        await_condition("berthd is connected to its shim", PATIENCE, async || {
            berthd.service().check_running()?;
            ensure!(said(berthd, CONNECTED)? > before, "it has not said so");
            Ok(())
        })
        .await?;
        // While it lists the runtime, or soon after.
        berthd.service().kill()?;
        berthd.service().start()?;
        berthd.ready().await?;
        if said(berthd, NOT_LISTED)? > slow {
            eprintln!("the API server was too slow for an order to be promised");
            return Ok(Some(away));
        }
        Ok(Some(away + WAITS))
    })
    .await
}

/// The hooks end in the middle of it, and what follows them goes on as well.
#[tokio::test]
async fn everything_goes_on_when_berthd_stands_still() -> Result<()> {
    unnoticed("two_programs_stands_still", async |berthd, hooks| {
        let pid = berthd.service().pid().context("berthd does not run")?;
        let pid = Pid::from_raw(i32::try_from(pid).context("pid")?);
        let away = Timestamp::now() - ASKED_BEFORE;
        kill(pid, Signal::SIGSTOP).context("stop berthd")?;
        tokio::time::sleep(STANDS_STILL).await;
        let gone = hooks.go();
        tokio::time::sleep(STANDS_STILL).await;
        kill(pid, Signal::SIGCONT).context("let berthd go on")?;
        gone?;
        berthd.ready().await?;
        Ok(Some(away + WAITS))
    })
    .await
}

#[tokio::test]
async fn everything_goes_on_when_the_shim_is_upgraded() -> Result<()> {
    unnoticed("two_programs_upgraded", async |berthd, _| {
        for _ in 0..10 {
            berthd.upgrade_shim().await?;
        }
        berthd.serving().await?;
        Ok(None)
    })
    .await
}

/// How often berthd, and those before it, have written this to their log.
fn said(berthd: &Berthd, words: &str) -> Result<usize> {
    let log = fs::read(berthd.service().log_path()).context("the log of berthd")?;
    Ok(String::from_utf8_lossy(&log).matches(words).count())
}

/// The pods in which something waits for the word of the test.
struct Hooks(Vec<Evidence>);

impl Hooks {
    /// Lets all of it come to its end.
    fn go(&self) -> Result<()> {
        self.0.iter().try_for_each(Evidence::let_go)
    }
}

/// Everything that can be under way at once.
struct Work<'a> {
    case: &'a Case,
    hooks: Hooks,
    /// Its lower container waits until [`Work::end`].
    held: Recorder,
    /// Evidence of a pod that is being deleted, in an order.
    stops: Evidence,
    jobs: Jobs,
    recreated: recreate::Scene<'a>,
    asked: Asked,
    updated: update::Scene<'a>,
    update: Updated,
    pull: Pull<'a>,
}

/// A pull of berthd's own, and a pod whose kubelet waits for it.
struct Pull<'a> {
    case: &'a Case,
    gateway: Gateway,
    wanted: Wanted,
    reference: String,
}

/// Has all of it under way, lets `fault` happen, and expects that everything comes to its end as it should,
/// and that no call failed. `fault` gives the time from which on stops may go on in no order.
async fn unnoticed(
    name: &str,
    fault: impl AsyncFnOnce(&Berthd, &Hooks) -> Result<Option<Timestamp>>,
) -> Result<()> {
    run_behind_shim(name, async |case: &Case| {
        let berthd = case.node.berthd()?;
        goes_on(case, berthd, fault).await.with_context(|| {
            let shim = berthd.shim().map(Service::last_words).unwrap_or_default();
            format!("berthd said:\n{}\n\nberth-shim said:\n{shim}\n", berthd.service().last_words())
        })
    })
    .await
}

async fn goes_on(
    case: &Case,
    berthd: &Berthd,
    fault: impl AsyncFnOnce(&Berthd, &Hooks) -> Result<Option<Timestamp>>,
) -> Result<()> {
    // A test before this one may have had its kubelet without a runtime.
    case.node.registered_and_ready().await?;
    let began = Timestamp::now();
    let registry = Registry::start(case.node.run()).await?;
    let archive = sized(case.node.run(), "pulled:1", PULLED).await?;
    let image = registry.push(&archive, "pulled:1").await?;
    let work = Work::begin(case, &registry).await?;
    let caller = Caller::start(berthd.socket())?.pulling(berthd.socket(), &image, PULL_PAUSE)?;
    work.pull.is_open().await?;
    let unordered = fault(berthd, &work.hooks).await.context("the fault")?;
    work.end(unordered).await?;
    caller.all_answered().await.context("calls of other clients")?;
    let client = case.pods.clone().into_client();
    let complaints = complaints(&client, &case.namespace).await?;
    ensure!(complaints.is_empty(), "{complaints:?}");
    let ready = node_ready(&client).await?;
    let since = ready.last_transition_time.as_ref().context("no transition")?;
    if since.0 >= began {
        bail!("the node was not Ready in between: {ready:?}; {:?}", said_of_node(&client).await?);
    }
    Ok(())
}

/// Events of the node, with who says it, and when: a kubelet that says nothing for a while, on a machine with
/// other work to do, is not one that misses its runtime.
async fn said_of_node(client: &Client) -> Result<Vec<String>> {
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let events = events.list(&Default::default()).await.context("Events of the node")?.items;
    let of_node = events.into_iter().filter(|event| event.involved_object.kind.as_deref() == Some("Node"));
    let told = of_node.map(|event| {
        let by = event.source.and_then(|source| source.component).unwrap_or_default();
        let (reason, message) = (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
        format!("{:?} {by}: {reason}: {message}", event.last_timestamp.map(|time| time.0))
    });
    Ok(told.collect())
}

impl<'a> Work<'a> {
    /// Begins all of it. In the end the hooks run, the lower container waits, and the sidecar of the job was
    /// told to end: none of it goes on before [`Hooks::go`].
    async fn begin(case: &'a Case, registry: &Registry) -> Result<Self> {
        let recreated = recreate::Scene::begin(case, "recreated", |pod, evidence| {
            pod.grace(GRACE).container(evidence.container("main", HELD))
        })
        .await?;
        let updated = update::Scene::begin(case, "updated", |pod, evidence| {
            pod.grace(GRACE).container(evidence.container("main", HELD))
        })
        .await?;
        let evidence = |pod| Evidence::new(case.node.run(), &case.namespace, pod);
        let stops = evidence("stops")?;
        let pod = stops
            .mount(case.manifest("stops").grace(GRACE))
            .container(stops.container("b", HELD).priority(1))
            .container(stops.container("a", "").priority(2));
        case.create(&pod).await?;
        case.await_ready("stops").await?;
        let held = case.record("held");
        let gated = Container::new("a").ready_when("test -f /tmp/go").priority(2);
        let pod = case.manifest("held").container(Container::new("b").priority(1)).container(gated);
        case.create(&pod).await?;
        case.await_pod("held", "b waits", |pod| waits_for(pod, "b", "a")).await?;
        let jobs = Jobs::watch(&case.node.client().await?, &case.namespace).await?;
        // By a signal: a shell that told it to end would end with it, or before.
        let main = Container::new("main").only("trap 'exit 0' TERM; while :; do sleep 0.2; done");
        let ending = evidence("job")?;
        let last = format!("echo term >> /evidence/sidecar; {HELD};");
        let sidecar = ending.mounted(exits("sidecar", &last, 143));
        let job = ending.mount(case.manifest("job").spec("restartPolicy", "Never").grace(GRACE));
        jobs.create(&job.container(main).container(sidecar), 0).await?;
        await_condition("the job runs", PATIENCE, async || {
            let status = jobs.pod_of("job")?.last.status.context("no status")?;
            let statuses = status.container_statuses.unwrap_or_default();
            ensure!(statuses.len() == 2 && statuses.iter().all(|one| one.ready), "{statuses:?}");
            Ok(())
        })
        .await?;

        let pull = Pull::begin(case, registry).await?;
        let job = jobs.pod_of("job")?.last.metadata.name.context("no name")?;
        case.end(&job, "main").await?;
        case.pods.delete("stops", &Default::default()).await?;
        let asked = recreated.ask("recreate", &Ask::new("recreated", &["main"])).await?;
        let wish = Update::new("updated").image("main", BUSYBOX_NEXT);
        let update = updated.ask("update", &wish).await?;
        stops.has("b", "hook", 1).await?;
        ending.has("sidecar", "term", 1).await?;
        recreated.evidence.has("main", "hook", 1).await?;
        updated.evidence.has("main", "hook", 1).await?;
        let hooks = [&stops, &ending, &recreated.evidence, &updated.evidence];
        let hooks = Hooks(hooks.map(Evidence::clone).into());
        Ok(Self { case, hooks, held, stops, jobs, recreated, asked, updated, update, pull })
    }

    /// Waits for the end of all of it, and looks at how it ended. A stop waits for a berthd that is away as
    /// all calls do, also one that waits for its turn: from some time on it may be `unordered`.
    async fn end(self, unordered: Option<Timestamp>) -> Result<()> {
        let case = self.case;
        self.hooks.go()?;
        self.pull.end().await.context("the pull")?;
        case.inside("held", "a", "touch /tmp/go").await?;
        let pod = case.await_ready("held").await?;
        ensure!(container(&pod, "a")?.restart_count == 0, "a was restarted");
        let history = self.held.finish().await.context("the record of the pod that waited")?;
        history.check_start_order(&["a", "b"], Duration::ZERO)?;
        ensure!(history.instances.len() == 2, "{:?}", history.instances);
        case.await_gone("stops").await?;
        // They say it themselves: who looks now and then may miss the end of one that is removed.
        let (b, a) = (self.stops.ended_at("b")?, self.stops.ended_at("a")?);
        let may_be_first = unordered.is_some_and(|from| i128::from(a) >= from.as_nanosecond());
        ensure!(
            b <= a || may_be_first,
            "a ended {} ms before b, at {a} ns; no order is promised from {unordered:?} on",
            (b - a) / 1_000_000
        );
        let job = self.jobs.over("job").await?;
        ensure!((job.succeeded, job.failed.unwrap_or(0)) == (Some(1), 0), "{job:?}");
        self.asked.succeeded(PATIENCE).await?;
        let first = self.recreated.running("main").await.context("the recreated pod")?;
        ensure!(first.attempt == 1, "the recreated pod is at attempt {}", first.attempt);
        self.recreated.evidence.has("main", "hook", 1).await.context("the recreated pod")?;
        self.update.succeeded().await?;
        let restarts = self.updated.restarts("main").await.context("the updated pod")?;
        ensure!(restarts == 1, "the updated pod was restarted {restarts} times");
        Ok(())
    }
}

impl<'a> Pull<'a> {
    /// Begins it. Half of the image comes, and no more before [`Pull::end`].
    async fn begin(case: &'a Case, registry: &Registry) -> Result<Self> {
        let archive = sized(case.node.run(), "joined:1", JOINED).await?;
        registry.push(&archive, "joined:1").await?;
        let gateway = Gateway::open(registry.address()).await?;
        gateway.day(Day::Silent(JOINED as u64 / 2));
        let (reference, wanted) = (gateway.reference("joined:1"), Wanted::of(case).await?);
        let (name, tag) = split(&reference)?;
        wanted.ask(name, json!({ "tags": [{ "tag": tag }] })).await?;
        wanted.tag(name, tag, "is being pulled", |tag| is_phase(tag, ImagePhase::Pulling)).await?;
        await_condition("half of the image has come", PATIENCE, async || {
            let (served, half) = (gateway.served(), JOINED as u64 / 2);
            ensure!(served + PIECE > half, "{served} bytes of {half}");
            Ok(())
        })
        .await?;
        case.create(&case.manifest("joins").container(Container::new("main").image(&reference))).await?;
        let events: Api<Event> = Api::namespaced(case.pods.clone().into_client(), &case.namespace);
        await_condition("the kubelet asks for the image", PATIENCE, async || {
            let events = events.list(&Default::default()).await?.items;
            let asks = |event: &Event| {
                let of = event.involved_object.name.as_deref();
                (of, event.reason.as_deref()) == (Some("joins"), Some("Pulling"))
            };
            ensure!(events.iter().any(asks), "{} Events, and none of a pull", events.len());
            Ok(())
        })
        .await?;
        Ok(Self { case, gateway, wanted, reference })
    }

    /// Fails where it has ended, well or not.
    async fn is_open(&self) -> Result<()> {
        let (name, tag) = split(&self.reference)?;
        self.wanted.tag(name, tag, "is being pulled", |tag| is_phase(tag, ImagePhase::Pulling)).await?;
        ensure!(self.case.cri.image(&self.reference).await?.is_none(), "the image is there already");
        Ok(())
    }

    /// Lets the rest of the image come: once, without a failure that the kubelet would tell of, and for both.
    async fn end(self) -> Result<()> {
        self.gateway.day(Day::Good);
        let (name, tag) = split(&self.reference)?;
        let pod = self.case.await_ready("joins").await?;
        ensure!(container(&pod, "main")?.restart_count == 0, "it was restarted");
        self.wanted.tag(name, tag, "is there", |tag| is_phase(tag, ImagePhase::Succeeded)).await?;
        let warned = warnings(&self.case.pods.clone().into_client(), &self.case.namespace).await?;
        let failed = warned.get(&("Failed".to_owned(), "joins".to_owned()));
        ensure!(failed.is_none(), "the kubelet was told of a failure: {failed:?}");
        // 2 MiB are for busybox, and 1 MiB is for what was on its way when a pull broke.
        let served = self.gateway.served();
        ensure!(served < (JOINED + (3 << 20)) as u64, "{served} bytes for an image of {JOINED}");
        self.wanted.ask(name, Value::Null).await
    }
}
