//! The message of the condition `KruisePodReady`: who holds a pod not Ready, and why.
//!
//! Several writers share the condition. Each adds its own entry and takes only that one away again; the
//! condition is True when none is left. The entries are sorted, so that equal sets are equal texts.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde::{Deserialize, Serialize};

use super::read;
use crate::cluster::v1 as core;

/// The readiness gate, and the type of its condition.
pub(crate) const CONDITION: &str = "KruisePodReady";
/// Readiness gate of pods that are updated in place.
pub(crate) const UPDATE_CONDITION: &str = "InPlaceUpdateReady";
/// `userAgent` of the entries of requests to recreate containers.
pub(crate) const USER_AGENT: &str = "ContainerRecreateRequest";

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    /// Writer of the entry.
    pub user_agent: String,
    /// Why: for a request its `namespace/name`.
    pub key: String,
}

/// The entries of a message. One that cannot be read has none: whoever wrote it did not follow the protocol.
pub(crate) fn entries(message: &str) -> Vec<Entry> {
    serde_json::from_str(message).unwrap_or_default()
}

/// The message of these entries.
pub(crate) fn message(mut entries: Vec<Entry>) -> String {
    entries.sort();
    entries.dedup();
    // A list of strings has no way not to be JSON.
    serde_json::to_string(&entries).unwrap_or_else(|_| "[]".to_owned())
}

/// The entry of a request with this key.
pub(crate) fn request(key: &str) -> Entry {
    Entry { user_agent: USER_AGENT.to_owned(), key: key.to_owned() }
}

/// Entries of requests that are looked at. Each that nobody needs takes a write; of more than anybody makes
/// the others come when these are off.
const LOOKED_AT: usize = 32;

/// The keys of the first entries of requests.
pub(crate) fn requests(message: &str) -> Vec<String> {
    entries(message)
        .into_iter()
        .filter(|entry| entry.user_agent == USER_AGENT)
        .map(|entry| entry.key)
        .take(LOOKED_AT)
        .collect()
}

/// The condition that opens the gate of a pod that has it, where nobody has written it.
pub(crate) fn opened(pod: &core::Pod, now: Timestamp) -> Option<core::PodCondition> {
    let is_unwritten = read::has_gate(pod, CONDITION) && read::condition(pod, CONDITION).is_none();
    is_unwritten.then(|| core::PodCondition {
        type_: CONDITION.to_owned(),
        status: "True".to_owned(),
        message: Some(message(Vec::new())),
        last_transition_time: Some(Time(now)),
        ..core::PodCondition::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages() {
        let theirs = Entry { user_agent: "Lifecycle".to_owned(), key: "preDeleteHook".to_owned() };
        let both = r#"[{"userAgent":"ContainerRecreateRequest","key":"n/a"},{"userAgent":"Lifecycle","key":"preDeleteHook"}]"#;
        assert_eq!(message(vec![theirs.clone(), request("n/a"), request("n/a")]), both);
        assert_eq!(entries(both), [request("n/a"), theirs]);
        assert_eq!(requests(both), ["n/a"]);
        assert_eq!(message(Vec::new()), "[]");
        let many = message((0..1000).map(|number| request(&format!("n/{number:0>4}"))).collect());
        let first = requests(&many);
        assert_eq!((first.len(), first[0].as_str()), (LOOKED_AT, "n/0000"));
        for unreadable in ["", "maintenance", "{}", "[1]"] {
            assert!(entries(unreadable).is_empty(), "{unreadable:?}");
        }
    }
}
