//! The pods that count for a `podSelector`: scheduled, not finished, not being deleted. By namespace, because
//! a job sees only its own.

use std::{collections::HashMap, sync::Arc};

use crate::seen::{LabelSets, Labels, PodSeen, PodStage, Texts};

/// A pod that counts. One of tens of thousands: its node and its labels are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodAt {
    pub(super) node: Arc<str>,
    pub(super) labels: Labels,
}

/// The pods of a namespace by name, with the number of the list that showed each last.
type OfNamespace = HashMap<Box<str>, (PodAt, u32)>;

/// All that count.
#[derive(Debug, Default)]
pub(super) struct Pods {
    known: HashMap<Arc<str>, OfNamespace>,
}

/// Change of a pod.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) before: Option<PodAt>,
    pub(super) after: Option<PodAt>,
}

impl Pods {
    /// It is as given; the namespace, and what that changes.
    pub(super) fn apply(
        &mut self,
        seen: &PodSeen,
        list: u32,
        texts: &mut Texts,
        sets: &mut LabelSets,
    ) -> Option<(Arc<str>, Change)> {
        let node = seen.node.as_deref().filter(|node| !node.is_empty() && seen.stage == PodStage::Active);
        let Some(node) = node else { return self.delete(&seen.namespace, &seen.name) };
        let pod = PodAt { node: texts.one(node), labels: sets.one(&seen.labels, texts) };
        let namespace = texts.one(&seen.namespace);
        let pods = self.known.entry(namespace.clone()).or_default();
        if let Some((known, shown)) = pods.get_mut(&*seen.name) {
            *shown = list;
            if *known == pod {
                return None;
            }
            let before = std::mem::replace(known, pod.clone());
            return Some((namespace, Change { before: Some(before), after: Some(pod) }));
        }
        pods.insert(seen.name.as_str().into(), (pod.clone(), list));
        Some((namespace, Change { before: None, after: Some(pod) }))
    }

    pub(super) fn delete(&mut self, namespace: &str, name: &str) -> Option<(Arc<str>, Change)> {
        let (namespace, pods) = self.known.get_key_value(namespace)?;
        let namespace = namespace.clone();
        let last = pods.len() == 1;
        let (before, _) = self.known.get_mut(&namespace)?.remove(name)?;
        if last {
            self.known.remove(&namespace);
        }
        Some((namespace, Change { before: Some(before), after: None }))
    }

    /// Lists the pods that the newest list has not shown: namespace and name.
    pub(super) fn vanished(&self, list: u32) -> Vec<(Arc<str>, Box<str>)> {
        let pods =
            self.known.iter().flat_map(|(namespace, pods)| pods.iter().map(move |pod| (namespace, pod)));
        pods.filter(|(_, (_, (_, shown)))| *shown != list)
            .map(|(namespace, (name, _))| (namespace.clone(), name.clone()))
            .collect()
    }

    pub(super) fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &PodAt> {
        self.known.get(namespace).into_iter().flat_map(|pods| pods.values().map(|(pod, _)| pod))
    }
}
