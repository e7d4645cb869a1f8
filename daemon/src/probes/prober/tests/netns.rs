//! A pod's network that is really another one. Needs root, as the agent does.

use std::{
    io::{Read, Write},
    net::TcpListener as StdListener,
    process::{Child, Command},
    sync::mpsc,
    thread,
};

use nix::{
    sched::{CloneFlags, unshare},
    unistd::{geteuid, gettid},
};

use super::*;

/// Two ways to a network namespace with a server on one port of its loopback, and a process in it.
struct Pod {
    path: String,
    process: Child,
    /// Ends the namespace's own thread.
    _alive: mpsc::Sender<()>,
}

impl Pod {
    fn new(port: u16, said: &'static str) -> Self {
        let (alive, end) = mpsc::channel::<()>();
        let (made, is_made) = mpsc::channel();
        thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
            let server = StdListener::bind(("127.0.0.1", port)).unwrap();
            // What is started here is in the same namespace.
            let process = Command::new("sleep").arg("600").spawn().unwrap();
            made.send((gettid(), process)).unwrap();
            thread::spawn(move || answer(&server, said));
            let _ = end.recv();
        });
        let (thread, process) = is_made.recv().unwrap();
        let path = format!("/proc/{}/task/{thread}/ns/net", std::process::id());
        Self { path, process, _alive: alive }
    }

    fn runtime(&self, info: String) -> Played {
        Played::new(move |_, _| sandbox("127.0.0.1", &info))
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn answer(server: &StdListener, said: &str) {
    for stream in server.incoming() {
        let mut stream = stream.unwrap();
        let mut byte = [0; 1024];
        if stream.read(&mut byte).is_ok_and(|read| read > 0) {
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{said}", said.len()).unwrap();
        }
    }
}

fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: network namespaces are root's to make");
    }
    is_root
}

#[tokio::test]
async fn a_pod_is_dialled_in_its_own_network() {
    if !is_root() {
        return;
    }
    // The same port of the same address, on the host.
    let host = Server::answering(false, |_| "HTTP/1.1 200 OK\r\n\r\nthe host".to_owned()).await;
    let only_host = Server::answering(false, |_| "HTTP/1.1 200 OK\r\n\r\nthe host".to_owned()).await;
    let pod = Pod::new(host.port, "the pod");
    let with_path = |path: &str, pid: u32| {
        format!(
            r#"{{"pid":{pid},"runtimeSpec":{{"linux":{{"namespaces":[{{"type":"network","path":"{path}"}}]}}}}}}"#
        )
    };
    let process = pod.process.id();
    let infos = [
        // As containerd tells it, and where its path cannot be seen: the process.
        with_path(&pod.path, 0),
        with_path("/nonexistent/netns", process),
        // A path whose mount is not to be seen: an empty file.
        with_path("/proc/self/comm", process),
        // As CRI-O may tell it.
        format!(r#"{{"pid":{process}}}"#),
    ];
    for info in infos {
        let played = pod.runtime(info.clone());
        let prober = Prober::new(played.client());
        for _ in 0..3 {
            let result = prober.run(&run_of(get(host.port, "/"), PATIENT), Some("127.0.0.1")).await;
            assert_eq!(result, ProbeResult::Success("the pod".to_owned()), "{info}");
        }
        let tcp = run_of(ProbeAction::Tcp { port: host.port }, PATIENT);
        expect(&prober.run(&tcp, None).await, "success", "");
        let tcp = run_of(ProbeAction::Tcp { port: only_host.port }, PATIENT);
        expect(&prober.run(&tcp, None).await, "failure", "Connection refused");
        let grpc = run_of(ProbeAction::Grpc { port: only_host.port, service: String::new() }, PATIENT);
        expect(&prober.run(&grpc, None).await, "failure", "Connection refused");
    }
    // This test itself is where it was.
    expect(&on_loopback(get(host.port, "/"), PATIENT).await, "success", "the host");
    assert!(only_host.seen().is_empty());
}

#[tokio::test]
async fn two_pods_do_not_mix() {
    if !is_root() {
        return;
    }
    let port = 4567;
    let pods = [Pod::new(port, "one"), Pod::new(port, "two")];
    let infos = pods.each_ref().map(|pod| format!(r#"{{"pid":{}}}"#, pod.process.id()));
    let played = Played::new(move |_, message| {
        let request = <cri::PodSandboxStatusRequest as prost::Message>::decode(message).unwrap();
        assert!(request.verbose);
        sandbox("127.0.0.1", &infos[usize::from(request.pod_sandbox_id == "two")])
    });
    let prober = Prober::new(played.client());
    let mut running = tokio::task::JoinSet::new();
    for name in ["one", "two"].into_iter().cycle().take(200) {
        let prober = prober.clone();
        let run = ProbeRun { sandbox: name.into(), ..run_of(get(port, "/"), PATIENT) };
        running.spawn(async move { (name, prober.run(&run, None).await) });
    }
    for (name, result) in running.join_all().await {
        assert_eq!(result, ProbeResult::Success(name.to_owned()));
    }
}

#[tokio::test]
async fn no_way_in_says_what_is_missing() {
    let run = run_of(get(1, "/"), PATIENT);
    let mut cases = vec![];
    if is_root() {
        cases.push((r#"{"runtimeSpec":null}"#, "the runtime does not say in which network namespace"));
        cases.push((r#"{"pid":4194999}"#, "needs hostPID, or that path of the node mounted"));
        let file =
            r#"{"runtimeSpec":{"linux":{"namespaces":[{"type":"network","path":"/proc/self/comm"}]}}}"#;
        cases.push((file, "/proc/self/comm cannot be entered: Invalid argument"));
    } else {
        cases.push((r#"{"pid":1}"#, "CAP_SYS_ADMIN"));
    }
    for (info, part) in cases {
        let played = Played::new(move |_, _| sandbox("127.0.0.1", info));
        let prober = Prober::new(played.client());
        for asked in 1..3 {
            expect(&prober.run(&run, None).await, "unknown", part);
            // Asked again, since it may be known by then.
            assert_eq!(played.calls().len(), asked);
        }
    }
}

/// A thread that the kernel holds takes no more orders than it has room for, and nobody waits for it.
#[tokio::test]
async fn a_thread_that_stands_still_is_said() {
    let (thread, _orders) = std::sync::mpsc::sync_channel(1);
    let namespaces = super::super::netns::Namespaces::of(thread);
    let socket = || namespaces.socket(&[], std::net::IpAddr::from([127, 0, 0, 1]));
    // It waits for its answer; with it the queue is full.
    let waiting = tokio::time::timeout(std::time::Duration::from_millis(10), socket());
    assert!(waiting.await.is_err());
    let error = socket().await.unwrap_err();
    assert!(matches!(error, super::super::netns::NetnsError::Busy), "{error}");
}
