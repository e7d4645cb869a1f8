//! News of a request that has ended, of both kinds alike.

use super::{kind::RequestKind, spec::Spec, status::Status};
use crate::{
    notes::{About, Note, ended::Ended},
    store::{CustomSeen, Key},
};

/// News of a request that has ended; none while its status cannot be read.
pub(super) fn note<S: Spec, T: Status>(seen: &CustomSeen<S, T>, key: Key) -> Option<Note> {
    let status = seen.status.as_ref().ok()?;
    let (pod, named) = seen.spec.as_ref().map_or(("", 0), |spec| (spec.pod(), spec.containers().count()));
    let (states, done, failed) = status.states();
    // One that no agent has looked at has no states, and an update has some of containers whose env changes.
    let of = states.max(named);
    let (about, noun, verb) = match T::KIND {
        RequestKind::Recreate => (About::Recreate, "recreation", "recreated"),
        RequestKind::Update => (About::Update, "update", "updated"),
    };
    let what = match of {
        0 => format!("{noun} of pod {pod}"),
        _ => format!("containers of pod {pod} {verb}"),
    };
    let ended = Ended { about, what: &what, done, failed, of, conditions: status.conditions() };
    Some(ended.note(key, &seen.uid))
}
