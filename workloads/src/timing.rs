//! Times of objects between their plans, the same for all controllers: when each is looked at, the pauses
//! after failures, the pace of its status, and when the same is told again.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    time::{Duration, Instant},
};

use berth_base::time::later;
use berth_workloads_policy::action::Note;

/// Inputs taken at once before anything is planned.
pub(crate) const BATCH: usize = 256;
/// Plans that are carried out at once.
pub(crate) const AT_ONCE: usize = 16;
/// The status of an object is written at most once in it.
const STATUS_EVERY: Duration = Duration::from_secs(1);
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

/// Objects that are to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    /// When an object is looked at, by UID.
    due: BTreeMap<String, Instant>,
    /// Objects with a plan on its way: they wait for its end.
    pub(crate) in_flight: BTreeSet<String>,
}

/// Failures of an object's plans in a row.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failed: usize,
    held: usize,
}

/// Time of the last write of an object's status.
#[derive(Debug, Default)]
pub(crate) struct StatusPace(Option<Instant>);

/// Last thing that was told of an object.
#[derive(Debug, Default)]
pub(crate) struct Told(Option<(String, Instant)>);

impl Agenda {
    /// The object is looked at then, or sooner.
    pub(crate) fn add(&mut self, uid: String, at: Instant) {
        let due = self.due.entry(uid).or_insert(at);
        *due = (*due).min(at);
    }

    /// Takes objects that are due, up to so many in flight. The one that waits longest comes first: others
    /// that are due again and again do not pass it.
    pub(crate) fn take(&mut self, now: Instant, most: usize) -> Vec<String> {
        let due = self.due.iter().filter(|(uid, at)| **at <= now && !self.in_flight.contains(*uid));
        let mut due: Vec<(Instant, &String)> = due.map(|(uid, at)| (*at, uid)).collect();
        due.sort_unstable();
        due.truncate(most.saturating_sub(self.in_flight.len()));
        let due: Vec<String> = due.into_iter().map(|(_, uid)| uid.clone()).collect();
        for uid in &due {
            self.due.remove(uid);
        }
        due
    }

    /// The next time at which one is due; `None`, when nothing can be begun.
    pub(crate) fn next(&self, most: usize) -> Option<Instant> {
        if self.in_flight.len() >= most {
            return None;
        }
        self.due.iter().filter(|(uid, _)| !self.in_flight.contains(*uid)).map(|(_, at)| *at).min()
    }
}

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

/// The pause of this time in a row; the last one is repeated.
fn next(pauses: &[Duration], times: &mut usize) -> Duration {
    let pause = pauses.get(*times).or(pauses.last()).copied().unwrap_or(SPACING);
    *times = times.saturating_add(1);
    pause
}

impl StatusPace {
    /// Time from which the status may be written; `None`: now.
    pub(crate) fn waits(&self, now: Instant) -> Option<Instant> {
        self.0.map(|at| later(at, STATUS_EVERY)).filter(|at| *at > now)
    }

    pub(crate) fn written(&mut self, now: Instant) {
        self.0 = Some(now);
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

/// Waits until then; for ever without a time.
pub(crate) async fn deadline(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => pending().await,
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
        assert_eq!((backoff.ends(true), backoff.ends(false)), (SPACING, PAUSES[0]));
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

    #[test]
    fn each_of_many_busy_ones_has_its_turn() {
        let (mut agenda, start) = (Agenda::default(), Instant::now());
        let uids: Vec<String> = (0..20).map(|number| format!("{number:02}")).collect();
        uids.iter().for_each(|uid| agenda.add(uid.clone(), start));
        let mut turns: BTreeMap<String, usize> = BTreeMap::new();
        for round in 0..20 {
            let now = later(start, SPACING.saturating_mul(round));
            let taken = agenda.take(now, AT_ONCE);
            assert_eq!(taken.len(), AT_ONCE);
            for uid in taken {
                *turns.entry(uid.clone()).or_default() += 1;
                // It is due again at once.
                agenda.add(uid, later(now, SPACING));
            }
        }
        // Those that are due at one instant have it by turns.
        assert!(turns.len() == uids.len() && turns.values().all(|turns| *turns >= 10), "{turns:?}");
    }

    #[test]
    fn an_object_in_flight_waits() {
        let (mut agenda, now) = (Agenda::default(), Instant::now());
        agenda.add("a".to_owned(), now);
        agenda.add("a".to_owned(), now + Duration::from_secs(9));
        agenda.add("b".to_owned(), now + Duration::from_secs(5));
        agenda.in_flight.insert("a".to_owned());
        assert!(agenda.take(now, 9).is_empty());
        assert_eq!(agenda.next(9), Some(now + Duration::from_secs(5)));
        assert_eq!(agenda.next(1), None);
        agenda.in_flight.clear();
        assert_eq!(agenda.take(now, 9), ["a"]);
    }
}
