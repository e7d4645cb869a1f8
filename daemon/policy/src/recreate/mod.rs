//! Recreate: restart a running container exactly once, by asking the kubelet to.
//!
//! ```text
//!  one container of a request                             what is durable by then
//!
//!  Pending     its turn has not come (queue, order, unready grace)
//!     |        older exited instances are removed: of them the kubelet computes its back-off
//!     v
//!  Recreating  Armed    the kubelet is to see a changed definition      mark Armed
//!     |          | nudge: one made-up entry in one list
//!     |          v
//!     |        Shown    it may have seen it                             mark Shown, before the answer goes
//!     |          | ExecSync of preStop, where that is how the hook runs
//!     |          v
//!     |        Hooked   the hook has begun                              mark Hooked, before the command goes
//!     |          | StopContainer; CreateContainer and StartContainer in the same SyncPod
//!     |          v
//!     |        replaced: another instance of that name is there
//!     v
//!  Succeeded   the new instance is Ready, and ran for `minStartedSeconds`
//! ```
//!
//! The kubelet is the one that stops the container and starts it, whatever the restart policy, with its hook
//! and without back-off. When the agent or the kubelet dies in the middle, the kubelet is asked again; a hook
//! that had begun is then answered as done. A hook that does not pass through the agent (HTTP) may not be
//! asked for again, so there the agent stops the container itself (mark `Stopping`, as always on path
//! `beside`). A container that such a death left exited, under a restart policy that would leave it so, is
//! shown as running and made from another definition, because such a one the kubelet starts in any case.
//!
//! Nothing here is an event that could be lost: every state follows from the marks, the runtime's containers
//! and the pod view, so replaying them gives the same.

mod advance;
mod assign;
mod due;
mod listing;
mod liveness;
mod mark;
mod outcomes;
mod report;
mod request;
mod requests;
mod shown;
mod state;

pub use berth_reasons::FailureReason;

pub use assign::{AssignError, Assigned};
pub use listing::RequestView;
pub use mark::{MarkPhase, RecreateMark};
pub use request::{
    ContainerPhase, ContainerProgress, Origin, Outcome, RecreateReport, RecreateRequest, RecreateStrategy,
    RecreateTarget, RequestPhase, Source,
};
pub use shown::{Restate, Turn};
pub(crate) use state::Recreates;
