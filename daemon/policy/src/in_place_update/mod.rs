//! Ordered in-place updates of a running pod: given what is wanted and what is observed, what is the one next
//! step?
//!
//! ```text
//!            what differs from the wanted?
//!                 |                   \ nothing: wait until all of it runs, then SetReady,
//!                 v                     wait until it is Ready, then Done
//!   Pull    every image of the whole update; nothing has been stopped yet
//!                 |                   \ cannot be pulled: Failed (RollBack if something was moved)
//!                 v
//!   SetNotReady, then Wait for the grace     where the pod has the gate, once; a pod of a workload gets
//!                 |                          what no container reads meanwhile: the label of its revision
//!   Clear    exited instances for which the kubelet would hold the next ones back; where there were any, Wait for its
//!                 | next look at the runtime
//!                 v
//!  .-> Patch     one batch: its images, the metadata its containers read, the new record
//!  |              |
//!  |              v
//!  |   Recreate   those of the batch that run with old env values and the right image;
//!  |              | the others the kubelet restarts by itself, and with the same restart they read the new values
//!  |              v
//!  |   Wait       each container of the batch runs what is wanted and is Ready; before another batch the agent's own
//!  |              |     eyes are enough, where nothing has to succeed for that
//!  |              |                   \ not by the deadline: RollBack or Failed, lower batches untouched
//!  '--------------'
//! ```
//!
//! [`next`] is a total function of its arguments and remembers nothing, so whoever carries out its steps may
//! die anywhere: asked again with what is observed then, it goes on. What lasts is in the pod (its images,
//! its metadata, the condition, the [`Record`]) and in the [`Before`] that the caller keeps. A step is asked
//! for again until its effect is observed; carrying it out twice is carrying it out once.
//!
//! What is pending follows from comparing the pod with the [`Update`], not from the `next*` fields of the
//! record, which are written for those who read them. So a second update replaces the first one at any point,
//! a rollback is just another update, and the containers that neither needs to touch are not touched.
//!
//! The order is OpenKruise's: containers without a launch priority go in the first batch, of those with one
//! the highest first. Whoever reads a label or annotation that is changed for another one goes with it.
//!
//! [`plan`] stands above it: who asks, whose word counts where two ask, and what each of them is told.
//!
//! A request can ask for swaps of twins: what it wants follows the pod then, see [`mod@stage`]. When nobody
//! makes it any more, twins that it has begun to swap come to rest, see [`mod@rest`].
//!
//! This knows nothing of annotations as text, of RFC 3339 or of how a hash of env values is made: times of
//! records are in seconds since the epoch, and hashes are only compared.

mod answer;
mod apart;
mod batch;
mod decide;
mod diff;
mod gate;
mod groups;
mod merge_patch;
mod observed;
mod pod_plan;
mod record;
mod records;
mod request;
mod resolve;
mod rest;
mod stage;
mod step;
mod swap;
pub(crate) mod updates;
mod want;

pub use berth_reasons::FailureReason;

pub use decide::next;
pub use gate::{is_worked_on, may_open};
pub use merge_patch::{MergeError, MergePatch};
pub use observed::{
    ContainerView, EnvHash, Gate, ImageMatch, Instance, Leftovers, Life, Liveness, Metadata, MetadataKey,
    Observed, Presence,
};
pub use pod_plan::{PodPlan, Sight, plan};
pub use record::{Batch, Record, Records, UpdateOwner};
pub use request::{
    ContainerUpdate, ContainerUpdatePhase, SwapPhase, SwapReport, UpdateOutcome, UpdatePhase, UpdateReport,
    UpdateRequest, UpdateSource, WantedSwap,
};
pub use stage::{Migration, WORKING, other_version_key, twin_version, twins, version_key};
pub use step::{Failure, Next, PodPatch, Reset, Why};
pub use swap::{Stage, Swap, SwapPatch, SwapStep, Twin, TwinView, TwinsView, swap_step};
pub use updates::{
    CarriedOut, ContainerStatusView, CreatedWith, DeclaredContainer, DeclaredHook, EnvReference, Fetched,
    GateView, InstanceQuestion, NodeView, PodView, PodWrite, StoredRequest, UpdateAction, UpdateEvent,
    UpdatePermission, Updates, WriteOutcome, carried_out, is_news,
};
pub use want::{Before, Update};
