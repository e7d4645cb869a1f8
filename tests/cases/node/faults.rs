//! Something of the node goes away while a pod is half started. The order is kept, and the pod goes on.

use std::env;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_proto::cri::ContainerState;
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::KUBERNETES;
use berth_tests::wait::{START_UP, await_condition};
use berthd::agent::fault::Point;

use crate::case::{Case, PATIENCE, container, is_ready, run_alone, waits_for};

/// Whether a way may go past a point of it: the kubelet may look at a pod by itself before berthd would nudge
/// it. Release 1.36 does so always, others where a call of theirs failed a moment before.
fn is_left_out(point: Point) -> bool {
    point == Point::Nudging
}

/// Waits until berthd dies at the point it was told of, and starts it again. Of a point that is left out the
/// end of the way tells; then berthd is to pass all of them.
pub(crate) async fn dies_and_comes_back(
    case: &Case,
    point: Point,
    patience: Duration,
    is_over: impl AsyncFn() -> Result<bool>,
) -> Result<()> {
    let berthd = case.node.berthd()?;
    let died = await_condition(format!("berthd dies at {}", point.name()), patience, async || {
        if berthd.service().has_ended()? {
            return Ok(true);
        }
        ensure!(is_left_out(point) && is_over().await?, "it lives");
        Ok(false)
    })
    .await?;
    if !died {
        return berthd.pass_all_points();
    }
    berthd.service().start()?;
    berthd.serving().await
}

/// Whether the node was asked to have a kubelet of this release.
pub(crate) fn kubelet_is(release: &str) -> bool {
    env::var(KUBERNETES).is_ok_and(|kubelet| kubelet == release)
}

/// Gets ready when the test says so, by [`open`].
fn gate(name: &str) -> Container {
    Container::new(name).ready_when("test -f /tmp/go")
}

async fn open(case: &Case, pod: &str) -> Result<()> {
    case.inside(pod, "a", "touch /tmp/go").await
}

fn gated(manifest: PodManifest) -> PodManifest {
    manifest.container(Container::new("b").priority(1)).container(gate("a").priority(2))
}

/// Starts a gated pod, lets `fault` happen while b waits, and expects b to start when a is ready and not
/// before.
async fn in_the_middle(case: &Case, fault: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    let recorder = case.record("pod");
    case.create(&gated(case.manifest("pod"))).await?;
    case.await_pod("pod", "b waits", |pod| waits_for(pod, "b", "a")).await?;
    fault().await?;

    // What comes now is a relist and a sync by whoever was restarted: b is tried again, and still has to
    // wait. A second pod that gets through the whole of it shows that they have had their turn.
    let witness = case
        .manifest("witness")
        .container(Container::new("b").priority(1))
        .container(Container::new("a").priority(2));
    case.create(&witness).await?;
    case.await_ready("witness").await?;
    let history = recorder.so_far();
    ensure!(history.of("b").is_empty(), "b did not wait any longer: {:?}", history.of("b"));
    ensure!(history.of("a").len() == 1, "a was disturbed: {:?}", history.of("a"));

    open(case, "pod").await?;
    let pod = case.await_ready("pod").await?;
    ensure!(container(&pod, "a")?.restart_count == 0, "a was restarted");
    let history = recorder.finish().await?;
    history.check_start_order(&["a", "b"], Duration::ZERO)?;
    ensure!(history.instances.len() == 2, "{:?}", history.instances);
    Ok(())
}

#[tokio::test]
async fn kubelet_restart() -> Result<()> {
    run_alone("kubelet_restart", async |case: &Case| {
        in_the_middle(case, async || case.node.kubelet()?.restart().await).await
    })
    .await
}

#[tokio::test]
async fn berthd_killed() -> Result<()> {
    run_alone("berthd_killed", async |case: &Case| {
        in_the_middle(case, async || {
            case.node.berthd()?.crash().await?;
            case.node.berthd()?.ready().await
        })
        .await
    })
    .await
}

#[tokio::test]
async fn containerd_restart() -> Result<()> {
    run_alone("containerd_restart", async |case: &Case| {
        in_the_middle(case, async || case.node.containerd().restart().await).await
    })
    .await
}

