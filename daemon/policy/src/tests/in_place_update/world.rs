//! A pod, its kubelet and the node's images, reduced to what an in-place update can see of them.

mod play;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::tests::world::NowForTests;
use crate::{
    ContainerId, ContainerName,
    in_place_update::{
        Before, ContainerView, EnvHash, Gate, ImageMatch, Instance, Leftovers, Life, Liveness, Metadata,
        MetadataKey, Next, Observed, Presence, Record, Records, Update, UpdateOwner, next,
    },
};

pub(super) const NO_GRACE: Duration = Duration::ZERO;
/// UID of the owner that decides on the pod.
pub(super) const CONTROLLER: &str = "set";
/// Between two looks of the kubelet.
pub(super) const RELIST: Duration = Duration::from_secs(1);

/// One container: what is declared, what runs, and what happened to it.
#[derive(Clone)]
pub(super) struct Simulated {
    pub(super) name: ContainerName,
    pub(super) image: Arc<str>,
    pub(super) priority: Option<i32>,
    pub(super) reads: BTreeSet<MetadataKey>,
    pub(super) instance: Instance,
    /// The image of the instance.
    pub(super) runs: Arc<str>,
    /// How often the kubelet replaced it.
    pub(super) restarted: u32,
    /// The instance that it was asked to replace though its image is right.
    marked: Option<ContainerId>,
    /// Values that the instance was started with and that no patch has brought yet.
    ahead: Metadata,
    pub(super) leftovers: Leftovers,
}

/// State of the pod as the kubelet knows it.
#[derive(Clone)]
struct Known {
    images: BTreeMap<ContainerName, Arc<str>>,
    metadata: Metadata,
}

#[derive(Clone)]
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) wall: i64,
    pub(super) liveness: Liveness,
    pub(super) containers: Vec<Simulated>,
    pub(super) metadata: Metadata,
    pub(super) gate: Gate,
    pub(super) record: Option<Record>,
    /// Records of SidecarSets.
    pub(super) records: Records,
    pub(super) before: Option<Before>,
    pub(super) on_node: BTreeSet<Arc<str>>,
    pub(super) refused: BTreeMap<Arc<str>, String>,
    /// Counts the writes to the pod.
    pub(super) version: u64,
    known: Known,
    known_version: u64,
    ids: u64,
    /// Values with which the agent has containers created, whatever the kubelet knows.
    pub(super) overrides: BTreeMap<ContainerName, Metadata>,
}

pub(super) fn label(key: &str) -> MetadataKey {
    MetadataKey::Label(key.to_owned())
}

pub(super) fn annotation(key: &str) -> MetadataKey {
    MetadataKey::Annotation(key.to_owned())
}

/// An update of these images and annotations.
pub(super) fn update(revision: &str, images: &[(&str, &str)], annotations: &[(&str, &str)]) -> Update {
    Update {
        revision: revision.to_owned(),
        images: images.iter().map(|(name, image)| ((*name).into(), (*image).into())).collect(),
        metadata: annotations.iter().map(|(key, value)| (annotation(key), (*value).to_owned())).collect(),
        grace: NO_GRACE,
        rollback_on_failure: false,
        deadline: None,
        bears_crashes: false,
        migrations: Vec::new(),
    }
}

pub(super) fn names(names: &[&str]) -> BTreeSet<ContainerName> {
    names.iter().map(|name| (*name).into()).collect()
}

/// Env values as a number: FNV-1a of the keys and their values.
fn env(reads: &BTreeSet<MetadataKey>, metadata: &Metadata) -> EnvHash {
    let text: String = reads
        .iter()
        .map(|key| format!("{key:?}={:?};", metadata.get(key).map_or("", String::as_str)))
        .collect();
    EnvHash(text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    }))
}

impl Simulated {
    /// It is to be replaced though its image is right.
    pub(super) fn is_marked(&self) -> bool {
        self.marked.as_ref() == Some(&self.instance.id)
    }

    /// It need not be replaced any more, if nobody has begun to.
    pub(super) fn unmark(&mut self) {
        if matches!(self.instance.life, Life::Running { .. }) {
            self.marked = None;
        }
    }

    /// The instance as it is seen beside the spec.
    fn seen(&self) -> Instance {
        let image = if self.runs == self.image { ImageMatch::Wanted } else { ImageMatch::Other };
        Instance { image, ..self.instance.clone() }
    }
}

