//! Objects as the watches show them, in words that all indexes share: objects cut down to what is decided by,
//! their names, the clock's two faces, and how far an absence can be believed.
//!
//! Nothing here decides anything, reads a clock or knows how an object looked on the wire.

mod container_id;
mod key;
mod labels;
mod names;
mod object;
mod pods;
mod shape;
mod sidecars;
mod uid;
mod views;
mod webhooks;

use std::time::Instant;

use jiff::Timestamp;

pub(crate) use self::webhooks::ASKED_AFTER;
pub(crate) use self::{
    container_id::ContainerId,
    key::Texts,
    labels::{LabelSets, Labels},
    names::{OPERATIONS, POD_UID, TOTAL},
    object::Weighed,
    pods::{Container, Pod, PodChange, Pods},
    shape::Shape,
    sidecars::Sidecars,
    uid::Uid,
    views::Views,
};
pub use self::{
    key::Key,
    object::{
        BudgetSeen, ContainerSeen, CustomSeen, JobSeen, Kind, MarkerSeen, NamespaceSeen, NodeImageSeen,
        NodePodProbeSeen, NodePodUpdateSeen, NodeSeen, Object, Owner, Phase, PodSeen, PodSpread, PodStage,
        PodStateSeen, RecreateSeen, Role, SetSeen, SidecarSetSeen, SidecarsSeen, SpreadSeen, UpdateSeen,
        Weight,
    },
    webhooks::{Entered, Entries, Entry, Reach, Webhooks},
};

/// Time on both clocks. Time that passes is measured by the monotonic one; the other is only written down,
/// and compared with timestamps that the API server, or a manager before this one, made.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Monotonic, this machine's.
    pub instant: Instant,
    /// The wall clock, this machine's.
    pub wall: Timestamp,
}
