//! Facts in: what each kind of object says, and which sets it concerns.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use super::{
    FEATURE, SWAPS, SidecarIndex, Space, UPGRADABLE, Wake,
    entry::owner,
    set::{Crew, Known},
    spec::{Rules, Scope, is_control_plane},
    standing::{Place, Standing, judge},
};
use crate::{
    pod_updates::{EntryId, PodUpdates},
    store::{
        Key, Kind, Labels, NamespaceSeen, NodePodUpdateSeen, Now, Pod, PodChange, Pods, SidecarSetSeen,
        Sidecars,
    },
};

impl SidecarIndex {
    pub(super) fn pod_changed(&mut self, PodChange { key, before, after }: &PodChange) {
        let stays = before.as_ref().zip(after.as_ref()).is_some_and(|(before, after)| is_same(before, after));
        let concerned: Vec<Arc<str>> = if stays {
            // No selector can say anything else of it than before.
            let sidecars = after.as_ref().and_then(|pod| pod.sidecars.as_deref());
            sidecars.into_iter().flat_map(Sidecars::sets).cloned().collect()
        } else {
            self.reaching(&key.namespace)
        };
        for name in concerned {
            self.judge(&name, key, after.as_ref());
        }
    }

    /// Sets that may have pods in this namespace.
    fn reaching(&self, namespace: &str) -> Vec<Arc<str>> {
        self.narrow.get(namespace).into_iter().flatten().chain(&self.wide).cloned().collect()
    }

    /// Gives a pod its place in one set.
    fn judge(&mut self, name: &Arc<str>, key: &Key, pod: Option<&Arc<Pod>>) {
        #[cfg(test)]
        {
            self.judged += 1;
        }
        let standing = self.standing(name, key, pod);
        let Some((name, known)) = self.sets.get_key_value(name) else { return };
        let (name, before) = (name.clone(), known.pods.members.get(key).map(|member| member.pod.uid.clone()));
        let stays = matches!(standing, Standing::Member(_)) && pod.map(|pod| &pod.uid) == before.as_ref();
        if let Some(uid) = before.filter(|_| !stays) {
            self.updates.forget(&EntryId { uid: uid.to_string(), owner: owner(&name) });
        }
        let Some(known) = self.sets.get_mut(&name) else { return };
        if known.pods.place(&name, key, pod, standing) {
            self.touched.insert(name);
        }
    }

    fn standing(&self, name: &str, key: &Key, pod: Option<&Arc<Pod>>) -> Standing {
        let (Some(known), Some(pod)) = (self.sets.get(name), pod) else { return Standing::Outside };
        let Ok(rules) = &known.rules else { return Standing::Outside };
        let labels = self.spaces.get(&key.namespace).map(|space| &space.labels);
        let place = Place {
            set: name,
            since: known.created.max(rules.since.unwrap_or(known.created)),
            reached: !known.deleting && rules.reaches(&key.namespace, labels),
            injected: Rules::injects_into(&key.namespace, labels),
        };
        let stands_in = |set: &Arc<str>| {
            let rules = self.sets.get(set).and_then(|known| known.rules.as_ref().ok());
            rules.and_then(|rules| rules.canary_of.as_deref()) == Some(name)
        };
        judge(rules, place, pod, |sidecars| sidecars.sets().any(stands_in))
    }

    pub(super) fn apply_set(&mut self, seen: &SidecarSetSeen, pods: &Pods) {
        let name = self.texts.one(&seen.name);
        if self.sets.get(&name).is_some_and(|known| *known.uid != *seen.uid) {
            self.remove_set(&name, pods);
        }
        let rules = Rules::parse(seen).map(Arc::new).map_err(String::into_boxed_str);
        let known = self.sets.entry(name.clone()).or_insert_with(|| Known {
            uid: seen.uid.as_str().into(),
            resource_version: "".into(),
            generation: None,
            created: seen.created.map_or(0, |time| time.as_second()),
            deleting: false,
            custom_version: None,
            rules: Err("".into()),
            shown: None,
            filed: None,
            pods: Crew::default(),
            progress: None,
            planned_at: None,
            told: Vec::new(),
            sent: None,
            sent_at: None,
            wait: None,
            falls_at: None,
            list: 0,
        });
        known.resource_version = seen.resource_version.as_str().into();
        known.generation = seen.generation;
        known.shown = seen.status.as_ref().ok().cloned();
        known.list = self.views.list(Kind::SidecarSet);
        let custom_version = seen.custom_version.as_deref().map(Box::from);
        let changed = known.rules != rules || known.deleting != seen.deleting;
        let in_status = |known: &Known| {
            let filed = known.filed.as_ref().zip(known.shown.as_ref());
            filed.is_some_and(|(filed, shown)| filed.is_in(shown))
        };
        if changed || known.custom_version != custom_version || !in_status(known) {
            known.filed = None;
        }
        (known.custom_version, known.deleting) = (custom_version, seen.deleting);
        if changed {
            let before = std::mem::replace(&mut known.rules, rules);
            let bases = [&before, &known.rules].map(|rules| {
                rules.as_ref().ok().and_then(|rules| rules.canary_of.as_deref().map(str::to_owned))
            });
            self.file_by_space(&name, scope(&before));
            self.select(&name, pods);
            for base in bases.into_iter().flatten().collect::<BTreeSet<_>>() {
                self.select(&base.as_str().into(), pods);
            }
            self.unsure.extend(self.nodes.keys().cloned());
        }
        self.touched.insert(name);
    }

