//! The guardian: a process of its own that puts the runtime's socket back when nobody answers in its place.
//!
//! It is berthd's program (`berthd guardian`), started by a berthd that takes the place, and it outlives that
//! one, its container and its pod. It needs nothing but the directory of the sockets, and trusts nothing but
//! what it sees there. Where a `berth-shim` is in the place it guards that one, whatever becomes of berthd;
//! it gives its place back where somebody wishes so, or where no berthd has come for long. It stays after it
//! has put the runtime back, because berthd may come again, and ends when the place was left on purpose.
//!
//! A signal ends it at once, whatever it is at. Nothing is broken off by that: each step leaves names that
//! the next guardian or berthd goes on from, and a shim that was told to end does so by itself.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    thread::{self, JoinHandle, sleep},
    time::{Duration, Instant},
};

use berth_policy::time::later;
use berth_shim::remote::{self, ShimState};

use anyhow::{Context, ensure};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use tokio::runtime::{Builder, Runtime};
use tracing::{error, info, warn};

use super::{
    Paths, bypass,
    decide::{Seen, Verdict, Vigil, to_leave, to_restore},
    host,
    look::{OwnSocket, answers, look},
    place::tidy,
    steps::walk,
};
use crate::base::causes::chain;

/// How often it looks, which costs berthd an accepted connection each time.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How often the shim is asked how it is.
const ASK: Duration = Duration::from_secs(5);
/// How long it tries to be the one guardian.
const TRY: Duration = Duration::from_secs(1);

/// Flags of `berthd guardian`.
#[derive(Clone, Debug, clap::Args)]
pub struct GuardianFlags {
    /// The runtime's own path, at which berthd is
    #[arg(long)]
    pub socket: PathBuf,
    /// Socket on which the berth-shim answers that is there, where it is not berthd itself
    #[arg(long)]
    pub shim_socket: Option<PathBuf>,
    /// Leave the container of berthd first
    #[arg(long)]
    pub host: bool,
}

/// The `berth-shim` in the place, as far as it says how it is.
struct GuardedShim {
    socket: PathBuf,
    runtime: Runtime,
    /// When it is asked again.
    due: Instant,
    /// It had no berthd when it was asked.
    forsaken: bool,
    /// Threads that follow shims to their ends.
    draining: Vec<JoinHandle<()>>,
}

/// The guardian's whole life. Another one for the same socket is no error.
///
/// # Errors
/// It cannot leave berthd's container, or does not see the sockets.
pub fn guard(flags: &GuardianFlags) -> anyhow::Result<()> {
    host::leave(flags.host)?;
    let paths = Paths::of(&flags.socket)?;
    ensure!(
        paths.own().exists(),
        "{:?} is not seen here: the host must have it at the same path",
        paths.own()
    );
    let Some(_one) = alone(&paths.guardian())? else { return Ok(()) };
    info!(socket = ?flags.socket, version = env!("CARGO_PKG_VERSION"), "Guardian watches");
    let mut shim = flags.shim_socket.clone().map(GuardedShim::of).transpose()?;
    let (mut vigil, mut last) = (Vigil::default(), None);
    loop {
        match watch(&paths, &mut vigil, shim.as_mut()) {
            Ok(Verdict::End) => {
                info!("Guardian ends, the place was left");
                return Ok(());
            }
            Ok(_) => last = None,
            Err(error) => {
                let words = format!("{error:#}");
                if last.as_ref() != Some(&words) {
                    error!(error = words, "Guardian cannot do its work");
                }
                last = Some(words);
            }
        }
        sleep(POLL_INTERVAL);
    }
}

fn watch(paths: &Paths, vigil: &mut Vigil, mut shim: Option<&mut GuardedShim>) -> anyhow::Result<Verdict> {
    // The runtime is not bothered as long as its place is filled.
    let deserted = !answers(paths.front()).context("dial")?
        && look(paths, OwnSocket::Named).context("look")?.is_deserted();
    let seen = Seen {
        deserted,
        own: paths.own().symlink_metadata().is_ok(),
        bypassed: shim.is_some() && bypass::wanted(paths),
        forsaken: shim.as_mut().is_some_and(|shim| shim.is_forsaken()),
        draining: shim.as_mut().is_some_and(|shim| shim.is_draining()),
    };
    let verdict = vigil.see(seen, Instant::now());
    match verdict {
        Verdict::Restore => {
            warn!("Nobody answers in the runtime's place, it is put back");
            walk(paths, OwnSocket::Named, to_restore).context("put back")?;
        }
        Verdict::Leave => {
            warn!(seen.bypassed, "The runtime gets its place back");
            walk(paths, OwnSocket::Named, to_leave).context("give back")?;
            // Its absence says to everybody that the place was left.
            fs::remove_file(paths.own()).context("remove berthd's own name")?;
            if let Some(shim) = shim {
                shim.drain(paths, seen.bypassed).context("end the shim")?;
            }
        }
        Verdict::Watch | Verdict::End => {}
    }
    Ok(verdict)
}

impl GuardedShim {
    fn of(socket: PathBuf) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().context("a runtime")?;
        Ok(Self { socket, runtime, due: Instant::now(), forsaken: false, draining: Vec::new() })
    }

    /// Says whether it has no berthd. One that does not answer is judged by its place alone.
    fn is_forsaken(&mut self) -> bool {
        if Instant::now() >= self.due {
            let state = self.runtime.block_on(remote::look(&self.socket));
            self.forsaken = state.is_ok_and(|state| !state.agent);
            self.due = later(Instant::now(), ASK);
        }
        self.forsaken
    }

    /// Has it end with its last open call; its clients are sent to the path, where the runtime is. That takes
    /// as long as the call, and the place is looked after meanwhile. Then the runtime's second name goes,
    /// unless the place is `bypassed`.
    fn drain(&mut self, paths: &Paths, bypassed: bool) -> anyhow::Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build().context("a runtime")?;
        let (socket, paths) = (self.socket.clone(), paths.clone());
        let follow = move || {
            let told = |state: &ShimState| info!(connections = state.connections, "berth-shim ends");
            if let Err(error) = runtime.block_on(remote::drain(&socket, told)) {
                warn!(error = %chain(&error), "berth-shim not told to end");
            }
            if !bypassed && let Err(error) = tidy(&paths) {
                warn!(%error, "Second name of the runtime not removed");
            }
        };
        let thread = thread::Builder::new().name("drain".to_owned()).spawn(follow).context("a thread")?;
        self.draining.push(thread);
        Ok(())
    }

    /// Tells whether one that was told to end has not ended.
    fn is_draining(&mut self) -> bool {
        self.draining.retain(|thread| !thread.is_finished());
        !self.draining.is_empty()
    }
}

/// The lock of the one guardian; `None` where there is one already.
fn alone(path: &Path) -> anyhow::Result<Option<Flock<File>>> {
    let open = File::options().create(true).truncate(false).write(true).mode(0o600).open(path);
    let mut file = open.with_context(|| format!("{path:?}"))?;
    let until = later(Instant::now(), TRY);
    loop {
        // A berthd that looks whether there is a guardian holds it for a moment.
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => {
                let mut file = &*lock;
                file.set_len(0)?;
                writeln!(file, "{}", std::process::id())?;
                return Ok(Some(lock));
            }
            Err((_, Errno::EWOULDBLOCK)) if Instant::now() > until => return Ok(None),
            Err((again, Errno::EWOULDBLOCK)) => file = again,
            Err((_, errno)) => return Err(errno).with_context(|| format!("lock {path:?}")),
        }
        sleep(TRY / 20);
    }
}
