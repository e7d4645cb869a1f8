//! Facts in: what each kind of object says, and whom it concerns.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::{
    ProbeIndex, Wake,
    marker::Marker,
    node::{Node, ProbedPod, Shown},
    pods::{Space, are_same, counts},
    queue::Rank,
    resolve::{Problem, Resolved},
    spec,
    status::cut,
};
use crate::store::{Key, Kind, MarkerSeen, NodePodProbeSeen, Pod, PodChange, Pods};

/// Probes that are wanted for a pod, and its node.
type Placed = Option<(Arc<str>, Arc<ProbedPod>)>;

impl ProbeIndex {
    pub(super) fn pod_changed(&mut self, PodChange { key, before, after }: &PodChange, pods: &Pods) {
        let before = before.as_ref().filter(|pod| counts(pod).is_some());
        let after = after.as_ref().filter(|pod| counts(pod).is_some());
        if before.zip(after).is_some_and(|(before, after)| are_same(before, after)) {
            return;
        }
        let space = self.spaces.get_mut(&key.namespace);
        let wanted = space.and_then(|space| space.wanted.remove(&key.name));
        let before = before.and_then(|pod| pod.node.clone()).zip(wanted);
        if after.is_some() {
            self.place(&key.namespace, &key.name, before, pods);
        } else {
            self.exchange(&key.namespace, &key.name, before, None);
            self.sweep(&key.namespace);
        }
    }

    /// A pod is looked at by the markers of its namespace; `before` is what was wanted for it until now.
    fn place(&mut self, namespace: &Arc<str>, name: &Arc<str>, before: Placed, pods: &Pods) {
        let Some(space) = self.spaces.get_mut(namespace) else { return };
        let Some(pod) = pods.get(namespace, name) else { return };
        let Some(node) = counts(pod) else { return };
        #[cfg(test)]
        {
            self.evaluations += space.turns.carried().count();
        }
        let selecting = space.selecting(&pod.labels);
        let wanted = (!selecting.is_empty()).then(|| {
            let resolved = self.resolver.resolve(&selecting, &pod.shape, &mut self.texts);
            let (namespace, name) = (namespace.clone(), (**name).into());
            Arc::new(ProbedPod { namespace, name, uid: pod.uid.clone(), ip: pod.ip, resolved })
        });
        if let Some(wanted) = &wanted {
            space.wanted.insert(name.clone(), wanted.clone());
        }
        let after = wanted.map(|wanted| (node.clone(), wanted));
        self.exchange(namespace, name, before, after);
    }

    /// Replaces the wishes for a pod, in the counts of the markers and on the nodes.
    fn exchange(&mut self, namespace: &Arc<str>, name: &str, before: Placed, after: Placed) {
        let (old, new) = (resolved(&before), resolved(&after));
        let same = matches!((old, new), (Some(old), Some(new)) if Arc::ptr_eq(old, new));
        if let Some(space) = self.spaces.get_mut(namespace).filter(|_| !same) {
            let (had, has) = (problems(old), problems(new));
            // A pod may have hundreds of markers: those for which nothing changes are not looked at.
            let gone = had.iter().filter(|(of, had)| has.get(*of) != Some(had)).map(|of| (of, false));
            let new = has.iter().filter(|(of, has)| had.get(*of) != Some(has)).map(|of| (of, true));
            for ((of, problems), comes) in gone.chain(new) {
                let Some((of, _)) = space.markers.get_key_value(*of) else { continue };
                let of = of.clone();
                let Some(marker) = space.markers.get_mut(&of) else { continue };
                if comes {
                    marker.add(name, problems.iter().copied());
                } else {
                    marker.remove(name, problems.iter().copied());
                }
                self.touched.insert(Key { namespace: namespace.clone(), name: of });
            }
        }
        if let Some((at, gone)) = before {
            if let Some(node) = self.nodes.get_mut(&at)
                && node.wanted.get(&gone.uid).is_some_and(|known| Arc::ptr_eq(known, &gone))
            {
                node.wanted.remove(&gone.uid);
                node.stale = true;
            }
            self.dirty.insert(at);
        }
        // One for which nothing can be run is counted, and no more.
        if let Some((at, pod)) = after.filter(|(_, pod)| !pod.resolved.probes.is_empty()) {
            let node = self.nodes.entry(at.clone()).or_default();
            node.wanted.insert(pod.uid.clone(), pod);
            node.stale = true;
            self.dirty.insert(at);
        }
    }

