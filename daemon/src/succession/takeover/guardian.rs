//! The guardian: a process of its own that puts the runtime's socket back when nobody answers in its place.
//!
//! It is berthd's program (`berthd guardian`), started by a berthd that takes the place, and it outlives that
//! one, its container and its pod. It needs nothing but the directory of the sockets, and trusts nothing but
//! what it sees there. It stays after it has put the runtime back, because berthd may come again, and ends
//! when the place was left on purpose.

use std::{
    fs::File,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use berth_policy::time::later;

use anyhow::{Context, ensure};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use tracing::{error, info, warn};

use super::{
    Paths,
    decide::{Verdict, Vigil, to_restore},
    host,
    look::{OwnSocket, answers, look},
    steps::walk,
};

/// How often it looks, which costs berthd an accepted connection each time.
const LOOK: Duration = Duration::from_millis(500);
/// How long it tries to be the one guardian.
const TRY: Duration = Duration::from_secs(1);

/// Flags of `berthd guardian`.
#[derive(Clone, Debug, clap::Args)]
pub struct GuardianFlags {
    /// The runtime's own path, at which berthd is
    #[arg(long)]
    pub socket: PathBuf,
    /// Leave the container of berthd first
    #[arg(long)]
    pub host: bool,
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
    let (mut vigil, mut last) = (Vigil::default(), None);
    loop {
        match watch(&paths, &mut vigil) {
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
        sleep(LOOK);
    }
}

fn watch(paths: &Paths, vigil: &mut Vigil) -> anyhow::Result<Verdict> {
    // The runtime is not bothered as long as its place is filled.
    let deserted = !answers(paths.front()).context("dial")?
        && look(paths, OwnSocket::Named).context("look")?.is_deserted();
    let verdict = vigil.see(deserted, paths.own().symlink_metadata().is_ok(), Instant::now());
    if verdict == Verdict::Restore {
        warn!("Nobody answers in the runtime's place, it is put back");
        walk(paths, OwnSocket::Named, to_restore).context("put back")?;
    }
    Ok(verdict)
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
