//! The room in the NodePodProbe of a node: which probes it has, if there are more than fit.
//!
//! etcd takes objects of 1.5 MiB, and the agent answers each probe in the same object. So what is wanted is
//! weighed with its answers, and is 1 MiB at the most. The agent reads an object that takes so much memory
//! and no more, so a probe of many small parts weighs more than its text.
//!
//! If more is wanted, namespaces share the room: one that wants less than its part has all of it, and what it
//! leaves is for the others. In a namespace the marker made first comes first, then the first by name, on the
//! pods in the order of their names.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
    sync::Arc,
};

use serde::Serialize;

use super::{node::ProbedPod, queue::Rank};
use crate::{
    size,
    store::{Key, Uid},
};

/// Room for all probes of a node.
pub(super) const OF_ALL: usize = 1 << 20;
/// Room for the probes of one pod: those of markers that come later are not run there.
pub(super) const OF_POD: usize = 64 << 10;
/// Markers whose probes run on one pod. Each write of a node sends all that it has, whoever made it: with 64
/// a namespace made the probes of another three times as slow, with 8 nearly twice.
pub(super) const MARKERS_OF_POD: usize = 4;
/// Bytes of an answer: the probe's name, what it said (1 KiB at the most), and two times.
const ANSWER: usize = 1 << 10;
/// Bytes of memory that an answer takes when it is read, its message included.
const READ_ANSWER: usize = 5 << 9;
/// Bytes in memory that weigh as much as one byte of JSON: all of a node takes 5 MiB, what the agent copies
/// for OpenKruise's clients takes 2 MiB, and an object may take 8 MiB.
const LIGHT: usize = 5;
/// Bytes of a pod without a probe: its names, twice, and who owns which field.
const POD: usize = 512;

/// The part of a pod's probes that is one marker's.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) rank: Rank,
    /// Bytes of the pod's probes.
    pub(super) probes: Range<usize>,
    pub(super) weight: usize,
}

/// The room that a probe takes with its answer, and with so many bytes of its name that it does not have yet.
pub(super) fn weight(probe: &impl Serialize, name: usize) -> usize {
    let text = size::bytes(probe).saturating_add(name).saturating_add(ANSWER);
    let read = size::memory(probe).saturating_add(name).saturating_add(READ_ANSWER);
    text.max(read.div_ceil(LIGHT))
}

/// A choice of what is wanted of a node.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Choice {
    /// The parts of each pod that have room; a pod with none is left out.
    pub(super) pods: BTreeMap<Uid, Vec<usize>>,
    /// On how many pods of the node a marker's probes are left out.
    pub(super) left_out: BTreeMap<Key, usize>,
}

/// The marker, the pod, and the place among the pod's parts: in this order they are chosen.
type Part<'a> = (&'a Rank, &'a str, &'a Uid, usize);

/// The choice; `None` where there is room for everything.
pub(super) fn choose(wanted: &BTreeMap<Uid, Arc<ProbedPod>>) -> Option<Choice> {
    let of_pod = |pod: &ProbedPod| pod.resolved.weight.saturating_add(POD);
    let mut wants: HashMap<&Arc<str>, usize> = HashMap::new();
    for pod in wanted.values() {
        let sum = wants.entry(&pod.namespace).or_default();
        *sum = sum.saturating_add(of_pod(pod));
    }
    if wants.values().fold(0, |sum: usize, one| sum.saturating_add(*one)) <= OF_ALL {
        return None;
    }
    let room = shares(&wants);
    let mut choice = Choice::default();
    let mut parts: BTreeMap<&Arc<str>, BTreeSet<Part<'_>>> = BTreeMap::new();
    for (uid, pod) in wanted {
        let all = 0..pod.resolved.shares.len();
        if room[&pod.namespace] >= wants[&pod.namespace] {
            choice.pods.insert(uid.clone(), all.collect());
            continue;
        }
        let of = parts.entry(&pod.namespace).or_default();
        of.extend(all.map(|part| (&pod.resolved.shares[part].rank, &*pod.name, uid, part)));
    }
    for (namespace, parts) in parts {
        let mut left = room[namespace];
        for (rank, _, uid, part) in parts {
            let first = if choice.pods.contains_key(uid) { 0 } else { POD };
            let weight = wanted[uid].resolved.shares[part].weight.saturating_add(first);
            if let Some(rest) = left.checked_sub(weight) {
                left = rest;
                choice.pods.entry(uid.clone()).or_default().push(part);
            } else {
                let marker = Key { namespace: namespace.clone(), name: rank.1.clone() };
                *choice.left_out.entry(marker).or_default() += 1;
            }
        }
    }
    // Parts were chosen by the age of their markers, which is also their order in the pod.
    choice.pods.values_mut().for_each(|parts| parts.sort_unstable());
    Some(choice)
}

/// Share of each namespace: all it wants, if that is not more than its part of what those with less have
/// left.
fn shares<'a>(wants: &HashMap<&'a Arc<str>, usize>) -> HashMap<&'a Arc<str>, usize> {
    let mut by_want: Vec<_> = wants.iter().map(|(namespace, want)| (*want, *namespace)).collect();
    by_want.sort_unstable();
    let (mut left, mut shared) = (OF_ALL, HashMap::new());
    for (number, (want, namespace)) in by_want.iter().enumerate() {
        let part = left / (by_want.len() - number);
        let has = part.min(*want);
        left -= has;
        shared.insert(*namespace, has);
    }
    shared
}

#[cfg(test)]
mod tests;
