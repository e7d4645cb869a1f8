//! World of a case: a runtime that does as told, the shim, and a kubelet connected to it.

use std::{future::Future, path::PathBuf, sync::Arc, time::Duration};

use berth_shim::{
    Clients, Gate, Listener, Metrics, RuntimeEndpoint, Shutdown,
    remote::{AgentLink, Line, LineEnds, RemoteGate, Resync},
};
use berth_tests::fake::{Exchange, FakeKubelet, FakeRuntime};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::script::ScriptedGate;

/// A shim between two sockets.
pub(crate) struct World {
    pub(crate) gate: Arc<ScriptedGate>,
    pub(crate) metrics: Metrics,
    pub(crate) shutdown: CancellationToken,
    pub(crate) serving: JoinHandle<()>,
    /// The gate is at the other end of a line.
    pub(crate) has_line: bool,
    directory: tempfile::TempDir,
}

/// A shim that serves.
pub(crate) struct Shim {
    pub(crate) gate: Arc<ScriptedGate>,
    pub(crate) metrics: Metrics,
    pub(crate) shutdown: CancellationToken,
    pub(crate) succeeded: CancellationToken,
    pub(crate) serving: JoinHandle<()>,
    /// The line to the gate, where there is one.
    line: Option<Arc<RemoteGate>>,
}

pub(crate) const DRAIN_LIMIT: Duration = Duration::from_secs(60);
/// For streams that are not of the CRI, beside a successor.
const FOREIGN_LIMIT: Duration = Duration::from_millis(300);

impl Shim {
    pub(crate) fn serve(listener: Listener, runtime: RuntimeEndpoint, clients: Clients) -> Self {
        let gate = Arc::new(ScriptedGate::new());
        let line = line(&gate);
        Self::behind(listener, runtime, clients, gate, line)
    }

    fn behind(
        listener: Listener,
        runtime: RuntimeEndpoint,
        clients: Clients,
        gate: Arc<ScriptedGate>,
        line: Option<Arc<RemoteGate>>,
    ) -> Self {
        let metrics = Metrics::default();
        let shutdown = Shutdown { foreign_limit: FOREIGN_LIMIT, ..Shutdown::new(DRAIN_LIMIT) };
        let serving = tokio::spawn(berth_shim::serve(
            listener,
            runtime,
            line.clone().map_or(gate.clone() as Arc<dyn Gate>, |line| line),
            clients,
            metrics.clone(),
            shutdown.clone(),
            None,
        ));
        let Shutdown { token: shutdown, succeeded, .. } = shutdown;
        Self { gate, metrics, shutdown, succeeded, serving, line }
    }
}

/// With `BERTH_TESTS_LINE=1`, a line to this gate, as if it were in a process of its own.
fn line(gate: &Arc<ScriptedGate>) -> Option<Arc<RemoteGate>> {
    if std::env::var_os("BERTH_TESTS_LINE").is_none_or(|value| value != "1") {
        return None;
    }
    let remote = RemoteGate::new(Metrics::default());
    link(gate.clone(), remote.clone());
    Some(remote)
}

/// Connects the two by a line.
pub(crate) fn link(gate: Arc<ScriptedGate>, remote: Arc<RemoteGate>) {
    let directory = tempfile::tempdir().unwrap();
    tokio::spawn(async move {
        let socket = directory.path().join("shim.sock");
        let runtime = RuntimeEndpoint::from(directory.path().join("runtime.sock"));
        let listener = berth_shim::bind(&socket, &runtime).await.unwrap();
        let line = Line::new(listener).serve(remote, LineEnds::default());
        let resync: Resync = Arc::new(|| Box::pin(std::future::ready(())));
        let link = AgentLink::new(gate.clone(), gate, resync, Metrics::default());
        tokio::join!(line, link.run(&socket, CancellationToken::new()));
    });
}

impl World {
    /// The shim serves; no runtime is there yet.
    pub(crate) async fn new() -> Self {
        Self::of(own_process()).await
    }

