//! The optional controllers of jobs: each has its rights in a piece of its own, and one policy is about both.

use super::*;

/// Pieces, and what each of them writes beside what the program writes anyway.
const PIECES: [(&str, &[&str]); 2] = [
    (
        "broadcastjobs",
        &[
            "create /pods",
            "delete /pods",
            "delete apps.kruise.io/broadcastjobs",
            "patch apps.kruise.io/broadcastjobs/status",
            "update apps.kruise.io/broadcastjobs/finalizers",
        ],
    ),
    (
        "cronjobs",
        &[
            "create apps.kruise.io/broadcastjobs",
            "create batch/jobs",
            "delete apps.kruise.io/broadcastjobs",
            "delete batch/jobs",
            "patch apps.kruise.io/advancedcronjobs/status",
            "update apps.kruise.io/advancedcronjobs/finalizers",
        ],
    ),
];

fn granted(piece: &str) -> Vec<String> {
    let role = format!("jobs/{piece}/role.yaml");
    let [cluster] = &all::<ClusterRole>(&role, "ClusterRole")[..] else { panic!("one ClusterRole") };
    let [binding] = &all::<ClusterRoleBinding>(&role, "ClusterRoleBinding")[..] else {
        panic!("one binding")
    };
    assert_eq!(binding.role_ref.name, cluster.name_any());
    let subject = &binding.subjects.as_ref().unwrap()[0];
    let account = (subject.name.as_str(), subject.namespace.as_deref());
    assert_eq!(account, ("berth-workloads", Some("berth-system")));
    grants(&cluster.name_any(), cluster.rules.clone())
}

#[test]
fn each_piece_has_its_own_rights_and_switch() {
    for (piece, expected) in PIECES {
        let granted = granted(piece);
        let writes = granted.iter().filter(|grant| !READS.contains(&verb(grant)));
        let writes: BTreeSet<&str> = writes.map(|grant| grant.split_once(": ").unwrap().1).collect();
        assert_eq!(writes, expected.iter().copied().collect(), "{piece}");
        assert!(granted.iter().all(|grant| !grant.contains("secrets") && !grant.contains('*')));
        let text = std::fs::read_to_string(path(&format!("jobs/{piece}/kustomization.yaml"))).unwrap();
        assert!(text.contains(&format!("value: --{piece}\n")), "{text}");
    }
    let whole = std::fs::read_to_string(path("jobs/kustomization.yaml")).unwrap();
    let whole: Value = serde_saphyr::from_str(&whole).unwrap();
    assert_eq!(whole["components"], serde_json::json!(["broadcastjobs", "cronjobs"]));
}

#[test]
fn their_policy_lists_what_the_pieces_grant_and_is_about_what_the_other_one_leaves() {
    let [policy] = &all::<ValidatingAdmissionPolicy>("jobs/policy.yaml", "ValidatingAdmissionPolicy")[..]
    else {
        panic!("one policy")
    };
    let granted = PIECES.into_iter().flat_map(|(piece, _)| granted(piece));
    let writes = granted.filter(|grant| !READS.contains(&verb(grant)) && !grant.ends_with("/finalizers"));
    assert_eq!(closed_list(policy), writes.map(|grant| admitted(&grant)).collect());
    assert_eq!(policy.spec.as_ref().unwrap().failure_policy.as_deref(), Some("Fail"));
    let [binding] =
        &all::<ValidatingAdmissionPolicyBinding>("jobs/policy.yaml", "ValidatingAdmissionPolicyBinding")[..]
    else {
        panic!("one binding")
    };
    let binding = binding.spec.as_ref().unwrap();
    assert_eq!(binding.policy_name, policy.metadata.name);
    assert_eq!(binding.validation_actions.as_deref(), Some(&["Deny".to_owned()][..]));
    // One condition, there as it is and here the contrary.
    let conditions = policy.spec.as_ref().unwrap().match_conditions.as_ref().unwrap();
    let own = &conditions.iter().find(|one| one.name == "jobs").unwrap().expression;
    let whole = std::fs::read_to_string(path("jobs/kustomization.yaml")).unwrap();
    let whole: Value = serde_saphyr::from_str(&whole).unwrap();
    let patch: Value = serde_saphyr::from_str(whole["patches"][0]["patch"].as_str().unwrap()).unwrap();
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    assert_eq!(words(patch[0]["value"]["expression"].as_str().unwrap()), format!("!({})", words(own)));
}