    pub(super) fn apply_marker(&mut self, seen: &MarkerSeen, pods: &Pods) {
        let key = self.texts.key(&seen.namespace, &seen.name);
        let space = self.spaces.get(&key.namespace);
        let known = space.and_then(|space| space.markers.get(&key.name));
        if known.is_some_and(|known| *known.uid != *seen.uid) {
            self.remove_marker(&key.namespace, &key.name, pods);
        }
        let plan = match &seen.spec {
            Ok(spec) => spec::parse(&key, spec).map(Arc::new),
            Err(error) => Err(format!("spec of PodProbeMarker {key} cannot be read: {error}; correct it")),
        };
        // Some faults quote what is wrong.
        let plan = plan.map_err(|fault| Box::<str>::from(cut(&fault)));
        let weight = seen.spec_weight.kept();
        let markers = &mut self.spaces.entry(key.namespace.clone()).or_default().markers;
        let known = markers.get(&key.name).map(|marker| (&marker.plan, marker.deleting, marker.weight));
        let changed = known != Some((&plan, seen.deleting, weight));
        let marker = markers.entry(key.name.clone()).or_insert_with(|| Marker {
            name: key.name.clone(),
            uid: seen.uid.as_str().into(),
            resource_version: "".into(),
            generation: None,
            created: seen.created,
            deleting: false,
            plan: Err("".into()),
            serial: 0,
            weight,
            waits: false,
            crowded: BTreeMap::new(),
            shown: None,
            matched: 0,
            problems: BTreeMap::new(),
            sent: None,
            sent_at: None,
            ticket: None,
            list: 0,
        });
        marker.resource_version = seen.resource_version.as_str().into();
        (marker.generation, marker.deleting) = (seen.generation, seen.deleting);
        marker.shown = seen.status.as_ref().ok().cloned();
        marker.list = self.views.list(Kind::PodProbeMarker);
        if changed {
            self.serial += 1;
            (marker.plan, marker.serial, marker.weight) = (plan, self.serial, weight);
            let had_some = marker.matched > 0;
            self.take_turns(&key, pods);
            self.keep_plan(&key);
            self.select(&key.namespace, &key.name, had_some, pods);
        }
        self.touched.insert(key);
    }

    /// Decides whether a marker is carried out now, and another one in its place, or not any more.
    fn take_turns(&mut self, key: &Key, pods: &Pods) {
        let Some(space) = self.spaces.get_mut(&key.namespace) else { return };
        let Some(marker) = space.markers.get_mut(&key.name) else { return };
        let turned = match marker.rank() {
            Some(rank) => space.turns.enter(rank, marker.weight),
            None => {
                marker.waits = false;
                space.turns.leave(&(marker.created, marker.name.clone()))
            }
        };
        self.turned(key, turned, pods);
    }

    /// A marker whose plan is known has its turn, or waits; then the plan of a large one is not kept.
    fn keep_plan(&mut self, key: &Key) {
        let Some(space) = self.spaces.get_mut(&key.namespace) else { return };
        let Some(marker) = space.markers.get_mut(&key.name) else { return };
        if let Some(rank) = marker.rank() {
            marker.waits = !space.turns.has_turn(&rank);
            marker.forget_plan();
        }
    }

    fn turned(&mut self, because_of: &Key, turned: Vec<(Rank, bool)>, pods: &Pods) {
        for ((_, name), carried) in turned {
            let space = self.spaces.get_mut(&because_of.namespace);
            let Some(marker) = space.and_then(|space| space.markers.get_mut(&name)) else { continue };
            self.serial += 1;
            (marker.waits, marker.serial) = (!carried, self.serial);
            if name != because_of.name {
                // It waits for its plan.
                let is_bare = carried && marker.is_bare();
                marker.waits |= is_bare;
                self.misses_plans |= is_bare;
                let had_some = marker.matched > 0;
                self.select(&because_of.namespace, &name, had_some, pods);
                let space = self.spaces.get_mut(&because_of.namespace);
                if let Some(marker) = space.and_then(|space| space.markers.get_mut(&name)) {
                    marker.forget_plan();
                }
                self.touched.insert(because_of.sibling(&name));
            }
        }
    }

