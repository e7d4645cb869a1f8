//! Rests of nodes on which pods end again and again: each time the next pod has to wait for longer.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};

/// Pause after the first end, and the longest one.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// Nodes that rest, of one set.
#[derive(Clone, Debug, Default)]
pub struct Rests {
    generation: Option<i64>,
    until: BTreeMap<String, Timestamp>,
    /// Pause of each, and the UID of the pod that it is for.
    pauses: BTreeMap<String, (Duration, String)>,
}

impl Rests {
    /// Forgets all of them when the spec is another one: it may have been mended.
    pub fn begin(&mut self, generation: Option<i64>) {
        if self.generation != generation {
            *self = Self { generation, ..Self::default() };
        }
    }

    /// The pod of that UID, one of the node, has ended, and is deleted. Where that fails it is tried again,
    /// and is no other end: the next pod would wait for long when the API server is well again.
    pub fn ended(&mut self, node: &str, uid: &str, now: Timestamp) {
        if self.pauses.get(node).is_some_and(|(_, last)| last == uid) {
            return;
        }
        let after = |at: Timestamp, pause: Duration| {
            let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
            at.checked_add(pause).unwrap_or(Timestamp::MAX)
        };
        let until = &mut self.until;
        // Nodes that have been quiet for long enough begin anew; those that are gone are forgotten by it.
        until.retain(|_, at| after(*at, LONGEST) > now);
        self.pauses.retain(|node, _| until.contains_key(node));
        let pause = self.pauses.get(node).map_or(FIRST, |(last, _)| last.saturating_mul(2).min(LONGEST));
        self.pauses.insert(node.to_owned(), (pause, uid.to_owned()));
        self.until.insert(node.to_owned(), after(now, pause));
    }

    /// Returns when each of them may have its next pod.
    pub fn until(&self) -> &BTreeMap<String, Timestamp> {
        &self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_rests_for_longer_each_time() {
        let mut rests = Rests::default();
        let mut now = Timestamp::constant(1_000, 0);
        let mut waits = Vec::new();
        for number in 0..12 {
            rests.ended("a", &number.to_string(), now);
            waits.push(rests.until()["a"].duration_since(now).as_secs());
            now = rests.until()["a"];
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
        rests.ended("a", "11", now);
        assert_eq!(rests.until()["a"], now, "its deletion was refused, and is tried again");
        rests.ended("b", "12", now);
        assert_eq!(rests.until()["b"].duration_since(now).as_secs(), 1);
        let later = now.checked_add(SignedDuration::from_secs(3600)).unwrap();
        rests.ended("a", "13", later);
        assert_eq!(rests.until()["a"].duration_since(later).as_secs(), 1, "quiet for an hour");
        assert_eq!(rests.until().len(), 1, "b is forgotten");
        rests.begin(Some(2));
        assert!(rests.until().is_empty(), "another spec");
    }
}