impl World {
    /// A running pod with the gate: containers with their priorities and the annotations that they read, all
    /// with image `<name>:1`, and all those annotations with value `1`.
    pub(super) fn of(containers: &[(&str, Option<i32>, &[&str])]) -> Self {
        let keys = |keys: &[&str]| keys.iter().map(|key| annotation(key)).collect::<BTreeSet<_>>();
        let metadata: Metadata =
            containers.iter().flat_map(|(.., reads)| keys(reads)).map(|key| (key, "1".to_owned())).collect();
        let containers: Vec<Simulated> = containers
            .iter()
            .map(|(name, priority, reads)| {
                let image: Arc<str> = format!("{name}:1").into();
                let instance = Instance {
                    id: format!("{name}-0").into(),
                    image: ImageMatch::Wanted,
                    image_id: format!("sha256:{image}"),
                    env: Some(env(&keys(reads), &metadata)),
                    life: Life::Running { ready: true },
                    early_ready: false,
                    hooked: false,
                    in_hook: false,
                    restarts: 0,
                };
                let (name, priority, reads) = ((*name).into(), *priority, keys(reads));
                Simulated {
                    name,
                    runs: image.clone(),
                    image,
                    priority,
                    reads,
                    instance,
                    restarted: 0,
                    marked: None,
                    ahead: Metadata::new(),
                    leftovers: Leftovers::None,
                }
            })
            .collect();
        let images: BTreeMap<_, _> =
            containers.iter().map(|container| (container.name.clone(), container.image.clone())).collect();
        Self {
            now: Instant::now_for_tests(),
            wall: 1000,
            liveness: Liveness::Alive,
            on_node: images.values().cloned().collect(),
            known: Known { images, metadata: metadata.clone() },
            containers,
            metadata,
            gate: Gate::Ready,
            record: None,
            records: Records::new(),
            before: None,
            refused: BTreeMap::new(),
            version: 0,
            known_version: 0,
            ids: 0,
            overrides: BTreeMap::new(),
        }
    }

    /// The version that the kubelet works on.
    pub(super) fn known_version(&self) -> u64 {
        self.known_version
    }

    pub(super) fn observed(&self) -> Observed {
        let images = self.on_node.iter().map(|image| (image.clone(), Presence::Present));
        let refused = self.refused.iter().map(|(image, why)| (image.clone(), Presence::Failed(why.clone())));
        Observed {
            liveness: self.liveness,
            named: None,
            controller: Some(CONTROLLER.into()),
            containers: self
                .containers
                .iter()
                .map(|container| ContainerView {
                    name: container.name.clone(),
                    image: container.image.clone(),
                    priority: container.priority,
                    reads: container.reads.clone(),
                    env: env(&container.reads, &self.metadata),
                    instance: Some(container.seen()),
                    leftovers: container.leftovers.clone(),
                })
                .collect(),
            metadata: self.metadata.clone(),
            gate: self.gate,
            record: self.record.clone(),
            records: self.all_records(),
            is_record_old: false,
            kubelet_knows: self.version == self.known_version,
            kubelet_told: true,
            images: refused.chain(images).collect(),
            refused: None,
            held: None,
            wall: self.wall,
            before: self.before.clone(),
        }
    }

    /// The records of all owners.
    pub(super) fn all_records(&self) -> Records {
        let workload = self.record.iter().map(|record| (UpdateOwner::Workload, record.clone()));
        workload.chain(self.records.clone()).collect()
    }

    pub(super) fn next(&self, update: &Update) -> Next {
        next(update, &self.observed(), self.now)
    }

    pub(super) fn container(&mut self, name: &str) -> &mut Simulated {
        self.containers.iter_mut().find(|container| container.name.as_str() == name).unwrap()
    }

    /// Carries a step out that was decided on `version` of the pod, and says whether it was possible.
    pub(super) fn carry_out(&mut self, step: &Next, version: u64) -> bool {
        match step {
            Next::Pull(images) => {
                let possible = images.iter().filter(|image| !self.refused.contains_key(*image)).cloned();
                self.on_node.extend(possible.collect::<Vec<_>>());
            }
            Next::Clear(ids) => {
                let until = self.now + RELIST;
                for container in &mut self.containers {
                    if matches!(&container.leftovers, Leftovers::There(these) if these.is_subset(ids)) {
                        container.leftovers = Leftovers::Removed { until };
                    }
                }
            }
            Next::Stop(instances) => {
                let stopped = |container: &&mut Simulated| instances.contains_key(&container.name);
                for container in self.containers.iter_mut().filter(stopped) {
                    container.instance.life = Life::Restarting;
                }
            }
            Next::SetNotReady => self.gate = Gate::NotReady { since: self.now },
            Next::SetReady => self.gate = Gate::Ready,
            Next::Patch(_) if version != self.version => return false,
            Next::Patch(patch) => {
                for container in &mut self.containers {
                    if let Some(image) = patch.images.get(&container.name) {
                        assert_ne!(container.image, *image, "a patch that changes nothing");
                        container.image = image.clone();
                    }
                }
                self.metadata.extend(patch.metadata.clone());
                for container in &mut self.containers {
                    container.ahead.retain(|key, value| self.metadata.get(key) != Some(value));
                }
                match patch.records.is_empty() {
                    true => self.record = Some(patch.record.clone()),
                    false => {
                        self.records.extend(patch.records.clone());
                        self.record = self.records.remove(&UpdateOwner::Workload).or(self.record.take());
                    }
                }
                self.version += 1;
            }
            Next::Recreate(instances) => {
                for (name, id) in instances {
                    let container = self.container(name.as_str());
                    if container.instance.id == *id {
                        container.marked = Some(id.clone());
                    }
                }
            }
            Next::Wait { .. } | Next::Done | Next::RollBack(..) | Next::Failed(_) => {}
        }
        true
    }

