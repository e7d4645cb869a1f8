//! Which entries of the `NodePodProbe` are carried out: those that a live marker asks for, whatever order the
//! news come in. Pure.
//!
//! ```text
//!   NodePodProbe ── show ──┐
//!   markers ─────── hear ──┼── Approval ── decide ──▶ what is wanted, which markers are followed, what is refused
//!   pods ────────── see ───┘
//! ```
//!
//! The object, the markers and the pods come by watches of their own, so one of them is always late. An entry
//! that does not agree is given a moment: one that was approved before stands still meanwhile, with what it
//! found, a new one does not begin. Then it is refused, and says so. It runs as soon as it agrees.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use berth_policy::{Markers, PodRef, PodUid, WantedPod, WantedProbe};

use super::{
    convert::WantedPods,
    verify::{LivePod, MarkerName, MarkerSeen, Refusal, Verdict, judge, marker_of},
};

/// How long the watches may be apart.
const APART: Duration = Duration::from_secs(5);
/// How long the first list waits for what an earlier process has approved: without it what was found out
/// would be forgotten.
const FIRST: Duration = Duration::from_secs(10);
/// Markers that are followed: each is a watch, as the kubelet has one for each ConfigMap of its pods.
const MOST_MARKERS: usize = 128;

type Key = (PodUid, Arc<str>);

/// Entries as they are asked for, by whom, and which were approved.
#[derive(Debug, Default)]
pub(super) struct Approval {
    desired: WantedPods,
    spec: WantedPods,
    /// By the UID that the API has for them.
    pods: BTreeMap<String, LivePod>,
    /// These are all of them.
    listed: bool,
    /// Markers that are followed.
    markers: BTreeMap<MarkerName, MarkerSeen>,
    approved: BTreeMap<Key, WantedProbe>,
    /// Since when they do not agree.
    doubted: BTreeMap<Key, Instant>,
    first: First,
}

#[derive(Clone, Copy, Debug, Default)]
enum First {
    /// Nothing was shown.
    #[default]
    Blank,
    /// Since then the first list is worked out.
    Since(Instant),
    /// It was handed on.
    Past,
}

/// The consequence.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Decision {
    /// All that is wanted; `None`: not known yet.
    pub(super) wanted: Option<Vec<WantedPod>>,
    pub(super) refused: Vec<Refused>,
    /// Set aside unread.
    pub(super) beyond: usize,
    /// Decide again then.
    pub(super) again: Option<Instant>,
}

/// An entry that is not carried out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refused {
    pub(super) pod: PodRef,
    pub(super) probe: Arc<str>,
    pub(super) why: Refusal,
}

// === impl Approval ===

impl Approval {
    /// The object asks for these. Whether that is news.
    pub(super) fn show(&mut self, desired: WantedPods, spec: WantedPods, now: Instant) -> bool {
        let news = (&self.desired, &self.spec) != (&desired, &spec) || matches!(self.first, First::Blank);
        (self.desired, self.spec) = (desired, spec);
        if matches!(self.first, First::Blank) {
            self.first = First::Since(now);
        }
        news
    }

    /// A marker that is followed was seen so; others are ignored.
    pub(super) fn hear(&mut self, name: &MarkerName, seen: MarkerSeen) -> bool {
        let Some(known) = self.markers.get_mut(name) else { return false };
        // While nobody tells what it asks for, what it asked for before counts.
        let late = matches!(seen, MarkerSeen::Forbidden) && !matches!(known, MarkerSeen::Unheard);
        if !late {
            *known = seen;
        }
        !late
    }

    /// A pod of the node. Whether that is news for its probes.
    pub(super) fn see(&mut self, uid: String, pod: LivePod) -> bool {
        let news = self.pods.get(&uid) != Some(&pod);
        let asked = news && self.desired.pods.iter().any(|entry| entry.pod.uid.as_str() == uid);
        if news {
            self.pods.insert(uid, pod);
        }
        asked
    }

    /// Forgets the pods that are not there any more, by the UID the kubelet knows. Whether that is news.
    pub(super) fn keep(&mut self, is_there: impl Fn(&str) -> bool) -> bool {
        let known = self.pods.len();
        self.pods.retain(|_, pod| is_there(&pod.identity));
        known != self.pods.len()
    }

    /// The node has those that were seen and are there, and no others. Whether that is news.
    pub(super) fn listed(&mut self, is_there: impl Fn(&str) -> bool) -> bool {
        let fewer = self.keep(is_there);
        !std::mem::replace(&mut self.listed, true) || fewer
    }

    /// The markers that are followed of those that the entries of the node's pods name.
    pub(super) fn follow(&mut self) -> BTreeSet<MarkerName> {
        let mut named = BTreeSet::new();
        let here = |pod: &PodRef| self.pods.contains_key(pod.uid.as_str());
        for WantedPod { pod, probes } in self.desired.pods.iter().filter(|asked| here(&asked.pod)) {
            named.extend(probes.iter().filter_map(|probe| Some(marker_of(pod, &probe.name)?.0)));
        }
        let followed = shared(named, |name| self.markers.contains_key(name));
        self.markers.retain(|name, _| followed.contains(name));
        for name in &followed {
            self.markers.entry(name.clone()).or_default();
        }
        followed
    }

