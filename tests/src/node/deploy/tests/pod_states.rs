//! The optional maker of PersistentPodStates: its rights are in a piece of its own, and a policy keeps it to
//! those that a StatefulSet decides on.

use super::*;

#[test]
fn the_piece_has_its_own_rights_and_switch() {
    let [cluster] = &all::<ClusterRole>("podstates/role.yaml", "ClusterRole")[..] else {
        panic!("one ClusterRole")
    };
    let granted = grants(&cluster.name_any(), cluster.rules.clone());
    let writes = granted.iter().filter(|grant| !READS.contains(&verb(grant)));
    let writes: BTreeSet<&str> = writes.map(|grant| grant.split_once(": ").unwrap().1).collect();
    let expected =
        ["create", "delete", "patch"].map(|verb| format!("{verb} apps.kruise.io/persistentpodstates"));
    assert_eq!(writes, expected.iter().map(String::as_str).collect());
    let text = std::fs::read_to_string(path("podstates/kustomization.yaml")).unwrap();
    assert!(text.contains("value: --pod-states\n"), "{text}");
}

#[test]
fn its_policy_is_about_what_the_other_one_leaves() {
    let (own, left) = own_and_left("podstates", "pod-states");
    assert_eq!(left, format!("!({own})"));
}
