//! The optional controller of UnitedDeployments: its rights and its policy are a piece of their own.

use super::*;

const ROLE: &str = "uniteddeployments/role.yaml";
const POLICY: &str = "uniteddeployments/policy.yaml";

/// Writes beside those of the program itself.
const WRITES: [&str; 18] = [
    "create apps.kruise.io/clonesets",
    "create apps.kruise.io/statefulsets",
    "create apps/controllerrevisions",
    "create apps/deployments",
    "create apps/statefulsets",
    "delete /pods",
    "delete apps.kruise.io/clonesets",
    "delete apps.kruise.io/statefulsets",
    "delete apps/controllerrevisions",
    "delete apps/deployments",
    "delete apps/statefulsets",
    "patch apps.kruise.io/uniteddeployments/status",
    "patch apps/controllerrevisions",
    "update apps.kruise.io/clonesets",
    "update apps.kruise.io/statefulsets",
    "update apps.kruise.io/uniteddeployments/finalizers",
    "update apps/deployments",
    "update apps/statefulsets",
];

fn granted() -> Vec<String> {
    let [cluster] = &all::<ClusterRole>(ROLE, "ClusterRole")[..] else { panic!("one ClusterRole") };
    let [binding] = &all::<ClusterRoleBinding>(ROLE, "ClusterRoleBinding")[..] else { panic!("one binding") };
    assert_eq!(binding.role_ref.name, cluster.name_any());
    let subject = &binding.subjects.as_ref().unwrap()[0];
    let account = (subject.name.as_str(), subject.namespace.as_deref());
    assert_eq!(account, ("berth-workloads", Some("berth-system")));
    grants(&cluster.name_any(), cluster.rules.clone())
}

fn component() -> Value {
    let text = std::fs::read_to_string(path("uniteddeployments/kustomization.yaml")).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

#[test]
fn it_has_its_own_rights_and_switch() {
    let granted = granted();
    let writes = granted.iter().filter(|grant| !READS.contains(&verb(grant)));
    let writes: BTreeSet<&str> = writes.map(|grant| grant.split_once(": ").unwrap().1).collect();
    assert_eq!(writes, WRITES.into());
    assert!(granted.iter().all(|grant| !grant.contains("secrets") && !grant.contains('*')));
    let switch = component()["patches"][0]["patch"].as_str().unwrap().to_owned();
    assert!(switch.contains("value: --united-deployments"), "{switch}");
}

#[test]
fn its_policy_lists_what_it_is_granted_and_is_about_what_the_other_one_leaves() {
    let [policy] = &all::<ValidatingAdmissionPolicy>(POLICY, "ValidatingAdmissionPolicy")[..] else {
        panic!("one policy")
    };
    let granted = granted();
    let writes =
        granted.iter().filter(|grant| !READS.contains(&verb(grant)) && !grant.ends_with("/finalizers"));
    assert_eq!(closed_list(policy), writes.map(|grant| admitted(grant)).collect());
    assert_eq!(policy.spec.as_ref().unwrap().failure_policy.as_deref(), Some("Fail"));
    let [binding] = &all::<ValidatingAdmissionPolicyBinding>(POLICY, "ValidatingAdmissionPolicyBinding")[..]
    else {
        panic!("one binding")
    };
    let binding = binding.spec.as_ref().unwrap();
    assert_eq!(binding.policy_name, policy.metadata.name);
    assert_eq!(binding.validation_actions.as_deref(), Some(&["Deny".to_owned()][..]));
    // One condition, there as it is and here the contrary.
    let conditions = policy.spec.as_ref().unwrap().match_conditions.as_ref().unwrap();
    let own = &conditions.iter().find(|one| one.name == "united-deployments").unwrap().expression;
    let patch = component()["patches"][1]["patch"].as_str().unwrap().to_owned();
    let patch: Value = serde_saphyr::from_str(&patch).unwrap();
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    assert_eq!(words(patch[0]["value"]["expression"].as_str().unwrap()), format!("!({})", words(own)));
}
