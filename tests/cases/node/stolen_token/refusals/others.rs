//! Actions on objects that no identity of Berth has anything to do with, and on nodes.

use super::*;

/// Secrets, nodes, and whatever else is worth having.
pub(super) fn anything_else() -> Vec<Row> {
    use Verb::{Delete, Get, Merge, Post};
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "x" } });
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x" } });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "x" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
    });
    let admission = |path: &str| format!("/apis/admissionregistration.k8s.io/v1/{path}");
    let mut rows = Vec::new();
    for who in [Who::Agent, Who::Manager] {
        rows.extend([
            (who, Get, core("secrets/secret"), Value::Null, "cannot get resource \"secrets\""),
            (who, Get, core("secrets"), Value::Null, "cannot list resource \"secrets\""),
            (who, Post, core("secrets"), secret.clone(), "cannot create resource \"secrets\""),
            (who, Merge, core("secrets/secret"), labelled("l"), "cannot patch resource \"secrets\""),
            (who, Delete, core("secrets/secret"), Value::Null, "cannot delete resource \"secrets\""),
            (
                who,
                Merge,
                format!("/api/v1/nodes/{A}/status"),
                labelled("l"),
                "cannot patch resource \"nodes/status\"",
            ),
            (who, Delete, format!("/api/v1/nodes/{B}"), Value::Null, "cannot delete resource \"nodes\""),
            (
                who,
                Post,
                format!("/api/v1/nodes/{B}/proxy/run"),
                Value::Null,
                "cannot create resource \"nodes/proxy\"",
            ),
            (who, Post, core("configmaps"), map.clone(), "cannot create resource \"configmaps\""),
            (
                who,
                Post,
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings".to_owned(),
                role.clone(),
                "cannot create resource",
            ),
            (
                who,
                Delete,
                admission("validatingadmissionpolicybindings/berth-agent"),
                Value::Null,
                "cannot delete resource",
            ),
            (
                who,
                Merge,
                admission("validatingadmissionpolicies/berth-agent"),
                spec(json!({ "failurePolicy": "Ignore" })),
                "cannot patch resource",
            ),
            (
                who,
                Delete,
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeimages.apps.kruise.io"
                    .to_owned(),
                Value::Null,
                "cannot delete resource",
            ),
            (
                who,
                Merge,
                "/api/v1/namespaces/berth-system/serviceaccounts/berth-agent".to_owned(),
                labelled("l"),
                "cannot patch resource",
            ),
            (
                who,
                Merge,
                format!("{}/lease", leases(NAMESPACE)),
                spec(json!({ "holderIdentity": "x" })),
                "cannot patch resource \"leases\"",
            ),
        ]);
    }
    rows.extend(nodes());
    rows.extend([
        (
            Who::Agent,
            Merge,
            format!("{}/berth-manager", leases("berth-system")),
            spec(json!({ "holderIdentity": "x" })),
            "cannot patch resource \"leases\"",
        ),
        (Who::Agent, Post, events(), event("x", B), "whose reportingInstance is its own node"),
        (
            Who::Agent,
            Post,
            EVENTS_OF_NODES.to_owned(),
            event_of_node("x", A, B),
            "an agent writes no events about other nodes",
        ),
        (Who::Agent, Merge, format!("{}/of-b", events()), again(), "cannot patch resource \"events\""),
        (Who::Agent, Merge, format!("{}/of-agent", events()), again(), "cannot patch resource \"events\""),
        (Who::Agent, Delete, format!("{}/of-b", events()), Value::Null, "cannot delete resource \"events\""),
        (Who::Kubelet, Get, core("secrets/secret"), Value::Null, "no relationship found between node"),
        (Who::Kubelet, Get, core("secrets"), Value::Null, "cannot list resource \"secrets\""),
        (Who::Kubelet, Merge, format!("/api/v1/nodes/{B}"), labelled("l"), "not allowed to modify node"),
    ]);
    rows
}

/// Lists the attempts on Nodes: of its own Node the agent writes two labels, and of another nothing.
pub(super) fn nodes() -> Vec<Row> {
    use Verb::{Apply, Delete, Merge, Post, Strategic};
    let at = |node: &str| format!("/api/v1/nodes/{node}");
    let said = |key: &str, value: &str| json!({ "metadata": { "labels": { key: value } } });
    let taint = spec(json!({ "taints": [{ "key": "k", "effect": "NoExecute" }] }));
    let mut applied = json!({ "apiVersion": "v1", "kind": "Node" });
    applied["metadata"] = json!({ "name": B, "labels": { "berth.dev/order": "true" } });
    let mut new = applied.clone();
    new["metadata"]["name"] = "node-c".into();
    const LABELS: &str = "changes no labels of its node but berth.dev/path and berth.dev/order";
    const ELSE: &str = "changes nothing of its node but the labels";
    const OTHER: &str = "an agent writes only its own node";
    const NO: &str = "cannot patch resource \"nodes\"";
    vec![
        (Who::Agent, Merge, at(A), labelled("l"), LABELS),
        (Who::Agent, Merge, at(A), said("node-role.kubernetes.io/control-plane", ""), LABELS),
        (Who::Agent, Merge, at(A), json!({ "metadata": { "labels": null } }), LABELS),
        (
            Who::Agent,
            Merge,
            at(A),
            said("berth.dev/path", "x"),
            "berth.dev/path is inline, beside or takeover",
        ),
        (Who::Agent, Merge, at(A), said("berth.dev/order", "x"), "berth.dev/order true or false"),
        (Who::Agent, Merge, at(A), json!({ "metadata": { "annotations": { "a": "1" } } }), ELSE),
        (Who::Agent, Merge, at(A), json!({ "metadata": { "finalizers": ["a.example/b"] } }), ELSE),
        (Who::Agent, Strategic, at(A), taint.clone(), ELSE),
        (Who::Agent, Merge, at(A), spec(json!({ "unschedulable": true })), ELSE),
        (Who::Agent, Merge, at(B), said("berth.dev/order", "true"), OTHER),
        (Who::Agent, Apply, at(B), applied, OTHER),
        (Who::Agent, Strategic, at(B), taint.clone(), OTHER),
        (Who::Agent, Post, "/api/v1/nodes".to_owned(), new, "cannot create resource \"nodes\""),
        (Who::Agent, Delete, at(A), Value::Null, "cannot delete resource \"nodes\""),
        (Who::Unbound, Merge, at(A), said("berth.dev/order", "true"), NO_NODE),
        (Who::Kubelet, Merge, at(B), said("berth.dev/order", "true"), "not allowed to modify node"),
        (Who::Manager, Merge, at(A), said("berth.dev/order", "true"), NO),
        (Who::Manager, Merge, at(B), labelled("l"), NO),
    ]
}
