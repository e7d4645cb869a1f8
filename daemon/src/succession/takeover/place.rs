//! The running berthd's side: takes the place, keeps it, leaves it. For itself; or for a `berth-shim`, which
//! stays in it when berthd goes.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::{
    Paths, bypass,
    decide::{Step, to_leave, to_take},
    look::{FileId, OwnSocket},
    shim::{Pace, Shim, ShimSettings},
    start::Guardian,
    steps::walk,
};

/// How often the place is looked at: a restarted runtime has it for so long.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How often it is made sure that there is a guardian.
const GUARDED: Duration = Duration::from_secs(5);
/// Time between two looks at the logs of both: they are written for as long as a node lives.
const SHORTENED: Duration = Duration::from_secs(60);
/// How often it is made sure that there is a `berth-shim`: sooner than the guardian loses its patience.
const SHIMMED: Duration = Duration::from_secs(1);

/// The runtime's place at its own socket path.
#[derive(Debug)]
pub struct RuntimePlace {
    paths: Paths,
    tenant: Tenant,
    guardian: Guardian,
    /// Left for good by this process. Held by whoever changes the names.
    left: Mutex<bool>,
    /// Why the place is not had, if it is not. Held for a moment: the health of berthd is asked for by calls.
    trouble: Mutex<Option<String>>,
}

/// Owner of the socket that is put in the place.
#[derive(Debug)]
enum Tenant {
    /// This process listens on it.
    Berthd(FileId),
    /// A program of its own does, whichever process that is.
    Shim(Shim),
}

impl RuntimePlace {
    /// Takes the place for the socket that this process listens on by its own name, or for a `berth-shim`
    /// that it starts where there is none. A runtime that is down is waited for, by [`RuntimePlace::keep`].
    ///
    /// # Errors
    /// There is no guardian or no shim, or the names cannot be changed. Then the runtime is where it was.
    pub async fn take(paths: Paths, state_dir: &Path, shim: Option<ShimSettings>) -> anyhow::Result<Self> {
        let guardian =
            Guardian::of(&paths, state_dir, shim.as_ref().map(|settings| settings.socket.as_path()));
        let tenant = match shim {
            Some(settings) => Tenant::Shim(Shim::of(&paths, state_dir, settings)),
            None => {
                let own = FileId::of(&paths.own())?.context("berthd's own socket is not there")?;
                Tenant::Berthd(own)
            }
        };
        let place = Self { paths, tenant, guardian, left: Mutex::default(), trouble: Mutex::default() };
        if let Tenant::Shim(shim) = &place.tenant {
            shim.install()?;
            if place.is_bypassed() {
                warn!("Place not taken: {}", bypass::WORDS);
                return Ok(place);
            }
            place.guardian.provide()?;
            shim.ensure(place.guardian.program()).await?;
        }
        // After the shim: without a socket in berthd's name there is nothing to guard.
        place.guardian.ensure().await.context("no guardian, so the runtime's place is not taken")?;
        let (step, place) = spawn_blocking(move || (place.walk(), place)).await?;
        match step.with_context(|| format!("the place of {:?}", place.paths.front()))? {
            Step::Refuse => bail!("{}", place.refusal()),
            Step::Await => {
                warn!(socket = ?place.paths.front(), "Runtime is not there, its place is taken when it is");
            }
            _ => {
                info!(socket = ?place.paths.front(), runtime = ?place.paths.aside(), "Place of the runtime taken");
            }
        }
        Ok(place)
    }

    /// The names.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// Tells whether clients of the runtime come to this process; if not, why.
    pub fn health(&self) -> Result<(), String> {
        if self.is_bypassed() {
            return Err(bypass::WORDS.to_owned());
        }
        if let Some(trouble) = &*locked(&self.trouble) {
            return Err(trouble.clone());
        }
        if self.held().map_err(|error| error.to_string())? {
            return Ok(());
        }
        Err(format!("{:?} is not berthd's socket now", self.paths.front()))
    }

    /// Tells whether this process is in the place, and not a `berth-shim`, which stays.
    pub fn is_berthds(&self) -> bool {
        matches!(self.tenant, Tenant::Berthd(_))
    }

    /// Tells whether the place of a shim is to be the runtime's for now.
    fn is_bypassed(&self) -> bool {
        !self.is_berthds() && bypass::wanted(&self.paths)
    }

    /// Takes the place again whenever it is lost, until it is left or `stop` ends this.
    pub async fn keep(self: Arc<Self>, stop: CancellationToken) {
        let (mut tick, mut guarded, mut shimmed) =
            (tokio::time::interval(POLL_INTERVAL), Instant::now(), Instant::now());
        let (mut pace, mut shortened) = (Pace::default(), Instant::now());
        while stop.run_until_cancelled(tick.tick()).await.is_some() {
            if shortened.elapsed() > SHORTENED {
                shortened = Instant::now();
                if let Err(error) = self.shorten_logs() {
                    warn!(%error, "Log of a process that outlives this one not shortened");
                }
            }
            if self.is_bypassed() {
                continue;
            }
            if let Tenant::Shim(shim) = &self.tenant
                && shimmed.elapsed() > SHIMMED
            {
                shimmed = Instant::now();
                if let Err(error) = self.shimmed(shim, &mut pace).await {
                    warn!(error = format!("{error:#}"), "No berth-shim: the guardian puts the runtime back");
                }
            }
            if guarded.elapsed() > GUARDED {
                guarded = Instant::now();
                if let Err(error) = self.guardian.ensure().await {
                    warn!(
                        error = format!("{error:#}"),
                        "No guardian: after a crash nobody puts the runtime back"
                    );
                }
            }
            let this = self.clone();
            let kept = match spawn_blocking(move || this.keep_once()).await {
                Ok(kept) => kept.map_err(|error| format!("{error:#}")).err(),
                Err(error) => Some(error.to_string()),
            };
            let mut trouble = locked(&self.trouble);
            if let Some(error) = kept.as_ref().filter(|_| kept != *trouble) {
                warn!(error, "Place of the runtime not taken");
            }
            *trouble = kept;
        }
    }

