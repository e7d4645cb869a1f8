//! The condition `Accepted`, by which objects say whether the manager carries them out.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Makes the condition. Its time is `now` where its status has changed, and otherwise that of the one before.
pub(crate) fn accepted(
    before: &[Condition],
    holds: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Condition {
    let known = before.iter().find(|one| one.type_ == "Accepted" && one.status == holds);
    Condition {
        type_: "Accepted".to_owned(),
        status: holds.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: None,
        last_transition_time: known.map_or_else(|| seconds(now), |known| known.last_transition_time.clone()),
    }
}

/// Times of the API are of whole seconds, so that what comes back is what was sent.
pub(crate) fn seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}
