//! `berth-shim` and `berthd` as two programs: what becomes of the kubelet's calls when the one that decides
//! is killed, stands still, or is not there.

mod node;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use berth_proto::cri;
use berth_tests::observe::Caller;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{task::JoinSet, time::sleep};

use self::node::{Node, Order, STOP};
use crate::world::within;

/// `FAILED_PRECONDITION`: refused by order.
const REFUSED: Option<u32> = Some(9);

/// Waits until the runtime stops the second container, and a moment for the first one, which waits for that.
async fn first_is_held(node: &Node) {
    while node.asked("stop second").is_none() {
        sleep(Duration::from_millis(10)).await;
    }
    sleep(STOP / 8).await;
    // A machine that stands still meanwhile may find the second one stopped already.
    let (began, ended) = (node.asked("stop first"), node.asked("stopped second"));
    assert!(began.is_none_or(|began| ended.is_some_and(|ended| began >= ended)), "not held");
}

/// Waits until more calls than these have passed.
async fn pass(calls: &AtomicUsize, before: usize) {
    while calls.load(Ordering::Relaxed) <= before {
        sleep(Duration::from_millis(10)).await;
    }
}

/// A pod that ends: the higher container waits for the lower one, whose stop takes its time. berthd is killed
/// meanwhile, and comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_that_is_held_goes_on_in_its_order_when_berthd_is_killed() {
    // It builds the programs where they are not there yet, and that takes the time it takes.
    let mut node = Node::start().await.unwrap();
    within(async {
        let kubelet = Arc::new(node.kubelet().await.unwrap());
        kubelet.launch().await.unwrap();
        let stops: JoinSet<_> = ["second", "first"]
            .into_iter()
            .map(|container| {
                let kubelet = kubelet.clone();
                async move { kubelet.stop(container).await }
            })
            .collect();
        first_is_held(&node).await;
        node.kill_agent().unwrap();
        sleep(STOP / 8).await;
        node.start_agent().unwrap();
        for stopped in stops.join_all().await {
            stopped.unwrap();
        }
        let (ended, began) = (node.asked("stopped second").unwrap(), node.asked("stop first").unwrap());
        assert!(began >= ended, "out of order, {:?} too early", ended - began);
    })
    .await;
}

/// The API server does not answer a berthd that begins: the pod may have an order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_a_moment_for_a_pod_that_berthd_has_not_seen() {
    // It builds the programs where they are not there yet, and that takes the time it takes.
    let node = Node::with(Order::Pod).await.unwrap();
    within(async {
        let kubelet = node.kubelet().await.unwrap();
        kubelet.launch().await.unwrap();
        let begun = Instant::now();
        kubelet.stop("first").await.unwrap();
        let waited = node.asked("stop first").unwrap() - begun;
        // A machine with other work to do may add to that, and not make it all of the grace.
        assert!((2000..20_000).contains(&waited.as_millis()), "{waited:?}");
    })
    .await;
}

/// Nobody comes back: the stop goes on after the patience, and what is not known to be ready is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_berthd_stops_go_on_restarts_pass_and_closed_barriers_are_refused() {
    // It builds the programs where they are not there yet, and that takes the time it takes.
    let mut node = Node::start().await.unwrap();
    within(async {
        let kubelet = node.kubelet().await.unwrap();
        kubelet.launch().await.unwrap();
        let mut took = Vec::new();
        let begun = loop {
            node.kill_agent().unwrap();
            let begun = Instant::now();
            // The table has its barrier as open: it was there before.
            assert_eq!(kubelet.create("second", 1).await.unwrap().status(), Some(0));
            kubelet.done("Version", &cri::VersionRequest::default()).await.unwrap();
            took.push(begun.elapsed());
            // Whoever waits for an agent waits for five seconds, each time. A machine may stand still for as
            // long.
            if begun.elapsed() < Duration::from_secs(4) {
                break begun;
            }
            assert!(took.len() < 3, "{took:?}");
            node.start_agent().unwrap();
            node.connected().await;
        };
        let refused = kubelet.create("unknown", 0).await.unwrap();
        assert_eq!(refused.status(), REFUSED, "{}", refused.message());
        let waited = begun.elapsed();
        assert!((4..60).contains(&waited.as_secs()), "{waited:?}");
        kubelet.stop("first").await.unwrap();
        // Whoever comes back decides from then on.
        node.start_agent().unwrap();
        let first = kubelet.create("first", 1).await.unwrap();
        assert_eq!(first.status(), Some(0), "{}", first.message());
    })
    .await;
}

