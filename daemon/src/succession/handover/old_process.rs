//! The side of the old process: gives its place away, and takes it back when the new one does not fill it.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use berth_policy::Event;
use berth_shim::{Gate, Listener, PassingLine, Shutdown};
use sd_notify::NotifyState;
use tokio::{net::UnixStream, process::Child, sync::Mutex, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{error, info, warn};

use super::{line::Word, program::Program, sockets::Sockets, stranger::Stranger};
use crate::{
    agent::{Agent, store::Store},
    base::{causes::chain, connections::ACCEPT_PAUSE},
    exec::Executor,
    succession::{fd_store, systemd},
};

/// How long a new process that was not started by us may take to be ready.
const STRANGER: Duration = Duration::from_secs(30);
/// How long what is under way may take before the store is given away; then it is broken off, as a crash
/// would.
const QUIET: Duration = Duration::from_secs(30);
/// How long a new process is looked after once it is ready.
const WATCH: Duration = Duration::from_secs(10);
/// Pause between two attempts to start this program's file as the successor.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Parts that the old process gives up.
#[derive(Debug)]
pub(crate) struct Owned {
    /// State of the node.
    pub agent: Arc<Agent>,
    /// Executor of its steps.
    pub executor: Executor,
    /// Store that the next process opens.
    pub store: Arc<Store>,
    /// Second descriptors of the sockets it listens on.
    pub sockets: Sockets,
    /// Ends the work that it does of its own accord.
    pub work: CancellationToken,
    /// Tasks of that work.
    pub working: TaskTracker,
    /// Ends the accepting on all sockets but the kubelet's.
    pub front: CancellationToken,
    /// Ends the accepting on that one.
    pub shutdown: Shutdown,
}

/// The place, to be given away once. A clone is the same one.
#[derive(Clone, Debug)]
pub(crate) struct HandOver(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    owned: Owned,
    /// The store was given away: from now on there is only the way to a successor, whichever it is.
    released: AtomicBool,
    /// One at a time. Whether somebody is there.
    turn: Mutex<bool>,
    /// The successor is looked after.
    watching: TaskTracker,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The new process runs.
    Started {
        /// Its process.
        pid: u32,
        /// Version that it gives itself.
        version: String,
    },
    /// It was given the sockets and the store.
    Given,
    /// It accepts. This process has only the calls left that it has.
    Ready,
    /// It was not ready in time, and this process's own program goes on.
    TakenBack,
}

/// The new process did not take the place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandOverError {
    /// Once is enough.
    #[error("this berthd has handed over already; ask again, the new one answers now")]
    Done,
    /// It could not be started.
    #[error("the new berthd does not start")]
    Start(#[source] io::Error),
    /// It ended, or broke off.
    #[error("the new berthd ended before it was ready; its log says why")]
    Ended(#[source] io::Error),
    /// It said something else.
    #[error("the new berthd does not speak this hand-over")]
    Mumbles,
    /// It is too slow.
    #[error("the new berthd was not ready within {0:?}")]
    Slow(Duration),
}

/// The new process.
struct NewProcess {
    line: PassingLine,
    pid: Option<i32>,
    /// Where this process has started it.
    child: Option<Child>,
    /// Where somebody else has.
    stranger: Option<Stranger>,
}

impl HandOver {
    /// Nothing happens before somebody comes, or [`HandOver::upgrade`].
    pub(crate) fn new(owned: Owned) -> Self {
        Self(Arc::new(Inner {
            owned,
            released: AtomicBool::new(false),
            turn: Mutex::new(false),
            watching: TaskTracker::new(),
        }))
    }

    /// Waits for a successor that somebody else starts.
    pub(crate) async fn serve(self, listener: Listener, stop: CancellationToken) {
        // Cancel-safe: accept takes no connection unless it returns it.
        while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
            let stream = match accepted {
                Ok(stream) => stream,
                Err(error) => {
                    warn!(%error, "Hand-over not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            if let Err(error) = self.give_to(stream).await {
                warn!(error = format!("{error:#}"), "Not handed over");
            }
        }
    }

    async fn give_to(&self, stream: UnixStream) -> anyhow::Result<()> {
        let peer = stream.peer_cred()?;
        let own = nix::unistd::geteuid().as_raw();
        anyhow::ensure!(peer.uid() == 0 || peer.uid() == own, "uid {} asks for it", peer.uid());
        let stranger = Stranger::of(&stream)?;
        let pid = peer.pid().filter(|pid| *pid > 0);
        let new = NewProcess { line: PassingLine::new(stream), pid, child: None, stranger };
        let mut done = self.0.turn.lock().await;
        if *done {
            let why = HandOverError::Done.to_string();
            new.line.say(&Word::Refused { why }, &[]).await?;
            return Ok(());
        }
        Ok(self.attempt(new, STRANGER, &|_| {}, &mut done).await?)
    }

    /// Starts the program and gives it the place, or takes it back when it is not ready within `limit`. Tells
    /// of each stage.
    pub(crate) async fn upgrade(
        &self,
        program: &Program,
        limit: Duration,
        tell: impl Fn(Stage) + Send + Sync,
    ) -> Result<(), HandOverError> {
        let mut done = self.0.turn.lock().await;
        if *done {
            return Err(HandOverError::Done);
        }
        let new = NewProcess::of(program)?;
        self.attempt(new, limit, &tell, &mut done).await
    }

    /// Ends when nobody has to be looked after any more.
    pub(crate) async fn settled(&self) {
        self.0.watching.close();
        self.0.watching.wait().await;
    }

    async fn attempt(
        &self,
        mut new: NewProcess,
        limit: Duration,
        tell: &(dyn Fn(Stage) + Send + Sync),
        done: &mut bool,
    ) -> Result<(), HandOverError> {
        let given = match self.give(&mut new, limit, tell).await {
            Ok(()) => {
                if let Some(child) = self.leave(new) {
                    self.watch(child);
                }
                Ok(())
            }
            Err(error) => {
                new.end().await;
                if self.0.released.load(Ordering::Acquire) {
                    error!(%error, "Place taken back, this berthd's own program goes on");
                    self.restore(tell).await;
                    tell(Stage::TakenBack);
                }
                Err(error)
            }
        };
        // Also where it was taken back: a process of this one's own program has the place.
        *done = self.0.released.load(Ordering::Acquire);
        given
    }

    async fn give(
        &self,
        new: &mut NewProcess,
        limit: Duration,
        tell: &(dyn Fn(Stage) + Send + Sync),
    ) -> Result<(), HandOverError> {
        let slow = |_| HandOverError::Slow(limit);
        let (word, _): (Word, _) =
            timeout(limit, new.line.hear()).await.map_err(slow)?.map_err(HandOverError::Ended)?;
        let Word::Take { version } = word else { return Err(HandOverError::Mumbles) };
        info!(pid = new.pid, version, "A successor takes over");
        tell(Stage::Started { pid: new.pid.and_then(|pid| pid.try_into().ok()).unwrap_or(0), version });
        self.release().await;
        let sockets = &self.0.owned.sockets;
        let taken = Word::Taken { sockets: sockets.names() };
        new.line.say(&taken, &sockets.descriptors()).await.map_err(HandOverError::Ended)?;
        tell(Stage::Given);
        let (word, _): (Word, _) =
            timeout(limit, new.line.hear()).await.map_err(slow)?.map_err(HandOverError::Ended)?;
        if word != Word::Ready {
            return Err(HandOverError::Mumbles);
        }
        info!(pid = new.pid, "The successor accepts");
        tell(Stage::Ready);
        Ok(())
    }

    /// Ends all work of one's own, and closes the store. The calls go on.
    async fn release(&self) {
        let owned = &self.0.owned;
        if self.0.released.swap(true, Ordering::AcqRel) {
            return;
        }
        owned.agent.observe(Event::HandedOver);
        owned.executor.give_up(QUIET).await;
        owned.work.cancel();
        owned.working.close();
        if timeout(QUIET, owned.working.wait()).await.is_err() {
            warn!(tasks = owned.working.len(), "Work still under way is left to end by itself");
        }
        let store = owned.store.clone();
        // Waits for a write that is under way.
        if let Err(error) = tokio::task::spawn_blocking(move || store.close()).await {
            warn!(%error, "Store not closed");
        }
    }

    /// The successor has the place: this process only ends its calls. Gives the child, where it is one.
    fn leave(&self, new: NewProcess) -> Option<Child> {
        let owned = &self.0.owned;
        if let Some(pid) = new.child.as_ref().and_then(Child::id) {
            fd_store::let_go();
            systemd::notify(&[NotifyState::MainPid(pid)]);
        }
        owned.shutdown.succeeded.cancel();
        owned.front.cancel();
        owned.shutdown.token.cancel();
        new.child
    }

    /// Looks after a child for a while.
    fn watch(&self, mut child: Child) {
        let this = self.clone();
        self.0.watching.spawn(async move {
            match timeout(WATCH, child.wait()).await {
                // A crash looks otherwise.
                Ok(Ok(ended)) if ended.success() => {
                    info!("The successor was told to end, or has a successor of its own");
                }
                Ok(ended) => {
                    error!(?ended, "The successor ended, this berthd's own program goes on");
                    this.restore(&|_| {}).await;
                }
                Err(_) => reap(child),
            }
        });
    }

    /// Gives the place to this process's own program, whatever it takes: there is no other way back.
    async fn restore(&self, tell: &(dyn Fn(Stage) + Send + Sync)) {
        loop {
            let error = match NewProcess::of(&Program::own()) {
                Ok(mut new) => match self.give(&mut new, STRANGER, tell).await {
                    Ok(()) => {
                        // Not looked after: it is the program that has worked until now.
                        if let Some(child) = self.leave(new) {
                            reap(child);
                        }
                        return;
                    }
                    Err(error) => {
                        new.end().await;
                        error
                    }
                },
                Err(error) => error,
            };
            error!(error = %chain(&error), "Not succeeded, trying again");
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

/// Takes note of its end, should that come before this process's own.
fn reap(mut child: Child) {
    tokio::spawn(async move { child.wait().await });
}

impl NewProcess {
    fn of(program: &Program) -> Result<Self, HandOverError> {
        let (child, stream) = program.start().map_err(HandOverError::Start)?;
        let pid = child.id().and_then(|pid| pid.try_into().ok());
        Ok(Self { line: PassingLine::new(stream), pid, child: Some(child), stranger: None })
    }

    /// Ends it for good: two must never have the store.
    async fn end(&mut self) {
        if let Some(child) = &mut self.child {
            if let Err(error) = child.kill().await {
                warn!(%error, "Successor not ended");
            }
        } else if let Some(Err(error)) = self.stranger.as_ref().map(Stranger::kill) {
            warn!(%error, pid = self.pid, "Successor not ended");
        }
    }
}
