//! Order of the writes of a part: what has kept others from being written comes last.

use std::collections::BTreeSet;

use berth_workloads_policy::action::Action;
use serde_json::Value;

use crate::kinds::is_number;

/// Node of a pod that is for one node, and waits for the scheduler to see to it.
const TIED_TO: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0\
                       /matchFields/0";

/// Puts what is about these behind all others: a pod with the claims that follow it, or a new one with those
/// that come before it.
pub(super) fn last(actions: Vec<Action>, put_off: &BTreeSet<String>) -> Vec<Action> {
    let mut is_off = false;
    let (mut first, mut last, mut claims) = (Vec::new(), Vec::new(), Vec::new());
    for action in actions {
        if matches!(action, Action::CreateClaim(_)) {
            is_off = false;
            claims.push(action);
            continue;
        }
        is_off = match key(&action) {
            Some(key) => put_off.contains(key),
            None => is_off && is_of_claim(&action),
        };
        if is_off && matches!(action, Action::CreatePod(_)) {
            last.append(&mut claims);
        } else {
            first.append(&mut claims);
        }
        if is_off { last.push(action) } else { first.push(action) }
    }
    first.append(&mut claims);
    first.append(&mut last);
    first
}

/// Names what an action is about in a later plan too: the UID of a pod that is there; of a new one its node,
/// or its name where that has a number and comes again. Any other name is new each time.
pub(super) fn key(action: &Action) -> Option<&str> {
    let Action::CreatePod(object) = action else { return pod(action) };
    if let Some(field) = object.pointer(TIED_TO).filter(|field| field["key"] == "metadata.name") {
        return field.pointer("/values/0").and_then(Value::as_str);
    }
    let name = object["metadata"]["name"].as_str()?;
    name.rsplit_once('-').filter(|(_, end)| is_number(end)).map(|_| name)
}

/// UID of the one pod that an action is about, if it is there already and the set's.
pub(super) fn pod(action: &Action) -> Option<&str> {
    match action {
        Action::PatchPod(target, _) | Action::PatchPodStatus(target, _) | Action::DeletePod(target) => {
            Some(&target.uid)
        }
        Action::UpdateInPlace(update) => Some(&update.uid),
        Action::ForgetInPlace { uid, .. } => Some(uid),
        _ => None,
    }
}

/// Tells whether it is about a claim that is there, of the pod before it.
pub(super) fn is_of_claim(action: &Action) -> bool {
    matches!(action, Action::DeleteClaim(_) | Action::PatchClaim(..))
}

#[cfg(test)]
mod tests {
    use berth_workloads_policy::action::Target;
    use serde_json::json;

    use super::*;

    fn claim(name: &str) -> Action {
        Action::CreateClaim(json!({ "metadata": { "name": name } }))
    }

    fn new(name: &str) -> Action {
        Action::CreatePod(json!({ "metadata": { "name": name } }))
    }

    fn tied(name: &str, node: &str) -> Action {
        let term = json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] });
        let required = json!({ "nodeSelectorTerms": [term] });
        let affinity =
            json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } });
        Action::CreatePod(json!({ "metadata": { "name": name }, "spec": { "affinity": affinity } }))
    }

    fn target(name: &str) -> Target {
        Target { name: name.to_owned(), uid: name.to_owned(), version: "1".to_owned() }
    }

    fn shown(actions: &[Action]) -> String {
        let name = |action: &Action| match action {
            Action::CreateClaim(object) | Action::CreatePod(object) => {
                format!("+{}", object["metadata"]["name"].as_str().unwrap())
            }
            Action::DeletePod(target) | Action::DeleteClaim(target) => format!("-{}", target.name),
            other => panic!("{other:?}"),
        };
        actions.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_put_off_comes_last_with_its_claims() {
        let delete = |name: &str| Action::DeletePod(target(name));
        let end = |name: &str| Action::DeleteClaim(target(name));
        let table = [
            (vec![new("db-0"), new("db-1"), new("db-2")], "+db-1 +db-2 +db-0"),
            (
                vec![
                    claim("a-db-0"),
                    claim("b-db-0"),
                    new("db-0"),
                    claim("a-db-1"),
                    new("db-1"),
                    delete("x"),
                ],
                "+a-db-1 +db-1 -x +a-db-0 +b-db-0 +db-0",
            ),
            // One whose claims alone are to be made is not put off.
            (vec![claim("a-db-7"), delete("x"), claim("a-db-8")], "+a-db-7 -x +a-db-8"),
            (vec![claim("a-db-7"), delete("p"), end("of-p"), delete("x")], "+a-db-7 -x -p -of-p"),
            (vec![delete("p"), claim("a-db-1"), end("first"), new("db-1")], "+a-db-1 -first +db-1 -p"),
            (
                vec![tied("a-vbnmq", "n-1"), tied("a-bcdfg", "n-0"), tied("a-n-1", "n-2")],
                "+a-bcdfg +a-n-1 +a-vbnmq",
            ),
            (vec![new("shop-bcdfg"), new("shop-zzzzz")], "+shop-bcdfg +shop-zzzzz"),
        ];
        let put_off = ["db-0", "p", "n-1", "a-n-1", "shop-bcdfg"].map(str::to_owned).into();
        for (actions, wanted) in table {
            assert_eq!(shown(&last(actions, &put_off)), wanted);
        }
    }

    #[test]
    fn a_new_pod_is_known_again_by_its_node_or_its_number() {
        let table = [
            (tied("a-bcdfg", "n-1"), Some("n-1")),
            (new("db-0"), Some("db-0")),
            (new("shop-bcdfg"), None),
            (claim("data-db-0"), None),
            (Action::DeletePod(target("p")), Some("p")),
        ];
        for (action, known) in table {
            assert_eq!(key(&action), known, "{action:?}");
        }
    }
}
