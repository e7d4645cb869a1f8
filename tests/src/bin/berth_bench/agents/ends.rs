//! Ends of the updates of one node, told as the agent's policy tells them: the first one waits a moment for
//! others, whichever write asked for them.

use std::collections::HashMap;
use std::time::Duration;

use berth_proto::crd::{DesiredPod, PodEnd};
use serde_json::Value;
use tokio::time::Instant;

use super::{Key, Upgrade, key};

/// An end waits so long at most.
const GATHERED: Duration = Duration::from_millis(500);
/// Time between the beginnings of updates that count as begun together.
const TOGETHER: Duration = Duration::from_millis(1500);
/// An end of a workload waits so long for updates that did not begin with it.
const LEAST: Duration = Duration::from_millis(50);
/// An end that the pod shows waits so long.
const SHOWN_FOR: Duration = Duration::from_secs(5);

/// Updates of a node that go on, and ends that wait.
pub(super) struct Ends {
    upgrade: Upgrade,
    /// When those began that go on.
    begun: HashMap<Key, Instant>,
    waiting: Vec<End>,
}

struct End {
    entry: DesiredPod,
    pod: Value,
    begun: Instant,
    since: Instant,
}

impl Ends {
    pub(super) fn new(upgrade: Upgrade) -> Self {
        Self { upgrade, begun: HashMap::new(), waiting: Vec::new() }
    }

    pub(super) fn begins(&mut self, entry: &DesiredPod, now: Instant) {
        self.begun.insert(key(entry), now);
    }

    /// An update goes on no more: the pod is what its entry wants. `None`: the entry has ended otherwise.
    pub(super) fn is_through(&mut self, entry: DesiredPod, pod: Option<Value>, now: Instant) {
        let begun = self.begun.remove(&key(&entry)).unwrap_or(now);
        self.waiting.extend(pod.map(|pod| End { entry, pod, begun, since: now }));
    }

    /// Time at which all that wait are told; `None`: none does.
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting.iter().map(|end| end.since + self.waits(end)).min()
    }

    /// Takes out those that wait.
    pub(super) fn take(&mut self) -> Vec<(DesiredPod, Value)> {
        std::mem::take(&mut self.waiting).into_iter().map(|end| (end.entry, end.pod)).collect()
    }

    fn waits(&self, end: &End) -> Duration {
        let is_together = |begun: &Instant| {
            let (first, last) = ((*begun).min(end.begun), (*begun).max(end.begun));
            last.saturating_duration_since(first) <= TOGETHER
        };
        match self.upgrade {
            Upgrade::Workloads if end.entry.end == PodEnd::Shown => SHOWN_FOR,
            _ if self.begun.is_empty() => Duration::ZERO,
            Upgrade::Workloads if !self.begun.values().any(is_together) => LEAST,
            // The agent's policy goes by the time that writes take: so long where many nodes write.
            Upgrade::Workloads | Upgrade::Sidecars => GATHERED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: when another update began, in milliseconds after the first, and how long the end of that waits.
    #[test]
    fn the_first_end_waits_a_moment_for_others() {
        let entry = |uid: &str| DesiredPod { uid: uid.to_owned(), ..DesiredPod::default() };
        let start = Instant::now();
        for (upgrade, other, waits) in [
            (Upgrade::Workloads, None, 0),
            (Upgrade::Workloads, Some(300), 500),
            (Upgrade::Workloads, Some(2000), 50),
            (Upgrade::Sidecars, Some(2000), 500),
        ] {
            let mut ends = Ends::new(upgrade);
            ends.begins(&entry("a"), start);
            if let Some(after) = other {
                ends.begins(&entry("b"), start + Duration::from_millis(after));
            }
            let now = start + Duration::from_secs(3);
            ends.is_through(entry("a"), Some(Value::Null), now);
            assert_eq!(ends.due(), Some(now + Duration::from_millis(waits)), "{upgrade:?} {other:?}");
            // The other one has failed: nobody is waited for, and it is said already.
            ends.is_through(entry("b"), None, now);
            assert_eq!(ends.due(), Some(now));
            assert_eq!(ends.take().len(), 1);
            assert_eq!(ends.due(), None);
        }
    }

    #[test]
    fn an_end_that_the_pod_shows_waits_for_its_entry_to_be_taken_away() {
        let entry = DesiredPod { end: PodEnd::Shown, ..DesiredPod::default() };
        let (mut ends, now) = (Ends::new(Upgrade::Workloads), Instant::now());
        ends.is_through(entry, Some(Value::Null), now);
        assert_eq!(ends.due(), Some(now + SHOWN_FOR));
    }
}
