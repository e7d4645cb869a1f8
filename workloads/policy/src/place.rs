//! Places of pods that others make: whether a node is one for rules that a pod and its subset have together.

use serde_json::{Value, json};

use crate::{daemon_set::fit::Fit, plan::NodeView};

/// Tells whether a node has one of these terms, and only taints that are tolerated. Without terms any node
/// has them.
pub fn fits(terms: &[Value], tolerations: &[Value], node: &NodeView) -> bool {
    Fit::of_rules(terms, tolerations).on(node).0
}

/// Tells whether a node has a term, whatever its taints.
pub fn prefers(term: &Value, node: &NodeView) -> bool {
    fits(std::slice::from_ref(term), &[json!({ "operator": "Exists" })], node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_a_subset() {
        let taint = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
        let labels = [("zone".to_owned(), "a".to_owned())].into();
        let node = NodeView { name: "n".to_owned(), labels, taints: vec![taint] };
        let zone =
            |zone: &str| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
        let bears = [json!({"key": "k", "operator": "Exists"})];
        assert!(fits(&[zone("a")], &bears, &node) && fits(&[], &bears, &node));
        assert!(!fits(&[zone("b")], &bears, &node) && !fits(&[zone("a")], &[], &node));
        assert!(prefers(&zone("a"), &node) && !prefers(&zone("b"), &node));
    }
}