    /// Entries that are carried out now.
    pub(super) fn decide(&mut self, now: Instant) -> Decision {
        let mut decision = Decision { beyond: self.desired.beyond + self.spec.beyond, ..Decision::default() };
        let (mut wanted, mut keys, mut open) = (Vec::new(), BTreeSet::new(), false);
        let pods = std::mem::take(&mut self.desired.pods);
        for WantedPod { pod, probes } in &pods {
            let mut of_pod = Vec::new();
            for probe in probes {
                let key = (pod.uid.clone(), probe.name.clone());
                // Of two with one name the first counts.
                if !keys.insert(key.clone()) {
                    continue;
                }
                let verdict = self.judge(pod, probe);
                open |= verdict == Verdict::Open;
                of_pod.extend(self.entry(key, pod, probe, verdict, now, &mut decision));
            }
            if !of_pod.is_empty() {
                wanted.push(WantedPod { pod: pod.clone(), probes: of_pod });
            }
        }
        self.desired.pods = pods;
        self.approved.retain(|key, _| keys.contains(key));
        self.doubted.retain(|key, _| keys.contains(key));
        wanted.extend(self.spec.pods.iter().cloned());
        match self.first {
            First::Blank => return decision,
            First::Since(since) if open && now.saturating_duration_since(since) < FIRST => {
                decision.wait_until(since.checked_add(FIRST));
                return decision;
            }
            First::Since(_) | First::Past => self.first = First::Past,
        }
        decision.wanted = Some(wanted);
        decision
    }

    fn judge(&self, pod: &PodRef, probe: &WantedProbe) -> Verdict {
        let live = self.pods.get(pod.uid.as_str());
        if live.is_none() && !self.listed {
            return Verdict::Open;
        }
        let marker = marker_of(pod, &probe.name).and_then(|(name, _)| self.markers.get(&name));
        let verdict = judge(pod, probe, live, marker.unwrap_or(&MarkerSeen::Unheard));
        match (verdict, marker) {
            (Verdict::Open, None) => Verdict::Not(Refusal::TooMany(MOST_MARKERS)),
            (verdict, _) => verdict,
        }
    }

    /// The policy's share of an entry; `None`: nothing.
    fn entry(
        &mut self,
        key: Key,
        pod: &PodRef,
        probe: &WantedProbe,
        verdict: Verdict,
        now: Instant,
        decision: &mut Decision,
    ) -> Option<WantedProbe> {
        let paused = |approved: &WantedProbe| WantedProbe { paused: true, ..approved.clone() };
        let why = match verdict {
            Verdict::Asked => {
                self.doubted.remove(&key);
                if self.approved.get(&key) != Some(probe) {
                    self.approved.insert(key, probe.clone());
                }
                return Some(probe.clone());
            }
            Verdict::Open => return self.approved.get(&key).map(paused),
            Verdict::Not(why) => why,
        };
        // The pod of a UID keeps its name: this is no race, and nothing is written about another one's pod.
        if why == Refusal::OtherPod {
            self.approved.remove(&key);
            decision.refused.push(Refused { pod: pod.clone(), probe: probe.name.clone(), why });
            return None;
        }
        let since = *self.doubted.entry(key.clone()).or_insert(now);
        if now.saturating_duration_since(since) < APART {
            decision.wait_until(since.checked_add(APART));
            return self.approved.get(&key).map(paused);
        }
        self.approved.remove(&key);
        // A pod that has gone may be asked about for a while.
        if why == Refusal::NoPod {
            return None;
        }
        let refused = WantedProbe {
            probe: Err(why.to_string()),
            condition_type: None,
            succeeded: Markers::default(),
            failed: Markers::default(),
            ..probe.clone()
        };
        decision.refused.push(Refused { pod: pod.clone(), probe: probe.name.clone(), why });
        Some(refused)
    }
}

/// Selects as many markers as can be followed: a namespace after the other, so that nobody's markers keep
/// another's away. Of one namespace those that are followed already go first.
fn shared(named: BTreeSet<MarkerName>, is_followed: impl Fn(&MarkerName) -> bool) -> BTreeSet<MarkerName> {
    let mut of_namespaces: BTreeMap<Arc<str>, Vec<MarkerName>> = BTreeMap::new();
    for name in named {
        of_namespaces.entry(name.0.clone()).or_default().push(name);
    }
    let mut turns: Vec<(usize, bool, MarkerName)> = Vec::new();
    for mut names in of_namespaces.into_values() {
        names.sort_by_key(|name| !is_followed(name));
        let in_turn = names.into_iter().enumerate();
        turns.extend(in_turn.map(|(turn, name)| (turn, !is_followed(&name), name)));
    }
    turns.sort();
    turns.into_iter().take(MOST_MARKERS).map(|(_, _, name)| name).collect()
}

impl Decision {
    fn wait_until(&mut self, then: Option<Instant>) {
        self.again = self.again.into_iter().chain(then).min();
    }
}

#[cfg(test)]
#[path = "tests/approval.rs"]
mod tests;
