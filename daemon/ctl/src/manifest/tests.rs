//! Tables of manifests and what becomes of them.

use std::path::Path;

use berth_policy::launch_priority::PLAN_ANNOTATION;
use berth_proto::cri::{ContainerConfig, MountPropagation, NamespaceMode, PodSandboxConfig};

use super::env::Facts;
use super::sandbox::Places;
use super::{Manifest, container, keys, sandbox};

/// A pod with this in its spec.
fn pod(spec: &str) -> String {
    let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    format!("apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  uid: uid-1\nspec:\n{spec}")
}

/// A pod of one container with this in it.
fn with(fields: &str) -> String {
    let fields: String = fields.lines().map(|line| format!("  {line}\n")).collect();
    pod(&format!("containers:\n- name: a\n  image: img:1\n{fields}"))
}

fn read(text: &str) -> Manifest {
    Manifest::parse(text).unwrap_or_else(|error| panic!("{error:#}\n{text}"))
}

fn places(manifest: &Manifest) -> Places {
    Places::new(manifest, Path::new("/logs"), Path::new("/data"))
}

fn sandbox_of(text: &str) -> PodSandboxConfig {
    let manifest = read(text);
    sandbox::config(&manifest, &places(&manifest)).unwrap()
}

fn container_of(text: &str) -> ContainerConfig {
    let manifest = read(text);
    let facts = Facts { pod_ips: vec!["10.0.0.7".into(), "fd00::7".into()], node_name: "node-1".into() };
    container::config(&manifest, &manifest.pod.spec.containers[0], &places(&manifest), &facts, "sha256:1")
        .unwrap()
}

#[test]
fn what_cannot_be_played_is_refused_with_its_field() {
    for (text, expected) in [
        (with("comand: [sh]"), "unknown field `comand` at line 10, column 5"),
        (with("env: [{name: A, value: 5}]"), "must be quoted at line 10"),
        (with("tty: yes"), "at line 10"),
        (with("env:\n- {name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}"), "line 11: spec.containers[a].env[A].valueFrom.secretKeyRef"),
        (with("envFrom: []"), "spec.containers[a].envFrom is not supported"),
        (with("readinessProbe: {}"), "spec.containers[a].readinessProbe: give exactly one of"),
        (with("readinessProbe: {periodSeconds: 0, tcpSocket: {port: 1}}"), "readinessProbe.periodSeconds: must be at least 1"),
        (with("readinessProbe: {httpGet: {port: 1, scheme: HTTPS}}"), "httpGet.scheme: \"HTTPS\""),
        (with("lifecycle: {preStop: {httpGet: {port: 1}}}"), "lifecycle.preStop.httpGet is not supported"),
        (with("lifecycle: {preStop: {}}"), "lifecycle.preStop: give exactly one of"),
        (with("volumeMounts: [{name: x, mountPath: /x}]"), "volumeMounts[x]: spec.volumes has no volume"),
        (with("imagePullPolicy: Sometimes"), "imagePullPolicy: \"Sometimes\" is none of"),
        (with("restartPolicy: Always"), "spec.containers[a].restartPolicy is not supported"),
        (with("securityContext: {seccompProfile: {type: RuntimeDefault}}"), "seccompProfile RuntimeDefault"),
        (
            pod("containers: [{name: a, image: i, env: [{name: KRUISE_CONTAINER_PRIORITY, value: high}]}, {name: b, image: i}]"),
            "env KRUISE_CONTAINER_PRIORITY of container \"a\" is \"high\"",
        ),
        (with("ports: [{containerPort: 0}]"), "ports[0]: a port is a number"),
        (pod("containers: []"), "spec.containers: is empty"),
        (pod("containers: [{name: A, image: i}]"), "spec.containers[A]: the name is not a DNS label"),
        (pod("containers: [{name: a, image: i}, {name: a, image: i}]"), "spec.containers[a]: the name is used twice"),
        (pod("containers: [{name: a}]"), "spec.containers[a].image: is missing"),
        (pod("hostUsers: false\ncontainers: [{name: a, image: i}]"), "line 7: spec.hostUsers: false"),
        (pod("restartPolicy: Maybe\ncontainers: [{name: a, image: i}]"), "spec.restartPolicy: \"Maybe\" is none of"),
        (pod("containers: [{name: a, image: i}]\nvolumes: [{name: v, configMap: {name: c}}]"), "line 8: spec.volumes[v].configMap"),
        (pod("containers: [{name: a, image: i}]\nvolumes: [{name: v}]"), "spec.volumes[v]: has no source"),
        (pod("containers: [{name: a, image: i}]\nvolumes: [{name: v, hostPath: {path: x}}]"), "hostPath.path: is not absolute"),
        ("apiVersion: apps/v1\nkind: Deployment\nspec: {}".to_owned(), "it is apps/v1 Deployment"),
        (with("") + "---\n" + &with(""), "several YAML documents"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: ../x}\nspec: {containers: [{name: a, image: i}]}".to_owned(), "metadata.name: \"../x\""),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: x, uid: a/b}\nspec: {containers: [{name: a, image: i}]}".to_owned(), "metadata.uid: \"a/b\""),
    ] {
        let error = format!("{:#}", Manifest::parse(&text).expect_err(&text));
        assert!(error.contains(expected), "expected {expected:?} in {error:?}\n{text}");
    }
}

