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
    let (own, left) = own_and_left("spreads", "spreads");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    assert_eq!(words(&left), format!("!({})", words(&own)));
}
