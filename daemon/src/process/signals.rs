//! Signals by which the agent is told to stop.

use std::pin::pin;

use berth_shim::Shutdown;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};
use tracing::warn;

use crate::succession::{stop, takeover::RuntimePlace};

/// The signals the agent is told to stop with.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal, leaves the place, drains, and waits for the end of the data path where there is
    /// one. A second signal cuts the drain short.
    pub(super) async fn until_told(
        &mut self,
        shutdown: &Shutdown,
        ended: Option<oneshot::Receiver<()>>,
        place: Option<&RuntimePlace>,
    ) -> anyhow::Result<()> {
        let stopped = shutdown.token.clone();
        let mut ended = pin!(async move {
            match ended {
                // An error is the end of the thread, too.
                Some(ended) => drop(ended.await),
                None => stopped.cancelled().await,
            }
        });
        loop {
            // Cancel-safe: a signal that comes while another one is handled stays pending.
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
                _ = self.hangup.recv() => {
                    warn!("SIGHUP does not reload the configuration, restart berthd for that");
                    continue;
                }
                () = &mut ended => {
                    anyhow::ensure!(shutdown.token.is_cancelled(), "the data path's thread died");
                    return Ok(());
                }
            }
            if shutdown.token.is_cancelled() {
                warn!("Second signal, open calls are cut");
                return Ok(());
            }
            stop::begin(shutdown, place);
        }
    }
}
