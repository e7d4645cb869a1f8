//! Room for what a view keeps of objects whose number and size their authors decide. Pure.
//!
//! Every replica has all of them. Where they do not fit, the largest ones of the namespaces that take most
//! are kept bare, as `crate::room` does it for the indexes: what each kind is then is its own to say. They
//! are counted as before, and when there is room again all of the kind are listed.

use std::time::Duration;

use berth_base::line_pace::SharedPace;
use berth_workloads_policy::holdings::{Held, Holdings};
use tokio::time::Instant;
use tracing::warn;

use crate::time::later_timer;

/// Objects are listed once in it at the most, so that they are whole again: an author may make room and take
/// it again and again.
const LISTED_EVERY: Duration = Duration::from_secs(300);

/// Pace of the log lines about objects that are bare.
static BARE: SharedPace = SharedPace::new();

/// Bound of the objects of a kind.
#[derive(Debug)]
pub(in crate::admission) struct Bound<V> {
    /// Bytes of all of them.
    pub(in crate::admission) most: usize,
    /// Bytes that one takes, about.
    pub(in crate::admission) bytes: fn(&V) -> usize,
    /// The same with little of it.
    pub(in crate::admission) bare: fn(V) -> V,
}

/// Room for the objects of a view.
#[derive(Debug)]
pub(super) struct Room<V> {
    what: &'static str,
    bound: Bound<V>,
    holdings: Holdings,
    /// There is room again for some that are bare.
    returns: bool,
    /// When a list was asked for last.
    listed: Option<Instant>,
}

impl<V> Room<V> {
    pub(super) fn new(what: &'static str, bound: Bound<V>) -> Self {
        Self { what, holdings: Holdings::new(bound.most), bound, returns: false, listed: None }
    }

    /// All objects follow.
    pub(super) fn list_begins(&mut self) {
        self.holdings.list_begins(self.what);
    }

    /// All of them were shown.
    pub(super) fn list_ends(&mut self) {
        self.holdings.list_ends(self.what);
    }

    /// An object is gone, or nothing of it is kept.
    pub(super) fn gone(&mut self, key: &str) {
        self.holdings.gone(key);
    }

    /// Counts an object, and returns as much of it as there is room for. Its key is its namespace, a slash
    /// and its name, or the name.
    pub(super) fn fit(&mut self, key: &str, object: V) -> V {
        let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
        let bytes = (self.bound.bytes)(&object);
        let held = Held { kind: self.what, uid: key, namespace, group: key, bytes };
        if self.holdings.shown(&held) { object } else { self.bare(object) }
    }

    /// An object without what there is no room for.
    pub(super) fn bare(&self, object: V) -> V {
        (self.bound.bare)(object)
    }

    /// Takes out the keys of the objects that are to be bare from now on.
    pub(super) fn news(&mut self) -> Vec<String> {
        let mut bare = Vec::new();
        for (namespace, key) in self.holdings.news() {
            if !self.holdings.is_aside(&namespace, &key) {
                self.returns = true;
                continue;
            }
            if let Some(left_out) = BARE.take() {
                let what = self.what;
                warn!(what, key, left_out, "No room for the object in admission, little of it is kept");
            }
            bare.push(key);
        }
        bare
    }

    /// Time at which all are to be listed.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let at = self.listed.map_or(now, |listed| later_timer(listed, LISTED_EVERY));
        self.returns.then_some(at)
    }

    /// They are listed from now on.
    pub(super) fn lists(&mut self, now: Instant) {
        (self.returns, self.listed) = (false, Some(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts, of which one of a letter is left.
    fn room() -> Room<String> {
        let bare = |text: String| text.chars().take(1).collect::<String>();
        Room::new("texts", Bound { most: 800 << 10, bytes: String::len, bare })
    }

    fn text(kib: usize) -> String {
        "x".repeat(kib << 10)
    }

    /// Row: objects by key and KiB, and those that are bare in the end.
    type Row = (&'static [(&'static str, usize)], &'static [&'static str]);

    #[test]
    fn the_largest_of_whom_takes_most() {
        let table: [Row; 5] = [
            (&[("a/x", 300), ("b/y", 300)], &[]),
            (&[("a/x", 100), ("b/y", 300), ("a/z", 700)], &["a/z"]),
            (&[("a/x", 700), ("a/y", 50), ("b/z", 300)], &["a/x"]),
            // Those of no namespace are alike.
            (&[("x", 500), ("y", 400), ("z", 30)], &["x"]),
            (&[("a/x", 900)], &["a/x"]),
        ];
        for (rows, expected) in table {
            let (mut room, mut bare) = (room(), Vec::new());
            for (key, kib) in rows {
                let kept = room.fit(key, text(*kib));
                let news = room.news();
                assert_eq!(kept.len() == 1, news.iter().any(|new| new == key), "{rows:?}");
                bare.extend(news);
            }
            assert_eq!(bare, expected, "{rows:?}");
        }
    }

    #[test]
    fn what_is_bare_is_listed_when_there_is_room() {
        let (mut room, now) = (room(), Instant::now());
        room.fit("a/x", text(600));
        room.fit("b/y", text(300));
        assert_eq!((room.news(), room.next(now)), (vec!["a/x".to_owned()], None));
        room.gone("b/y");
        assert!(room.news().is_empty());
        assert_eq!(room.next(now), Some(now));
        room.lists(now);
        room.list_begins();
        assert_eq!(room.fit("a/x", text(600)).len(), 600 << 10);
        room.list_ends();
        assert!(room.news().is_empty() && room.next(now).is_none());
        // Once more within the time.
        room.fit("b/y", text(300));
        room.news();
        room.list_begins();
        room.fit("a/x", text(600));
        room.list_ends();
        assert!(room.news().is_empty(), "one that a list has not shown is gone, and nobody asks");
        assert_eq!(room.next(now), Some(later_timer(now, LISTED_EVERY)));
    }
}