    fn shorten_logs(&self) -> io::Result<()> {
        if let Tenant::Shim(shim) = &self.tenant {
            shim.shorten_log()?;
        }
        self.guardian.shorten_log()
    }

    /// Starts another shim where the last one has ended.
    async fn shimmed(&self, shim: &Shim, pace: &mut Pace) -> anyhow::Result<()> {
        if !shim.runs()? && pace.begins(Instant::now()) {
            self.guardian.provide()?;
            shim.ensure(self.guardian.program()).await?;
        }
        Ok(())
    }

    /// Puts the runtime's socket back, for good, where this process is in its place. What is under way goes
    /// on: `aside` stays until [`Leaving`] is dropped.
    pub fn leave(&self) {
        let mut left = locked(&self.left);
        if std::mem::replace(&mut *left, true) {
            return;
        }
        let Tenant::Berthd(own) = self.tenant else { return };
        let walked = walk(&self.paths, OwnSocket::Held(own), to_leave).and_then(|step| {
            // Its absence tells the guardian that there is nothing to guard. A berthd that came meanwhile has
            // its own there.
            if step == Step::Stay && FileId::of(&self.paths.own())? == Some(own) {
                std::fs::remove_file(self.paths.own())?;
            }
            Ok(step)
        });
        match walked {
            Ok(Step::Stay) => info!(socket = ?self.paths.front(), "The runtime has its place back"),
            Ok(step) => error!(?step, "Place not left, the guardian puts the runtime back"),
            Err(error) => error!(%error, "Place not left, the guardian puts the runtime back"),
        }
    }

    fn keep_once(&self) -> anyhow::Result<()> {
        if self.held()? {
            return Ok(());
        }
        match self.walk()? {
            Step::Stay if !*locked(&self.left) => info!("Place of the runtime taken again"),
            Step::Refuse => bail!("{}", self.refusal()),
            _ => {}
        }
        Ok(())
    }

    /// Takes the place, unless it was left.
    fn walk(&self) -> io::Result<Step> {
        let left = locked(&self.left);
        let own = match &self.tenant {
            _ if *left => return Ok(Step::Stay),
            Tenant::Berthd(own) => OwnSocket::Held(*own),
            Tenant::Shim(shim) if shim.runs()? => OwnSocket::Named,
            // Nobody is to be sent to a socket on which nobody listens.
            Tenant::Shim(_) => return Ok(Step::Await),
        };
        // Asked before each step: whoever gives the place back may be about to begin.
        walk(&self.paths, own, |view| if self.is_bypassed() { Step::Stay } else { to_take(view) })
    }

    fn held(&self) -> io::Result<bool> {
        let own = match &self.tenant {
            Tenant::Berthd(own) => Some(*own),
            Tenant::Shim(_) => FileId::of(&self.paths.own())?,
        };
        let front = FileId::of(self.paths.front())?;
        Ok(front.is_some() && front == own && FileId::of(&self.paths.next())?.is_none())
    }

    fn refusal(&self) -> String {
        let paths = &self.paths;
        let names = [paths.front().to_owned(), paths.aside(), paths.next()];
        format!("one of {names:?} is no socket (a link is none either): give the runtime's own path")
    }
}

/// Removes the runtime's second name.
pub(super) fn tidy(paths: &Paths) -> io::Result<()> {
    // Not while a berthd that came meanwhile dials it, and not when it could be needed at `front`.
    let (at_front, aside) = (FileId::of(paths.front())?, FileId::of(&paths.aside())?);
    if FileId::of(&paths.own())?.is_none() && aside.is_some() && aside == at_front {
        std::fs::remove_file(paths.aside())?;
    }
    Ok(())
}

/// Never held across an await.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves the place when this process ends by itself, in an error as well; not when it has a successor.
#[derive(Debug)]
pub struct Leaving {
    place: Option<Arc<RuntimePlace>>,
    succeeded: CancellationToken,
    mine: bool,
}

impl Leaving {
    /// `mine` says whether the place is this process's, or still its predecessor's.
    pub fn new(place: Option<Arc<RuntimePlace>>, succeeded: CancellationToken, mine: bool) -> Self {
        Self { place, succeeded, mine }
    }

    /// The predecessor has gone.
    pub fn succeed(&mut self) {
        self.mine = true;
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let mine = self.mine && !self.succeeded.is_cancelled();
        let Some(place) = self.place.as_ref().filter(|place| mine && place.is_berthds()) else { return };
        place.leave();
        if let Err(error) = tidy(place.paths()) {
            warn!(%error, "The runtime's second name not removed");
        }
    }
}
