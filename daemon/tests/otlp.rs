//! `berthd` as a process, between a client that traces its calls, a runtime that sees what comes through, and
//! a collector that takes spans.

#![allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should")]
#![allow(clippy::unwrap_used, reason = "the helpers of a test fail like the test")]

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use assert_cmd::cargo::cargo_bin;
use berth_fake::{Node, serve};
use berth_proto::{
    admin::{PullRequest, admin_client::AdminClient},
    cri::{
        ContainerConfig, ContainerMetadata, CreateContainerRequest, PodSandboxConfig, PodSandboxMetadata,
        RunPodSandboxRequest, image_service_server::ImageServiceServer,
        runtime_service_client::RuntimeServiceClient, runtime_service_server::RuntimeServiceServer,
    },
};
use berthd::base::unix;
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use tokio::{net::TcpListener, time::timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Code, Request, Response, Status, transport::Channel, transport::Server};
use tower::Service as _;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";
const UNSAMPLED: &str = "00-00000000000000000000000000000bad-00000000000000ba-00";
/// How long the runtime takes to list, and a creation that depends on it waits.
const HOLD: Duration = Duration::from_millis(300);
/// Longest wait for what comes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A collector that keeps what it is sent.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

/// An agent that is killed with the test.
struct Agent(Child);

