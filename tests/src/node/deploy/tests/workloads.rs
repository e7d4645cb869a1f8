//! The optional workloads: their role, their policy, their Deployment.

use super::*;

fn granted() -> Vec<String> {
    let [cluster] = &all::<ClusterRole>("workloads", "ClusterRole")[..] else { panic!("one ClusterRole") };
    let [local] = &all::<Role>("workloads", "Role")[..] else { panic!("one Role") };
    let mut all = grants(&cluster.name_any(), cluster.rules.clone());
    all.extend(grants(&local.name_any(), local.rules.clone()));
    all
}

#[test]
fn the_workloads_write_this_and_nothing_else() {
    let granted = granted();
    let writes: BTreeSet<&str> = granted
        .iter()
        .filter(|grant| !READS.contains(&verb(grant)))
        .map(|grant| grant.split_once(": ").unwrap().1)
        .collect();
    let expected = [
        "create /persistentvolumeclaims",
        "create /pods",
        "create apps.kruise.io/imagepulljobs",
        "create apps/controllerrevisions",
        "create coordination.k8s.io/leases",
        "create events.k8s.io/events",
        "delete /persistentvolumeclaims",
        "delete /pods",
        "delete apps.kruise.io/imagepulljobs",
        "delete apps/controllerrevisions",
        "patch /persistentvolumeclaims",
        "patch /pods",
        "patch /pods/status",
        "patch apps.kruise.io/clonesets",
        "patch apps.kruise.io/clonesets/status",
        "patch apps.kruise.io/daemonsets/status",
        "patch apps.kruise.io/statefulsets/status",
        "patch apps/controllerrevisions",
        "patch berth.dev/nodepodupdates/status",
        "update apps.kruise.io/clonesets/finalizers",
        "update apps.kruise.io/daemonsets/finalizers",
        "update apps.kruise.io/sidecarsets/finalizers",
        "update apps.kruise.io/statefulsets/finalizers",
        "update coordination.k8s.io/leases only berth-workloads",
        "write berth.dev/statuses only nodepodupdates",
    ];
    assert_eq!(writes, expected.into());
    assert!(granted.iter().all(|grant| !grant.contains("secrets") && !grant.contains('*')));
}

#[test]
fn their_policy_lists_what_their_role_grants() {
    let [policy] = &all::<ValidatingAdmissionPolicy>("workloads", "ValidatingAdmissionPolicy")[..] else {
        panic!("one policy")
    };
    // The API server and a policy only ask for these rights, and nothing is written by them.
    let of_owners =
        |grant: &&String| grant.ends_with("sets/finalizers") || grant.contains(" berth.dev/statuses");
    let granted = granted();
    let granted = granted.iter().filter(|grant| !READS.contains(&verb(grant)) && !of_owners(grant));
    assert_eq!(closed_list(policy), granted.map(|grant| admitted(grant)).collect());
    assert_eq!(policy.spec.as_ref().unwrap().failure_policy.as_deref(), Some("Fail"));
    let bindings = all::<ValidatingAdmissionPolicyBinding>("workloads", "ValidatingAdmissionPolicyBinding");
    let binding = bindings[0].spec.as_ref().unwrap();
    assert_eq!(binding.policy_name, policy.metadata.name);
    assert_eq!(binding.validation_actions.as_deref(), Some(&["Deny".to_owned()][..]));
    let account = &all::<ServiceAccount>("workloads", "ServiceAccount")[0];
    let name = format!("system:serviceaccount:{}:{}", account.namespace().unwrap(), account.name_any());
    assert!(serde_json::to_string(policy).unwrap().contains(&format!("'{name}'")), "it is about {name}");
}

#[test]
fn they_are_restricted_and_their_token_ends() {
    let [deployment] = &all::<Deployment>("workloads", "Deployment")[..] else { panic!("one Deployment") };
    let pod = pod_spec(deployment.spec.clone().unwrap().template);
    assert_eq!(pod.service_account_name.as_deref(), Some("berth-workloads"));
    assert_eq!(pod.automount_service_account_token, Some(false));
    assert_eq!(pod.security_context.unwrap().run_as_non_root, Some(true));
    let security = pod.containers[0].security_context.clone().unwrap();
    assert_eq!(security.allow_privilege_escalation, Some(false));
    assert_eq!(security.capabilities.unwrap().drop.unwrap(), ["ALL"]);
    let sources = pod.volumes.iter().flatten().filter_map(|volume| volume.projected.as_ref());
    let sources = sources.flat_map(|projected| projected.sources.iter().flatten());
    let tokens: Vec<_> =
        sources.filter_map(|source| source.service_account_token.as_ref()?.expiration_seconds).collect();
    assert_eq!(tokens, [3600]);
}
