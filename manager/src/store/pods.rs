//! The pods, kept once for all indexes. There are tens of thousands of them, so what they have in common is
//! shared: names of nodes, labels, and what their containers are.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
};

use super::{
    container_id::ContainerId,
    key::{Key, Texts},
    labels::{LabelSets, Labels},
    object::{Owner, PodSeen, PodSpread, PodStage, Role},
    shape::{Shape, Shapes},
    sidecars::Sidecars,
    uid::Uid,
};

/// A pod, as far as anything is decided by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) uid: Uid,
    /// Where it is scheduled to.
    pub(crate) node: Option<Arc<str>>,
    pub(crate) labels: Labels,
    /// Its containers.
    pub(crate) shape: Arc<Shape>,
    /// Their newest instances, in the same order.
    instances: Box<[Instance]>,
    pub(crate) ip: Option<IpAddr>,
    pub(crate) stage: PodStage,
    /// Version that showed it to go or to have ended first; 0 while none has.
    pub(crate) ends: u64,
    /// Its condition `Initialized` is True.
    pub(crate) initialized: bool,
    /// When it was made, in seconds; 0 if nobody says.
    pub(crate) created: u32,
    /// It is the API's copy of a static pod.
    pub(crate) mirror: bool,
    /// Most pods have none, and pay for a pointer.
    pub(crate) sidecars: Option<Box<Sidecars>>,
    /// Its subset of a WorkloadSpread; most pods have none.
    pub(crate) spread: Option<Box<PodSpread>>,
    /// Its controller; the pods of one share it.
    pub(crate) owner: Option<Arc<Owner>>,
    /// It runs, is ready, runs what its spec says, and nobody marked it as unavailable.
    pub(crate) available: bool,
    /// Its condition `Ready` is True.
    pub(crate) ready: bool,
}

/// The newest instance of a container; none while there was none.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Instance {
    id: Option<ContainerId>,
    restarts: i32,
}

/// A container of a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Container<'a> {
    pub(crate) name: &'a Arc<str>,
    pub(crate) role: Role,
    pub(crate) id: Option<&'a ContainerId>,
    pub(crate) restarts: i32,
}

/// A pod that came, changed or went.
#[derive(Debug)]
pub(crate) struct PodChange {
    pub(crate) key: Key,
    pub(crate) before: Option<Arc<Pod>>,
    pub(crate) after: Option<Arc<Pod>>,
}

/// All pods.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    /// By namespace and name.
    spaces: HashMap<Arc<str>, HashMap<Arc<str>, Known>>,
    count: usize,
    /// Counts the lists.
    list: u32,
    texts: Texts,
    sets: LabelSets,
    shapes: Shapes,
    owners: Owners,
}

/// Controllers that are in use.
#[derive(Debug, Default)]
struct Owners {
    known: HashSet<Arc<Owner>>,
    /// Looked through for those that nobody has any more when there are so many.
    sweep_at: usize,
}

/// Below it a sweep frees nothing worth its time.
const SWEEP_FROM: usize = 1024;

impl Owners {
    fn one(&mut self, owner: &Owner) -> Arc<Owner> {
        if let Some(known) = self.known.get(owner) {
            return known.clone();
        }
        if self.known.len() >= self.sweep_at.max(SWEEP_FROM) {
            self.known.retain(|owner| Arc::strong_count(owner) > 1);
            self.sweep_at = self.known.len().saturating_mul(2);
        }
        let owner = Arc::new(owner.clone());
        self.known.insert(owner.clone());
        owner
    }
}

#[derive(Debug)]
struct Known {
    pod: Arc<Pod>,
    /// The number of the list that showed it last.
    list: u32,
}

impl Pod {
    pub(crate) fn container(&self, name: &str) -> Option<Container<'_>> {
        let (at, (name, role)) =
            self.shape.containers().enumerate().find(|(_, (known, _))| ***known == *name)?;
        let Instance { id, restarts } = self.instances.get(at)?;
        Some(Container { name, role, id: id.as_ref(), restarts: *restarts })
    }

    /// The most restarts of one container.
    pub(crate) fn restarts(&self) -> i32 {
        self.instances.iter().map(|instance| instance.restarts).max().unwrap_or(0)
    }

    /// The same instances of the same containers.
    pub(crate) fn runs_as(&self, other: &Self) -> bool {
        self.instances == other.instances && self.shape == other.shape
    }
}

