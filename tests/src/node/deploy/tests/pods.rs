//! Pods of the manager and of the agents: what they may, where they run, how they are probed.

use super::*;

/// Checks the manager against the pod security standard `restricted`.
#[test]
fn the_manager_is_restricted() {
    let [manager] = &all::<Deployment>("manager", "Deployment")[..] else { panic!("one Deployment") };
    let spec = manager.spec.clone().unwrap();
    assert_eq!(spec.replicas, Some(2));
    let pod = pod_spec(spec.template);
    assert_eq!(pod.service_account_name.as_deref(), Some("berth-manager"));
    assert!(pod.volumes.unwrap().iter().all(|volume| volume.projected.is_some()), "only its token");
    let security = pod.security_context.unwrap();
    assert_eq!(security.run_as_non_root, Some(true));
    assert_eq!(security.seccomp_profile.unwrap().type_, "RuntimeDefault");
    let security = pod.containers[0].security_context.clone().unwrap();
    assert_eq!(security.allow_privilege_escalation, Some(false));
    assert_eq!(security.capabilities.unwrap().drop.unwrap(), ["ALL"]);
}

/// A token of the kubelet's usual 3607 s is good for a year (`--service-account-extend-token-expiration`),
/// and a stolen one as well.
#[test]
fn tokens_of_pods_end_when_they_say() {
    let [agent] = &all::<DaemonSet>("agent", "DaemonSet")[..] else { panic!("one DaemonSet") };
    let [manager] = &all::<Deployment>("manager", "Deployment")[..] else { panic!("one Deployment") };
    for template in [&agent.spec.as_ref().unwrap().template, &manager.spec.as_ref().unwrap().template] {
        let pod = pod_spec(template.clone());
        assert_eq!(pod.automount_service_account_token, Some(false));
        let sources = pod.volumes.iter().flatten().filter_map(|volume| volume.projected.as_ref());
        let sources = sources.flat_map(|projected| projected.sources.iter().flatten());
        let tokens: Vec<_> =
            sources.filter_map(|source| source.service_account_token.as_ref()?.expiration_seconds).collect();
        assert_eq!(tokens, [3600]);
    }
}

#[test]
fn the_agent_is_on_every_node() {
    let [agent] = &all::<DaemonSet>("agent", "DaemonSet")[..] else { panic!("one DaemonSet") };
    let pod = pod_spec(agent.spec.clone().unwrap().template);
    assert_eq!(pod.service_account_name.as_deref(), Some("berth-agent"));
    assert_eq!(pod.priority_class_name.as_deref(), Some("system-node-critical"));
    let [toleration] = pod.tolerations.as_deref().unwrap() else { panic!("one toleration") };
    assert!(toleration.operator.as_deref() == Some("Exists") && toleration.key.is_none());
    assert!(pod.host_network.is_none());
    assert_eq!(pod.host_pid, Some(true), "probes enter the network of a pod by one of its processes");
}

/// Checks the paths that the guardian needs besides: the node's PIDs, and every directory of the node at its
/// own path.
#[test]
fn the_agent_in_the_runtimes_place_has_the_nodes_paths() {
    let config = berthd::config::Configuration::read(&path("takeover/berthd.yaml")).unwrap();
    assert_eq!(config.path, berthd::config::PathMode::Takeover);
    let [agent] = &all::<DaemonSet>("agent", "DaemonSet")[..] else { panic!("one DaemonSet") };
    let pod = pod_spec(agent.spec.clone().unwrap().template);
    assert_eq!(pod.host_pid, Some(true));
    let volumes = pod.volumes.unwrap();
    let path_of = |name: &str| volumes.iter().find(|volume| volume.name == name)?.host_path.as_ref();
    let mounts = pod.containers[0].volume_mounts.iter().flatten();
    let own: Vec<&str> = mounts
        .filter_map(|mount| path_of(&mount.name).map(|of_node| (mount, of_node)))
        .map(|(mount, of_node)| {
            assert_eq!(of_node.path, mount.mount_path);
            mount
        })
        .filter(|mount| mount.read_only.is_none())
        .map(|mount| mount.mount_path.as_str())
        .collect();
    let mounted = |path: &Path| own.iter().any(|mount| path.starts_with(mount));
    assert!(mounted(config.runtime_endpoint.unwrap().0.path()) && mounted(&config.state_dir));
    assert!(mounted(config.admin_socket.as_path()) && mounted(config.shim_socket.unwrap().as_path()));
    assert_eq!(changed_in_takeover("/securityContext/privileged"), true);
}

/// Returns the value that the component `takeover` gives to this field of the agent's container.
fn changed_in_takeover(field: &str) -> Value {
    let text = fs::read_to_string(path("takeover/kustomization.yaml")).unwrap();
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    let patch: Value = serde_saphyr::from_str(file["patches"][0]["patch"].as_str().unwrap()).unwrap();
    let full = format!("/spec/template/spec/containers/0{field}");
    let operation = patch.as_array().unwrap().iter().find(|operation| operation["path"] == *full);
    operation.unwrap_or_else(|| panic!("nothing for {field}"))["value"].clone()
}

/// Nodes of other systems and virtual ones have no runtime that the agent could speak to.
#[test]
fn the_agent_is_on_no_node_without_a_runtime() {
    let [agent] = &all::<DaemonSet>("agent", "DaemonSet")[..] else { panic!("one DaemonSet") };
    let affinity = serde_json::to_value(pod_spec(agent.spec.clone().unwrap().template).affinity).unwrap();
    let required = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = required["nodeSelectorTerms"].as_array().unwrap();
    let [term] = &terms[..] else { panic!("one term: terms are alternatives") };
    let asked = term["matchExpressions"].as_array().unwrap();
    for expected in [
        json!({ "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] }),
        json!({ "key": "type", "operator": "NotIn", "values": ["virtual-kubelet"] }),
        json!({ "key": "berth.dev/install", "operator": "NotIn", "values": ["systemd"] }),
    ] {
        assert!(asked.contains(&expected), "no {expected} in {asked:?}");
    }
}

/// A restart of the agent helps neither the runtime nor the API server: only the readiness is about them.
#[test]
fn the_agent_is_probed() {
    let [agent] = &all::<DaemonSet>("agent", "DaemonSet")[..] else { panic!("one DaemonSet") };
    let pod = pod_spec(agent.spec.clone().unwrap().template);
    let container = &pod.containers[0];
    let probes = [&container.startup_probe, &container.readiness_probe, &container.liveness_probe];
    let commands =
        probes.map(|probe| probe.as_ref().unwrap().exec.as_ref().unwrap().command.clone().unwrap());
    assert_eq!(commands[0], ["berthctl", "status"]);
    assert_eq!(commands[1], ["berthctl", "status", "--ready"]);
    assert_eq!(commands[2], commands[0]);
}

/// The shim in the runtime's place stays when the pod goes; a pod that comes then has to be let in.
#[test]
fn the_shim_in_the_runtimes_place_knows_whose_pods_to_let_in() {
    let namespace = changed_in_takeover("/env/-");
    assert_eq!(namespace["name"], "BERTH_AGENT_NAMESPACE");
    assert_eq!(namespace["valueFrom"]["fieldRef"]["fieldPath"], "metadata.namespace");
}
