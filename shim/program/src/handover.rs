//! Hand-over: a new process of this program takes the place of the old one, and no call fails.
//!
//! ```text
//!   new                                      old
//!    |------ Take -------------------------->|  serves
//!    |<----- Taken, with both sockets -------|
//!    |------ Ready ------------------------->|  accepts no more; says to berthd where to go; GOAWAY;
//!    |  accepts, on the same sockets         |  stays until its last call has ended
//! ```
//!
//! Nothing else is handed over: what goes on and what waits stays where it is, and berthd, which has both
//! for a while, tells the new one the table. The new process is of the file that the old one was started
//! from, as it is now, with the same arguments. One that does not come so far is ended, and the old one
//! goes on; where one ends within [`WATCH`], the old *program* goes on, in a process of its own.

use std::{
    ffi::OsString,
    io,
    ops::ControlFlow,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use berth_shim::{
    HandOverWord as Word, PassingLine, Shutdown,
    remote::{LineEnds, RemoteGate, UpgradeAsk, UpgradeStage},
};
use sd_notify::NotifyState;
use tokio::{
    process::{Child, Command},
    sync::mpsc,
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::{error, info, warn};

/// Says to a new process that its standard input is the line to its predecessor.
const TAKE_OVER: &str = "BERTH_SHIM_TAKE_OVER";
/// How long a new process may take to its next word.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a new process is looked after once it serves.
const WATCH: Duration = Duration::from_secs(10);
/// Pause between two attempts to start this program's file as the successor.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// This process's own program, also after its file was replaced.
const SELF: &str = "/proc/self/exe";
/// Variables that are about this process and not about a successor. systemd tells each by pid.
const OWN: [&str; 4] = ["WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// The old process, whose place is taken.
pub(crate) struct OldProcess(PassingLine);

/// Parts that a successor takes.
pub(crate) struct Place {
    /// The file that this process was started from.
    pub(crate) program: PathBuf,
    /// Second descriptors of the sockets.
    pub(crate) sockets: [OwnedFd; 2],
    pub(crate) gate: Arc<RemoteGate>,
    pub(crate) shutdown: Shutdown,
    pub(crate) line: LineEnds,
}

// === impl OldProcess ===

impl OldProcess {
    /// Finds the one that has started this process; `None` where that was no `berth-shim`.
    pub(crate) fn meet() -> anyhow::Result<Option<Self>> {
        if std::env::var_os(TAKE_OVER).is_none() {
            return Ok(None);
        }
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        stream.set_nonblocking(true)?;
        let stream = tokio::net::UnixStream::from_std(stream);
        let stream = stream.with_context(|| format!("{TAKE_OVER} is set, and standard input is no line"))?;
        Ok(Some(Self(PassingLine::new(stream))))
    }

    /// Takes the sockets: the kubelet's, and berthd's.
    pub(crate) async fn take(&mut self) -> anyhow::Result<[UnixListener; 2]> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        self.0.say(&Word::Take { version }, &[]).await.context("hand-over not asked for")?;
        let told = timeout(STEP_TIMEOUT, self.0.hear()).await.context("the old berth-shim gives nothing")?;
        let (word, descriptors): (Word, _) = told.context("the old berth-shim is gone")?;
        Ok(word.sockets(descriptors)?)
    }

    /// Says that this process serves from now on: the old one does not any more.
    pub(crate) async fn ready(self) -> anyhow::Result<()> {
        self.0.say(&Word::Ready, &[]).await.context("the old berth-shim has taken its place back")
    }
}

// === impl Place ===

impl Place {
    /// Carries out what is asked for, one after the other, until the place is another's and that one is well.
    pub(crate) async fn serve(self: Arc<Self>, mut asks: mpsc::Receiver<UpgradeAsk>) {
        let (mut watching, mut given) = (JoinSet::new(), false);
        while let Some(ask) = asks.recv().await {
            if given {
                tell_failure(&ask, "another process has its place already; ask again, that one answers now");
                continue;
            }
            match self.give_to(&self.program, &|stage| ask.tell(stage)).await {
                Ok(child) => {
                    given = true;
                    let this = self.clone();
                    watching.spawn(async move { this.watch(child).await });
                    // Nobody else can ask here now.
                    asks.close();
                }
                Err(error) => {
                    warn!(error = format!("{error:#}"), "Not succeeded, this berth-shim goes on");
                    tell_failure(&ask, &format!("{error:#}"));
                }
            }
        }
        watching.join_all().await;
    }

    /// Starts the program and gives it the place.
    async fn give_to(&self, program: &Path, tell: &(dyn Fn(UpgradeStage) + Sync)) -> anyhow::Result<Child> {
        let (mut child, stream) = start(program).with_context(|| format!("start {program:?}"))?;
        let mut line = PassingLine::new(stream);
        let pid = child.id().unwrap_or(0);
        let given = async {
            let (word, _) = hear(&mut line).await?;
            let Word::Take { version } = word else { bail!("it does not speak this hand-over: {word:?}") };
            info!(pid, version, "A successor takes over");
            tell(UpgradeStage { pid, version: version.clone(), ..UpgradeStage::default() });
            let sockets = self.sockets.each_ref().map(AsFd::as_fd);
            line.say(&Word::Taken, &sockets).await.context("the sockets were not passed")?;
            let (word, _) = hear(&mut line).await?;
            ensure!(word == Word::Ready, "it does not speak this hand-over: {word:?}");
            Ok(version)
        };
        match given.await {
            Ok(version) => {
                self.leave(pid);
                tell(UpgradeStage { pid, version, ready: true, ..UpgradeStage::default() });
                Ok(child)
            }
            Err(error) => {
                if let Err(error) = child.kill().await {
                    warn!(%error, pid, "Successor not ended");
                }
                Err(error)
            }
        }
    }

    /// Another process has the place: this one only ends its calls.
    fn leave(&self, pid: u32) {
        info!(pid, "The successor serves");
        super::notify(&[NotifyState::MainPid(pid)]);
        self.line.accepting.cancel();
        self.gate.succeeded();
        self.shutdown.succeeded.cancel();
        self.shutdown.token.cancel();
    }

    /// Looks after a successor for a while.
    async fn watch(&self, mut child: Child) {
        match timeout(WATCH, child.wait()).await {
            Ok(Ok(ended)) if ended.success() => {
                info!("The successor was told to end, or has a successor of its own");
            }
            Ok(ended) => {
                error!(?ended, "The successor ended, this berth-shim's own program goes on");
                while let Err(error) = self.give_to(Path::new(SELF), &|_| {}).await {
                    error!(error = format!("{error:#}"), "Not succeeded, trying again");
                    sleep(RETRY_PAUSE).await;
                }
            }
            // It outlives this process, or is reaped by the runtime's own.
            Err(_) => {}
        }
    }
}

/// Waits until a successor is well, or this process is told to end: a stop of both must not wait, and where
/// nothing of the successor comes up it is tried for ever. Break: it was told to.
pub(crate) async fn looked_after<E>(
    handing_over: impl Future<Output = Result<(), E>>,
    stop: impl Future<Output = ()>,
) -> Result<ControlFlow<()>, E> {
    // Cancel-safe: a successor that was started goes on without its predecessor.
    tokio::select! {
        handed = handing_over => handed.map(ControlFlow::Continue),
        () = stop => Ok(ControlFlow::Break(())),
    }
}

async fn hear(line: &mut PassingLine) -> anyhow::Result<(Word, Vec<OwnedFd>)> {
    let heard = timeout(STEP_TIMEOUT, line.hear()).await;
    heard.with_context(|| format!("not ready within {STEP_TIMEOUT:?}"))?.context("it ended; its log says why")
}

fn tell_failure(ask: &UpgradeAsk, error: &str) {
    ask.tell(UpgradeStage { error: error.to_owned(), ..UpgradeStage::default() });
}

/// The file that this process was started from, as it is now: Linux says so when it was replaced.
pub(crate) fn installed() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    let replaced = path.to_str().and_then(|path| path.strip_suffix(" (deleted)")).map(PathBuf::from);
    Ok(replaced.unwrap_or(path))
}

/// Starts it as this process was started, with the line to it as its standard input.
fn start(program: &Path) -> io::Result<(Child, tokio::net::UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut command = Command::new(program);
    command.args(args).env(TAKE_OVER, "1").stdin(Stdio::from(OwnedFd::from(theirs)));
    for name in OWN {
        command.env_remove(name);
    }
    Ok((command.spawn()?, tokio::net::UnixStream::from_std(ours)?))
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    /// A successor that does not come up is tried for ever.
    #[tokio::test]
    async fn a_stop_does_not_wait_for_the_successor() {
        type Ended = Result<(), ()>;
        let stopped = looked_after(pending::<Ended>(), ready(())).await;
        assert_eq!(stopped, Ok(ControlFlow::Break(())));
        let well = looked_after(ready(Ended::Ok(())), pending()).await;
        assert_eq!(well, Ok(ControlFlow::Continue(())));
        assert_eq!(looked_after(ready(Ended::Err(())), pending()).await, Err(()));
    }
}
