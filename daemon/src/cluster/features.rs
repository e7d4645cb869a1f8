//! Features that the agent has towards the API server, by who it is. A list for people: what is off says why,
//! and what to do.

use super::identity::{IdentityState, Who};

/// Part of what the agent does in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Name of the feature.
    pub name: &'static str,
    /// Why it is off; `None` = it is on.
    pub off: Option<String>,
}

/// Whether the agent may do what a feature needs.
#[derive(Clone, Debug)]
pub(crate) enum Permission {
    /// Nobody knows yet.
    Unknown,
    /// It may.
    Given,
    /// It may not; why, and what to do about that.
    Denied(String),
}

/// Permissions that a feature needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// To see the node's pods.
    Reading,
    /// To write the status of objects of the node.
    Status,
    /// To write the spec and metadata of the node's pods.
    Pods,
}

/// Changing pods in place.
pub(crate) const UPDATES: &str = "in-place updates";

/// Probes whose results are written on pods.
pub(crate) const PROBES: &str = "probe markers";

/// All of them, in the order in which they are told.
const FEATURES: [(&str, Needs); 6] = [
    ("order", Needs::Reading),
    ("recreate", Needs::Status),
    ("pulls", Needs::Status),
    ("status", Needs::Status),
    (UPDATES, Needs::Pods),
    (PROBES, Needs::Pods),
];

/// Lists the features, and which of them this user can have.
pub(super) fn of(who: &Who) -> Vec<Feature> {
    FEATURES.into_iter().map(|(name, needs)| Feature { name, off: off(who, needs) }).collect()
}

/// Tells whether the agent may do what this feature needs.
pub(crate) fn permission(identity: &IdentityState, name: &str) -> Permission {
    match identity {
        IdentityState::Known(identity) => {
            let off = identity.features.iter().find(|feature| feature.name == name);
            off.and_then(|feature| feature.off.clone()).map_or(Permission::Given, Permission::Denied)
        }
        IdentityState::Unknown | IdentityState::Failed(_) => Permission::Unknown,
    }
}

fn off(who: &Who, needs: Needs) -> Option<String> {
    match (who, needs) {
        (Who::Kubelet, Needs::Reading | Needs::Status) => None,
        (Who::Kubelet, Needs::Pods) => Some(
            "the node authorizer does not let the kubelet's identity patch a pod's spec or metadata; set \
             cluster.serviceAccount.boundToPod and have a pod of that account on this node, or give \
             cluster.serviceAccount a token bound to this node"
                .to_owned(),
        ),
        (Who::OtherKubelet { node }, _) => {
            Some(format!("the kubelet of node {node} sees and writes only what is of that node"))
        }
        (Who::BoundAccount | Who::Other, _) => None,
        (Who::OtherAccount { .. } | Who::UnboundAccount, Needs::Reading) => None,
        (Who::OtherAccount { node }, Needs::Status | Needs::Pods) => Some(format!(
            "the admission policies of deploy/ let a token bound to node {node} write only what is of that node"
        )),
        (Who::UnboundAccount, Needs::Status | Needs::Pods) => Some(
            "the admission policies of deploy/ refuse what is written with a token that is bound to no node"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on() {
        let all = ["order", "recreate", "pulls", "status", "in-place updates", "probe markers"];
        let table: [(Who, &[&str]); 6] = [
            (Who::Kubelet, &all[..4]),
            (Who::OtherKubelet { node: "b".to_owned() }, &[]),
            (Who::BoundAccount, &all),
            (Who::OtherAccount { node: "b".to_owned() }, &all[..1]),
            (Who::UnboundAccount, &all[..1]),
            (Who::Other, &all),
        ];
        for (who, expect) in table {
            let features = of(&who);
            let on = features.iter().filter(|feature| feature.off.is_none()).map(|feature| feature.name);
            assert_eq!(on.collect::<Vec<_>>(), expect, "{who:?}");
        }
    }
}
