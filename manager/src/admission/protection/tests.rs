use rstest::rstest;
use serde_json::json;

use super::*;

fn message(verdict: Verdict) -> String {
    match verdict {
        Verdict::Refused { code: 403, reason: "Forbidden", message } => message,
        Verdict::Allowed { object: None, .. } => String::new(),
        other => panic!("{other:?}"),
    }
}

#[rstest]
#[case::cascading(json!({"labels": {LABEL: "Cascading"}}), true)]
#[case::always_is_the_policys(json!({"labels": {LABEL: "Always"}}), false)]
#[case::another_value(json!({"labels": {LABEL: "cascading"}}), false)]
#[case::no_label(json!({}), false)]
#[case::is_going(json!({"labels": {LABEL: "Cascading"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}), false)]
fn only_what_is_protected_is_counted(#[case] metadata: Value, #[case] counted: bool) {
    let request = Request { old_object: json!({ "metadata": metadata }), ..Request::default() };
    assert_eq!(asks(&request), counted);
}

#[rstest]
#[case::empty(Counted::Some(0), Counted::Some(0), "")]
#[case::pods(
    Counted::Some(2),
    Counted::Some(0),
    "forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Cascading and active pods 2>0"
)]
#[case::claims(
    Counted::Some(0),
    Counted::Some(1),
    "forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Cascading and \"Bound\" status pvc 1>0"
)]
#[case::unknown(Counted::Unknown("no answer".into()), Counted::Some(0),
    "forbidden by ResourcesProtectionDeletion for list pods error: no answer")]
#[case::no_right(
    Counted::Some(0),
    Counted::Forbidden,
    "forbidden by ResourcesProtectionDeletion for list pvc error: the manager may not; apply deploy/rbac"
)]
fn a_namespace(#[case] pods: Counted, #[case] claims: Counted, #[case] says: &str) {
    assert_eq!(message(namespace(pods, claims)), says);
}

#[rstest]
#[case::none("games.example.com", Counted::Some(0), "")]
#[case::some(
    "games.example.com",
    Counted::Some(3),
    "forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Cascading and active CRs 3>0"
)]
#[case::unknown("games.example.com", Counted::Unknown("x".into()), "forbidden by ResourcesProtectionDeletion, failed to list CRs of games.example.com: x")]
#[case::no_right(
    "games.example.com",
    Counted::Forbidden,
    "forbidden by ResourcesProtectionDeletion, failed to list CRs of games.example.com: the manager may not; let it, or take the label \
     policy.kruise.io/delete-protection: kubectl create clusterrole berth-counts-games.example.com --verb=list \
     --resource=games.example.com && kubectl create clusterrolebinding berth-counts-games.example.com \
     --clusterrole=berth-counts-games.example.com --serviceaccount=berth-system:berth-manager"
)]
#[case::no_command_of_any_text(
    "$(x)",
    Counted::Forbidden,
    "forbidden by ResourcesProtectionDeletion, failed to list CRs of $(x): the manager may not; let it, or take the label policy.kruise.io/delete-protection"
)]
fn a_definition(#[case] name: &str, #[case] counted: Counted, #[case] says: &str) {
    assert_eq!(message(definition(name, counted, "berth-system:berth-manager")), says);
}

fn versions(served: [bool; 2], established: &str) -> Value {
    json!({
        "spec": {
            "group": "example.com", "names": {"kind": "Game", "plural": "games"},
            "versions": [
                {"name": "v1alpha1", "served": served[0], "storage": false},
                {"name": "v1", "served": served[1], "storage": true},
            ],
        },
        "status": {"conditions": [{"type": "Established", "status": established}]},
    })
}

#[rstest]
#[case::stored_version([true, true], "example.com/v1")]
#[case::another_version([true, false], "example.com/v1alpha1")]
fn custom_resources_are_listed_as_they_are_served(#[case] served: [bool; 2], #[case] version: &str) {
    let Resources::Served(found) = resources(&versions(served, "True")) else { panic!("not served") };
    assert_eq!(
        (found.api_version.as_str(), found.plural.as_str(), found.kind.as_str()),
        (version, "games", "Game")
    );
}

#[test]
fn some_cannot_be_listed() {
    assert!(matches!(resources(&versions([false, false], "True")), Resources::Hidden));
    assert!(matches!(resources(&versions([true, true], "False")), Resources::None));
    assert!(message(hidden("games.example.com")).contains("serve one, or take the label"));
}

/// Kinds of Kubernetes itself, and paths, are no custom resources.
#[rstest]
#[case::no_group("/spec/group", "")]
#[case::of_kubernetes("/spec/group", "apps")]
#[case::another_path("/spec/group", "example.com/v1/../..")]
#[case::no_plural("/spec/names/plural", "")]
#[case::a_question("/spec/names/plural", "games?labelSelector=a")]
#[case::a_version("/spec/versions/1/name", "..")]
fn nothing_else_is_listed(#[case] pointer: &str, #[case] text: &str) {
    let mut definition = versions([true, true], "True");
    *definition.pointer_mut(pointer).unwrap() = text.into();
    assert!(matches!(resources(&definition), Resources::Hidden));
}
