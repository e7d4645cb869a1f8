//! Story of a budget and its pods: the last versions of all of them, in the order in which the API server
//! stored them. It is told when more pods went than the budget lets, so that one can see how.

use std::collections::VecDeque;

use berth_proto::crd::PodUnavailableBudget;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::crowd::serves;

/// Versions that are kept, and those of them that came after the fault.
const KEPT: usize = 160;
const AFTER: usize = 40;

/// The last versions.
#[derive(Debug, Default)]
pub(super) struct Story {
    versions: VecDeque<(u64, String)>,
    /// Versions that may still come in, once there was a fault.
    left: Option<usize>,
}

impl Story {
    pub(super) fn pod(&mut self, pod: &Pod, gone: bool) {
        let uid = pod.uid().unwrap_or_default();
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let evicted = conditions.into_iter().any(|one| one.type_ == "DisruptionTarget");
        let word = match (gone, pod.metadata.deletion_timestamp.is_some()) {
            (true, _) => "gone",
            (_, true) => "ends",
            _ if serves(pod) => "serves",
            _ => "is away",
        };
        let evicted = if evicted { ", evicted" } else { "" };
        let text = format!("{} {} {word}{evicted}", pod.name_any(), uid.get(..8).unwrap_or_default());
        self.add(pod.resource_version(), text);
    }

    pub(super) fn budget(&mut self, budget: &PodUnavailableBudget) {
        let Some(status) = &budget.status else { return };
        let text = format!(
            "budget: {} available, {} allowed, disrupted {:?}, unavailable {:?}",
            status.current_available,
            status.unavailable_allowed,
            status.disrupted_pods.iter().map(|(name, at)| format!("{name}@{}", at.0)).collect::<Vec<_>>(),
            status.unavailable_pods.iter().map(|(name, at)| format!("{name}@{}", at.0)).collect::<Vec<_>>(),
        );
        self.add(budget.resource_version(), text);
    }

    /// The first fault: what comes after it is of interest for a moment only.
    pub(super) fn fault(&mut self, text: &str) {
        if self.left.is_none() {
            let version = self.versions.iter().map(|(version, _)| *version).max().unwrap_or(0);
            self.versions.push_back((version, format!("=== {text}")));
            self.left = Some(AFTER);
        }
    }

    fn add(&mut self, version: Option<String>, text: String) {
        match &mut self.left {
            Some(0) => return,
            Some(left) => *left -= 1,
            None => {}
        }
        let version = version.and_then(|version| version.parse().ok()).unwrap_or(0);
        self.versions.push_back((version, text));
        if self.versions.len() > KEPT {
            self.versions.pop_front();
        }
    }

    /// All of it, if there was a fault.
    pub(super) fn told(&self) -> Option<String> {
        self.left?;
        let mut versions: Vec<&(u64, String)> = self.versions.iter().collect();
        versions.sort_by_key(|(version, _)| *version);
        Some(versions.iter().map(|(version, text)| format!("{version} {text}\n")).collect())
    }
}
