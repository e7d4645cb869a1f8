mod counts;
mod distribution;
mod jobs;
mod marker_finalizers;
mod pod_states;
mod pods;
mod samples;
mod spreads;
mod united_deployments;
mod workloads;

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Pod, PodSpec, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use serde::de::DeserializeOwned;

use super::*;

/// Expressions of a piece that takes what the policy of `berth-workloads` leaves: the condition of this name
/// of its own policy, and the one that the piece adds to that policy.
fn own_and_left(piece: &str, condition: &str) -> (String, String) {
    let file = format!("{piece}/policy.yaml");
    let [policy] = &all::<ValidatingAdmissionPolicy>(&file, "ValidatingAdmissionPolicy")[..] else {
        panic!("one policy")
    };
    let spec = policy.spec.as_ref().unwrap();
    assert_eq!(spec.failure_policy.as_deref(), Some("Fail"));
    let conditions = spec.match_conditions.as_ref().unwrap();
    let own = conditions.iter().find(|one| one.name == condition).unwrap().expression.clone();
    let whole = std::fs::read_to_string(path(&format!("{piece}/kustomization.yaml"))).unwrap();
    let whole: Value = serde_saphyr::from_str(&whole).unwrap();
    let patch: Value = serde_saphyr::from_str(whole["patches"][1]["patch"].as_str().unwrap()).unwrap();
    (own, patch[0]["value"]["expression"].as_str().unwrap().to_owned())
}

/// Changes nothing.
const READS: [&str; 3] = ["get", "list", "watch"];

/// Where an OpenKruise is, both of both kinds.
const OPENKRUISE_WEBHOOKS: [&str; 2] = [
    "admissionregistration.k8s.io/mutatingwebhookconfigurations only kruise-mutating-webhook-configuration only kruise-validating-webhook-configuration",
    "admissionregistration.k8s.io/validatingwebhookconfigurations only kruise-mutating-webhook-configuration only kruise-validating-webhook-configuration",
];

/// Rights on nothing that is: policies ask for them to know whom they have before them.
const RIGHTS_OF_POLICIES: [&str; 2] = ["use berth.dev/identities", "write berth.dev/statuses"];

/// All objects of one kind below a file or folder.
fn all<T: DeserializeOwned>(name: &str, kind: &str) -> Vec<T> {
    let objects = objects(name).unwrap().into_iter();
    let of_kind = objects.filter(|object| object.types.as_ref().unwrap().kind == kind);
    of_kind.map(|object| serde_json::from_value(serde_json::to_value(object).unwrap()).unwrap()).collect()
}

/// `role: group/resource` with its verbs and the names it is restricted to, one line for each.
fn grants(role: &str, rules: Option<Vec<PolicyRule>>) -> Vec<String> {
    let mut lines = Vec::new();
    for rule in rules.unwrap() {
        assert!(rule.non_resource_urls.is_none(), "{role}");
        for group in rule.api_groups.as_ref().unwrap() {
            for resource in rule.resources.as_ref().unwrap() {
                for verb in &rule.verbs {
                    let only = rule.resource_names.iter().flatten().map(|name| format!(" only {name}"));
                    lines.push(format!("{role}: {verb} {group}/{resource}{}", only.collect::<String>()));
                }
            }
        }
    }
    lines
}

fn all_grants() -> Vec<String> {
    let cluster = all::<ClusterRole>("rbac", "ClusterRole");
    let cluster = cluster.into_iter().flat_map(|role| grants(&role.name_any(), role.rules));
    let local = all::<Role>("rbac", "Role");
    let local = local.into_iter().flat_map(|role| {
        let name = format!("{} in {}", role.name_any(), role.namespace().unwrap());
        grants(&name, role.rules)
    });
    cluster.chain(local).collect()
}

fn verb(grant: &str) -> &str {
    grant.split_once(": ").unwrap().1.split(' ').next().unwrap()
}

