//! The optional distribution: the one identity with rights on Secrets, its policy, its Deployment.

use super::*;

fn granted() -> Vec<String> {
    let cluster = all::<ClusterRole>("distribution", "ClusterRole");
    assert_eq!(cluster.len(), 1);
    let cluster = cluster.into_iter().flat_map(|role| grants(&role.name_any(), role.rules));
    let local = all::<Role>("distribution", "Role");
    cluster.chain(local.into_iter().flat_map(|role| grants(&role.name_any(), role.rules))).collect()
}

#[test]
fn it_writes_copies_its_status_and_nothing_else() {
    let granted = granted();
    let writes = granted.iter().filter(|grant| !READS.contains(&verb(grant)));
    let writes: BTreeSet<&str> = writes.map(|grant| grant.split_once(": ").unwrap().1).collect();
    let expected = [
        "create /configmaps",
        "create /secrets",
        "create coordination.k8s.io/leases",
        "create events.k8s.io/events",
        "delete /configmaps",
        "delete /secrets",
        "patch apps.kruise.io/resourcedistributions/status",
        "update /configmaps",
        "update /secrets",
        "update apps.kruise.io/resourcedistributions/finalizers",
        "update coordination.k8s.io/leases only berth-distribution",
    ];
    assert_eq!(writes, expected.into());
    assert!(granted.iter().all(|grant| !grant.contains('*')));
}

#[test]
fn its_policy_lists_what_its_role_grants() {
    let [policy] = &all::<ValidatingAdmissionPolicy>("distribution", "ValidatingAdmissionPolicy")[..] else {
        panic!("one policy")
    };
    let granted = granted();
    let granted =
        granted.iter().filter(|grant| !READS.contains(&verb(grant)) && !grant.ends_with("/finalizers"));
    assert_eq!(closed_list(policy), granted.map(|grant| admitted(grant)).collect());
    assert_eq!(policy.spec.as_ref().unwrap().failure_policy.as_deref(), Some("Fail"));
    let bindings =
        all::<ValidatingAdmissionPolicyBinding>("distribution", "ValidatingAdmissionPolicyBinding");
    let binding = bindings[0].spec.as_ref().unwrap();
    assert_eq!(binding.policy_name, policy.metadata.name);
    assert_eq!(binding.validation_actions.as_deref(), Some(&["Deny".to_owned()][..]));
    let account = &all::<ServiceAccount>("distribution", "ServiceAccount")[0];
    let name = format!("system:serviceaccount:{}:{}", account.namespace().unwrap(), account.name_any());
    assert!(serde_json::to_string(policy).unwrap().contains(&format!("'{name}'")), "it is about {name}");
}

#[test]
fn it_does_nothing_else_and_its_token_ends() {
    let [deployment] = &all::<Deployment>("distribution", "Deployment")[..] else { panic!("one Deployment") };
    let pod = pod_spec(deployment.spec.clone().unwrap().template);
    assert_eq!(pod.service_account_name.as_deref(), Some("berth-distribution"));
    assert_eq!(pod.automount_service_account_token, Some(false));
    assert_eq!(pod.security_context.unwrap().run_as_non_root, Some(true));
    let container = &pod.containers[0];
    let args = container.args.clone().unwrap();
    for arg in ["--resource-distributions", "--lease-name=berth-distribution"] {
        assert!(args.iter().any(|given| given == arg), "{args:?}");
    }
    assert_eq!(container.security_context.as_ref().unwrap().allow_privilege_escalation, Some(false));
    let sources = pod.volumes.iter().flatten().filter_map(|volume| volume.projected.as_ref());
    let sources = sources.flat_map(|projected| projected.sources.iter().flatten());
    let tokens: Vec<_> =
        sources.filter_map(|source| source.service_account_token.as_ref()?.expiration_seconds).collect();
    assert_eq!(tokens, [3600]);
}