#[test]
fn values_that_are_wrong_in_themselves_name_the_container() {
    for (fields, expected) in [
        ("resources: {limits: {memory: 64Megs}}", "resources.limits[memory] of container \"a\""),
        ("resources: {limits: {nvidia.com/gpu: 1}}", "resources.limits[nvidia.com/gpu] of container \"a\""),
        ("env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}]", "env[A] of container \"a\""),
        ("securityContext: {runAsNonRoot: true}", "runAsNonRoot without runAsUser"),
        ("securityContext: {runAsNonRoot: true, runAsUser: 0}", "runAsNonRoot is true and runAsUser is 0"),
        ("securityContext: {runAsGroup: 5}", "runAsGroup without runAsUser"),
    ] {
        let manifest = read(&with(fields));
        let one = &manifest.pod.spec.containers[0];
        let error = container::config(&manifest, one, &places(&manifest), &Facts::default(), "").unwrap_err();
        assert!(format!("{error:#}").contains(expected), "expected {expected:?} in {error:#}");
    }
}

#[test]
fn remarks_speak_of_what_has_no_effect() {
    let text =
        pod("tolerations: []\naffinity: {}\nrestartPolicy: OnFailure\ncontainers: [{name: a, image: i}]");
    let remarks = read(&text).remarks.join("\n");
    assert!(remarks.contains("restartPolicy is OnFailure, but nobody restarts"), "{remarks}");
    assert!(remarks.contains("no effect: spec.affinity, spec.tolerations"), "{remarks}");
    assert!(read(&pod("restartPolicy: Never\ncontainers: [{name: a, image: i}]")).remarks.is_empty());
}