    /// The kubelet learns what the pod is.
    pub(super) fn kubelet_learns(&mut self) {
        let images =
            self.containers.iter().map(|container| (container.name.clone(), container.image.clone()));
        self.known = Known { images: images.collect(), metadata: self.metadata.clone() };
        self.known_version = self.version;
    }

    /// The kubelet looks after one container: stops it, or starts the next instance.
    pub(super) fn kubelet_syncs(&mut self, index: usize) {
        let known = self.known.clone();
        let container = &mut self.containers[index];
        let image = &known.images[&container.name];
        match container.instance.life {
            Life::Running { .. } => {
                let asked = container.marked.as_ref() == Some(&container.instance.id);
                if container.runs != *image || asked {
                    container.instance.life = Life::Stopped;
                    // What it was started with has never been asked for: a patch that failed after all.
                    container.restarted += u32::from(container.ahead.is_empty() || container.runs != *image);
                }
            }
            Life::Restarting | Life::Stopped if self.on_node.contains(image) => {
                self.ids += 1;
                let mut metadata = known.metadata.clone();
                let overrides = self.overrides.get(&container.name).cloned().unwrap_or_default();
                metadata.extend(overrides.clone());
                container.ahead = overrides;
                container.ahead.retain(|key, value| self.metadata.get(key) != Some(value));
                let new = env(&container.reads, &metadata);
                container.runs = image.clone();
                container.instance = Instance {
                    id: format!("{}-{}", container.name, self.ids).into(),
                    image: ImageMatch::Wanted,
                    image_id: format!("sha256:{image}"),
                    env: Some(new),
                    life: Life::Running { ready: false },
                    early_ready: false,
                    hooked: container.instance.hooked,
                    in_hook: false,
                    restarts: container.instance.restarts + 1,
                };
                container.marked = None;
            }
            // The back-off is that of one definition: another one is started at once.
            Life::Crashing if container.runs != *image => {
                container.instance.life = Life::Restarting;
                container.restarted += 1;
            }
            Life::Restarting | Life::Stopped | Life::Crashing | Life::Ended => {}
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.wall += i64::try_from(time.as_secs()).unwrap();
    }

    pub(super) fn becomes_ready(&mut self, index: usize) {
        let life = &mut self.containers[index].instance.life;
        if matches!(life, Life::Running { .. }) {
            *life = Life::Running { ready: true };
        }
    }
}

/// Steps in short, one word each with what matters.
pub(super) fn told(steps: &[Next]) -> Vec<String> {
    let list = |names: &mut dyn Iterator<Item = String>| names.collect::<Vec<_>>().join(" ");
    let tell = |step: &Next| match step {
        Next::Pull(images) => format!("pull {}", list(&mut images.iter().map(ToString::to_string))),
        Next::Clear(ids) => format!("clear {}", list(&mut ids.iter().map(ToString::to_string))),
        Next::Stop(instances) => format!("stop {}", list(&mut instances.keys().map(ToString::to_string))),
        Next::SetNotReady => "not ready".to_owned(),
        Next::Wait { why, .. } => format!("wait: {why}"),
        Next::Patch(patch) => {
            let images = patch.images.values().map(ToString::to_string);
            let metadata = patch.metadata.iter().map(|(key, value)| match key {
                MetadataKey::Label(key) | MetadataKey::Annotation(key) => format!("{key}={value}"),
            });
            format!("patch {}", list(&mut images.chain(metadata))).trim_end().to_owned()
        }
        Next::Recreate(instances) => {
            format!("recreate {}", list(&mut instances.keys().map(ToString::to_string)))
        }
        Next::SetReady => "ready".to_owned(),
        Next::Done => "done".to_owned(),
        Next::RollBack(_, failure) => format!("roll back: {:?}", failure.reason),
        Next::Failed(failure) => format!("failed: {:?}", failure.reason),
    };
    steps.iter().map(tell).collect()
}
