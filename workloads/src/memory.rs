//! Memory of a workload beside its objects: what failed, what was told, and whether it is set aside.

use std::time::{Duration, Instant};

use berth_base::time::later;
use berth_workloads_policy::{action::Note, daemon_set::Rests, plan::Failures};

use crate::write::End;

/// Time from a plan's end to the next one: what it wrote is often followed by more.
const SPACING: Duration = Duration::from_millis(10);
/// Pauses after failures in a row; the last one is repeated.
const PAUSES: [Duration; 7] = [
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];
/// The same is told again after it.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// An object that was set aside is looked at again after it.
const ASIDE_FOR: Duration = Duration::from_secs(600);

/// Memory of a workload.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) failures: Failures,
    pub(crate) rests: Rests,
    tries: usize,
    pub(crate) status_at: Option<Instant>,
    pub(crate) collisions: i32,
    /// Term in which its objects were read.
    pub(crate) read_in: Option<u64>,
    told: Option<(String, Instant)>,
    aside: Option<Aside>,
}

/// Rest after a failure of what was decided on a workload.
#[derive(Clone, Copy, Debug)]
struct Aside {
    generation: Option<i64>,
    until: Instant,
}

impl Memory {
    /// Takes in how a plan ended: the pause until the next one.
    pub(crate) fn ends(&mut self, end: &End) -> Duration {
        match end {
            End::Done => {
                *self = Self { failures: Failures::default(), tries: 0, ..std::mem::take(self) };
                return SPACING;
            }
            End::Changed => {}
            End::NameTaken => self.collisions = self.collisions.saturating_add(1),
            End::ScaleFailed(error) => self.failures.scale = Some(error.clone()),
            End::UpdateFailed(error) => self.failures.update = Some(error.clone()),
        }
        let pause = PAUSES[self.tries.min(PAUSES.len() - 1)];
        self.tries = self.tries.saturating_add(1);
        pause
    }

    /// Tells something, unless it was told a moment ago.
    pub(crate) fn tell(&mut self, now: Instant, note: &Note, tell: impl FnOnce()) {
        let text = format!("{} {}", note.reason, note.text);
        let is_known = self
            .told
            .as_ref()
            .is_some_and(|(told, at)| *told == text && now.saturating_duration_since(*at) < TELL_AGAIN);
        if !is_known {
            self.told = Some((text, now));
            tell();
        }
    }

    /// Sets it aside until its spec is another one, or until the given time.
    pub(crate) fn set_aside(&mut self, generation: Option<i64>, now: Instant) -> Instant {
        let until = later(now, ASIDE_FOR);
        self.aside = Some(Aside { generation, until });
        until
    }

    /// Tells whether it is set aside.
    pub(crate) fn is_aside(&self, generation: Option<i64>, now: Instant) -> bool {
        self.aside.is_some_and(|aside| aside.generation == generation && now < aside.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_are_tried_less_and_less() {
        let mut memory = Memory::default();
        let failed = End::ScaleFailed("no quota".to_owned());
        let pauses: Vec<_> = (0..9).map(|_| memory.ends(&failed)).collect();
        assert!(pauses.is_sorted() && pauses[8] == Duration::from_secs(60));
        assert_eq!(memory.failures.scale.as_deref(), Some("no quota"));
        memory.ends(&End::NameTaken);
        assert_eq!(memory.ends(&End::Done), SPACING);
        assert_eq!((memory.failures.scale.as_deref(), memory.collisions), (None, 1));
    }

    #[test]
    fn the_same_is_told_once_a_minute() {
        let (mut memory, mut told, now) = (Memory::default(), 0, Instant::now());
        let note = |text: &str| Note { warning: true, reason: "ScaleUpLimited", text: text.to_owned() };
        for (seconds, text) in [(0, "a"), (1, "a"), (2, "b"), (61, "b"), (63, "b")] {
            memory.tell(now + Duration::from_secs(seconds), &note(text), || told += 1);
        }
        assert_eq!(told, 3);
    }
}
