//! Order of the writes of a part: what could not be written comes last.

use std::collections::BTreeSet;

use berth_workloads_policy::action::Action;
use serde_json::Value;

/// Puts what is about these behind all others: a pod with the claims that follow it, or a new one with those
/// that come before it.
pub(super) fn last(actions: Vec<Action>, put_off: &BTreeSet<String>) -> Vec<Action> {
    let is_off = |unit: &Vec<Action>| key(unit).is_some_and(|key| put_off.contains(key));
    let (last, first): (Vec<_>, Vec<_>) = units(actions).into_iter().partition(is_off);
    first.into_iter().chain(last).flatten().collect()
}

/// Puts together what is written together or not at all: a new pod with the claims that come before it, a pod
/// that is there with the claims that follow it, and new claims of one pod that is there.
pub(super) fn units(actions: Vec<Action>) -> Vec<Vec<Action>> {
    let mut units: Vec<Vec<Action>> = Vec::new();
    for action in actions {
        let joins = units.last().is_some_and(|unit| match (unit.as_slice(), &action) {
            ([.., Action::CreateClaim(claim)], Action::CreateClaim(next)) => end(claim) == end(next),
            ([.., Action::CreateClaim(claim)], Action::CreatePod(pod)) => {
                end(claim) == end(pod) || mounts(pod, claim["metadata"]["name"].as_str())
            }
            ([first, ..], action) => first.pod().is_some() && is_of_claim(action),
            ([], _) => false,
        });
        match units.last_mut().filter(|_| joins) {
            Some(unit) => unit.push(action),
            None => units.push(vec![action]),
        }
    }
    units
}

/// Key of what is written together: that of the pod, if there is one.
pub(super) fn key(unit: &[Action]) -> Option<&str> {
    let is_pod = |action: &&Action| action.pod().is_some() || matches!(action, Action::CreatePod(_));
    unit.iter().find(is_pod).or(unit.first())?.key()
}

/// Number or instance at the end of the name of a pod, or of a claim.
fn end(object: &Value) -> Option<&str> {
    object["metadata"]["name"].as_str()?.rsplit_once('-').map(|(_, end)| end)
}

/// Tells whether a pod mounts a claim: it has the name of another instance where that of its own is taken.
fn mounts(pod: &Value, claim: Option<&str>) -> bool {
    let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    claim.is_some() && volumes.any(|one| one["persistentVolumeClaim"]["claimName"].as_str() == claim)
}

/// Tells whether it is about a claim that is there: that of the pod before it, if there is one.
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
            (vec![claim("a-db-7"), delete("x"), claim("a-db-8")], "+a-db-7 -x +a-db-8"),
            // Claims of pods that are there.
            (
                vec![claim("a-db-9"), claim("b-db-9"), claim("a-db-8"), new("db-7")],
                "+a-db-8 +db-7 +a-db-9 +b-db-9",
            ),
            (vec![end("c"), end("d"), delete("x"), end("c")], "-d -x -c -c"),
            (vec![claim("a-db-7"), delete("p"), end("of-p"), delete("x")], "+a-db-7 -x -p -of-p"),
            (vec![delete("p"), claim("a-db-1"), end("first"), new("db-1")], "+a-db-1 -first +db-1 -p"),
            (
                vec![tied("a-vbnmq", "n-1"), tied("a-bcdfg", "n-0"), tied("a-n-1", "n-2")],
                "+a-bcdfg +a-n-1 +a-vbnmq",
            ),
            (vec![new("shop-bcdfg"), new("shop-zzzzz")], "+shop-bcdfg +shop-zzzzz"),
        ];
        let put_off = ["db-0", "p", "n-1", "a-n-1", "shop-bcdfg", "a-db-9", "c"].map(str::to_owned).into();
        for (actions, wanted) in table {
            assert_eq!(shown(&last(actions, &put_off)), wanted);
        }
    }

    #[test]
    fn what_belongs_together() {
        let delete = |name: &str| Action::DeletePod(target(name));
        let end = |name: &str| Action::DeleteClaim(target(name));
        let mut other = json!({ "metadata": { "name": "shop-zzzzz" } });
        other["spec"]["volumes"] = json!([{ "persistentVolumeClaim": { "claimName": "a-shop-bcdfg" } }]);
        let table = [
            // The pod of the first claim is there, and waits for it.
            (vec![claim("a-db-1"), new("db-5")], "+a-db-1 | +db-5"),
            (vec![claim("a-db-1"), claim("a-db-2"), claim("b-db-2")], "+a-db-1 | +a-db-2 +b-db-2"),
            (
                vec![claim("a-db-1"), claim("a-db-2"), new("db-2"), new("db-3")],
                "+a-db-1 | +a-db-2 +db-2 | +db-3",
            ),
            (vec![claim("a-shop-bcdfg"), Action::CreatePod(other)], "+a-shop-bcdfg +shop-zzzzz"),
            (vec![delete("p"), end("c"), end("d"), delete("q")], "-p -c -d | -q"),
            (vec![end("c"), end("d")], "-c | -d"),
            (vec![], ""),
        ];
        for (actions, wanted) in table {
            let units: Vec<String> = units(actions).iter().map(|unit| shown(unit)).collect();
            assert_eq!(units.join(" | "), wanted);
        }
    }

    #[test]
    fn a_new_pod_is_known_again_by_its_node_or_its_number() {
        let table = [
            (tied("a-bcdfg", "n-1"), Some("n-1")),
            (new("db-0"), Some("db-0")),
            (new("shop-bcdfg"), None),
            (claim("data-db-0"), Some("data-db-0")),
            (Action::DeleteClaim(target("c")), Some("c")),
            (Action::DeletePod(target("p")), Some("p")),
        ];
        for (action, known) in table {
            assert_eq!(action.key(), known, "{action:?}");
        }
    }
}
