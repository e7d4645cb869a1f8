//! Clients that call all the time, each over one connection after another, and count what fails.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use super::Cri;

/// Clients, each with a connection of its own.
const CLIENTS: usize = 4;

/// Calls until it is stopped.
#[derive(Debug)]
pub struct Caller {
    stop: Arc<AtomicBool>,
    clients: JoinSet<Calls>,
}

/// What became of the calls.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// How many were answered.
    pub answered: usize,
    /// Why each of the others was not.
    pub failed: Vec<String>,
}

impl Caller {
    /// Begins to call `Version` and `Status`.
    pub fn start(socket: &Path) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let (cri, stop) = (Cri::connect(socket)?, stop.clone());
            clients.spawn(async move {
                let mut calls = Calls::default();
                while !stop.load(Ordering::Relaxed) {
                    calls.count(cri.version().await);
                    calls.count(cri.conditions().await);
                }
                calls
            });
        }
        Ok(Self { stop, clients })
    }

    /// Stops, and tells.
    pub async fn finish(mut self) -> Result<Calls> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Calls::default();
        while let Some(calls) = self.clients.join_next().await {
            let Calls { answered, failed } = calls?;
            all.answered += answered;
            all.failed.extend(failed);
        }
        Ok(all)
    }

    /// Stops. A call that failed is an error, and so is none at all.
    pub async fn all_answered(self) -> Result<()> {
        let Calls { answered, failed } = self.finish().await?;
        ensure!(
            failed.is_empty() && answered > 0,
            "{answered} calls were answered, these failed: {failed:?}"
        );
        Ok(())
    }
}

impl Calls {
    fn count<T>(&mut self, answer: Result<T>) {
        match answer {
            Ok(_) => self.answered += 1,
            Err(error) => self.failed.push(format!("{error:#}")),
        }
    }
}
