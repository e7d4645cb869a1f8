//! News of a job that has ended.

use crate::{
    notes::{About, Note, ended::Ended},
    store::{JobSeen, Key},
};

/// News of a job that has ended; none while its status cannot be read.
pub(super) fn note(seen: &JobSeen, key: Key) -> Option<Note> {
    let status = seen.status.as_ref().ok()?;
    let count = |count: Option<i32>| usize::try_from(count.unwrap_or(0)).unwrap_or(0);
    let image = seen.spec.as_ref().map_or("the image", |spec| &spec.image);
    let of = count(status.desired);
    let what = match of {
        0 => format!("no node is to have {image}"),
        _ => format!("nodes have {image}"),
    };
    let ended = Ended {
        about: About::ImagePullJob,
        what: &what,
        done: count(status.succeeded),
        failed: count(status.failed),
        of,
        conditions: &status.conditions,
    };
    Some(ended.note(key, &seen.uid))
}
