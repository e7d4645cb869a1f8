//! Clients that call all the time, each over one connection after another, and count what fails.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Cri;

/// Clients, each with a connection of its own.
const CLIENTS: usize = 4;

/// Calls until it is stopped.
#[derive(Debug)]
pub struct Caller {
    stop: Arc<AtomicBool>,
    clients: JoinSet<Calls>,
}

/// Outcomes of the calls.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// How many were answered.
    pub answered: usize,
    /// Why each of the others was not.
    pub failed: Vec<String>,
    /// How many never left this process, or were not taken, because the other end had just said goodbye. The
    /// kubelet's library sends those again without a word, as gRPC has it; this one leaves it to its user.
    pub unsent: usize,
    /// Times of the calls whose time was taken, answered or not.
    pub took: Vec<Duration>,
}

/// Work that a client does over and over.
enum Work {
    /// `Version` and `Status`, one after another.
    Ask,
    /// `Version` every so often, and takes the time.
    Time(Duration),
    /// Pulls an image and removes it, with a pause.
    Pull(String, Duration),
}

impl Caller {
    /// Begins to call `Version` and `Status`.
    pub fn start(socket: &Path) -> Result<Self> {
        let mut caller = Self { stop: Arc::default(), clients: JoinSet::new() };
        for _ in 0..CLIENTS {
            caller.client(socket, Work::Ask)?;
        }
        Ok(caller)
    }

    /// Begins to call `Version` every so often, and to take the time.
    pub fn timing(socket: &Path, pause: Duration) -> Result<Self> {
        let mut caller = Self { stop: Arc::default(), clients: JoinSet::new() };
        caller.client(socket, Work::Time(pause))?;
        Ok(caller)
    }

    /// With one client more, that pulls an image and removes it again, over and over.
    pub fn pulling(mut self, socket: &Path, image: &str, pause: Duration) -> Result<Self> {
        self.client(socket, Work::Pull(image.to_owned(), pause))?;
        Ok(self)
    }

    fn client(&mut self, socket: &Path, work: Work) -> Result<()> {
        let (cri, stop) = (Cri::connect(socket)?, self.stop.clone());
        self.clients.spawn(async move {
            let mut calls = Calls::default();
            while !stop.load(Ordering::Relaxed) {
                work.once(&cri, &mut calls).await;
            }
            calls
        });
        Ok(())
    }

    /// Stops, and tells.
    pub async fn finish(mut self) -> Result<Calls> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Calls::default();
        while let Some(calls) = self.clients.join_next().await {
            let Calls { answered, failed, unsent, took } = calls?;
            all.answered += answered;
            all.unsent += unsent;
            all.failed.extend(failed);
            all.took.extend(took);
        }
        Ok(all)
    }

    /// Stops. A call that failed is an error, and so is none at all.
    pub async fn all_answered(self) -> Result<()> {
        let Calls { answered, failed, .. } = self.finish().await?;
        ensure!(
            failed.is_empty() && answered > 0,
            "{answered} calls were answered, these failed: {failed:?}"
        );
        Ok(())
    }
}

impl Work {
    async fn once(&self, cri: &Cri, calls: &mut Calls) {
        match self {
            Self::Ask => {
                calls.count(cri.version().await);
                calls.count(cri.conditions().await);
            }
            Self::Time(pause) => {
                let begun = Instant::now();
                calls.count(cri.version().await);
                calls.took.push(begun.elapsed());
                sleep(*pause).await;
            }
            Self::Pull(image, pause) => {
                calls.count(cri.pull(image).await);
                calls.count(cri.remove_image(image).await);
                sleep(*pause).await;
            }
        }
    }
}

impl Calls {
    fn count<T>(&mut self, answer: Result<T>) {
        match answer {
            Ok(_) => self.answered += 1,
            Err(error) if is_unsent(&error) => self.unsent += 1,
            Err(error) => self.failed.push(format!("{error:#}")),
        }
    }
}

/// Reports whether the call was never sent, or never taken. For a call that was on its way, hyper says
/// otherwise.
fn is_unsent(error: &anyhow::Error) -> bool {
    let canceled = || {
        error.chain().filter_map(|cause| cause.downcast_ref::<hyper::Error>()).any(hyper::Error::is_canceled)
    };
    canceled() || error.chain().filter_map(|cause| cause.downcast_ref::<h2::Error>()).any(is_not_taken)
}

/// Reports whether the other end said in its goodbye that it has not looked at this call (RFC 9113, 6.8: its
/// number is higher than the last that counts). Those before it are answered, or fail in another way.
fn is_not_taken(error: &h2::Error) -> bool {
    error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR)
}