/// The `traceparent` of each call that a runtime saw, beside its method.
type Heard = Arc<Mutex<Vec<(String, Option<String>)>>>;

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.into_inner().resource_spans {
            let service = resource.resource.unwrap().attributes;
            assert_eq!(text(&service, "service.name").as_deref(), Some("berthd"));
            assert_eq!(text(&service, "k8s.node.name").as_deref(), Some("node-a"));
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.0.lock().unwrap().extend(spans);
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// The first span with this name.
    fn named(&self, name: &str) -> Option<Span> {
        self.0.lock().unwrap().iter().find(|span| span.name == name).cloned()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.clone()?.value? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "no {what} in time");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The runtime of the node, at a socket where it is heard what comes.
fn runtime(node: &Node) -> Heard {
    let heard = Heard::default();
    let (runtime, images) =
        (RuntimeServiceServer::from_arc(node.fake.clone()), ImageServiceServer::from_arc(node.fake.clone()));
    let noted = heard.clone();
    serve(&node.dir.path().join("heard.sock"), move |request: http::Request<hyper::body::Incoming>| {
        let (mut runtime, mut images) = (runtime.clone(), images.clone());
        let path = request.uri().path().to_owned();
        let traceparent =
            request.headers().get("traceparent").map(|value| value.to_str().unwrap().to_owned());
        let method = path.rsplit('/').next().unwrap_or_default().to_owned();
        noted.lock().unwrap().push((method, traceparent));
        async move {
            if path.ends_with("/ListContainers") {
                tokio::time::sleep(HOLD).await;
            }
            match path.starts_with("/runtime.v1.ImageService/") {
                true => images.call(request).await,
                false => runtime.call(request).await,
            }
        }
    });
    heard
}

fn start(dir: &Path, endpoint: &str) -> Agent {
    let config = dir.join("berthd.yaml");
    let dir = dir.display();
    let text = format!(
        "apiVersion: berth.dev/v1alpha1\nkind: BerthdConfiguration\nsocket: {dir}/berth.sock\n\
         adminSocket: {dir}/admin.sock\nstateDir: {dir}/state\ndesiredDir: {dir}/desired\n\
         runtimeEndpoint: unix://{dir}/heard.sock\nhttpAddress: 127.0.0.1:0\nnodeName: node-a\n\
         podView: {{mode: none}}\n\
         tracing: {{endpoint: '{endpoint}', samplingRatePerMillion: 1000000}}\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(cargo_bin("berthd"));
    Agent(command.env_clear().arg("--config").arg(config).stderr(Stdio::null()).spawn().unwrap())
}

async fn connected(socket: &Path) -> Channel {
    let begun = Instant::now();
    loop {
        match unix::endpoint().connect_with_connector(unix::connector(socket)).await {
            Ok(channel) => return channel,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn traced<T>(message: T, traceparent: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("traceparent", traceparent.parse().unwrap());
    request
}

fn sandbox() -> PodSandboxConfig {
    PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: "pod".to_owned(),
            uid: "uid".to_owned(),
            namespace: "shop".to_owned(),
            attempt: 0,
        }),
        annotations: [(
            "berth.dev/container-launch-plan".to_owned(),
            r#"{"first": 1, "second": 0}"#.to_owned(),
        )]
        .into(),
        ..PodSandboxConfig::default()
    }
}

fn create(container: &str, attempt: u32) -> CreateContainerRequest {
    CreateContainerRequest {
        pod_sandbox_id: "sandbox-0".to_owned(),
        config: Some(ContainerConfig {
            metadata: Some(ContainerMetadata { name: container.to_owned(), attempt }),
            ..ContainerConfig::default()
        }),
        sandbox_config: Some(sandbox()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_is_in_the_trace_of_its_client_and_own_work_in_one_of_its_own() {
    let node = Node::new(|_, _| Ok(()));
    let heard = runtime(&node);
    let collector = Collector::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    let served = Server::builder().add_service(TraceServiceServer::new(collector.clone()));
    tokio::spawn(served.serve_with_incoming(TcpListenerStream::new(listener)));
    let _agent = start(node.dir.path(), &endpoint);

    let kubelet = &mut RuntimeServiceClient::new(connected(&node.dir.path().join("berth.sock")).await);
    let run = RunPodSandboxRequest { config: Some(sandbox()), ..RunPodSandboxRequest::default() };
    kubelet.run_pod_sandbox(run).await.unwrap();
    let traceparent = format!("00-{TRACE}-{SPAN}-01");
    kubelet.create_container(traced(create("first", 0), &traceparent)).await.unwrap();
    let refused = kubelet.create_container(traced(create("second", 0), &traceparent)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    kubelet.create_container(traced(create("second", 0), UNSAMPLED)).await.unwrap_err();

    let of_second = |span: &&Span| text(&span.attributes, "k8s.container.name").as_deref() == Some("second");
    let decided =
        until("span of the decision", || collector.0.lock().unwrap().iter().find(of_second).cloned());
    let decided = decided.await;
    assert_eq!((hex(&decided.trace_id), hex(&decided.parent_span_id)), (TRACE.to_owned(), SPAN.to_owned()));
    let fact = |key: &str| text(&decided.attributes, key);
    assert_eq!(decided.name, "decide CreateContainer");
    assert_eq!(fact("k8s.namespace.name").as_deref(), Some("shop"));
    assert_eq!(fact("berth.decision").as_deref(), Some("refuse"));
    assert_eq!(fact("berth.refusal").as_deref(), Some("waiting"));
    let took = Duration::from_nanos(decided.end_time_unix_nano - decided.start_time_unix_nano);
    assert!(took >= HOLD, "the time of its hold is {took:?}");
    let held: Vec<_> = decided.events.iter().filter(|event| event.name == "held").collect();
    assert_eq!(held.len(), 1, "each reason once");
    assert_eq!(text(&held[0].attributes, "berth.reason").as_deref(), Some("inspection"));
    // What passes has the client's, as it came.
    let passed = ("CreateContainer".to_owned(), Some(traceparent));
    assert_eq!(heard.lock().unwrap().iter().filter(|call| **call == passed).count(), 1);

    let mut admin = AdminClient::new(connected(&node.dir.path().join("admin.sock")).await);
    let pull =
        PullRequest { image: "registry.example.com/web:v2".to_owned(), always: true, ..Default::default() };
    let mut states = admin.pull(pull).await.unwrap().into_inner();
    while states.message().await.unwrap().is_some() {}
    let pull = until("span of the pull", || collector.named("pull")).await;
    assert!(pull.parent_span_id.is_empty() && hex(&pull.trace_id) != TRACE);
    let own = format!("00-{}-{}-01", hex(&pull.trace_id), hex(&pull.span_id));
    let asked = heard.lock().unwrap().iter().find(|(method, _)| method == "PullImage").cloned();
    assert_eq!(asked.unwrap().1, Some(own));
    let unsampled = |span: &Span| span.trace_id.ends_with(&[0x0b, 0xad]);
    assert!(!collector.0.lock().unwrap().iter().any(unsampled), "the client records nothing");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Nobody takes spans: calls go on, and a stop does not wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_or_says_nothing_holds_nobody_up() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for endpoint in ["127.0.0.1:9".to_owned(), silent.local_addr().unwrap().to_string()] {
        let node = Node::new(|_, _| Ok(()));
        runtime(&node);
        let mut agent = start(node.dir.path(), &endpoint);
        let kubelet = &mut RuntimeServiceClient::new(connected(&node.dir.path().join("berth.sock")).await);
        let run = RunPodSandboxRequest { config: Some(sandbox()), ..RunPodSandboxRequest::default() };
        kubelet.run_pod_sandbox(run).await.unwrap();
        // More than are kept for a collector, and among them some that nobody records.
        let (mut recorded, mut others) = (Vec::new(), Vec::new());
        for attempt in 0..1500 {
            let (parent, times) = match attempt % 5 {
                0 => (UNSAMPLED.to_owned(), &mut others),
                _ => (format!("00-{TRACE}-{SPAN}-01"), &mut recorded),
            };
            let request = traced(create("first", attempt), &parent);
            let begun = Instant::now();
            timeout(PATIENCE, kubelet.create_container(request)).await.expect("a call waits").unwrap();
            times.push(begun.elapsed());
        }
        let (recorded, other) = (median(recorded), median(others));
        assert!(
            recorded < other * 3 + Duration::from_millis(5),
            "{recorded:?}, and {other:?} without a span"
        );
        let pid = nix::unistd::Pid::from_raw(agent.0.id().try_into().unwrap());
        let stopped = Instant::now();
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        let status = tokio::task::spawn_blocking(move || agent.0.wait().unwrap()).await.unwrap();
        assert!(status.success() && stopped.elapsed() < Duration::from_secs(10), "{:?}", stopped.elapsed());
    }
}
