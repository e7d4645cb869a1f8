//! Clients that ask for far too much, for as long as they are there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use berth_tests::fake::{FakeKubelet, OpenCall};
use bytes::Bytes;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Connections that say nothing.
const SILENT: usize = 2000;
/// More of them, each second.
const MORE: usize = 100;
/// Calls that are begun on one connection and never said to their end.
const BEGUN: usize = 5000;
/// How long to wait for room for one of them.
const NO_ROOM: Duration = Duration::from_secs(2);
/// Requests that are nearly as large as a request may be and never end.
const HUGE: usize = 24;
const HUGE_BYTES: usize = 15 << 20;
const CREATE: &str = "/runtime.v1.RuntimeService/CreateContainer";
const LIST: &str = "/runtime.v1.RuntimeService/ListContainers";

/// All of them.
pub(super) struct Crowd {
    tasks: JoinSet<()>,
    seen: Arc<Seen>,
}

/// Counters of the connections and requests of the crowd.
#[derive(Debug, Default)]
struct Seen {
    connected: AtomicUsize,
    closed: AtomicUsize,
    begun: AtomicUsize,
    huge_refused: AtomicUsize,
    huge_kept: AtomicUsize,
}

impl Crowd {
    pub(super) async fn come(socket: &Path) -> Result<Self> {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("limit of descriptors")?;
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("limit of descriptors")?;
        let (mut tasks, seen) = (JoinSet::new(), Arc::new(Seen::default()));
        // These first: later there are no connections left.
        let talker = FakeKubelet::connect(socket).await?;
        tasks.spawn(begin_calls(talker, seen.clone()));
        for _ in 0..HUGE {
            let client = FakeKubelet::connect(socket).await?;
            tasks.spawn(say_much(client, seen.clone()));
        }
        tasks.spawn(say_nothing(socket.to_owned(), seen.clone()));
        Ok(Self { tasks, seen })
    }

    /// Goes away, and tells how it was.
    pub(super) async fn go(mut self) -> String {
        self.tasks.shutdown().await;
        format!("{:?}", self.seen)
    }
}

/// Opens connections, and more of them, and keeps those that are not closed by the other end.
async fn say_nothing(socket: PathBuf, seen: Arc<Seen>) {
    let mut open: Vec<UnixStream> = Vec::new();
    loop {
        let more = if open.is_empty() { SILENT } else { MORE };
        for _ in 0..more {
            // The backlog may be full: that is too much as well.
            match timeout(NO_ROOM, UnixStream::connect(&socket)).await {
                Ok(Ok(stream)) => {
                    seen.connected.fetch_add(1, Ordering::Relaxed);
                    open.push(stream);
                }
                Ok(Err(_)) | Err(_) => sleep(Duration::from_millis(5)).await,
            }
        }
        sleep(Duration::from_secs(1)).await;
        let before = open.len();
        open.retain(|stream| !ended(stream));
        seen.closed.fetch_add(before - open.len(), Ordering::Relaxed);
    }
}

/// The other end has closed it. It says its HTTP/2 settings first where it takes it.
fn ended(stream: &UnixStream) -> bool {
    let mut said = [0; 1024];
    loop {
        match stream.try_read(&mut said) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

/// Begins calls on one connection until there is no room for another.
async fn begin_calls(client: FakeKubelet, seen: Arc<Seen>) {
    let mut calls: Vec<OpenCall> = Vec::new();
    while calls.len() < BEGUN {
        match timeout(NO_ROOM, client.open(LIST, &[])).await {
            Ok(Ok(call)) => {
                seen.begun.fetch_add(1, Ordering::Relaxed);
                calls.push(call);
            }
            Ok(Err(_)) | Err(_) => break,
        }
    }
    std::future::pending::<()>().await;
}

/// Says a request that never ends, and again when it is refused.
async fn say_much(client: FakeKubelet, seen: Arc<Seen>) {
    loop {
        let Ok(mut call) = client.open(CREATE, &[]).await else { return };
        // The frame that it is said to be is larger than what comes of it.
        let mut said = vec![0; HUGE_BYTES];
        said[1..5].copy_from_slice(&(16_000_000_u32).to_be_bytes());
        if call.send.send_data(Bytes::from(said), false).is_err() {
            return;
        }
        seen.huge_kept.fetch_add(1, Ordering::Relaxed);
        let _answer = call.response.await;
        seen.huge_kept.fetch_sub(1, Ordering::Relaxed);
        seen.huge_refused.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_secs(1)).await;
    }
}