#[test]
fn the_sandbox() {
    let text = "\
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: shop
  uid: uid-1
  labels: {app: web}
  annotations: {note: mine}
spec:
  shareProcessNamespace: true
  securityContext: {runAsUser: 5, fsGroup: 7, supplementalGroups: [8]}
  dnsPolicy: None
  dnsConfig: {nameservers: [10.0.0.1], options: [{name: ndots, value: \"2\"}, {name: rotate}]}
  containers:
  - {name: a, image: i, ports: [{containerPort: 80, hostPort: 8080}]}
  - {name: b, image: i, ports: [{containerPort: 53, protocol: UDP}], securityContext: {privileged: true}}
";
    let config = sandbox_of(text);
    let metadata = config.metadata.unwrap();
    assert_eq!(
        (metadata.name.as_str(), metadata.namespace.as_str(), metadata.uid.as_str()),
        ("web", "shop", "uid-1")
    );
    assert_eq!((config.hostname.as_str(), config.log_directory.as_str()), ("web", "/logs/shop_web_uid-1"));
    for (key, value) in
        [("app", "web"), (keys::POD_NAME, "web"), (keys::POD_NAMESPACE, "shop"), (keys::POD_UID, "uid-1")]
    {
        assert_eq!(config.labels[key], value);
    }
    assert_eq!(config.annotations["note"], "mine");
    assert_eq!(config.annotations[keys::DATA_DIR], "/data/uid-1");
    assert!(!config.annotations.contains_key(PLAN_ANNOTATION), "no order, no plan");
    let dns = config.dns_config.unwrap();
    assert_eq!(
        (dns.servers, dns.options),
        (vec!["10.0.0.1".to_owned()], vec!["ndots:2".to_owned(), "rotate".into()])
    );
    let ports: Vec<_> = config
        .port_mappings
        .iter()
        .map(|port| (port.protocol, port.container_port, port.host_port))
        .collect();
    assert_eq!(ports, [(0, 80, 8080), (1, 53, 0)]);
    let security = config.linux.unwrap().security_context.unwrap();
    assert_eq!(security.supplemental_groups, [8, 7]);
    assert!(security.privileged);
    let namespaces = security.namespace_options.unwrap();
    assert_eq!(namespaces.pid(), NamespaceMode::Pod);
    assert_eq!(namespaces.network(), NamespaceMode::Pod);
}

#[test]
fn host_namespaces() {
    let config = sandbox_of(&pod(
        "hostNetwork: true\nhostPID: true\nhostIPC: true\ncontainers: [{name: a, image: i, ports: [{containerPort: 80}]}]",
    ));
    let namespaces = config.linux.unwrap().security_context.unwrap().namespace_options.unwrap();
    assert_eq!(
        [namespaces.network(), namespaces.pid(), namespaces.ipc()],
        [NamespaceMode::Node, NamespaceMode::Node, NamespaceMode::Node]
    );
    assert!(config.port_mappings.is_empty() && config.hostname.is_empty());
}

#[test]
fn the_plan_is_written_where_an_order_is_declared() {
    let order = |a: &str, b: &str, annotation: &str| {
        let priority = |value: &str| match value {
            "" => String::new(),
            value => format!(", env: [{{name: KRUISE_CONTAINER_PRIORITY, value: {value:?}}}]"),
        };
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: x{annotation}}}\nspec:\n  containers:\n  - {{name: a, image: i{}}}\n  - {{name: b, image: i{}}}\n  initContainers: [{{name: i, image: i}}]\n",
            priority(a),
            priority(b)
        );
        sandbox_of(&text).annotations.get(PLAN_ANNOTATION).cloned()
    };
    assert_eq!(order("-1", "5", "").as_deref(), Some(r#"{"a":-1,"b":5}"#));
    assert_eq!(order("", "5", "").as_deref(), Some(r#"{"a":0,"b":5}"#));
    assert_eq!(order("5", "5", ""), None);
    assert_eq!(order("", "", ""), None);
    let ordered = ", annotations: {apps.kruise.io/container-launch-priority: Ordered}";
    assert_eq!(order("", "", ordered).as_deref(), Some(r#"{"a":0,"b":-1}"#));
    assert_eq!(order("1", "2", ordered).as_deref(), Some(r#"{"a":0,"b":-1}"#));
}

#[test]
fn a_container_in_the_kubelets_manner() {
    let config = container_of(&with(
        "command: [sh, -c, 'echo $(WHO) $$(WHO) $(NOT)']
args: [$(IP)]
workingDir: /srv
env:
- {name: WHO, value: me}
- {name: TWICE, value: $(WHO)$(WHO)}
- {name: LATER, value: $(NAME)}
- {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: LABEL, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['none']\"}}}
- {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
- {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
- {name: IPS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}
- {name: WHO, value: you}
lifecycle: {preStop: {exec: {command: [sh, -c, \"sleep 1\"]}}}
ports: [{name: http, containerPort: 80}]",
    ));
    assert_eq!(config.command, ["sh", "-c", "echo you $(WHO) $(NOT)"]);
    assert_eq!(config.args, ["10.0.0.7"]);
    assert_eq!(config.working_dir, "/srv");
    let envs: Vec<_> = config.envs.iter().map(|env| (env.key.as_str(), env.value.as_str())).collect();
    assert_eq!(
        envs,
        [
            ("WHO", "you"),
            ("TWICE", "meme"),
            ("LATER", "$(NAME)"),
            ("NAME", "web"),
            ("LABEL", ""),
            ("NODE", "node-1"),
            ("IP", "10.0.0.7"),
            ("IPS", "10.0.0.7,fd00::7"),
        ]
    );
    let image = config.image.unwrap();
    assert_eq!((image.image.as_str(), image.user_specified_image.as_str()), ("sha256:1", "img:1"));
    assert_eq!(config.log_path, "a/0.log");
    assert_eq!(config.labels[keys::CONTAINER_NAME], "a");
    assert_eq!(config.labels[keys::POD_UID], "uid-1");
    for (key, value) in [
        (keys::GRACE, "30"),
        (keys::PRE_STOP, r#"{"exec":{"command":["sh","-c","sleep 1"]}}"#),
        ("io.kubernetes.container.ports", r#"[{"containerPort":80,"name":"http","protocol":"TCP"}]"#),
        ("io.kubernetes.container.restartCount", "0"),
        ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
        ("io.kubernetes.container.terminationMessagePolicy", "File"),
    ] {
        assert_eq!(config.annotations[key], value, "{key}");
    }
    assert!(config.annotations.contains_key("io.kubernetes.container.hash"));
    let mounts: Vec<_> =
        config.mounts.iter().map(|mount| (mount.container_path.as_str(), mount.host_path.as_str())).collect();
    assert_eq!(mounts, [("/dev/termination-log", "/data/uid-1/containers/a/termination-log")]);
}

#[test]
fn resources_and_security() {
    let linux = |fields: &str| container_of(&with(fields)).linux.unwrap();
    let resources =
        linux("resources: {limits: {cpu: 500m, memory: 64Mi}, requests: {cpu: 0.1}}").resources.unwrap();
    assert_eq!((resources.cpu_period, resources.cpu_quota, resources.cpu_shares), (100_000, 50_000, 102));
    assert_eq!((resources.memory_limit_in_bytes, resources.oom_score_adj), (64 << 20, 0));
    let limits_only = linux("resources: {limits: {cpu: 2}}").resources.unwrap();
    assert_eq!((limits_only.cpu_quota, limits_only.cpu_shares), (200_000, 2048));
    let nothing = linux("").resources.unwrap();
    assert_eq!((nothing.cpu_quota, nothing.cpu_shares, nothing.oom_score_adj), (0, 2, 1000));

    let plain = linux("").security_context.unwrap();
    assert!(!plain.privileged && !plain.no_new_privs && !plain.masked_paths.is_empty());
    let tight = linux(
        "securityContext: {runAsUser: 0, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL], add: [CHOWN]}}",
    );
    let tight = tight.security_context.unwrap();
    assert!(tight.no_new_privs && tight.readonly_rootfs);
    assert_eq!(tight.run_as_user.unwrap().value, 0); // root said, not left out
    assert_eq!(tight.capabilities.unwrap().drop_capabilities, ["ALL"]);
    let privileged = linux("securityContext: {privileged: true}").security_context.unwrap();
    assert!(privileged.privileged && privileged.masked_paths.is_empty());
}

#[test]
fn volumes() {
    let config = container_of(&pod("volumes:
- {name: scratch, emptyDir: {}}
- {name: host, hostPath: {path: /srv/x}}
containers:
- name: a
  image: i
  volumeMounts:
  - {name: scratch, mountPath: /scratch}
  - {name: host, mountPath: x, readOnly: true, mountPropagation: HostToContainer}"));
    let scratch = &config.mounts[0];
    assert_eq!(scratch.host_path, "/data/uid-1/volumes/kubernetes.io~empty-dir/scratch");
    assert!(!scratch.readonly);
    let host = &config.mounts[1];
    assert_eq!((host.container_path.as_str(), host.host_path.as_str()), ("/x", "/srv/x"));
    assert!(host.readonly);
    assert_eq!(host.propagation(), MountPropagation::PropagationHostToContainer);
}

#[test]
fn a_pod_without_a_uid_gets_one_of_its_own() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: a, image: i}]}";
    let [one, two] = [read(text).uid, read(text).uid];
    assert_ne!(one, two);
    let groups: Vec<usize> = one.split('-').map(str::len).collect();
    assert_eq!(groups, [8, 4, 4, 4, 12]);
    assert_eq!(&one[14..15], "4");
}

#[test]
fn a_manifest_may_be_json() {
    let text = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [{"name": "a", "image": "i"}]}}"#;
    assert_eq!(read(text).name(), "x");
}