#[test]
fn no_role_knows_secrets_or_wildcards() {
    for grant in all_grants() {
        let own = grant.ends_with(" /secrets only berth-manager-admission");
        assert!(own || !grant.contains("secrets"), "{grant}");
        assert!(!grant.contains('*'), "{grant}");
        let known = ["create", "delete", "get", "list", "patch", "update", "watch"];
        assert!(
            known.contains(&verb(&grant)) || RIGHTS_OF_POLICIES.iter().any(|right| grant.ends_with(right)),
            "{grant}"
        );
    }
}

#[test]
fn roles_write_this_and_nothing_else() {
    let writes: BTreeSet<String> =
        all_grants().into_iter().filter(|grant| !READS.contains(&verb(grant))).collect();
    let expected = [
        "berth-agent: create apps.kruise.io/nodeimages",
        "berth-agent: create apps.kruise.io/nodepodprobes",
        "berth-agent: create berth.dev/nodepodupdates",
        "berth-agent: create events.k8s.io/events",
        "berth-agent: delete apps.kruise.io/containerrecreaterequests",
        "berth-agent: delete berth.dev/containerupdaterequests",
        "berth-agent: patch /nodes",
        "berth-agent: patch /pods",
        "berth-agent: patch /pods/status",
        "berth-agent: patch apps.kruise.io/containerrecreaterequests/status",
        "berth-agent: patch apps.kruise.io/nodeimages",
        "berth-agent: patch apps.kruise.io/nodeimages/status",
        "berth-agent: patch apps.kruise.io/nodepodprobes",
        "berth-agent: patch apps.kruise.io/nodepodprobes/status",
        "berth-agent: patch berth.dev/containerupdaterequests/status",
        "berth-agent: patch berth.dev/nodepodupdates/status",
        "berth-agent: use berth.dev/identities",
        "berth-kubelet: create apps.kruise.io/nodeimages",
        "berth-kubelet: create apps.kruise.io/nodepodprobes",
        "berth-kubelet: create events.k8s.io/events",
        "berth-kubelet: delete apps.kruise.io/containerrecreaterequests",
        "berth-kubelet: delete berth.dev/containerupdaterequests",
        "berth-kubelet: patch apps.kruise.io/containerrecreaterequests/status",
        "berth-kubelet: patch apps.kruise.io/nodeimages",
        "berth-kubelet: patch apps.kruise.io/nodeimages/status",
        "berth-kubelet: patch apps.kruise.io/nodepodprobes",
        "berth-kubelet: patch apps.kruise.io/nodepodprobes/status",
        "berth-kubelet: patch berth.dev/containerupdaterequests/status",
        "berth-kubelet: patch berth.dev/nodepodupdates/status",
        "berth-manager in berth-system: create coordination.k8s.io/leases",
        "berth-manager in berth-system: update /secrets only berth-manager-admission",
        "berth-manager in berth-system: update coordination.k8s.io/leases only berth-manager",
        "berth-manager: create events.k8s.io/events",
        "berth-manager: delete apps.kruise.io/containerrecreaterequests",
        "berth-manager: delete apps.kruise.io/imagepulljobs",
        "berth-manager: patch apiextensions.k8s.io/customresourcedefinitions only statefulsets.apps.kruise.io",
        "berth-manager: patch apps.kruise.io/containerrecreaterequests",
        "berth-manager: patch apps.kruise.io/containerrecreaterequests/status",
        "berth-manager: patch apps.kruise.io/imagepulljobs/status",
        "berth-manager: patch apps.kruise.io/nodeimages/status",
        "berth-manager: patch apps.kruise.io/nodepodprobes/status",
        "berth-manager: patch apps.kruise.io/podprobemarkers/status",
        "berth-manager: patch apps.kruise.io/sidecarsets/status",
        "berth-manager: patch berth.dev/containerupdaterequests/status",
        "berth-manager: patch berth.dev/nodepodupdates/status",
        "berth-manager: update admissionregistration.k8s.io/mutatingwebhookconfigurations only berth-manager",
        "berth-manager: update admissionregistration.k8s.io/validatingwebhookconfigurations only berth-manager",
        "berth-manager: update apps.kruise.io/persistentpodstates/status",
        "berth-manager: update apps.kruise.io/workloadspreads/status",
        "berth-manager: update policy.kruise.io/podunavailablebudgets/status",
        "berth-manager: use berth.dev/identities",
        "berth-status-writer: write berth.dev/statuses",
    ];
    assert_eq!(writes.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

/// The manager looks at everything by lists and watches, but for what an admission needs at once, and at
/// nothing that it has no use for.
#[test]
fn the_manager_reads_this_and_nothing_else() {
    let reads = all_grants();
    let reads =
        reads.iter().filter(|grant| grant.starts_with("berth-manager") && READS.contains(&verb(grant)));
    let reads: BTreeSet<_> = reads.map(|grant| grant.split_once(": ").unwrap().1).collect();
    let watched = [
        "/namespaces",
        "/nodes",
        "/pods",
        "apps.kruise.io/containerrecreaterequests",
        "apps.kruise.io/imagepulljobs",
        "apps.kruise.io/nodeimages",
        "apps.kruise.io/nodepodprobes",
        "apps.kruise.io/persistentpodstates",
        "apps.kruise.io/podprobemarkers",
        "apps.kruise.io/sidecarsets",
        "apps.kruise.io/statefulsets",
        "apps/statefulsets",
        "apps.kruise.io/workloadspreads",
        "berth.dev/containerupdaterequests",
        "berth.dev/nodepodupdates",
        "policy.kruise.io/podunavailablebudgets",
        // By their names alone: what shows an OpenKruise, and what the admission server stands on.
        "coordination.k8s.io/leases only kruise-manager",
        "apps/deployments only kruise-controller-manager",
        OPENKRUISE_WEBHOOKS[0],
        OPENKRUISE_WEBHOOKS[1],
        "/secrets only berth-manager-admission",
        "admissionregistration.k8s.io/mutatingwebhookconfigurations only berth-manager",
        "admissionregistration.k8s.io/validatingwebhookconfigurations only berth-manager",
        "apiextensions.k8s.io/customresourcedefinitions only statefulsets.apps.kruise.io",
    ];
    let mut expected: BTreeSet<_> =
        watched.iter().flat_map(|of| ["list", "watch"].map(|verb| format!("{verb} {of}"))).collect();
    let read = [
        "/configmaps only kruise-configuration",
        "/namespaces",
        "/pods",
        "/secrets only berth-manager-admission",
        "admissionregistration.k8s.io/mutatingwebhookconfigurations only berth-manager",
        "admissionregistration.k8s.io/validatingwebhookconfigurations only berth-manager",
        "apps.kruise.io/sidecarsets",
        "coordination.k8s.io/leases only berth-manager",
        // Whether an OpenKruise decides.
        "coordination.k8s.io/leases only kruise-manager",
        "apps/deployments only kruise-controller-manager",
        OPENKRUISE_WEBHOOKS[0],
        OPENKRUISE_WEBHOOKS[1],
        // The budget of a pod, to what the pod belongs, and how many pods that wants.
        "policy.kruise.io/podunavailablebudgets",
        "apps/replicasets",
        // The PersistentPodState of a new pod.
        "apps.kruise.io/persistentpodstates",
        // The WorkloadSpread of a new pod.
        "apps.kruise.io/workloadspreads",
        "batch/jobs",
        "/replicationcontrollers/scale",
        "apps/daemonsets/scale",
        "apps/deployments/scale",
        "apps/replicasets/scale",
        "apps/statefulsets/scale",
        "batch/jobs/scale",
        "apps.kruise.io/broadcastjobs/scale",
        "apps.kruise.io/clonesets/scale",
        "apps.kruise.io/daemonsets/scale",
        "apps.kruise.io/statefulsets/scale",
        "apps.kruise.io/uniteddeployments/scale",
    ];
    expected.extend(read.map(|of| format!("get {of}")));
    // Counted when a protected namespace is deleted.
    expected.insert("list /persistentvolumeclaims".to_owned());
    assert_eq!(reads, expected.iter().map(String::as_str).collect());
}

/// A grant for tokens is no part of what everybody installs.
#[test]
fn only_the_renewal_of_tokens_may_make_them() {
    assert!(all_grants().iter().all(|grant| !grant.contains("token")));
    let [role] = &all::<Role>("token-renewal", "Role")[..] else { panic!("one role") };
    let granted = grants(&role.name_any(), role.rules.clone());
    assert_eq!(granted, ["berth-agent: create /serviceaccounts/token only berth-agent"]);
    let [policy] = &all::<ValidatingAdmissionPolicy>("token-renewal", "ValidatingAdmissionPolicy")[..] else {
        panic!("one policy")
    };
    let base = all::<ValidatingAdmissionPolicy>("policies/agent-token.yaml", "ValidatingAdmissionPolicy");
    assert_eq!(policy.name_any(), base[0].name_any(), "it takes the place of the one that forbids all");
}

/// Names in policies are those of the accounts in `rbac`: a policy about another name would be about nobody.
#[test]
fn policies_know_the_accounts_by_their_names() {
    let accounts = all::<ServiceAccount>("rbac", "ServiceAccount");
    let names: BTreeSet<_> = accounts
        .iter()
        .map(|one| format!("system:serviceaccount:{}:{}", one.namespace().unwrap(), one.name_any()))
        .collect();
    let mut known = BTreeSet::new();
    for policy in all::<ValidatingAdmissionPolicy>("policies", "ValidatingAdmissionPolicy") {
        let text = serde_json::to_string(&policy).unwrap();
        for rest in text.split("'system:serviceaccount:").skip(1) {
            let name = format!("system:serviceaccount:{}", rest.split('\'').next().unwrap());
            assert!(names.contains(&name), "{}: {name}", policy.name_any());
            known.insert(name);
        }
    }
    assert_eq!(known, names);
}

/// A role is bound to the ServiceAccount of its name, and one to the kubelets.
#[test]
fn roles_are_bound_to_their_own() {
    let accounts = all::<ServiceAccount>("rbac", "ServiceAccount");
    let accounts: Vec<_> = accounts.iter().map(ResourceExt::name_any).collect();
    assert_eq!(accounts, ["berth-agent", "berth-manager"]);
    let cluster = all::<ClusterRoleBinding>("rbac", "ClusterRoleBinding").into_iter();
    let cluster = cluster.map(|binding| (binding.metadata.name, binding.role_ref, binding.subjects));
    let local = all::<RoleBinding>("rbac", "RoleBinding").into_iter();
    let local = local.map(|binding| (binding.metadata.name, binding.role_ref, binding.subjects));
    for (name, role, subjects) in cluster.chain(local) {
        assert_eq!(name.as_ref(), Some(&role.name));
        let [subject] = subjects.as_deref().unwrap() else { panic!("{name:?}: {subjects:?}") };
        match subject.kind.as_str() {
            "Group" => {
                assert_eq!((role.name.as_str(), subject.name.as_str()), ("berth-kubelet", "system:nodes"));
            }
            _ => {
                assert_eq!(subject.name, role.name);
                assert_eq!(subject.namespace.as_deref(), Some("berth-system"));
            }
        }
    }
}

/// The writes that the closed list of a policy names, as `OPERATION group/resource/subresource`.
fn closed_list(policy: &ValidatingAdmissionPolicy) -> BTreeSet<String> {
    let validations = policy.spec.as_ref().unwrap().validations.iter().flatten();
    let lists = validations.filter_map(|validation| validation.expression.split_once("variables.write in ["));
    let quoted = lists.flat_map(|(_, list)| list.split('\'').skip(1).step_by(2));
    quoted.map(str::to_owned).collect()
}

/// The kinds that the manager tells of, as its policy has them.
#[test]
fn events_of_the_manager_are_about_what_it_tells_of() {
    let policies = all::<ValidatingAdmissionPolicy>("policies/manager.yaml", "ValidatingAdmissionPolicy");
    let validations = policies[0].spec.as_ref().unwrap().validations.iter().flatten();
    let of_events = validations.filter(|one| one.expression.contains("reportingController"));
    let of_events: Vec<_> = of_events.collect();
    let [validation] = of_events[..] else { panic!("one validation of Events") };
    let (_, list) = validation.expression.rsplit_once(" in [").unwrap();
    let kinds: Vec<_> = list.split('\'').skip(1).step_by(2).collect();
    assert_eq!(
        kinds,
        [
            "apps.kruise.io/v1alpha1 ContainerRecreateRequest",
            "apps.kruise.io/v1alpha1 ImagePullJob",
            "apps.kruise.io/v1alpha1 PersistentPodState",
            "apps.kruise.io/v1alpha1 SidecarSet",
            "apps.kruise.io/v1alpha1 WorkloadSpread",
            "berth.dev/v1alpha1 ContainerUpdateRequest",
            "policy.kruise.io/v1alpha1 PodUnavailableBudget",
        ]
    );
}

/// Translates a role's grant to the write that admission sees.
fn admitted(grant: &str) -> String {
    let mut words = grant.split_once(": ").unwrap().1.split(' ');
    let operation = match words.next().unwrap() {
        "create" => "CREATE",
        "delete" => "DELETE",
        _ => "UPDATE",
    };
    let resource = words.next().unwrap();
    // The resource's own write has no subresource, and an empty place for it.
    let slash = if resource.matches('/').count() == 1 { "/" } else { "" };
    format!("{operation} {resource}{slash}")
}

#[test]
fn closed_lists_are_the_roles() {
    for policy in all::<ValidatingAdmissionPolicy>("policies", "ValidatingAdmissionPolicy") {
        let name = policy.name_any();
        let list = closed_list(&policy);
        if list.is_empty() {
            continue;
        }
        let of_role = |grant: &&String| {
            let role = grant.split([':', ' ']).next().unwrap();
            let of_policies = RIGHTS_OF_POLICIES.iter().any(|right| grant.ends_with(right));
            role == name && !READS.contains(&verb(grant)) && !of_policies
        };
        let grants = all_grants();
        let granted = grants.iter().filter(of_role).map(|grant| admitted(grant));
        // This policy is about Berth's kinds only.
        let kubelet = name == "berth-kubelet";
        let granted: BTreeSet<_> =
            granted.filter(|write| !kubelet || !write.contains("events.k8s.io")).collect();
        assert_eq!(list, granted, "{name}");
    }
}

#[test]
fn every_policy_denies() {
    let policies = all::<ValidatingAdmissionPolicy>("policies", "ValidatingAdmissionPolicy");
    let bindings = all::<ValidatingAdmissionPolicyBinding>("policies", "ValidatingAdmissionPolicyBinding");
    assert_eq!(policies.len(), bindings.len());
    for (policy, binding) in policies.iter().zip(&bindings) {
        assert_eq!(policy.spec.as_ref().unwrap().failure_policy.as_deref(), Some("Fail"));
        let binding = binding.spec.as_ref().unwrap();
        assert_eq!(binding.policy_name, policy.metadata.name);
        assert_eq!(binding.validation_actions.as_deref(), Some(&["Deny".to_owned()][..]));
        assert!(binding.match_resources.is_none(), "{:?} does not count everywhere", binding.policy_name);
    }
}

fn pod_spec(template: k8s_openapi::api::core::v1::PodTemplateSpec) -> PodSpec {
    template.spec.unwrap()
}
