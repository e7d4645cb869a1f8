//! Times of objects between their plans, the same for all controllers: the pauses after failures, the pace of
//! the status, and when the same is told again.

use std::time::{Duration, Instant};

use berth_base::time::later;
use berth_workloads_policy::action::Note;

/// Inputs taken at once before anything is planned.
pub(crate) const BATCH: usize = 256;
/// Plans that are carried out at once.
pub(crate) const AT_ONCE: usize = 16;
/// Pace of an object's status: what has a few pods is told with each of them, as clients are used to.
const STATUS: Pace = Pace { every: Duration::from_secs(1), ahead: Duration::from_secs(4) };
/// Time from a plan's end to the next one: what it wrote is often followed by more.
pub(crate) const SPACING: Duration = Duration::from_millis(10);
/// The same is told again after it.
pub(crate) const TELL_AGAIN: Duration = Duration::from_secs(60);
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

/// Pauses while somebody holds an object's writes back; the last one is repeated. Nobody says when that ends,
/// and what is held back is to go on soon after.
const HELD: [Duration; 4] =
    [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(5)];

/// Failures of an object's plans in a row.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failed: usize,
    held: usize,
}

/// Pace of writes of one kind: some may follow each other after a rest, and the next one waits for the
/// average. What is remembered of them is the time at which all have rested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Time in which one is written on average.
    pub(crate) every: Duration,
    /// Time that may be used in advance: one more than there are `every` in it may follow each other.
    pub(crate) ahead: Duration,
}

/// Pace of an object's status: when all have rested, `None` before the first one.
#[derive(Debug, Default)]
pub(crate) struct StatusPace(Option<Instant>);

/// Status of a plan that changes what the status counts: it is left to the plan that follows at once and
/// knows what this one has done, but not twice in a row.
#[derive(Debug, Default)]
pub(crate) struct LeftStatus(bool);

/// Last thing that was told of an object.
#[derive(Debug, Default)]
pub(crate) struct Told(Option<(String, Instant)>);

impl Backoff {
    /// Takes in how a plan ended: the pause until the next one.
    pub(crate) fn ends(&mut self, well: bool) -> Duration {
        self.held = 0;
        if well {
            self.failed = 0;
            return SPACING;
        }
        next(&PAUSES, &mut self.failed)
    }

    /// Tells whether plans fail one after the other. A single one may have met with a change.
    pub(crate) const fn fails(&self) -> bool {
        self.failed > 1
    }

    /// Tells whether the last plan was held back.
    pub(crate) const fn holds(&self) -> bool {
        self.held > 0
    }

    /// A plan was held back: the pause until the next one.
    pub(crate) fn is_held(&mut self) -> Duration {
        self.failed = 0;
        next(&HELD, &mut self.held)
    }
}

/// The most plans in this time, where each of them fails.
#[cfg(test)]
pub(crate) fn most_failing(time: Duration) -> usize {
    let mut at = Duration::ZERO;
    let begins = PAUSES.iter().take_while(|pause| {
        at = at.saturating_add(**pause);
        at <= time
    });
    begins.count().saturating_add(1)
}

/// The pause of this time in a row; the last one is repeated.
fn next(pauses: &[Duration], times: &mut usize) -> Duration {
    let pause = pauses.get(*times).or(pauses.last()).copied().unwrap_or(SPACING);
    *times = times.saturating_add(1);
    pause
}

impl Pace {
    /// Time from which the next one may be written; `None`: now.
    pub(crate) fn waits(self, rested: Instant, now: Instant) -> Option<Instant> {
        let rests = rested.saturating_duration_since(now);
        (rests > self.ahead).then(|| later(now, rests.saturating_sub(self.ahead)))
    }

    /// Time at which all have rested, after one more.
    pub(crate) fn written(self, rested: Instant, now: Instant) -> Instant {
        later(rested.max(now), self.every)
    }
}

impl StatusPace {
    /// Time from which the status may be written; `None`: now.
    pub(crate) fn waits(&self, now: Instant) -> Option<Instant> {
        STATUS.waits(self.0?, now)
    }

    pub(crate) fn written(&mut self, now: Instant) {
        self.0 = Some(STATUS.written(self.0.unwrap_or(now), now));
    }
}

impl LeftStatus {
    /// Tells whether the status of the next plan is left out.
    pub(crate) fn is_left(&mut self, changes_counts: bool) -> bool {
        self.0 = changes_counts && !self.0;
        self.0
    }
}

impl Told {
    /// Tells whether something is to be told: it was not a moment ago.
    pub(crate) fn is_news(&mut self, now: Instant, note: &Note) -> bool {
        let text = format!("{} {}", note.reason, note.text);
        let lasts =
            |(told, at): &(String, Instant)| *told == text && now.saturating_duration_since(*at) < TELL_AGAIN;
        let is_known = self.0.as_ref().is_some_and(lasts);
        if !is_known {
            self.0 = Some((text, now));
        }
        !is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_are_tried_less_and_less() {
        let mut backoff = Backoff::default();
        let pauses: Vec<_> = (0..9).map(|_| backoff.ends(false)).collect();
        assert!(pauses.is_sorted() && pauses[8] == Duration::from_secs(60));
        assert!(backoff.fails());
        assert_eq!((backoff.ends(true), backoff.ends(false)), (SPACING, PAUSES[0]));
        assert!(!backoff.fails(), "one alone");
    }

    /// Rows: seconds, and whether a status is written then.
    #[test]
    fn some_statuses_follow_each_other_and_the_average_is_one_a_second() {
        let (mut pace, begin) = (StatusPace::default(), later(Instant::now(), Duration::from_secs(60)));
        let mut is_written = |after: Duration| {
            let now = later(begin, after);
            let waits = pace.waits(now);
            assert!(waits.is_none_or(|at| at > now && at <= later(now, STATUS.every)));
            if waits.is_none() {
                pace.written(now);
            }
            waits.is_none()
        };
        let table = [
            (0.0, true),
            (0.1, true),
            (0.2, true),
            (0.3, true),
            (0.4, true),
            (0.5, false),
            (0.9, false),
            (1.0, true),
            (1.1, false),
            (2.0, true),
            (3.5, true),
            (3.6, false),
            (20.0, true),
            (20.1, true),
        ];
        for (seconds, expected) in table {
            assert_eq!(is_written(Duration::from_secs_f64(seconds)), expected, "at {seconds} s");
        }
        let minute = (0..6000).filter(|look| is_written(Duration::from_millis(100_000 + look * 10)));
        assert_eq!(minute.count(), 64, "four more than seconds");
    }

    #[test]
    fn a_status_is_left_out_once() {
        let mut left = LeftStatus::default();
        let plans = [(false, false), (true, true), (true, false), (true, true), (false, false), (true, true)];
        for (at, (changes_counts, is_left)) in plans.into_iter().enumerate() {
            assert_eq!(left.is_left(changes_counts), is_left, "plan {at}");
        }
    }

    #[test]
    fn the_same_is_told_once_a_minute() {
        let (mut told, now) = (Told::default(), Instant::now());
        let note = |text: &str| Note { warning: true, reason: "ScaleUpLimited", text: text.to_owned() };
        let at = |seconds| later(now, Duration::from_secs(seconds));
        let said = [(0, "a"), (1, "a"), (2, "b"), (61, "b"), (63, "b")]
            .map(|(seconds, text)| told.is_news(at(seconds), &note(text)));
        assert_eq!(said, [true, false, true, false, true]);
    }
}
