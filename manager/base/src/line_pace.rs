//! Pace of log lines that may be about each of thousands of objects: what fails for all of one author's would
//! fill the log of everybody. An object's status says the same of it.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Lines of one time.
const MOST: u32 = 30;
/// Length of that time.
const TIME: Duration = Duration::from_secs(10);

/// Pace of one kind of line.
#[derive(Debug, Default)]
pub struct LinePace {
    since: Option<Instant>,
    said: u32,
    left_out: u64,
}

/// Pace of one kind of line that many tasks write.
#[derive(Debug, Default)]
pub struct SharedPace(Mutex<LinePace>);

impl SharedPace {
    /// One of which nothing was written yet.
    pub const fn new() -> Self {
        Self(Mutex::new(LinePace { since: None, said: 0, left_out: 0 }))
    }

    /// Tells whether one more line is written now: `None`, or how many were left out before it.
    pub fn take(&self) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now())
    }
}

impl LinePace {
    /// Tells whether one more line is written now: `None`, or how many were left out before it.
    pub fn take(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= TIME) {
            (self.since, self.said) = (Some(now), 0);
        }
        if self.said >= MOST {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.said = self.said.saturating_add(1);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where this takes longer than the time of a pace there are some more.
    #[test]
    fn tasks_have_one_pace_together() {
        static PACE: SharedPace = SharedPace::new();
        let said = || (0..10_000).filter(|_| PACE.take().is_some()).count();
        let all: usize = std::thread::scope(|scope| {
            let threads = [(); 2].map(|()| scope.spawn(said));
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!((30..20_000).contains(&all), "{all}");
    }

    /// Rows: seconds, lines that are due then, lines that are written, and those that the first of them says
    /// were left out.
    #[test]
    fn a_flood_is_told_and_not_written() {
        let (mut pace, begin) = (LinePace::default(), Instant::now());
        let most = u64::from(MOST);
        for (seconds, due, written, left_out) in [
            (0, 2, 2, 0),
            (1, 10_000, most - 2, 0),
            (9, 5, 0, 0),
            (10, 1, 1, 10_000 - (most - 2) + 5),
            (11, 1, 1, 0),
            (30, most + 1, most, 0),
            (3600, 1, 1, 1),
        ] {
            let now = begin + Duration::from_secs(seconds);
            let said: Vec<u64> = (0..due).filter_map(|_| pace.take(now)).collect();
            let said = (said.len() as u64, said.first().copied().unwrap_or_default());
            assert_eq!(said, (written, left_out), "{seconds}");
        }
    }
}
