//! The words that the status of a request has in common wherever it is written: at the API server ([`super::api`]) and
//! beside a file ([`super::files`]). What differs, who owns which field and what an old status is read as, stays with each.

use berth_policy::{ContainerPhase, ContainerProgress, RequestPhase};
use berth_proto::crd::{ContainerRecreateRequestStatus, RecreatePhase, RecreateState};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};

use crate::base::status::said;

/// Condition: it ended well.
pub(crate) const COMPLETE: &str = "Complete";
/// Condition: it ended otherwise.
pub(crate) const FAILED: &str = "Failed";
/// Condition, and its reason: since when its pod is held not Ready.
pub(crate) const UNREADY: &str = "PreRecreateGrace";
/// The reason of [`COMPLETE`].
pub(crate) const SUCCEEDED: &str = "Succeeded";

/// The phase of a request, as its status spells it.
pub(crate) fn phase(phase: RequestPhase) -> RecreatePhase {
    match phase {
        RequestPhase::Pending => RecreatePhase::Pending,
        RequestPhase::Recreating => RecreatePhase::Recreating,
        RequestPhase::Completed => RecreatePhase::Completed,
    }
}

/// And back.
pub(crate) fn request_phase(phase: RecreatePhase) -> Option<RequestPhase> {
    match phase {
        RecreatePhase::Pending => Some(RequestPhase::Pending),
        RecreatePhase::Recreating => Some(RequestPhase::Recreating),
        RecreatePhase::Completed => Some(RequestPhase::Completed),
        // Only containers have these.
        RecreatePhase::Succeeded | RecreatePhase::Failed => None,
    }
}

/// Where a container stands.
pub(crate) fn state(progress: &ContainerProgress) -> RecreateState {
    RecreateState {
        name: progress.name.as_str().to_owned(),
        phase: match progress.phase {
            ContainerPhase::Pending => RecreatePhase::Pending,
            ContainerPhase::Recreating => RecreatePhase::Recreating,
            ContainerPhase::Succeeded => RecreatePhase::Succeeded,
            ContainerPhase::Failed => RecreatePhase::Failed,
        },
        message: said(&progress.message),
        is_killed: progress.killed,
    }
}

/// The condition of this type, if it is True.
pub(crate) fn holds<'a>(
    status: &'a ContainerRecreateRequestStatus,
    condition_type: &str,
) -> Option<&'a Condition> {
    let mut conditions = status.conditions.iter();
    conditions.find(|condition| condition.type_ == condition_type && condition.status == "True")
}

/// Since when the pod is held not Ready: the grace goes on after a restart, it does not begin anew.
pub(crate) fn unready_since(status: &ContainerRecreateRequestStatus) -> Option<Timestamp> {
    holds(status, UNREADY).map(|condition| condition.last_transition_time.0)
}
