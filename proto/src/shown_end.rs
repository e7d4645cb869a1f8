//! End of an update in place as the pod itself shows it.
//!
//! The agent opens the pod's readiness gate when it has done its part: the pod was patched, and nothing that
//! serves is stopped any more. So the condition says in its message which update that was, and with how many
//! restarts each container runs what is wanted. When the kubelet calls the pod Ready with just these, the
//! update has ended well, and whoever asked for it need not wait for a report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The longest message that is written, and that is read.
const LONGEST: usize = 16 << 10;

/// Agent's part of an update, which it has done.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ShownEnd {
    /// Revision that the pod was given, as its label says it: the name, or the hash at its end.
    pub revision: String,
    /// Number of its try.
    pub attempt: i32,
    /// Restarts of each container of the pod, as its status has to count them.
    pub restarts: BTreeMap<String, u32>,
}

impl ShownEnd {
    /// Returns the message of the condition; `None`: it would be too long.
    pub fn message(&self) -> Option<String> {
        serde_json::to_string(self).ok().filter(|text| text.len() <= LONGEST)
    }

    /// Reads the message of a condition; `None`: it says nothing of the kind.
    pub fn read(message: &str) -> Option<Self> {
        if message.len() > LONGEST { None } else { serde_json::from_str(message).ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs of two versions have to agree on it.
    #[test]
    fn a_message_is_read_as_it_was_written() {
        let end = ShownEnd {
            revision: "shop-5d4".to_owned(),
            attempt: 1,
            restarts: [("app".to_owned(), 3), ("log".to_owned(), 0)].into(),
        };
        let message = end.message().unwrap();
        assert_eq!(message, r#"{"revision":"shop-5d4","attempt":1,"restarts":{"app":3,"log":0}}"#);
        assert_eq!(ShownEnd::read(&message), Some(end));
    }

    #[test]
    fn other_messages_say_nothing() {
        let long = format!(r#"{{"revision":"{}","attempt":0,"restarts":{{}}}}"#, "x".repeat(LONGEST));
        for message in [
            "",
            "the agent of the node updates the pod in place",
            "{}",
            r#"{"revision":"r","attempt":0}"#,
            r#"{"revision":"r","attempt":0,"restarts":{"app":-1}}"#,
            long.as_str(),
        ] {
            assert_eq!(ShownEnd::read(message), None, "{message:.40}");
        }
        let revision = "x".repeat(LONGEST);
        assert_eq!(ShownEnd { revision, attempt: 0, restarts: BTreeMap::new() }.message(), None);
    }
}
