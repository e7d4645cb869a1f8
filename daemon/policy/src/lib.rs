//! Berth's pure core: given what happened on this node, may this CRI call proceed, and what is due?
//!
//! This crate never reads a clock, a file, a socket or the environment, and starts no task: `now` is an
//! argument and its `Cargo.toml` is the proof. The adapter around it is one loop: *subscribe, ask, act*.
//!
//! ```text
//!            Event                 Call                    now
//!              |                     |                      |
//!              v                     v                      v
//!        Node::apply           Node::admit             Node::plan
//!     (total, idempotent)    -> Forward | Latch      -> Question | ForgetLatches | Effect
//!                               Amend | Hold | Refuse
//! ```
//!
//! One feature is one file or folder with one table of tests: [`launch_priority`] reads a declared order,
//! `launch_order` decides about `CreateContainer`, `exit_order` about `StopContainer`. `early_readiness` runs
//! the probes of containers that others wait for, where the agent can, so that `launch_order` learns of a
//! success in the SyncPod that started the container.
//!
//! [`Images`] is a core of its own beside [`Node`], with the same shape: what images are wanted on this node
//! goes in with what happens to them, looks, pulls and pins come out. The two know nothing of each other.
//!
//! [`Probes`] is another: which probes of one's own run when, what follows from their results for the pods,
//! and what is told.
//!
//! [`in_place_update`] decides the steps of an ordered update of a running pod. Its `next` is a function that
//! remembers nothing; `Updates` around it is a core like the others, with all requests and pods of the node.
//!
//! Invariants, each tried by the model test with random operations:
//! - a container never starts before its turn, in a sandbox where its level's barrier was not passed;
//! - a hold always has a deadline, and asked at that deadline the answer is another one;
//! - a `CreateContainer` is never held in a SyncPod in which waiting cannot help: for a container that was
//!   started in it, only the agent's own probes can, and only for a bounded time;
//! - never two runs of a container's probes at once, and none that nobody waits for;
//! - the restart of a container is never gated;
//! - a job sidecar is stopped only after all mains of its pod have ended for good, and marked before that;
//!   its hook is begun at most once;
//! - no more images are pulled at once than allowed, never two of one repository, and none that nobody needs;
//! - a wish for an image is fulfilled as soon as nothing goes wrong any more, and what ended before is not
//!   done again;
//! - what is remembered is bounded by what exists: pods, sandboxes, containers, connections and calls in
//!   flight; wishes, pulls and pins.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should")
)]

pub mod in_place_update;
pub mod launch_priority;

mod announced;
mod backoff;
mod beside;
mod call;
mod config;
mod containers;
mod creation_env;
mod distinct_seconds;
mod earlier_sandboxes;
mod early_readiness;
mod event;
mod exit_order;
mod explain;
mod facts;
mod followed;
mod foresee;
mod images;
mod in_advance;
mod in_flight;
mod instances;
mod job_sidecars;
mod launch_order;
mod listed;
mod model;
mod node;
mod own_probes;
mod plan;
mod pods;
mod probes;
mod recreate;
mod sandbox;
mod set_aside;
mod step;
pub mod time;
mod timeline;
mod verdict;

#[cfg(test)]
mod tests;

pub use backoff::API_PAUSES;
pub use call::{Call, CreateContainer, Declared, EnvValues, Request, StopContainer};
pub use config::{Config, Path, UnknownPods, View};
pub use creation_env::CreationEnv;
pub use event::{Event, ListedSandbox, StepOutcome};
pub use explain::{ContainerOrder, HeldCall, PodOrder, Size};
pub use facts::{ContainerFacts, HeldFacts, PodFacts};
pub use foresee::{Foreseen, Level, foresee};
pub use images::{
    Bytes, CredentialKey, Credentials, ImageEvent, ImageLimits, ImageReference, ImageStep, Images,
    ImagesSize, JoinedPull, PullFailure, PullId, PullOrder, PulledImage, Settled, Wish, WishId, WishPhase,
    WishReport, WishSource,
};
pub use in_advance::{Creations, Foretold, InAdvance, Shown as ShownInAdvance};
pub use instances::{InstanceView, Moment};
pub use job_sidecars::{JOB_SIDECAR_ENV, SidecarMark, is_job_sidecar};
pub use model::{
    CallId, ConnectionId, Container, ContainerId, ContainerName, ContainerReport, ContainerSpec,
    ContainerState, Deletion, Hook, Pod, PodRef, PodUid, Readiness, RequestId, RestartPolicy, RestartRule,
    SandboxId, Unready,
};
pub use node::Node;
pub use probes::{
    AskedMarks, Backlog, ConditionMark, ConditionStatus, Instance, InstanceState, Markers, PodMarks,
    PodReport, Probe, ProbeAction, ProbeEvent, ProbeEventText, ProbeLimits, ProbeOutcome, ProbeReason,
    ProbeReport, ProbeResult, ProbeRun, ProbeState, ProbeStep, ProbeView, Probes, ProbesSize, RunId, Shown,
    ShownCondition, WantedPod, WantedProbe,
};
pub use recreate::{
    AssignError, Assigned, ContainerPhase, ContainerProgress, FailureReason, MarkPhase, Origin, Outcome,
    RecreateMark, RecreateReport, RecreateRequest, RecreateStrategy, RecreateTarget, RequestPhase,
    RequestView, Restate, Source, Turn,
};
#[cfg(any(test, feature = "fault-points"))]
pub use set_aside::trap;
pub use set_aside::{SetAside, SetAsideView};
pub use step::{
    About, DirectStop, Effect, Notice, PodEffect, Question, RequestEffect, RuntimeEffect, Step, StoreEffect,
};
pub use timeline::{Entry, What};
pub use verdict::{Amendment, HoldReason, HookTurn, Latch, Nudge, Refusal, Showing, Verdict};
