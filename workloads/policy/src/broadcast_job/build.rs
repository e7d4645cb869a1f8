//! New pods, built from the template and their node.

use berth_proto::crd::BroadcastJob;
use serde_json::Value;

use super::{API_VERSION, KIND, NAME_LABEL, Rules, UID_LABEL};
use crate::{
    build::{NewPod, object},
    daemon_set::build::place,
    hash::Suffixes,
    revision::Owner,
    selector::Labels,
};

/// Offset and prime of FNV-1a with 64 bits.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// Builds the pod of a node.
pub(super) fn pod(rules: &Rules<'_>, owner: &BroadcastJob, node: &str, by_scheduler: bool) -> Value {
    let meta = &owner.metadata;
    let (name, uid) = (meta.name.as_deref().unwrap_or_default(), meta.uid.as_deref().unwrap_or_default());
    let given = object(rules.template.get("metadata"));
    let mut labels = object(given.get("labels"));
    labels.insert(NAME_LABEL.to_owned(), name.into());
    labels.insert(UID_LABEL.to_owned(), uid.into());
    let mut spec = object(rules.template.get("spec"));
    if by_scheduler {
        place(&mut spec, node);
    } else {
        spec.insert("nodeName".to_owned(), node.into());
    }
    let annotations = object(given.get("annotations"));
    let pod = NewPod { name: &self::name(owner, node), given: &given, labels, annotations, spec };
    pod.of(Owner {
        api_version: API_VERSION,
        kind: KIND,
        namespace: meta.namespace.as_deref().unwrap_or_default(),
        name,
        uid,
        annotations: &Labels::new(),
    })
}

/// Name of the pod of a node.
pub(super) fn name(owner: &BroadcastJob, node: &str) -> String {
    let meta = &owner.metadata;
    let (name, uid) = (meta.name.as_deref().unwrap_or_default(), meta.uid.as_deref().unwrap_or_default());
    format!("{name}-{}", suffix(uid, node))
}

/// Ten letters that are always the same for the pod of a job on a node: a pod that was made, and whose answer
/// was lost, is not made again.
fn suffix(uid: &str, node: &str) -> String {
    let bytes = uid.bytes().chain([b'/']).chain(node.bytes());
    let seed = bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    let mut suffixes = Suffixes::new(seed);
    suffixes.next() + &suffixes.next()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_of_many_nodes_differ_and_stay() {
        let names: BTreeSet<String> = (0..50_000).map(|at| suffix("uid", &format!("node-{at}"))).collect();
        assert_eq!(names.len(), 50_000);
        assert_eq!(suffix("uid", "a"), suffix("uid", "a"));
        assert_ne!(suffix("uid", "a"), suffix("other", "a"));
    }
}
