//! SidecarSets that are written: completed, then checked. Pure.

use berth_sidecarset::{Set, WhiteList, approve, check, complete as fill_in, note_since, warnings};
use jiff::Timestamp;
use serde_json::Value;

use super::review::{Request, Verdict};

/// Completes a set.
pub(super) fn complete(request: &Request, now: Timestamp) -> Verdict {
    let mut set = request.object.clone();
    match fill_in(&mut set, old(request)) {
        Ok(()) => {
            approve(&mut set, old(request));
            note_since(&mut set, old(request), now);
            Verdict::Allowed { object: Some(set), warnings: Vec::new() }
        }
        Err(fault) => Verdict::invalid(fault.to_string()),
    }
}

/// Checks a set against its rules and the other sets.
pub(super) fn judge(request: &Request, others: &[&Set], white_list: &WhiteList) -> Verdict {
    let faults = check(&request.object, old(request), others, white_list);
    if faults.is_empty() {
        return Verdict::Allowed { object: None, warnings: warnings(&request.object) };
    }
    let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
    Verdict::invalid(faults.join("; "))
}

/// The stored set with the defaults of today; as it is where it gets none.
pub(super) fn completed_before(request: &Request) -> Value {
    let stored = &request.old_object;
    let same = Request { object: stored.clone(), old_object: stored.clone(), ..Request::default() };
    // The time is for a set that gets another reach, and this one keeps its own.
    match complete(&same, Timestamp::UNIX_EPOCH) {
        Verdict::Allowed { object: Some(completed), .. } => completed,
        _ => same.object,
    }
}

/// Tells whether the white list has to be known.
pub(super) fn brings_metadata(request: &Request) -> bool {
    let patches = request.object.pointer("/spec/patchPodMetadata").and_then(Value::as_array);
    patches.is_some_and(|patches| !patches.is_empty())
}

fn old(request: &Request) -> Option<&Value> {
    Some(&request.old_object).filter(|old| !old.is_null())
}
