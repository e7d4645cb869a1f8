//! Words of the agents on entries, and how long each of them stands.

use std::time::{Duration, Instant};

use berth_proto::crd::{DesiredPod, UpdatePhase, UpdatedPod};
use jiff::Timestamp;

use crate::store::Now;

/// A word that was said before this replica saw the node's object is at most that old: the clock of a node
/// may be wrong by any time.
const OLDEST: Duration = Duration::from_secs(600);

/// Word of an agent on an entry, as far as its owner asks for it: of `status.pods` the least.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    owner_uid: Box<str>,
    revision: Box<str>,
    attempt: i32,
    since: Option<Timestamp>,
    pub(super) progress: Progress,
}

/// Progress of an agent with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Phase that was reached.
    pub phase: UpdatePhase,
    /// When that was seen here: the node has a clock of its own.
    pub seen: Instant,
}

impl Said {
    /// Reads a word. `before` is what the object had for the entry, if the object was there.
    pub(super) fn of(pod: &UpdatedPod, before: Option<Option<&Self>>, now: Now) -> Self {
        let since = pod.since.as_ref().map(|since| since.0);
        let seen = match before {
            Some(_) => now.instant,
            None => {
                let age = since.and_then(|since| Duration::try_from(now.wall.duration_since(since)).ok());
                now.instant.checked_sub(age.unwrap_or_default().min(OLDEST)).unwrap_or(now.instant)
            }
        };
        let said = Self {
            owner_uid: pod.owner_uid.as_str().into(),
            revision: pod.revision.as_str().into(),
            attempt: pod.attempt,
            since,
            progress: Progress { phase: pod.phase, seen },
        };
        match before.flatten().filter(|before| before.says(&said)) {
            Some(before) => Self { progress: before.progress, ..said },
            None => said,
        }
    }

    fn says(&self, other: &Self) -> bool {
        self.progress.phase == other.progress.phase
            && (&self.owner_uid, &self.revision, self.attempt, self.since)
                == (&other.owner_uid, &other.revision, other.attempt, other.since)
    }

    /// Tells whether it is about this try of this revision.
    pub(super) fn is_of(&self, pod: &DesiredPod) -> bool {
        *self.revision == *pod.revision
            && self.attempt == pod.attempt
            && (self.owner_uid.is_empty() || *self.owner_uid == *pod.owner_uid)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn word(phase: &str, since: Option<Timestamp>) -> UpdatedPod {
        let since = since.map(Time);
        let word = json!({ "uid": "p", "revision": "r", "phase": phase, "since": since, "containers": [] });
        serde_json::from_value(word).unwrap()
    }

    /// Rows: by how many seconds the node's clock is ahead, and how old the word counts as that is there when
    /// the object is seen first.
    #[rstest]
    #[case::right(0, 40)]
    #[case::behind(-100, 140)]
    #[case::far_behind(-1_000_000, 600)]
    #[case::ahead(30, 10)]
    #[case::far_ahead(1_000_000, 0)]
    fn a_word_counts_from_when_it_was_seen(#[case] skew: i64, #[case] age: u64) {
        let begin = Instant::now();
        let at = |seconds: u64| {
            let passed = Duration::from_secs(seconds);
            Now { instant: begin + passed, wall: Timestamp::constant(1_700_000_000, 0) + passed }
        };
        let since = at(1000 - 40).wall + jiff::SignedDuration::from_secs(skew);
        let first = Said::of(&word("Failed", Some(since)), None, at(1000));
        assert_eq!(at(1000).instant - first.progress.seen, Duration::from_secs(age));
        // The same again, and then another one.
        let again = Said::of(&word("Failed", Some(since)), Some(Some(&first)), at(1010));
        assert_eq!(again, first);
        for (phase, before) in [("Succeeded", Some(&first)), ("Failed", None)] {
            let other = Said::of(&word(phase, Some(since)), Some(before), at(1020));
            assert_eq!(other.progress.seen, at(1020).instant);
        }
    }
}
