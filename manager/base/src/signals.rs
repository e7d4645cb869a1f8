//! Signals that tell a program to end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from now on; until then either one kills the process.
    ///
    /// # Errors
    ///
    /// When the kernel lets nobody listen, or outside of a runtime.
    pub fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Comes back when the program is told to end. Cancel-safe: a signal that is not taken stays pending.
    pub async fn told(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Carries something out unless the program is told to end first; returns whether that was so. What is
    /// broken off has to be cancel-safe.
    pub async fn tell_before(&mut self, work: impl Future<Output = ()>) -> bool {
        tokio::select! {
            () = self.told() => true,
            () = work => false,
        }
    }
}
