//! Pods played on a runtime that is a list.

use std::path::Path;
use std::time::Duration;

use berth_proto::cri::{Container, ContainerState};
use tonic::Status;

use super::{PlayArgs, play};
use crate::fake::{Node, global};
use crate::output::OutputArgs;
use crate::stop::take_down;

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web, uid: uid-1}
spec:
  terminationGracePeriodSeconds: 7
  initContainers: []
  containers:
  - {name: low, image: 'img:1', env: [{name: KRUISE_CONTAINER_PRIORITY, value: '-1'}]}
  - {name: mid, image: img, lifecycle: {preStop: {exec: {command: ['true', mid]}}}}
  - {name: top, image: 'img:1', env: [{name: KRUISE_CONTAINER_PRIORITY, value: '1'}]}
";

/// Far more than what is to end by itself takes, in milliseconds.
const PATIENCE: u64 = 300_000;

fn args(node: &Node, manifest: &str, timeout: u64) -> PlayArgs {
    let dir = node.dir.path();
    let path = dir.join("pod.yaml");
    std::fs::write(&path, manifest).unwrap();
    PlayArgs {
        manifest: path.to_str().unwrap().to_owned(),
        timeout: Duration::from_millis(timeout),
        logs: false,
        timeline: false,
        rm: false,
        output: OutputArgs::default(),
        log_dir: dir.join("logs"),
        data_dir: dir.join("data"),
        runtime_handler: String::new(),
    }
}

/// Plays a pod that does not come up in its time, so many milliseconds at first, and gives what was told of
/// it. It has more and more of it until that is as expected: on a machine that stands still nobody may come
/// to anything in a short one.
async fn runs_out(
    admit: fn(&str, &[Container]) -> Result<(), Status>,
    pod: &str,
    timeout: u64,
    expected: impl Fn(&str) -> bool,
) -> (Node, String) {
    let mut error = String::new();
    for timeout in [timeout, timeout * 10, timeout * 40] {
        let node = Node::new(admit);
        error = format!("{:#}", play(&global(&node), &args(&node, pod, timeout)).await.unwrap_err());
        if expected(&error) {
            return (node, error);
        }
    }
    panic!("not as expected: {error}");
}

/// As berthd would: `low` waits for `mid`, `mid` for `top`.
fn in_order(name: &str, there: &[Container]) -> Result<(), Status> {
    let above = match name {
        "low" => "mid",
        "mid" => "top",
        _ => return Ok(()),
    };
    let runs = there.iter().any(|container| {
        container.metadata.as_ref().unwrap().name == above
            && container.state() == ContainerState::ContainerRunning
    });
    if runs {
        Ok(())
    } else {
        Err(Status::failed_precondition(format!("launch order: waiting for container(s) {above}")))
    }
}

#[tokio::test]
async fn a_refusal_moves_on_to_the_next_container_and_then_to_the_next_pass() {
    let node = Node::new(in_order);
    play(&global(&node), &args(&node, POD, PATIENCE)).await.unwrap();
    let expected = [
        "RunPodSandbox web",
        "PullImage img",
        "CreateContainer low",
        "CreateContainer mid",
        "CreateContainer top",
        "StartContainer container-top",
        "CreateContainer low",
        "CreateContainer mid",
        "StartContainer container-mid",
        "CreateContainer low",
        "StartContainer container-low",
    ];
    assert_eq!(node.calls(), expected);
    assert!(node.dir.path().join("logs/default_web_uid-1/low").is_dir());
    let data = node.dir.path().join("data/uid-1");
    assert!(data.is_dir());

    let again = play(&global(&node), &args(&node, POD, PATIENCE)).await.unwrap_err().to_string();
    assert!(again.contains("pod default/web (sandbox-0) is already there"), "{again}");

    let sandbox = node.sandboxes().remove(0);
    let cri = crate::cri::Cri::connect(&global(&node)).await.unwrap();
    take_down(&cri, &sandbox, None, false).await.unwrap();
    let calls = node.calls().split_off(expected.len());
    let of = |call: &str| {
        calls.iter().position(|line| line == call).unwrap_or_else(|| panic!("{call}: {calls:?}"))
    };
    assert!(of("ExecSync container-mid true mid") < of("StopContainer container-mid 7"));
    assert!(
        of("StopContainer container-low 7").max(of("StopContainer container-top 7"))
            < of("StopPodSandbox sandbox-0")
    );
    assert_eq!(calls.last().unwrap(), "RemovePodSandbox sandbox-0");
    assert!(!data.exists(), "the data directory goes with the pod");
}

#[tokio::test]
async fn refusals_to_the_end_are_repeated_and_the_pod_stays() {
    fn only_top(name: &str, there: &[Container]) -> Result<(), Status> {
        if name == "top" { Ok(()) } else { in_order("low", there) }
    }
    let all = [
        "not all containers have started within --timeout",
        "container \"low\": launch order: waiting for container(s) mid",
        "container \"mid\": launch order: waiting for container(s) mid",
        "berthctl stop-pod default/web removes it",
    ];
    let told = |error: &str| all.iter().all(|expected| error.contains(expected));
    let (node, _) = runs_out(only_top, POD, 300, told).await;
    assert_eq!(node.sandboxes().len(), 1);
}

