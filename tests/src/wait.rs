//! Waiting: for a condition, with a deadline, and with a last word on why it did not come true.

use std::fmt::{Debug, Display};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use tokio::time::Instant;

/// An error of a probe that waiting cannot mend, such as a program that has ended.
#[derive(Debug)]
pub struct Hopeless(pub String);

impl Display for Hopeless {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Hopeless {}

/// Time that a program of the node is given to come up, on a machine that has a lot of other work to do. A
/// test that takes so long proves nothing less.
pub const START_UP: Duration = Duration::from_secs(300);

/// Time in which nothing changes where all is at rest.
const REST: Duration = Duration::from_secs(5);

/// How often a condition is looked at. Short against what is waited for (a relist of the kubelet is 1 s).
const POLL: Duration = Duration::from_millis(50);

/// Calls `probe` until it gives a value, at most for `deadline`. An error means "not yet, because": the last
/// one is part of the error that tells what did not happen. Only [`Hopeless`] ends the waiting early.
pub async fn await_condition<T, F, Fut>(what: impl Display, deadline: Duration, mut probe: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let until = Instant::now() + deadline;
    let mut before = None;
    loop {
        // The probe itself may hang (a socket that accepts and never answers): the deadline holds for it as
        // well.
        let last = match tokio::time::timeout_at(until, probe()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) if error.is::<Hopeless>() => return Err(error.context(what.to_string())),
            Ok(Err(error)) => error,
            // The last of many was merely cut off, and the one before it says more.
            Err(_) => before.take().unwrap_or_else(|| anyhow!("the check itself did not come back")),
        };
        if Instant::now() + POLL >= until {
            return Err(last.context(format!("{what}: not within {} s", deadline.as_secs_f32())));
        }
        before = Some(last);
        tokio::time::sleep(POLL).await;
    }
}

/// Waits until `look` shows twice the same, with [`REST`] in between, and gives that. What was just seen
/// may be there before whoever wrote it has counted it.
pub async fn await_rest<T: PartialEq + Debug>(
    what: impl Display,
    deadline: Duration,
    look: impl AsyncFn() -> Result<T>,
) -> Result<T> {
    await_condition(what, deadline, async || {
        let before = look().await?;
        tokio::time::sleep(REST).await;
        let now = look().await?;
        ensure!(now == before, "{before:?}, then {now:?}");
        Ok(now)
    })
    .await
}

/// A thread that sleeps is late by less where others merely have their turns.
const TURNS: Duration = Duration::from_millis(200);

/// Time that this machine stood still, since it is watched: what did not come in it is late by nobody's
/// fault. For what has a limit of its own that a test cannot move, such as how long a call is held.
#[derive(Debug)]
pub struct Standstill(Arc<AtomicU64>);

impl Standstill {
    /// Watches from now on.
    pub fn watch() -> Self {
        let lost = Arc::<AtomicU64>::default();
        let watched = Arc::downgrade(&lost);
        thread::spawn(move || {
            while watched.strong_count() > 0 {
                let begun = std::time::Instant::now();
                thread::sleep(POLL);
                let late = begun.elapsed().saturating_sub(POLL);
                if let Some(lost) = watched.upgrade().filter(|_| late > TURNS) {
                    lost.fetch_add(u64::try_from(late.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
                }
            }
        });
        Self(lost)
    }

    /// Tells how much that is.
    pub fn lost(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}
