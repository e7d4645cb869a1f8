//! Marks that are to be written, and which of them are given to be written now. Pure.
//!
//! One that was written rests until the watch has had time to show it, and one that failed until it is tried
//! again: longer each time. So does one that was written and is shown as before: something in the cluster
//! puts it back. What is remembered is bounded by the requests that are shown, and by those that ended a
//! moment ago.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{steps::Queued, store::Key, time::later};

/// One that was written, or failed, is not written again before it.
const PAUSE: Duration = Duration::from_secs(10);
/// It doubles so often for one that ends the same way again and again, to some ten minutes.
const MOST_DOUBLINGS: u32 = 6;

/// Request whose marks are not as its status says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Due {
    pub(super) key: Key,
    pub(super) uid: String,
    /// It has ended, and still has the label.
    pub(super) ended: bool,
    /// Since when its pod is held not Ready, where that is not said.
    pub(super) unready: Option<String>,
}

impl Queued for Due {
    fn namespace(&self) -> &Arc<str> {
        &self.key.namespace
    }

    fn object(&self) -> Option<&Key> {
        Some(&self.key)
    }
}

/// End of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Written,
    Failed,
    /// This replica leads no more.
    Left,
}

/// Marks on their way, and those that rest.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// By UID.
    on_their_way: HashMap<String, Due>,
    /// By UID.
    rests: HashMap<String, Rest>,
    /// Ends of one kind in a row, by UID, of those that are shown.
    in_a_row: HashMap<String, (Outcome, u32)>,
}

#[derive(Debug)]
struct Rest {
    until: Instant,
    /// Marks that were written: others of the same request do not rest.
    written: Option<Due>,
}

impl Pending {
    /// Takes out of all that are shown those that are given to be written now.
    pub(super) fn take<'a>(&mut self, all: impl Iterator<Item = &'a Due>, now: Instant) -> Vec<Due> {
        self.rests.retain(|_, rest| rest.until > now);
        let mut before = std::mem::take(&mut self.on_their_way);
        let mut in_a_row = std::mem::take(&mut self.in_a_row);
        let mut due = Vec::new();
        for one in all {
            self.in_a_row.extend(in_a_row.remove_entry(&one.uid));
            let is_news = before.remove(&one.uid).is_none_or(|before| before != *one);
            if is_news && self.rests(one) {
                continue;
            }
            if is_news {
                due.push(one.clone());
            }
            self.on_their_way.insert(one.uid.clone(), one.clone());
        }
        let shown = &self.in_a_row;
        self.rests.retain(|uid, rest| rest.written.is_some() || shown.contains_key(uid));
        due
    }

    /// A write has ended.
    pub(super) fn end(&mut self, one: Due, outcome: Outcome, now: Instant) {
        // Newer marks of the same request may wait behind these.
        if self.on_their_way.get(&one.uid) == Some(&one) {
            self.on_their_way.remove(&one.uid);
        }
        let uid = one.uid.clone();
        let before = self.in_a_row.remove(&uid);
        let written = match outcome {
            Outcome::Left => return,
            Outcome::Written => Some(one),
            Outcome::Failed => None,
        };
        let count = before.filter(|(last, _)| *last == outcome).map_or(0, |(_, count)| count);
        self.in_a_row.insert(uid.clone(), (outcome, count.saturating_add(1)));
        let pause = PAUSE.saturating_mul(1 << count.min(MOST_DOUBLINGS));
        self.rests.insert(uid, Rest { until: later(now, pause), written });
    }

    /// Time until one of those that rest may be due.
    pub(super) fn next(&self, now: Instant) -> Option<Duration> {
        self.rests.values().map(|rest| rest.until.saturating_duration_since(now)).min()
    }

    fn rests(&self, one: &Due) -> bool {
        let rest = self.rests.get(&one.uid);
        rest.is_some_and(|rest| rest.written.as_ref().is_none_or(|written| written == one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(name: &str, ended: bool) -> Due {
        let key = Key { namespace: "shop".into(), name: name.into() };
        Due { key, uid: format!("uid-{name}"), ended, unready: Some("2026-07-02T10:00:00Z".to_owned()) }
    }

    /// Rows: how the write of marks ended, the marks that are shown then, seconds later; and whether they are
    /// given.
    #[test]
    fn what_was_given_is_not_given_again_at_once() {
        let table = [
            (None, false, 0, false),
            (None, true, 0, true),
            (Some(Outcome::Written), false, 0, false),
            // The watch is late.
            (Some(Outcome::Written), false, 9, false),
            (Some(Outcome::Written), false, 10, true),
            (Some(Outcome::Written), true, 0, true),
            (Some(Outcome::Failed), false, 9, false),
            // It fails whatever else it says.
            (Some(Outcome::Failed), true, 9, false),
            (Some(Outcome::Failed), false, 10, true),
            (Some(Outcome::Left), false, 0, true),
        ];
        for (outcome, ended, seconds, is_given) in table {
            let (mut pending, now) = (Pending::default(), Instant::now());
            let first = due("r", false);
            assert_eq!(pending.take([&first].into_iter(), now), std::slice::from_ref(&first));
            if let Some(outcome) = outcome {
                pending.end(first, outcome, now);
            }
            let rests = outcome.is_some_and(|outcome| outcome != Outcome::Left);
            assert_eq!(pending.next(now), rests.then_some(PAUSE));
            let shown = due("r", ended);
            let given = pending.take([&shown].into_iter(), later(now, Duration::from_secs(seconds)));
            assert_eq!(!given.is_empty(), is_given, "{outcome:?} {ended} {seconds}");
        }
    }

    #[test]
    fn newer_marks_wait_behind_older_ones_and_are_given_once() {
        let (mut pending, now) = (Pending::default(), Instant::now());
        let (older, newer) = (due("r", false), due("r", true));
        pending.take([&older].into_iter(), now);
        assert_eq!(pending.take([&newer].into_iter(), now), std::slice::from_ref(&newer));
        pending.end(older, Outcome::Written, now);
        assert_eq!(pending.take([&newer].into_iter(), now), []);
        pending.end(newer.clone(), Outcome::Written, now);
        assert_eq!(pending.take([&newer].into_iter(), now), [], "it is written");
    }

    #[test]
    fn nothing_is_kept_of_what_is_gone() {
        let (mut pending, now) = (Pending::default(), Instant::now());
        let all: Vec<Due> = ["a", "b", "c"].map(|name| due(name, false)).into();
        assert_eq!(pending.take(all.iter(), now), all);
        pending.end(due("a", false), Outcome::Failed, now);
        assert_eq!(pending.take(std::iter::empty(), later(now, PAUSE)), []);
        assert!(pending.on_their_way.is_empty() && pending.rests.is_empty() && pending.in_a_row.is_empty());
    }

    /// Marks that nobody lets through, or that somebody puts back, are tried less and less often; once they
    /// end otherwise, as at first.
    #[test]
    fn what_ends_the_same_way_again_and_again_is_given_less_often() {
        let (mut pending, mut now, one) = (Pending::default(), Instant::now(), due("r", false));
        let mut pauses = Vec::new();
        let ends = [Outcome::Failed; 9].into_iter().chain([Outcome::Written; 4]);
        for outcome in ends.chain([Outcome::Failed]) {
            assert_eq!(pending.take([&one].into_iter(), now), std::slice::from_ref(&one), "{outcome:?}");
            pending.end(one.clone(), outcome, now);
            let pause = pending.next(now).unwrap();
            pauses.push(pause.as_secs());
            now = later(now, pause);
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 640, 640, 10, 20, 40, 80, 10]);
    }
}