    /// The pods that a marker selected, and those it selects now. One that waits looks at none.
    fn select(&mut self, namespace: &Arc<str>, name: &str, had_some: bool, pods: &Pods) {
        let Some(space) = self.spaces.get(namespace) else { return };
        let plan = space.markers.get(name).and_then(Marker::active);
        if !had_some && plan.is_none() {
            return;
        }
        let had = |pod: &Arc<str>| {
            let wanted = space.wanted.get(pod).into_iter();
            wanted.flat_map(|wanted| &wanted.resolved.markers).any(|marker| **marker == *name)
        };
        let selects = |pod: &Pod| plan.is_some_and(|plan| plan.selector.matches(&pod.labels));
        let concerned =
            pods.of_namespace(namespace).filter_map(|(name, pod)| Some((name, pod, counts(pod)?)));
        let concerned = concerned.filter(|(name, pod, _)| (had_some && had(name)) || selects(pod));
        let concerned: Vec<_> = concerned.map(|(name, _, node)| (name.clone(), node.clone())).collect();
        for (pod, node) in concerned {
            let space = self.spaces.get_mut(namespace);
            let wanted = space.and_then(|space| space.wanted.remove(&pod));
            self.place(namespace, &pod, wanted.map(|wanted| (node, wanted)), pods);
        }
    }

    pub(super) fn remove_marker(&mut self, namespace: &str, name: &str, pods: &Pods) {
        let Some((namespace, space)) = self.spaces.get_key_value(namespace) else { return };
        let Some((name, _)) = space.markers.get_key_value(name) else { return };
        let key = Key { namespace: namespace.clone(), name: name.clone() };
        let (mut turned, mut had_some) = (Vec::new(), false);
        if let Some(space) = self.spaces.get_mut(&key.namespace)
            && let Some(marker) = space.markers.remove(&key.name)
        {
            had_some = marker.matched > 0;
            marker.ticket.into_iter().for_each(|ticket| space.line.leave(ticket));
            turned = space.turns.leave(&(marker.created, marker.name));
        }
        self.select(&key.namespace, &key.name, had_some, pods);
        self.turned(&key, turned, pods);
        self.sweep(&key.namespace);
        self.timers.set(Wake::Marker(key), None);
    }

    pub(super) fn apply_node_probes(&mut self, seen: &NodePodProbeSeen) {
        let name = self.texts.one(&seen.name);
        let mut shown = Shown::new(seen, self.views.list(Kind::NodePodProbe), &mut self.texts);
        let node = self.nodes.entry(name.clone()).or_default();
        if let Some(before) = node.shown.take().filter(|before| before.uid == shown.uid) {
            shown.sent = before.sent;
        }
        node.shown = Some(shown);
        self.dirty.insert(name);
    }

    pub(super) fn remove_node_probes(&mut self, name: &str) {
        if let Some(node) = self.nodes.get_mut(name) {
            // Another one is written to at once.
            (node.shown, node.sent_at) = (None, None);
            self.dirty.insert(name.into());
        }
    }

    pub(super) fn vanished(&self, kind: Kind) -> Vec<Key> {
        let list = self.views.list(kind);
        match kind {
            Kind::PodProbeMarker => {
                let gone = |(namespace, space): (&Arc<str>, &Space)| {
                    let markers = space.markers.values().filter(|marker| marker.list != list);
                    let key = |name: &Arc<str>| Key { namespace: namespace.clone(), name: name.clone() };
                    markers.map(|marker| key(&marker.name)).collect::<Vec<_>>()
                };
                self.spaces.iter().flat_map(gone).collect()
            }
            Kind::NodePodProbe => {
                let gone = |node: &Node| node.shown.as_ref().is_some_and(|shown| shown.list != list);
                let nodes = self.nodes.iter().filter(|(_, node)| gone(node));
                nodes.map(|(name, _)| Key::of_cluster(name)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn sweep(&mut self, namespace: &str) {
        if self.spaces.get(namespace).is_some_and(Space::is_empty) {
            self.spaces.remove(namespace);
        }
    }
}

fn resolved(placed: &Placed) -> Option<&Arc<Resolved>> {
    placed.as_ref().map(|(_, pod)| &pod.resolved)
}

/// The markers of a pod, each with its problems there.
fn problems(resolved: Option<&Arc<Resolved>>) -> HashMap<&str, Vec<&Problem>> {
    let Some(resolved) = resolved else { return HashMap::new() };
    let mut problems: HashMap<&str, Vec<&Problem>> =
        resolved.markers.iter().map(|of| (&**of, Vec::new())).collect();
    for (of, problem) in &resolved.problems {
        problems.entry(&**of).or_default().push(problem);
    }
    problems
}
