//! The optional controller of WorkloadSpreads: its rights are in a piece of its own, and a policy keeps it to
//! two annotations of pods, and to pods without a node.

use super::*;

#[test]
fn the_piece_has_its_own_rights_and_switch() {
    let [cluster] = &all::<ClusterRole>("spreads/role.yaml", "ClusterRole")[..] else {
        panic!("one ClusterRole")
    };
    let granted = grants(&cluster.name_any(), cluster.rules.clone());
    let writes = granted.iter().filter(|grant| !READS.contains(&verb(grant)));
    let writes: BTreeSet<&str> = writes.map(|grant| grant.split_once(": ").unwrap().1).collect();
    assert_eq!(writes, BTreeSet::from(["delete /pods", "patch /pods"]));
    assert!(granted.iter().all(|grant| !grant.contains("secrets") && !grant.contains('*')));
    let text = std::fs::read_to_string(path("spreads/kustomization.yaml")).unwrap();
    assert!(text.contains("value: --spreads\n"), "{text}");
}

#[test]
fn its_policy_is_about_what_the_other_one_leaves() {
    let file = "spreads/policy.yaml";
    let [policy] = &all::<ValidatingAdmissionPolicy>(file, "ValidatingAdmissionPolicy")[..] else {
        panic!("one policy")
    };
    let spec = policy.spec.as_ref().unwrap();
    assert_eq!(spec.failure_policy.as_deref(), Some("Fail"));
    let conditions = spec.match_conditions.as_ref().unwrap();
    let own = &conditions.iter().find(|one| one.name == "spreads").unwrap().expression;
    let whole = std::fs::read_to_string(path("spreads/kustomization.yaml")).unwrap();
    let whole: Value = serde_saphyr::from_str(&whole).unwrap();
    let patch: Value = serde_saphyr::from_str(whole["patches"][1]["patch"].as_str().unwrap()).unwrap();
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    let other = words(patch[0]["value"]["expression"].as_str().unwrap());
    assert_eq!(other, format!("!({})", words(own)));
}