impl Pods {
    /// A list of all pods begins.
    pub(crate) fn list_begins(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    /// A pod is as given; `None` if nothing of it has changed.
    pub(crate) fn apply(&mut self, seen: &PodSeen) -> Option<PodChange> {
        let (mut pod, list) = (self.pod(seen), self.list);
        if let Some(before) = self.get(&seen.namespace, &seen.name).filter(|one| one.uid == pod.uid)
            && before.ends > 0
        {
            pod.ends = before.ends;
        }
        let pod = Arc::new(pod);
        let namespace = self.texts.one(&seen.namespace);
        let space = self.spaces.entry(namespace.clone()).or_default();
        let (name, before) = match space.get_key_value(&*seen.name) {
            Some((name, _)) => {
                let name = name.clone();
                let known = space.get_mut(&name)?;
                known.list = list;
                if known.pod == pod {
                    return None;
                }
                (name, Some(std::mem::replace(&mut known.pod, pod.clone())))
            }
            None => {
                // Of a StatefulSet it is a label, too.
                let name = self.texts.known(&seen.name).unwrap_or_else(|| seen.name.as_str().into());
                space.insert(name.clone(), Known { pod: pod.clone(), list });
                self.count += 1;
                (name, None)
            }
        };
        Some(PodChange { key: Key { namespace, name }, before, after: Some(pod) })
    }

    fn pod(&mut self, seen: &PodSeen) -> Pod {
        let instances = seen.containers.iter().map(|container| Instance {
            id: container.id.as_deref().filter(|id| !id.is_empty()).map(ContainerId::from),
            restarts: container.restarts,
        });
        let instances = instances.collect();
        let node = seen.node.as_deref().filter(|node| !node.is_empty()).map(|node| self.texts.one(node));
        let sidecars = seen.sidecars.as_deref();
        let sidecars = sidecars.map(|seen| Sidecars::new(seen, &mut self.sets, &mut self.texts));
        Pod {
            uid: seen.uid.as_str().into(),
            node,
            labels: self.sets.one(&seen.labels, &mut self.texts),
            shape: self.shapes.one(&seen.containers, &mut self.texts),
            instances,
            ip: seen.ip,
            stage: seen.stage,
            ends: if seen.stage == PodStage::Active { 0 } else { seen.version },
            initialized: seen.initialized,
            created: seen.created.and_then(|time| u32::try_from(time.as_second()).ok()).unwrap_or(0),
            mirror: seen.mirror,
            sidecars: sidecars.map(Box::new),
            spread: seen.spread.clone(),
            owner: seen.owner.as_ref().map(|owner| self.owners.one(owner)),
            available: seen.available,
            ready: seen.ready,
        }
    }

    /// A pod is gone; `None` if it was not known.
    pub(crate) fn remove(&mut self, namespace: &str, name: &str) -> Option<PodChange> {
        let (namespace, _) = self.spaces.get_key_value(namespace)?;
        let namespace = namespace.clone();
        let space = self.spaces.get_mut(&namespace)?;
        let (name, known) = space.remove_entry(name)?;
        if space.is_empty() {
            self.spaces.remove(&namespace);
        }
        self.count = self.count.saturating_sub(1);
        Some(PodChange { key: Key { namespace, name }, before: Some(known.pod), after: None })
    }

    /// The pods that the newest list has not shown.
    pub(crate) fn vanished(&self) -> Vec<Key> {
        let all = self.spaces.iter().flat_map(|(space, pods)| pods.iter().map(move |pod| (space, pod)));
        let gone = all.filter(|(_, (_, known))| known.list != self.list);
        gone.map(|(namespace, (name, _))| Key { namespace: namespace.clone(), name: name.clone() }).collect()
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Pod>> {
        Some(&self.spaces.get(namespace)?.get(name)?.pod)
    }

    pub(crate) fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = (&Arc<str>, &Arc<Pod>)> {
        let pods = self.spaces.get(namespace).into_iter().flatten();
        pods.map(|(name, known)| (name, &known.pod))
    }

    /// Names of all of them.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        self.spaces.iter().flat_map(|(space, pods)| {
            pods.keys().map(|name| Key { namespace: space.clone(), name: name.clone() })
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests;