#[tokio::test]
async fn other_failures_end_the_launch_at_once() {
    let node = Node::new(|name, _| match name {
        "mid" => Err(Status::invalid_argument("the declared order is invalid")),
        _ => Ok(()),
    });
    let error = play(&global(&node), &PlayArgs { rm: true, ..args(&node, POD, PATIENCE) }).await.unwrap_err();
    let error = format!("{error:#}");
    assert!(
        error.contains("CreateContainer of container mid: the declared order is invalid (INVALID_ARGUMENT)"),
        "{error}"
    );
    assert!(!node.calls().iter().any(|call| call == "CreateContainer top"));
    assert!(node.sandboxes().is_empty(), "--rm");
    assert!(!node.dir.path().join("data/uid-1").exists());
}

#[tokio::test]
async fn probes_decide_when_a_container_is_ready() {
    // `a` is ready when `b` is there, `b` never.
    let pod = |probe: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  containers:\n  - {{name: a, image: 'i:1', \
             startupProbe: {{exec: {{command: ['true']}}}}, readinessProbe: {{exec: {{command: [b]}}, periodSeconds: 1}}}}\n  \
             - {{name: b, image: 'i:1', readinessProbe: {probe}}}\n"
        )
    };
    let never = pod("{exec: {command: [nothing]}, periodSeconds: 1}");
    let failed = "container \"b\": the latest probe failed: exit code 1";
    let told = |error: &str| error.contains(failed) && !error.contains("container \"a\"");
    runs_out(|_, _| Ok(()), &never, 2500, told).await;

    let node = Node::new(|_, _| Ok(()));
    let at_once = pod("{exec: {command: ['true']}}");
    play(&global(&node), &args(&node, &at_once, PATIENCE)).await.unwrap();
}

#[tokio::test]
async fn a_container_is_not_tried_before_those_above_it_are_ready() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: top, image: 'i:1', env: \
               [{name: KRUISE_CONTAINER_PRIORITY, value: '1'}], readinessProbe: {exec: {command: [nothing]}, \
               periodSeconds: 1}}\n  - {name: low, image: 'i:1'}\n";
    // This runtime lets everything through.
    let waits = "container \"low\": waiting for container(s) top to be ready";
    let (node, _) = runs_out(|_, _| Ok(()), pod, 1500, |error| error.contains(waits)).await;
    assert!(!node.calls().contains(&"CreateContainer low".to_owned()), "{:?}", node.calls());
}

#[tokio::test]
async fn http_and_tcp_probes_dial_the_pod() {
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = server.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = server.accept().await {
            tokio::spawn(async move {
                use tokio::io::{AsyncReadExt, AsyncWriteExt};
                let mut request = [0; 1024];
                let count = stream.read(&mut request).await.unwrap_or(0);
                let good = request[..count].starts_with(b"GET /ok ");
                let status = if good { "204 No Content" } else { "500 Internal Server Error" };
                let _ = stream
                    .write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes())
                    .await;
            });
        }
    });
    let pod = |probe: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  hostNetwork: true\n  containers:\n  - {{name: a, \
             image: 'i:1', ports: [{{name: http, containerPort: {port}}}], readinessProbe: {probe}}}\n"
        )
    };
    for (probe, expected) in [
        ("{httpGet: {port: http, path: /ok}}".to_owned(), None),
        (format!("{{tcpSocket: {{port: {port}}}}}"), None),
        ("{httpGet: {port: http, path: no}}".to_owned(), Some("500 Internal Server Error")),
        ("{tcpSocket: {port: 1}}".to_owned(), Some("connect to 127.0.0.1:1")),
        ("{tcpSocket: {port: other}}".to_owned(), Some("the port \"other\", which is not among its ports")),
    ] {
        let pod = pod(&probe);
        if let Some(expected) = expected {
            runs_out(|_, _| Ok(()), &pod, 1500, |error| error.contains(expected)).await;
        } else {
            let node = Node::new(|_, _| Ok(()));
            let played = play(&global(&node), &args(&node, &pod, PATIENCE)).await;
            played.unwrap_or_else(|error| panic!("{probe}: {error:#}"));
        }
    }
}

#[tokio::test]
async fn a_data_directory_of_someone_else_is_left_alone() {
    let node = Node::new(|_, _| Ok(()));
    let data = node.dir.path().join("data/uid-1");
    std::fs::create_dir_all(&data).unwrap();
    let args = PlayArgs { rm: true, ..args(&node, POD, PATIENCE) };
    let error = play(&global(&node), &args).await.unwrap_err().to_string();
    assert!(error.contains("is already there"), "{error}");
    assert!(Path::new(&data).exists());
    assert!(node.calls().is_empty());
}