    /// Files a set by the namespaces that it may have pods in, and no longer by those of before. The others
    /// are not gone over: there may be as many as there are sets.
    fn file_by_space(&mut self, name: &Arc<str>, before: Option<&Scope>) {
        match before {
            Some(Scope::One(namespace)) => {
                if let Some(sets) = self.narrow.get_mut(&**namespace) {
                    sets.remove(name);
                    if sets.is_empty() {
                        self.narrow.remove(&**namespace);
                    }
                }
            }
            Some(Scope::All | Scope::Labelled(_)) => drop(self.wide.remove(name)),
            None => {}
        }
        match self.sets.get(name).and_then(|known| scope(&known.rules)) {
            Some(Scope::One(namespace)) => {
                let namespace = self.texts.one(namespace);
                self.narrow.entry(namespace).or_default().insert(name.clone());
            }
            Some(Scope::All | Scope::Labelled(_)) => drop(self.wide.insert(name.clone())),
            None => {}
        }
    }

    /// The pods that a set had, and those that it has now.
    fn select(&mut self, name: &Arc<str>, pods: &Pods) {
        let Some(known) = self.sets.get(name) else { return };
        let mut concerned: BTreeSet<Key> =
            known.pods.members.keys().chain(&known.pods.missing).cloned().collect();
        match known.rules.as_ref().ok().map(|rules| &rules.scope) {
            Some(Scope::One(namespace)) => {
                let Some(namespace) = self.texts.known(namespace) else { return };
                let here = pods.of_namespace(&namespace);
                concerned
                    .extend(here.map(|(pod, _)| Key { namespace: namespace.clone(), name: pod.clone() }));
            }
            Some(Scope::All | Scope::Labelled(_)) => concerned.extend(pods.keys()),
            None => {}
        }
        for key in concerned {
            self.judge(name, &key, pods.get(&key.namespace, &key.name));
        }
    }

    pub(super) fn remove_set(&mut self, name: &str, pods: &Pods) {
        let Some((name, known)) = self.sets.remove_entry(name) else { return };
        for member in known.pods.members.values() {
            self.updates.forget(&EntryId { uid: member.pod.uid.to_string(), owner: owner(&name) });
        }
        self.file_by_space(&name, scope(&known.rules));
        self.timers.set(Wake::Set(name.clone()), None);
        self.touched.remove(&name);
        self.unsure.extend(self.nodes.keys().cloned());
        if let Some(base) = known.rules.ok().and_then(|rules| rules.canary_of.clone()) {
            self.select(&(*base).into(), pods);
        }
    }

    pub(super) fn apply_namespace(&mut self, seen: &NamespaceSeen, pods: &Pods) {
        let name = self.texts.one(&seen.name);
        let labels = self.label_sets.one(&seen.labels, &mut self.texts);
        let list = self.views.list(Kind::Namespace);
        let space = Space { labels: labels.clone(), list };
        let before = self.spaces.insert(name.clone(), space).map(|before| before.labels);
        let left_out = |labels: &Labels| is_control_plane(labels);
        if before.as_ref().is_some_and(left_out) != left_out(&labels) {
            self.look_into(&name, &self.reaching(&name), pods);
        } else if before.is_none_or(|before| !Arc::ptr_eq(&before, &labels)) {
            self.labels_changed(&name, pods);
        }
    }

