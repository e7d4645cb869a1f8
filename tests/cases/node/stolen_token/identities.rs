//! Identities that have the roles of Berth and none of its names: nothing is theirs, because the policies
//! that would keep them to a node do not know them.

use serde_json::{Value, json};

use super::attempts::{
    Verb, Who, annotated, cluster, condition, core, event, events, kruise, labelled, object, pod_image,
    pod_update, request, status, update,
};
use super::refusals::Row;
use super::world::{A, B};

/// The first policy that refuses it says why.
const REFUSED: &str = "denied request";

pub(super) fn other_names() -> Vec<Row> {
    use Verb::{Delete, Merge, Post, Strategic};
    let said = || status(json!({ "message": "x" }));
    let condition = |type_: &str| status(json!({ "conditions": [condition(type_, "False")] }));
    let node = |name: &str| format!("/api/v1/nodes/{name}");
    let mut rows = Vec::new();
    // Those of an agent with a token, whatever it is called.
    for who in [Who::Moved, Who::Renamed] {
        rows.extend([
            (who, Merge, core("pods/mine"), labelled("berth.dev/l"), REFUSED),
            (who, Merge, core("pods/theirs"), labelled("app"), REFUSED),
            (who, Merge, core("pods/theirs"), annotated("apps.kruise.io/inplace-update-state"), REFUSED),
            (who, Strategic, core("pods/theirs"), pod_image("registry.example/x:1"), REFUSED),
            (who, Strategic, core("pods/theirs/status"), condition("KruisePodReady"), REFUSED),
            (who, Merge, node(A), labelled("berth.dev/order"), REFUSED),
            (who, Merge, node(B), labelled("l"), REFUSED),
        ]);
    }
    // Those of both identities of an agent. The last two have no rights on pods.
    for who in [Who::Moved, Who::Renamed, Who::InGroup, Who::ByName] {
        rows.extend([
            (who, Merge, request("/mine/status"), said(), REFUSED),
            (who, Merge, request("/theirs/status"), said(), REFUSED),
            (who, Delete, request("/mine-done"), Value::Null, REFUSED),
            (who, Merge, update("/mine/status"), status(json!({ "phase": "RollingBack" })), REFUSED),
            (who, Delete, update("/theirs-done"), Value::Null, REFUSED),
            (who, Post, cluster("nodeimages"), object("NodeImage", A, Value::Null), REFUSED),
            (who, Post, cluster("nodepodprobes"), object("NodePodProbe", "node-c", Value::Null), REFUSED),
            (
                who,
                Merge,
                cluster(&format!("nodeimages/{A}/status")),
                status(json!({ "pulling": 2 })),
                REFUSED,
            ),
            (
                who,
                Merge,
                cluster(&format!("nodepodprobes/{B}/status")),
                status(json!({ "conditions": [] })),
                REFUSED,
            ),
            (who, Merge, pod_update(&format!("/{A}/status")), status(json!({ "conditions": [] })), REFUSED),
        ]);
    }
    rows.extend([
        (Who::Local, Merge, core("pods/mine"), labelled("berth.dev/l"), REFUSED),
        (Who::Local, Strategic, core("pods/theirs"), pod_image("registry.example/x:1"), REFUSED),
        (Who::Local, Merge, request("/mine/status"), said(), REFUSED),
        (Who::Local, Delete, update("/mine-done"), Value::Null, REFUSED),
    ]);
    for who in [Who::InGroup, Who::ByName] {
        rows.push((who, Post, events(), event("x", A), REFUSED));
    }
    let manager = Who::MovedManager;
    rows.extend([
        (manager, Merge, request("/new/status"), status(json!({ "nodeName": A })), REFUSED),
        (manager, Merge, update("/new/status"), status(json!({ "nodeName": A })), REFUSED),
        (
            manager,
            Merge,
            cluster(&format!("nodeimages/{B}/status")),
            status(json!({ "desiredImages": [] })),
            REFUSED,
        ),
        (
            manager,
            Merge,
            cluster(&format!("nodepodprobes/{B}/status")),
            status(json!({ "desiredPodProbes": [] })),
            REFUSED,
        ),
        (manager, Merge, kruise("imagepulljobs/job/status"), status(json!({ "desired": 9 })), REFUSED),
        (
            manager,
            Merge,
            kruise("podprobemarkers/marker/status"),
            status(json!({ "matchedPods": 9 })),
            REFUSED,
        ),
        (manager, Delete, kruise("imagepulljobs/done"), Value::Null, REFUSED),
    ]);
    rows
}
