//! A node: what is wanted of it, and what its NodePodProbe shows. Without the object nothing can be asked:
//! its agent makes it, and has not been there.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Instant};

use berth_proto::crd::PodProbe;

use super::{
    resolve::{Resolved, text},
    write::NodeAct,
};
use crate::store::{Key, NodePodProbeSeen, Texts, Uid};

/// A node of which something is wanted or shown.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// By UID.
    pub(super) wanted: BTreeMap<Uid, Arc<ProbedPod>>,
    /// Part of it that has room, if that is not all.
    pub(super) chosen: Option<BTreeMap<Uid, Arc<ProbedPod>>>,
    /// On how many of its pods which marker has none.
    pub(super) left_out: BTreeMap<Key, usize>,
    /// The wanted probes have changed since they were chosen from.
    pub(super) stale: bool,
    pub(super) shown: Option<Shown>,
    /// When something was last asked to be written.
    pub(super) sent_at: Option<Instant>,
}

/// Probes that are wanted for one pod.
#[derive(Debug)]
pub struct ProbedPod {
    pub(super) namespace: Arc<str>,
    pub(super) name: Box<str>,
    pub(super) uid: Uid,
    pub(super) ip: Option<IpAddr>,
    pub(super) resolved: Arc<Resolved>,
}

/// A NodePodProbe.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) uid: Box<str>,
    pub(super) resource_version: Box<str>,
    pub(super) deleting: bool,
    pub(super) noticed: bool,
    /// Sorted by UID.
    entries: Box<[Entry]>,
    /// Act that was last asked to be written, and on which version.
    pub(super) sent: Option<(Box<str>, NodeAct)>,
    /// The number of the list that showed it last.
    pub(super) list: u32,
}

/// An entry of `desiredPodProbes`.
#[derive(Debug)]
enum Entry {
    /// As it is, or was, wanted.
    Wanted(Arc<ProbedPod>),
    /// Another one.
    Other(Box<Other>),
}

#[derive(Debug)]
struct Other {
    namespace: Arc<str>,
    name: Box<str>,
    uid: Uid,
    ip: Box<str>,
    text: Arc<str>,
}

impl ProbedPod {
    /// The same pod with these parts of its probes.
    pub(super) fn only(&self, parts: &[usize], texts: &mut Texts) -> Self {
        let resolved = Arc::new(self.resolved.only(parts, texts));
        let (namespace, name, uid) = (self.namespace.clone(), self.name.clone(), self.uid.clone());
        Self { namespace, name, uid, ip: self.ip, resolved }
    }

    /// The entry as it is written.
    pub fn entry(&self) -> PodProbe {
        PodProbe {
            name: self.name.clone().into(),
            namespace: self.namespace.to_string(),
            uid: self.uid.to_string(),
            ip: self.ip(),
            probes: self.resolved.probes.to_vec(),
        }
    }

    /// Empty while the pod has none.
    fn ip(&self) -> String {
        self.ip.map(|ip| ip.to_string()).unwrap_or_default()
    }
}

impl PartialEq for ProbedPod {
    fn eq(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.ip == other.ip
            && self.name == other.name
            && self.namespace == other.namespace
            && self.resolved.text == other.resolved.text
    }
}

impl Shown {
    pub(super) fn new(seen: &NodePodProbeSeen, list: u32, texts: &mut Texts) -> Self {
        let other = |pod: &PodProbe| Other {
            namespace: texts.one(&pod.namespace),
            name: pod.name.as_str().into(),
            uid: pod.uid.as_str().into(),
            ip: pod.ip.as_str().into(),
            text: text(&pod.probes, texts),
        };
        let mut entries: Vec<_> = seen.desired.iter().map(other).collect();
        entries.sort_by(|one, other| one.uid.cmp(&other.uid));
        Self {
            uid: seen.uid.as_str().into(),
            resource_version: seen.resource_version.as_str().into(),
            deleting: seen.deleting,
            noticed: seen.noticed,
            entries: entries.into_iter().map(|other| Entry::Other(Box::new(other))).collect(),
            sent: None,
            list,
        }
    }

    /// Tells whether exactly this is shown. What is equal is kept once from now on.
    pub(super) fn agrees(&mut self, wanted: &BTreeMap<Uid, Arc<ProbedPod>>) -> bool {
        for entry in &mut self.entries {
            if let Entry::Other(other) = entry
                && let Some(pod) = wanted.get(&other.uid).filter(|pod| other.is(pod))
            {
                *entry = Entry::Wanted(pod.clone());
            }
        }
        self.entries.len() == wanted.len()
            && self.entries.iter().zip(wanted.values()).all(|(entry, pod)| match entry {
                Entry::Wanted(shown) => Arc::ptr_eq(shown, pod) || shown == pod,
                Entry::Other(_) => false,
            })
    }
}

impl Other {
    fn is(&self, pod: &ProbedPod) -> bool {
        self.namespace == pod.namespace
            && self.name == pod.name
            && self.text == pod.resolved.text
            && *self.ip == *pod.ip()
    }
}
