//! Status that this process has written last, and whether it still stands.
//!
//! Others may write as well: an instance of the agent that is about to end, OpenKruise's daemon while a node
//! is moved, or a person. Nothing happens on the node by that, so without a look at the object it would not
//! be written again. Who goes on writing, as that daemon where OpenKruise keeps the kind, is not raced: the
//! pauses double.

use std::time::Duration;

use berth_proto::crd::{NodeImage, NodeImageStatus};

use crate::cluster::target::version;

/// Pause before the same status is written for the second time.
const PAUSE: Duration = Duration::from_secs(1);
/// It doubles with each time in a row, up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// After so many doublings it is longer.
const MOST_DOUBLINGS: u32 = 10;

/// Status as this process has written it last.
#[derive(Debug)]
pub(super) struct Written {
    /// UID of the object.
    pub(super) uid: String,
    /// Status as it was sent.
    pub(super) sent: NodeImageStatus,
    /// Status as the API server keeps it, which may know other fields; without what is the manager's.
    kept: NodeImageStatus,
    /// Version of the object that has it.
    version: u64,
    /// How often it was written before, in a row.
    times: u32,
}

impl Written {
    /// One whose write was answered with this object, and that was written so often before.
    pub(super) fn new(uid: String, sent: NodeImageStatus, answered: NodeImage, times: u32) -> Self {
        let version = version(&answered.metadata);
        Self { uid, sent, kept: own(answered.status.unwrap_or_default()), version, times }
    }

    /// Returns how often this status was written in a row, if it is what this process has written last.
    pub(super) fn times_of(&self, owed: &NodeImageStatus) -> u32 {
        if self.sent == *owed { self.times.saturating_add(1) } else { 0 }
    }

    /// Returns the pause before it is written again.
    pub(super) fn pause(&self) -> Duration {
        PAUSE.saturating_mul(1 << self.times.min(MOST_DOUBLINGS)).min(LONGEST_PAUSE)
    }

    /// Tells whether the object, which is of this version, says something else by somebody's later write. A
    /// watch that is late shows earlier ones.
    pub(super) fn is_written_over(&self, status: &NodeImageStatus, version: u64) -> bool {
        version > self.version && own(status.clone()) != self.kept
    }
}

/// Status without what is the manager's.
fn own(status: NodeImageStatus) -> NodeImageStatus {
    NodeImageStatus { desired_images: Vec::new(), ..status }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(version: &str, status: &Value) -> NodeImage {
        serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "NodeImage",
            "metadata": { "name": "node", "uid": "u", "resourceVersion": version },
            "spec": {},
            "status": status,
        }))
        .unwrap()
    }

    /// Rows: version and status that the watch shows after version 10 was written, and whether it is another
    /// one. The API server does not keep `sealingKey`, as with an earlier definition.
    #[test]
    fn only_what_somebody_else_wrote_later_is_another_status() {
        let sent = NodeImageStatus {
            succeeded: Some(1),
            sealing_key: Some("key".to_owned()),
            ..NodeImageStatus::default()
        };
        let written = Written::new("u".to_owned(), sent, object("10", &json!({ "succeeded": 1 })), 0);
        let desired = json!([{ "uid": "job", "image": "app:v1" }]);
        let table = [
            ("9", json!({ "pulling": 1 }), false),
            ("10", json!({ "succeeded": 1 }), false),
            ("11", json!({ "succeeded": 1, "desiredImages": desired }), false),
            ("11", json!({ "pulling": 1 }), true),
            ("12", json!({}), true),
        ];
        for (version, status, is_other) in table {
            let shown = object(version, &status);
            let number = self::version(&shown.metadata);
            let status = shown.status.unwrap_or_default();
            assert_eq!(written.is_written_over(&status, number), is_other, "{version} {status:?}");
        }
    }

    #[test]
    fn who_writes_over_it_each_time_is_not_raced() {
        let status = |succeeded| NodeImageStatus { succeeded: Some(succeeded), ..NodeImageStatus::default() };
        let (mut times, mut pauses) = (0, Vec::new());
        for version in 10..22 {
            let answered = object(&version.to_string(), &json!({ "succeeded": 1 }));
            let written = Written::new("u".to_owned(), status(1), answered, times);
            pauses.push(written.pause().as_secs());
            times = written.times_of(&status(1));
            assert_eq!(written.times_of(&status(2)), 0, "another one is news");
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
    }
}