    pub(super) fn remove_namespace(&mut self, name: &str, pods: &Pods) {
        if self.spaces.remove(name).is_some() {
            self.labels_changed(&name.into(), pods);
        }
    }

    /// Sets that go by labels of namespaces look at the pods of this one anew.
    fn labels_changed(&mut self, namespace: &Arc<str>, pods: &Pods) {
        let by_labels = |name: &&Arc<str>| {
            let rules = self.sets.get(*name).and_then(|known| known.rules.as_ref().ok());
            rules.is_some_and(|rules| matches!(rules.scope, Scope::Labelled(_)))
        };
        let sets: Vec<_> = self.wide.iter().filter(by_labels).cloned().collect();
        self.look_into(namespace, &sets, pods);
    }

    /// Gives the pods of a namespace their places in these sets.
    fn look_into(&mut self, namespace: &Arc<str>, sets: &[Arc<str>], pods: &Pods) {
        for (pod, shown) in pods.of_namespace(namespace) {
            let key = Key { namespace: namespace.clone(), name: pod.clone() };
            for name in sets {
                self.judge(name, &key, Some(shown));
            }
        }
    }

    pub(super) fn apply_updates(&mut self, seen: &NodePodUpdateSeen, now: Now) {
        let name = self.texts.one(&seen.name);
        let abilities =
            |updates: &PodUpdates| [FEATURE, SWAPS, UPGRADABLE].map(|feature| updates.can(&name, feature));
        let could = abilities(&self.updates);
        let changed = self.updates.apply(seen, now);
        let woke = self.silence.hear(&name, seen.renewed.filter(|_| !seen.features.is_empty()), now.instant);
        self.nodes.insert(name.clone(), self.views.list(Kind::NodePodUpdate));
        if woke || abilities(&self.updates) != could {
            self.touched.extend(self.sets.keys().cloned());
        } else if changed {
            let owners =
                seen.desired.iter().map(|pod| &pod.owner).chain(seen.pods.iter().map(|pod| &pod.owner));
            let named = owners.filter_map(|owner| owner.split_once('/'));
            let named: BTreeSet<_> = named
                .filter_map(|(_, set)| self.sets.get_key_value(set))
                .collect::<Vec<_>>()
                .into_iter()
                .map(|(set, _)| set.clone())
                .collect();
            self.touched.extend(named);
        }
        self.unsure.insert(name);
    }

    /// Agents that have been silent for too long by now count as none: the sets look for it.
    pub(super) fn listen(&mut self, now: Instant) {
        let deaf = self.views.blind_until(Kind::NodePodUpdate);
        if let Some(until) = deaf.filter(|_| deaf != self.deaf) {
            self.silence.was_deaf(until);
        }
        self.deaf = deaf;
        if self.silence.pass(now) {
            self.touched.extend(self.sets.keys().cloned());
        }
    }

    pub(super) fn remove_updates(&mut self, name: &str) {
        self.updates.delete(name);
        self.silence.forget(name);
        self.nodes.remove(name);
        self.touched.extend(self.sets.keys().cloned());
    }

    pub(super) fn vanished(&self, kind: Kind) -> Vec<Key> {
        let list = self.views.list(kind);
        match kind {
            Kind::SidecarSet => {
                let gone = self.sets.iter().filter(|(_, known)| known.list != list);
                gone.map(|(name, _)| Key::of_cluster(name)).collect()
            }
            Kind::Namespace => {
                let gone = self.spaces.iter().filter(|(_, space)| space.list != list);
                gone.map(|(name, _)| Key::of_cluster(name)).collect()
            }
            Kind::NodePodUpdate => {
                let gone = self.nodes.iter().filter(|(_, shown)| **shown != list);
                gone.map(|(name, _)| Key::of_cluster(name)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Namespaces of a set that can be carried out.
fn scope(rules: &Result<Arc<Rules>, Box<str>>) -> Option<&Scope> {
    rules.as_ref().ok().map(|rules| &rules.scope)
}

/// Tells whether no set can select one of them and not the other, or find other sets in it.
fn is_same(one: &Pod, other: &Pod) -> bool {
    let lists = match (one.sidecars.as_deref(), other.sidecars.as_deref()) {
        (None, None) => true,
        (Some(one), Some(other)) => one.lists_as(other),
        _ => false,
    };
    lists && one.uid == other.uid && one.stage == other.stage && Arc::ptr_eq(&one.labels, &other.labels)
}
