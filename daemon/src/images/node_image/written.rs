//! What this process has written last, and whether it still stands.
//!
//! Others may write as well: an instance of the agent that is about to end, OpenKruise's daemon while a node
//! is moved, or a person. Nothing happens on the node by that, so without a look at the object it would not
//! be written again.

use berth_proto::crd::{NodeImage, NodeImageStatus};

use crate::cluster::target::version;

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
}

impl Written {
    /// One whose write was answered with this object.
    pub(super) fn new(uid: String, sent: NodeImageStatus, answered: NodeImage) -> Self {
        let version = version(&answered.metadata);
        Self { uid, sent, kept: own(answered.status.unwrap_or_default()), version }
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
        let written = Written::new("u".to_owned(), sent, object("10", &json!({ "succeeded": 1 })));
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
}
