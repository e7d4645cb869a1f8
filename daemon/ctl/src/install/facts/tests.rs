//! Nodes as they are found, as trees of files.

use super::super::host::Host;
use super::super::places::Flavour;
use super::*;

/// A node's files.
pub(crate) struct Tree {
    dir: tempfile::TempDir,
}

/// Files of kubeadm's packages: variables of several files, the flags of `kubeadm init` in one of them.
pub(crate) const KUBEADM: &[(&str, &str)] = &[
    ("/etc/systemd/system/multi-user.target.wants/kubelet.service", ""),
    (
        "/usr/lib/systemd/system/kubelet.service",
        "[Unit]\nDescription=kubelet\n[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\n",
    ),
    (
        "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf",
        "[Service]\n\
         Environment=\"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf\"\n\
         Environment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\"\n\
         EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\n\
         EnvironmentFile=-/etc/default/kubelet\n\
         ExecStart=\n\
         ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n",
    ),
    (
        "/var/lib/kubelet/kubeadm-flags.env",
        "KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///var/run/containerd/containerd.sock --hostname-override=node-a\"\n",
    ),
    (
        "/var/lib/kubelet/config.yaml",
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nhealthzBindAddress: 127.0.0.1\nhealthzPort: 10248\ncontainerRuntimeEndpoint: \"\"\n",
    ),
    ("/etc/kubernetes/kubelet.conf", "kind: Config\n"),
    ("/usr/local/bin/other", ""),
];

/// k3s, as its installer leaves it.
pub(crate) const K3S: &[(&str, &str)] = &[
    ("/etc/systemd/system/multi-user.target.wants/k3s.service", ""),
    (
        "/etc/systemd/system/k3s.service",
        "[Service]\nType=notify\nEnvironmentFile=-/etc/default/%N\nExecStart=/usr/local/bin/k3s \\\n    server \\\n\t'--node-name=edge-1' \\\n\n",
    ),
    ("/etc/rancher/k3s/config.yaml", "kubelet-arg:\n- max-pods=50\n"),
    ("/var/lib/rancher/k3s/agent/kubelet.kubeconfig", "kind: Config\n"),
    ("/usr/local/bin/k3s", ""),
];

impl Tree {
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let tree = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(tree.dir.path().join("var/lib")).unwrap();
        for (path, text) in files {
            tree.write(path, text);
        }
        tree
    }

    pub(crate) fn host(&self) -> Host {
        Host::new(self.dir.path())
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.host().path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn facts(&self) -> Facts {
        Facts::gather(&self.host(), None).unwrap()
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.dir.path()
    }
}

fn kubelet(files: &[(&str, &str)], more: &[(&str, &str)]) -> Kubelet {
    let tree = Tree::of(files);
    for (path, text) in more {
        tree.write(path, text);
    }
    tree.facts().kubelet.unwrap()
}

#[test]
fn kubeadm() {
    let found = kubelet(KUBEADM, &[]);
    assert_eq!(found.flavour, Flavour::Kubelet);
    assert_eq!(
        found.exec_start,
        [
            "/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS"
        ]
    );
    assert_eq!(found.program, "/usr/bin/kubelet");
    assert_eq!(found.endpoint, "unix:///var/run/containerd/containerd.sock");
    assert_eq!(found.kubeconfig.as_deref(), Some("/etc/kubernetes/kubelet.conf"));
    assert_eq!(found.node_name.as_deref(), Some("node-a"));
    assert_eq!(found.healthz.as_deref(), Some("127.0.0.1:10248"));
    assert_eq!((found.image_endpoint, found.read_only_port, found.overruled), (None, None, None));
}

