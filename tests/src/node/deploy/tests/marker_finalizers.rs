//! The optional finalizer of PodProbeMarkers: its rights are in a piece of their own, and a policy keeps them
//! to this finalizer.

use super::*;

#[test]
fn the_piece_has_its_own_rights_and_switch() {
    let [cluster] = &all::<ClusterRole>("marker-finalizers/role.yaml", "ClusterRole")[..] else {
        panic!("one ClusterRole")
    };
    let granted = grants(&cluster.name_any(), cluster.rules.clone());
    let granted: BTreeSet<&str> = granted.iter().map(|grant| grant.split_once(": ").unwrap().1).collect();
    let expected = [
        "list apps.kruise.io/nodepodprobes",
        "list apps.kruise.io/podprobemarkers",
        "patch apps.kruise.io/podprobemarkers",
        "watch apps.kruise.io/nodepodprobes",
        "watch apps.kruise.io/podprobemarkers",
    ];
    assert_eq!(granted, expected.into());
    let text = std::fs::read_to_string(path("marker-finalizers/kustomization.yaml")).unwrap();
    assert!(text.contains("value: --marker-finalizers\n"), "{text}");
}

#[test]
fn its_policy_is_about_what_the_other_one_leaves() {
    let (own, left) = own_and_left("marker-finalizers", "marker-finalizers");
    assert_eq!(left, format!("!({own})"));
}
