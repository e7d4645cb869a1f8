//! Job sidecars: once the main containers of a pod have ended, its sidecars are ended too, and what they exit
//! with does not count.
//!
//! ```text
//!  the mains run        a main's exit is noticed: the kubelet asks about the pod, or the pod view shows it
//!       v
//!  the mains are over   restartPolicy Never: all exited; OnFailure: all exited with 0
//!       v
//!  marked               durable, all at once, before anything happens to them
//!       v
//!  stopped              by the agent, in their order: preStop, stop signal, SIGKILL, within the pod's grace;
//!                       that preStop begins is durable before it does
//!       v
//!  shown as completed   exit code 0 to the kubelet, until the container is removed
//! ```
//!
//! So the kubelet itself computes the pod's phase, from the codes of the mains alone, and has no reason to
//! start a sidecar again. A sidecar that exited before its mark keeps its own code, with one exception: under
//! OnFailure the kubelet would start it again only for us to stop it, so such an exit counts as its end.
//!
//! One that the kubelet starts again after exit code 0 too, by a restartPolicy or rules of its own, cannot be
//! ended: while its pod is not deleted, no code and no refusal to create it makes the kubelet count it as
//! ended. It is left running, and an Event says so.
//!
//! Nothing is remembered but the marks, and everything is asked for again until it is so: a pod that is found
//! with its mains over and a sidecar running is acted on, whoever had begun. Beside the kubelet the code
//! cannot be shown otherwise; an Event says what that means.

mod ending;
mod state;

pub(crate) use state::{JobSidecars, is_job};

use crate::model::{ContainerId, ContainerName, PodUid};

/// Env that makes a container a job sidecar, with the value `true` in any case of letters. OpenKruise's.
pub const JOB_SIDECAR_ENV: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT";

/// A sidecar that is being ended, or was. Kept until its container is removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SidecarMark {
    /// Its pod.
    pub pod: PodUid,
    /// Its name, for people.
    pub name: ContainerName,
    /// The instance.
    pub container: ContainerId,
    /// Its preStop hook may have begun, and is not begun again.
    pub hooked: bool,
}

/// Tells whether a value of [`JOB_SIDECAR_ENV`] says yes.
pub fn is_job_sidecar(value: &str) -> bool {
    value.eq_ignore_ascii_case("true")
}
