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
    let file = "marker-finalizers/policy.yaml";
    let [policy] = &all::<ValidatingAdmissionPolicy>(file, "ValidatingAdmissionPolicy")[..] else {
        panic!("one policy")
    };
    let spec = policy.spec.as_ref().unwrap();
    assert_eq!(spec.failure_policy.as_deref(), Some("Fail"));
    let conditions = spec.match_conditions.as_ref().unwrap();
    let own = &conditions.iter().find(|one| one.name == "marker-finalizers").unwrap().expression;
    let whole = std::fs::read_to_string(path("marker-finalizers/kustomization.yaml")).unwrap();
    let whole: Value = serde_saphyr::from_str(&whole).unwrap();
    let patch: Value = serde_saphyr::from_str(whole["patches"][1]["patch"].as_str().unwrap()).unwrap();
    assert_eq!(patch[0]["value"]["expression"].as_str().unwrap(), format!("!({own})"));
}
