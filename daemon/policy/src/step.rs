//! The effects the core owes the world. A step carries all it needs: who executes it decides nothing.

use crate::model::SandboxId;

/// An effect to be carried out; its outcome comes back as an [`crate::Event`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Ask the runtime for the containers of this sandbox, with the exit codes of those that ended.
    InspectSandbox(SandboxId),
    /// Ask the kubelet for its pods: something waits and the pod view may be behind.
    PollKubelet,
    /// Remove the latches of this sandbox from the store: it is gone.
    ForgetLatches(SandboxId),
}
