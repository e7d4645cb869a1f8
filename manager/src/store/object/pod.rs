//! Pods, as far as the indexes decide by them.

use std::{collections::BTreeMap, net::IpAddr};

use jiff::Timestamp;

/// A pod as it is now.
#[derive(Clone, Debug)]
pub struct PodSeen {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its `resourceVersion`; 0 if it is no number.
    pub version: u64,
    /// Where it is scheduled to.
    pub node: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// How far through its life it is.
    pub stage: PodStage,
    /// Its condition `Initialized` is True.
    pub initialized: bool,
    /// `status.podIP`, once there is one that can be read.
    pub ip: Option<IpAddr>,
    /// Init containers and containers of its spec, with what its status says of them.
    pub containers: Vec<ContainerSeen>,
    /// By the API server's clock.
    pub created: Option<Timestamp>,
    /// It is the API's copy of a static pod.
    pub mirror: bool,
    /// Sidecars that SidecarSets have put into it; none for a pod without them.
    pub sidecars: Option<Box<SidecarsSeen>>,
    /// Its subset of a WorkloadSpread; none for a pod without one.
    pub spread: Option<Box<PodSpread>>,
    /// Its controller.
    pub owner: Option<Owner>,
    /// It runs, is ready, runs what its spec says, and nobody marked it as unavailable.
    pub available: bool,
    /// Its condition `Ready` is True.
    pub ready: bool,
}

/// Subset of a pod as its annotation has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSpread {
    /// Name of the WorkloadSpread.
    pub name: String,
    /// Name of the subset.
    pub subset: String,
    /// Name that it was let in by, where it had none of its own.
    pub entry: Option<String>,
    /// The scheduler finds no node for it.
    pub unschedulable: bool,
}

/// Controller of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// Its API version, with the group.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// How far through its life a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodStage {
    /// Not yet at its end.
    Active,
    /// Its deletion has begun.
    Terminating,
    /// Its phase is Succeeded or Failed.
    Finished,
}

impl PodStage {
    /// Stage of a pod whose status has this phase.
    pub fn of(is_deleted: bool, phase: Option<&str>) -> Self {
        match phase {
            _ if is_deleted => Self::Terminating,
            Some("Succeeded" | "Failed") => Self::Finished,
            _ => Self::Active,
        }
    }
}

/// A container of a pod.
#[derive(Clone, Debug)]
pub struct ContainerSeen {
    /// Its name.
    pub name: String,
    /// Role of the container in its pod.
    pub role: Role,
    /// Its newest instance, with the scheme of its runtime; `None` while there was none.
    pub id: Option<String>,
    /// `restartCount` of that instance.
    pub restarts: i32,
    /// Its ports that have a name.
    pub ports: Vec<(String, u16)>,
}

/// Role of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// One of `spec.containers`.
    Regular,
    /// An init container that restarts always.
    Sidecar,
    /// An init container that runs once.
    Init,
}

/// Sidecars of a pod as its annotations, its spec and its status have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SidecarsSeen {
    /// Names of the sets that the pod says it has.
    pub listed: Vec<String>,
    /// Hash of the sidecars that it has, by set.
    pub hashes: BTreeMap<String, String>,
    /// The same without images.
    pub without_image: BTreeMap<String, String>,
    /// Name of the revision that it has, by set.
    pub revisions: BTreeMap<String, String>,
    /// Twin that works, by sidecar.
    pub working: BTreeMap<String, String>,
    /// Images of its containers, by name.
    pub images: BTreeMap<String, String>,
    /// Containers that do not run yet what the pod's spec says.
    pub unsettled: Vec<String>,
    /// Its phase.
    pub phase: Phase,
    /// Its condition `Ready` is True.
    pub ready: bool,
    /// When that condition last changed.
    pub ready_since: Option<Timestamp>,
    /// Words of its condition `SidecarSetUpgradable`, `true` or `false`, by set.
    pub upgradable: BTreeMap<String, String>,
}

/// Phase of a pod that has not ended, in the order in which an upgrade comes to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing runs yet.
    #[default]
    Pending,
    /// Its node is silent.
    Unknown,
    /// It runs.
    Running,
}