/// Ten times, while calls of all kinds pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_while_berthd_is_killed_again_and_again() {
    // It builds the programs where they are not there yet, and that takes the time it takes.
    let mut node = Node::start().await.unwrap();
    within(async {
        node.kubelet().await.unwrap().launch().await.unwrap();
        let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut load = JoinSet::new();
        for number in 0..4_u32 {
            let kubelet = node.kubelet().await.unwrap();
            let (stop, calls) = (stop.clone(), calls.clone());
            load.spawn(async move {
                let mut attempt = number * 100_000;
                while !stop.load(Ordering::Relaxed) {
                    attempt += 1;
                    kubelet.done("Version", &cri::VersionRequest::default()).await?;
                    kubelet.done("ListPodSandbox", &cri::ListPodSandboxRequest::default()).await?;
                    kubelet.done("ListContainers", &cri::ListContainersRequest::default()).await?;
                    let status =
                        cri::ContainerStatusRequest { container_id: "first".to_owned(), verbose: false };
                    kubelet.done("ContainerStatus", &status).await?;
                    let created = kubelet.create("second", attempt).await?;
                    anyhow::ensure!(created.status() == Some(0), "{}", created.message());
                    kubelet.start("second").await?;
                    calls.fetch_add(6, Ordering::Relaxed);
                }
                anyhow::Ok(())
            });
        }
        let mut before = 0;
        for time in 0..10 {
            sleep(Duration::from_millis(300 + 70 * time)).await;
            node.kill_agent().unwrap();
            sleep(Duration::from_millis(100 + 50 * time)).await;
            node.start_agent().unwrap();
            pass(&calls, before).await;
            before = calls.load(Ordering::Relaxed);
        }
        // It stands still, which is worse than dead: nobody comes in its place.
        let agent = Pid::from_raw(node.agent_pid().unwrap().try_into().unwrap());
        kill(agent, Signal::SIGSTOP).unwrap();
        sleep(Duration::from_secs(10)).await;
        pass(&calls, before).await;
        kill(agent, Signal::SIGCONT).unwrap();
        sleep(Duration::from_secs(1)).await;
        // Fewer are no load.
        pass(&calls, 1000).await;
        stop.store(true, Ordering::Relaxed);
        for ended in load.join_all().await {
            ended.unwrap();
        }
        let calls = calls.load(Ordering::Relaxed);
        println!("{calls} calls, none failed; berth-shim has {} MB", node::rss_mb(node.shim_pid()).unwrap());
    })
    .await;
}

/// A new process of `berth-shim` takes the place of the old one ten times, while clients call, and while the
/// higher container of a pod that ends waits for the lower one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_and_no_order_is_lost_while_the_shim_is_upgraded_again_and_again() {
    // It builds the programs where they are not there yet, and that takes the time it takes.
    let mut node = Node::start().await.unwrap();
    within(async {
        let kubelet = Arc::new(node.kubelet().await.unwrap());
        kubelet.launch().await.unwrap();
        let caller = Caller::start(&node.socket()).unwrap();
        let stops: JoinSet<_> = ["second", "first"]
            .into_iter()
            .map(|container| {
                let kubelet = kubelet.clone();
                async move { kubelet.stop(container).await }
            })
            .collect();
        first_is_held(&node).await;
        let first = node.shim_pid();
        for _ in 0..10 {
            node.upgrade_shim().await.unwrap();
            // berthd answers for the new process as well.
            let kubelet = node.kubelet().await.unwrap();
            let answer = kubelet.create("unknown", 0).await.unwrap();
            assert!(!answer.message().contains("the agent is away"), "{}", answer.message());
            sleep(STOP / 16).await;
        }
        for stopped in stops.join_all().await {
            stopped.unwrap();
        }
        let (ended, began) = (node.asked("stopped second").unwrap(), node.asked("stop first").unwrap());
        assert!(began >= ended, "out of order, {:?} too early", ended - began);
        caller.all_answered().await.unwrap();
        // With its last call.
        assert!(first != node.shim_pid());
        let old = std::path::PathBuf::from(format!("/proc/{first}/exe"));
        let begun = Instant::now();
        while old.exists() {
            assert!(begun.elapsed() < Duration::from_secs(120), "the first process goes on");
            sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
}
