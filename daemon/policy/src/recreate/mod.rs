//! Recreate: restart a running container by asking the kubelet to.

mod assign;
mod mark;
mod request;

pub use assign::{AssignError, Assigned};
pub use mark::{Mark, MarkPhase};
pub use request::{
    ContainerPhase, ContainerProgress, Origin, Outcome, RecreateReport, RecreateRequest, RecreateStrategy,
    RecreateTarget, RequestPhase,
};