#[test]
fn the_runtime_is_where_the_kubelet_would_look() {
    let flags = |text| ("/var/lib/kubelet/kubeadm-flags.env", text);
    let config = |text| ("/var/lib/kubelet/config.yaml", text);
    let extra = |text| ("/etc/default/kubelet", text);
    let crio = "unix:///var/run/crio/crio.sock";
    for (more, expected) in [
        (vec![flags("")], "unix:///run/containerd/containerd.sock"),
        (vec![flags(""), config("containerRuntimeEndpoint: unix:///a.sock\n")], "unix:///a.sock"),
        (vec![flags(""), config("containerRuntimeEndpoint: /a.sock\n")], "unix:///a.sock"),
        (
            vec![config("containerRuntimeEndpoint: unix:///a.sock\n")],
            "unix:///var/run/containerd/containerd.sock",
        ),
        (
            vec![extra("KUBELET_EXTRA_ARGS=--container-runtime-endpoint=unix:///var/run/crio/crio.sock\n")],
            crio,
        ),
        (
            vec![
                flags(""),
                extra("KUBELET_EXTRA_ARGS=--config-dir /etc/kubelet.d\n"),
                ("/etc/kubelet.d/10-a.conf", "containerRuntimeEndpoint: unix:///a.sock\n"),
                ("/etc/kubelet.d/20-b.conf", "containerRuntimeEndpoint: unix:///b.sock\n"),
                ("/etc/kubelet.d/30-c.yaml", "containerRuntimeEndpoint: unix:///no.sock\n"),
            ],
            "unix:///b.sock",
        ),
    ] {
        assert_eq!(kubelet(KUBEADM, &more).endpoint, expected, "{more:?}");
    }
}

#[test]
fn a_plain_kubelet_with_a_configuration() {
    let found = kubelet(
        &[
            (
                "/etc/systemd/system/kubelet.service",
                "[Service]\nExecStart=-/opt/bin/kubelet --config=/etc/kubelet.yaml --kubeconfig /etc/k.conf\n",
            ),
            (
                "/etc/kubelet.yaml",
                "containerRuntimeEndpoint: unix:///run/c.sock\nimageServiceEndpoint: unix:///run/i.sock\n\
                 healthzBindAddress: '::'\nhealthzPort: 1\nreadOnlyPort: 10255\n\
                 imagePullCredentialsVerificationPolicy: AlwaysVerify\n\
                 featureGates: {KubeletEnsureSecretPulledImages: true}\n",
            ),
        ],
        &[],
    );
    assert_eq!(found.program, "/opt/bin/kubelet");
    assert_eq!(found.endpoint, "unix:///run/c.sock");
    assert_eq!(found.image_endpoint.as_deref(), Some("unix:///run/i.sock"));
    assert_eq!(found.kubeconfig, None, "there is no such file");
    assert_eq!(found.healthz.as_deref(), Some("[::1]:1"));
    assert_eq!(found.read_only_port, Some(10255));
    assert_eq!((found.image_policy.as_deref(), found.verifies_images), (Some("AlwaysVerify"), Some(true)));
}

#[test]
fn feature_gates_as_flags() {
    for (gates, says) in [
        ("KubeletEnsureSecretPulledImages=true", Some(true)),
        ("A=true, KubeletEnsureSecretPulledImages=false", Some(false)),
        ("KubeletEnsureSecretPulledImages=true,KubeletEnsureSecretPulledImages=false", Some(false)),
        ("KubeletEnsureSecretPulledImages=perhaps", None),
        ("A=true", None),
        ("", None),
    ] {
        assert_eq!(super::kubelet::verifies_images(gates), says, "{gates}");
    }
}

