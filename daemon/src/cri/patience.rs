//! Patience with questions about one sandbox or container: mostly the runtime answers in milliseconds, and on
//! a node that is busy in seconds. One that is given up is asked again, and costs it as much as one that it
//! answers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::PATIENCE;

/// The most time for a question.
const LONGEST: Duration = Duration::from_secs(30);

/// How slow the runtime is, as its answers show. A clone learns with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Patience {
    /// Milliseconds for the next question.
    next: Arc<AtomicU64>,
}

impl Patience {
    /// The time for a question that is asked now.
    pub(super) fn now(&self) -> Duration {
        Duration::from_millis(self.next.load(Ordering::Relaxed)).clamp(PATIENCE, LONGEST)
    }

    /// Waits for the answer to a question that has so much time, and learns from it.
    pub(super) async fn learning<T>(&self, time: Duration, answer: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let answer = answer.await;
        self.next.store(after(time, begun.elapsed()), Ordering::Relaxed);
        answer
    }
}

/// The milliseconds for the next question after one that took so long: all of its time where it was given up.
fn after(time: Duration, took: Duration) -> u64 {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let (time, took) = (millis(time), millis(took));
    match took >= time {
        true => time.saturating_mul(2),
        // One that was quick does not mean that all are.
        false => took.saturating_mul(4).max(time.saturating_mul(3) / 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row: the milliseconds that one question after the other would take, and the time that each has.
    #[tokio::test(start_paused = true)]
    async fn a_slow_runtime_has_more_time_until_it_is_not() {
        let table: [(&[u64], &[u64]); 4] = [
            (&[5, 5, 5], &[2_000, 2_000, 2_000]),
            (&[5_000, 5_000, 5_000, 5_000], &[2_000, 4_000, 8_000, 20_000]),
            (&[60_000; 6], &[2_000, 4_000, 8_000, 16_000, 30_000, 30_000]),
            (&[1_900, 10, 10, 10, 10, 10], &[2_000, 7_600, 5_700, 4_275, 3_206, 2_404]),
        ];
        for (takes, expected) in table {
            let patience = Patience::default();
            let mut had = Vec::new();
            for takes in takes {
                let time = patience.now();
                let answer = tokio::time::sleep(Duration::from_millis(*takes));
                let answer = tokio::time::timeout(time, answer);
                let _ = patience.learning(time, answer).await;
                had.push(time);
            }
            let had: Vec<u128> = had.iter().map(Duration::as_millis).collect();
            let expected: Vec<u128> = expected.iter().copied().map(u128::from).collect();
            assert_eq!(had, expected, "{takes:?}");
        }
    }
}