/// Has the API server away for `meanwhile`, and back afterwards whatever became of it.
pub(crate) async fn without_api_server(
    case: &Case,
    meanwhile: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    let api = case.node.api()?;
    // Asked to end, it would first wait for its watches to end.
    api.service().kill()?;
    let outcome = meanwhile().await;
    let back = api_server_comes_back(case).await;
    outcome?;
    back
}

async fn api_server_comes_back(case: &Case) -> Result<()> {
    let api = case.node.api()?;
    api.service().start()?;
    api.ready().await?;
    // A berthd that does not find the way back would fail all tests after this one: better this one.
    case.node.berthd()?.ready().await?;
    // The kubelet asks less and less often while nobody answers, so it takes it a while to see that somebody
    // does: a minute, and more the longer it was away. And it gives the runtime four minutes for a sandbox,
    // on a machine that is busy with the start.
    case.create(&case.manifest("back").container(Container::new("a"))).await?;
    await_condition("pod back: Ready", START_UP, async || is_ready(&case.pods.get("back").await?)).await
}

/// Waits until berthd has looked for the API server a few times more, and has not found it.
pub(crate) async fn is_missed(case: &Case) -> Result<()> {
    let misses = async || -> Result<u64> {
        let metrics = case.node.berthd()?.metrics().await?;
        let value =
            metrics.lines().find_map(|line| line.strip_prefix("berth_agent_request_watch_failures_total "));
        Ok(value.context("no metric")?.parse()?)
    };
    let before = misses().await?;
    await_condition("berthd misses the API server", PATIENCE, async || {
        let now = misses().await?;
        ensure!(now >= before + 3, "{} times", now - before);
        Ok(())
    })
    .await
}

/// Static pods need no API server, so neither does their order.
#[tokio::test]
async fn api_server_away_static_pod_goes_on() -> Result<()> {
    run_alone("api_server_away_static_pod_goes_on", async |case: &Case| {
        let kubelet = case.node.kubelet()?;
        let pod = format!("static-{}", berth_tests::node::NODE_NAME);
        let recorder = case.record(&pod);
        kubelet.play("static", gated(case.manifest("static")).json())?;
        let played = async {
            case.await_pod(&pod, "b waits", |pod| waits_for(pod, "b", "a")).await?;
            without_api_server(case, async || {
                open(case, &pod).await?;
                await_condition("b runs while the API server is away", PATIENCE, async || {
                    let history = recorder.so_far();
                    ensure!(history.started("b")? > history.started("a")?, "b was started before a");
                    Ok(())
                })
                .await
            })
            .await
        };
        let played = played.await;
        kubelet.unplay("static")?;
        played
    })
    .await
}

/// Checks that a decision stays decided: a started pod's container comes back while nobody can be asked, even
/// when berthd itself had to start anew. Nothing that was not decided is guessed.
#[tokio::test]
async fn api_server_away_nothing_is_forgotten() -> Result<()> {
    run_alone("api_server_away_nothing_is_forgotten", async |case: &Case| {
        case.create(&gated(case.manifest("started"))).await?;
        case.await_pod("started", "b waits", |pod| waits_for(pod, "b", "a")).await?;
        open(case, "started").await?;
        case.await_ready("started").await?;
        let waiting = case.record("waiting");
        case.create(&gated(case.manifest("waiting"))).await?;
        case.await_pod("waiting", "b waits", |pod| waits_for(pod, "b", "a")).await?;

        without_api_server(case, async || {
            for (name, crash) in [("b", false), ("a", true)] {
                if crash {
                    case.node.berthd()?.crash().await?;
                }
                case.end("started", name).await?;
                await_condition("it is back while the API server is away", PATIENCE, async || {
                    let instances = case.cri.containers(&case.namespace, "started").await?;
                    let back = instances.iter().any(|instance| {
                        instance.name == name
                            && instance.attempt == 1
                            && instance.state == ContainerState::ContainerRunning
                    });
                    ensure!(back, "{instances:?}");
                    Ok(())
                })
                .await?;
            }
            let history = waiting.so_far();
            ensure!(history.of("b").is_empty(), "b of the waiting pod was started: {:?}", history.of("b"));
            Ok(())
        })
        .await?;

        open(case, "waiting").await?;
        case.await_ready("waiting").await?;
        waiting.finish().await?.check_start_order(&["a", "b"], Duration::ZERO)
    })
    .await
}