#[test]
fn k3s_and_rke2() {
    let found = kubelet(K3S, &[]);
    assert_eq!(found.flavour, Flavour::K3s);
    assert_eq!(found.endpoint, "unix:///run/k3s/containerd/containerd.sock");
    assert_eq!(found.kubeconfig.as_deref(), Some("/var/lib/rancher/k3s/agent/kubelet.kubeconfig"));
    assert_eq!(found.node_name.as_deref(), Some("edge-1"));
    let service = |line: &str| format!("[Service]\nExecStart=/usr/local/bin/k3s server {line}\n");
    let drop_in = "/etc/rancher/k3s/config.yaml.d/20-a.yaml";
    let ours = (
        "/etc/rancher/k3s/config.yaml.d/90-berth.yaml",
        "kubelet-arg+: [container-runtime-endpoint=unix:///no]\n",
    );
    let unit = "/etc/systemd/system/k3s.service";
    for (more, endpoint, overruled) in [
        (vec![ours], "unix:///run/k3s/containerd/containerd.sock", None),
        (vec![(drop_in, "container-runtime-endpoint: /run/c.sock\n")], "unix:///run/c.sock", None),
        (vec![(drop_in, "docker: true\n")], "unix:///run/k3s/cri-dockerd/cri-dockerd.sock", None),
        (vec![(drop_in, "kubelet-arg+:\n- container-runtime-endpoint=unix:///x\n")], "unix:///x", None),
        (
            vec![(unit, &*service("--kubelet-arg=v=2 --kubelet-arg container-runtime-endpoint=/y"))],
            "unix:///y",
            Some("--kubelet-arg=container-runtime-endpoint=/y"),
        ),
        (
            vec![(unit, &*service("--config /etc/other.yaml"))],
            "unix:///run/k3s/containerd/containerd.sock",
            Some("--config /etc/other.yaml"),
        ),
    ] {
        let found = kubelet(K3S, &more);
        assert_eq!((found.endpoint.as_str(), found.overruled.as_deref()), (endpoint, overruled), "{more:?}");
    }

    let found = kubelet(
        &[
            (
                "/usr/local/lib/systemd/system/rke2-agent.service",
                "[Service]\nExecStart=/usr/local/bin/rke2 agent\n",
            ),
            ("/etc/rancher/rke2/config.yaml", "data-dir: /data\nnode-name: r\n"),
            ("/data/agent/kubelet.kubeconfig", "kind: Config\n"),
        ],
        &[],
    );
    assert_eq!(found.flavour, Flavour::Rke2Agent);
    assert_eq!(found.endpoint, "unix:///run/k3s/containerd/containerd.sock");
    assert_eq!(found.kubeconfig.as_deref(), Some("/data/agent/kubelet.kubeconfig"));
    assert_eq!(found.node_name.as_deref(), Some("r"));
    let config = "/etc/rancher/k3s/config.yaml";
    for (more, name) in [
        ((unit, &*service("--node-name Edge-1")), Some("edge-1")),
        // Systemd puts the host name there, which is the name where nothing else says one.
        ((unit, &*service("--node-name=%H")), None),
        // The identifier that comes after it is in the certificate alone.
        ((unit, &*service("--node-name=edge-1 --with-node-id")), None),
        ((config, "with-node-id: true\n"), None),
    ] {
        assert_eq!(kubelet(K3S, &[more]).named(), name, "{more:?}");
    }
}

#[test]
fn which_service_is_the_kubelet() {
    let unit = |name: &str| (format!("/lib/systemd/system/{name}"), "[Service]\nExecStart=/x\n".to_owned());
    let enabled = |name: &str| (format!("/etc/systemd/system/multi-user.target.wants/{name}"), String::new());
    let both = [unit("kubelet.service"), unit("k3s-agent.service")];
    for (files, wanted, candidates, chosen) in [
        (vec![], None, 0, None),
        (both[..1].to_vec(), None, 1, Some(Flavour::Kubelet)),
        (both.to_vec(), None, 2, None),
        (both.to_vec(), Some(Flavour::K3sAgent), 2, Some(Flavour::K3sAgent)),
        ([&both[..], &[enabled("k3s-agent.service")]].concat(), None, 1, Some(Flavour::K3sAgent)),
    ] {
        let borrowed: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let facts = Facts::gather(&Tree::of(&borrowed).host(), wanted).unwrap();
        let found = facts.kubelet.map(|kubelet| kubelet.flavour);
        assert_eq!((facts.candidates.len(), found), (candidates, chosen), "{files:?} {wanted:?}");
    }
}

#[test]
fn what_is_there_of_berth() {
    let tree = Tree::of(KUBEADM);
    let installed = tree.facts().installed;
    let dirs = ["/etc/berth", "/etc/berth/desired", "/etc/systemd/system/kubelet.service.d"];
    assert_eq!(
        installed,
        Installed { missing_dirs: dirs.map(str::to_owned).to_vec(), ..Installed::default() }
    );
    tree.write(
        "/etc/systemd/system/kubelet.service.d/90-berth.conf",
        "[Service]\nExecStart=\nExecStart=/ours\n",
    );
    tree.write("/etc/berth/berthd.yaml", "mine");
    tree.write("/usr/local/bin/berthd", "");
    let facts = tree.facts();
    assert!(facts.installed.berthd && !facts.installed.berthctl);
    assert_eq!(facts.installed.config.as_deref(), Some("mine"));
    assert_eq!(facts.installed.drop_ins.len(), 1);
    assert_eq!(facts.kubelet.unwrap().program, "/usr/bin/kubelet", "as it is without Berth");
}

#[test]
fn a_configuration_that_cannot_be_read_is_named() {
    let tree = Tree::of(KUBEADM);
    tree.write("/var/lib/kubelet/config.yaml", "- a\n");
    let error = format!("{:#}", Facts::gather(&tree.host(), None).unwrap_err());
    assert!(error.contains("/var/lib/kubelet/config.yaml"), "{error}");
}