    /// The same, where these clients are the kubelet.
    pub(crate) async fn of(clients: Clients) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let runtime = RuntimeEndpoint::from(directory.path().join("runtime.sock"));
        let listener = berth_shim::bind(&directory.path().join("cri.sock"), &runtime).await.unwrap();
        let Shim { gate, metrics, shutdown, serving, line, .. } = Shim::serve(listener, runtime, clients);
        while line.as_ref().is_some_and(|line| !line.has_agent()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Self { gate, metrics, shutdown, serving, has_line: line.is_some(), directory }
    }

    /// The shim serves, and its gate is at the other end of a line that nobody has [connected](link) yet.
    pub(crate) async fn unlinked() -> (Self, Arc<RemoteGate>) {
        let directory = tempfile::tempdir().unwrap();
        let runtime = RuntimeEndpoint::from(directory.path().join("runtime.sock"));
        let listener = berth_shim::bind(&directory.path().join("cri.sock"), &runtime).await.unwrap();
        let (gate, remote) = (Arc::new(ScriptedGate::new()), RemoteGate::new(Metrics::default()));
        let shim = Shim::behind(listener, runtime, own_process(), gate, Some(remote.clone()));
        let Shim { gate, metrics, shutdown, serving, .. } = shim;
        (Self { gate, metrics, shutdown, serving, has_line: true, directory }, remote)
    }

    /// Waits until the shim has heard what its gate has just begun to say. Over a line that is a moment
    /// later, which is longer on a busy machine. In many pieces: one that stands still takes no more than one
    /// of them from those who have to hear.
    pub(crate) async fn hears(&self) {
        let pieces = if self.has_line { 100 } else { 0 };
        for _ in 0..pieces {
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Returns the socket that the kubelet connects to.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("cri.sock")
    }

    pub(crate) fn runtime_endpoint(&self) -> RuntimeEndpoint {
        RuntimeEndpoint::from(self.runtime_socket())
    }

    pub(crate) fn runtime_socket(&self) -> PathBuf {
        self.directory.path().join("runtime.sock")
    }

    /// Starts a runtime behind the shim.
    pub(crate) fn runtime<S, F>(&self, script: S) -> FakeRuntime
    where
        S: Fn(Exchange) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        FakeRuntime::start(&self.runtime_socket(), script).unwrap()
    }

    /// Starts a runtime whose calls the test itself receives and answers.
    pub(crate) fn manual_runtime(&self) -> (FakeRuntime, mpsc::UnboundedReceiver<Exchange>) {
        let (calls, received) = mpsc::unbounded_channel();
        let runtime = self.runtime(move |exchange| {
            // A test that is over takes no more calls.
            let _ = calls.send(exchange);
            async {}
        });
        (runtime, received)
    }

    /// The sockets that listen or were accepted in this world, on both sides of the shim. Other cases of the
    /// same process have theirs elsewhere.
    pub(crate) fn open_sockets(&self) -> usize {
        let directory = self.directory.path().to_str().unwrap();
        std::fs::read_to_string("/proc/net/unix")
            .unwrap()
            .lines()
            .filter(|line| line.contains(directory))
            .count()
    }

    /// A new client of the shim.
    pub(crate) async fn kubelet(&self) -> FakeKubelet {
        FakeKubelet::connect(&self.socket()).await.unwrap()
    }
}

/// Takes every client from this process for the kubelet.
pub(crate) fn own_process() -> Clients {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    Clients { kubelet: vec![name.trim_end().to_owned()] }
}

/// A runtime that answers every message with itself.
pub(crate) async fn echo(mut exchange: Exchange) {
    // A client that goes away in the middle is the business of the test.
    if let Ok(body) = exchange.read().await {
        let _ = exchange.reply(body.get(5..).unwrap_or_default()).await;
    }
}

/// The path of a method of the runtime service.
pub(crate) fn cri(method: &str) -> String {
    format!("/runtime.v1.RuntimeService/{method}")
}

/// Runs a case that must come to its end, however slow the machine is. For cases without a paused clock.
pub(crate) async fn within<T>(case: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(300), case).await.expect("the case hangs")
}
