//! Probes against servers of a test's own, and a runtime that answers as it is told.

mod dial;
mod exec;
mod grpc;
mod netns;

use std::time::Duration;

use berth_policy::PodRef;
use berth_proto::cri;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tonic::Code;

use super::*;
use crate::{
    base::http_get::server::Server,
    cri::played::{Answer, Played},
};

const SECOND: Duration = Duration::from_secs(1);
/// Time for what answers, on a machine with other work to do.
const PATIENT: Duration = Duration::from_secs(30);
/// Longest time that a run may take beyond its timeout, on a busy machine. One that does not keep to it goes
/// on for ever.
const MARGIN: Duration = Duration::from_secs(20);

fn run_of(action: ProbeAction, timeout: Duration) -> ProbeRun {
    ProbeRun {
        pod: PodRef { uid: "u".into(), namespace: "shop".to_owned(), name: "web".to_owned() },
        sandbox: "s".into(),
        container: "c".into(),
        action,
        timeout,
    }
}

fn get(port: u16, path: &str) -> ProbeAction {
    ProbeAction::Http { port, path: path.to_owned(), https: false, headers: Vec::new() }
}

fn said(result: &ProbeResult) -> (&'static str, &str) {
    match result {
        ProbeResult::Success(text) => ("success", text),
        ProbeResult::Failure(text) => ("failure", text),
        ProbeResult::Unknown(text) => ("unknown", text),
        ProbeResult::Refused(text) => ("refused", text),
    }
}

#[track_caller]
fn expect(result: &ProbeResult, kind: &str, part: &str) {
    let (is, text) = said(result);
    assert!(is == kind && text.contains(part), "{is} {text:?} and not {kind} {part:?}");
}

/// A runtime whose one sandbox is on the host's network: what is dialled is this test's own loopback.
fn on_the_host() -> Played {
    Played::new(|_, _| sandbox("", r#"{"runtimeSpec":{"linux":{"namespaces":[{"type":"pid"}]}}}"#))
}

fn sandbox(ip: &str, info: &str) -> Answer {
    let network = cri::PodSandboxNetworkStatus { ip: ip.to_owned(), ..Default::default() };
    Answer::message(&cri::PodSandboxStatusResponse {
        status: Some(cri::PodSandboxStatus { network: Some(network), ..Default::default() }),
        info: [("info".to_owned(), info.to_owned())].into(),
    })
}

/// Runs it once on loopback; nothing takes longer than it may.
async fn on_loopback(action: ProbeAction, timeout: Duration) -> ProbeResult {
    let played = on_the_host();
    let prober = Prober::new(played.client());
    let began = std::time::Instant::now();
    let run = run_of(action, timeout);
    // As the agent runs it: on any thread.
    let result = tokio::spawn(async move { prober.run(&run, Some("127.0.0.1")).await }).await.unwrap();
    assert!(began.elapsed() < timeout + MARGIN, "took {:?}", began.elapsed());
    result
}

/// Does this with every connection, until it is dropped.
struct Raw {
    port: u16,
    accepting: JoinHandle<()>,
}

impl Raw {
    async fn new<F>(talk: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(talk(stream));
            }
        });
        Self { port, accepting }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
