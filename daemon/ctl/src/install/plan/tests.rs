//! Plans for one node after another.

use berthd::config::{Configuration, ViewMode};

use super::super::facts::tests::{K3S, KUBEADM, Tree};
use super::super::places::{CONTAINERD, SERVICE_UNIT, SOCKET_UNIT};
use super::*;

fn wishes() -> Wishes {
    Wishes { programs: "/opt/berth".into(), has_berthd: true, two_programs: Some(false), ..Wishes::default() }
}

fn planned(files: &[(&str, &str)], more: &[(&str, &str)], wishes: &Wishes) -> Result<Plan, PlanError> {
    let tree = Tree::of(files);
    for (path, text) in more {
        tree.write(path, text);
    }
    plan(&tree.facts(), wishes)
}

fn written<'a>(plan: &'a Plan, wanted: &str) -> Option<&'a str> {
    plan.actions.iter().find_map(|action| match action {
        Action::Write { path, content, .. } | Action::Redirect { path, content, .. } if path == wanted => {
            Some(content.as_str())
        }
        _ => None,
    })
}

/// The configuration as berthd would take it.
fn configuration(plan: &Plan) -> Configuration {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), written(plan, CONFIG).unwrap()).unwrap();
    Configuration::read(file.path()).and_then(Configuration::check).unwrap()
}

/// Carries out what writes files.
fn carried_out(tree: &Tree, plan: &Plan) {
    for action in &plan.actions {
        match action {
            Action::Write { path, content, .. } | Action::Redirect { path, content, .. } => {
                tree.write(path, content);
            }
            Action::Copy { path, .. } => tree.write(path, "program"),
            _ => {}
        }
    }
}

#[test]
fn a_kubeadm_node() {
    let plan = planned(KUBEADM, &[], &wishes()).unwrap();
    let words: Vec<String> = plan.actions.iter().map(super::super::show::action).collect();
    assert_eq!(
        words,
        [
            "make /etc/berth/",
            "make /etc/berth/desired/",
            "make /etc/systemd/system/kubelet.service.d/",
            "copy /opt/berth/berthd to /usr/local/bin/berthd",
            "copy /opt/berth/berthctl to /usr/local/bin/berthctl",
            "write /etc/berth/berthd.yaml",
            "write /etc/systemd/system/berthd.socket",
            "write /etc/systemd/system/berthd.service",
            "systemctl daemon-reload",
            "systemctl enable berthd.socket",
            "systemctl enable berthd.service",
            "systemctl start berthd.socket",
            "systemctl start berthd.service",
            "wait until berthd answers and reaches the runtime",
            "write /etc/systemd/system/kubelet.service.d/90-berth.conf, systemctl daemon-reload, systemctl restart kubelet.service",
            "wait until the kubelet has called the node Ready, through Berth",
        ]
    );
    let drop_in = written(&plan, "/etc/systemd/system/kubelet.service.d/90-berth.conf").unwrap();
    let rest = drop_in.split_once("[Unit]\n").unwrap().1;
    assert_eq!(
        rest,
        "Wants=berthd.socket berthd.service\nAfter=berthd.socket berthd.service\n\n[Service]\n\
         # The command line of the unit itself, and the socket.\nExecStart=\n\
         ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS \
         --container-runtime-endpoint=unix:///run/berth/cri.sock\n"
    );
    let config = configuration(&plan);
    assert_eq!(String::from(config.runtime_endpoint.unwrap()), "unix:///var/run/containerd/containerd.sock");
    assert_eq!(config.node_name.as_deref(), Some("node-a"));
    assert_eq!(config.pod_view.mode, ViewMode::Api);
    assert_eq!(config.pod_view.kubeconfig.unwrap().to_str(), Some("/etc/kubernetes/kubelet.conf"));
}

/// As where a cloud names the node. Rows: the kubelet's flags, berthd's configuration of before, and the name
/// that is written or why there is no plan.
#[test]
fn the_node_is_named_by_flags_and_certificate() {
    const CERTIFIED: &str = "ip-10-0-0-1.ec2.internal";
    let kubeconfig = "current-context: c\ncontexts: [{ name: c, context: { user: u } }]\n\
                      users: [{ name: u, user: { client-certificate: /pki/node.pem } }]\n";
    let certificate = include_str!("../facts/node.pem");
    let named = "runtimeEndpoint: unix:///run/containerd/containerd.sock\nnodeName: node-a\n";
    for (flag, config, expected) in [
        ("", None, Ok(CERTIFIED)),
        ("--hostname-override=IP-10-0-0-1.ec2.internal", None, Ok(CERTIFIED)),
        ("--hostname-override=node-a", None, Err("is that of node ip-10-0-0-1.ec2.internal")),
        ("--hostname-override=node-a", Some(named), Ok("node-a")),
    ] {
        let flags = format!("KUBELET_KUBEADM_ARGS={flag}\n");
        let mut more = vec![
            ("/var/lib/kubelet/kubeadm-flags.env", flags.as_str()),
            ("/etc/kubernetes/kubelet.conf", kubeconfig),
            ("/pki/node.pem", certificate),
        ];
        more.extend(config.map(|config| (CONFIG, config)));
        match (planned(KUBEADM, &more, &wishes()), expected) {
            (Ok(plan), Ok(name)) if config.is_none() => {
                assert_eq!(configuration(&plan).node_name.as_deref(), Some(name), "{flag}");
            }
            (Ok(plan), Ok(_)) => assert_eq!(written(&plan, CONFIG), None, "{flag}"),
            (Err(error), Err(says)) => assert!(error.to_string().contains(says), "{error}"),
            (found, expected) => panic!("{flag}: {found:?}, not {expected:?}"),
        }
    }
}

#[test]
fn what_is_there_is_left_as_it_is() {
    let tree = Tree::of(KUBEADM);
    let first = plan(&tree.facts(), &wishes()).unwrap();
    carried_out(&tree, &first);
    tree.write("/etc/berth/desired/x", "");
    let second = plan(&tree.facts(), &Wishes { has_berthd: false, ..wishes() }).unwrap();
    let start = |unit| Action::Start { unit };
    let enable = |unit| Action::Enable { unit };
    let expected = [
        enable(SOCKET_UNIT),
        enable(SERVICE_UNIT),
        start(SOCKET_UNIT),
        start(SERVICE_UNIT),
        Action::AwaitBerthd,
    ];
    assert_eq!(second.actions, expected);
    assert_eq!(second.notes.len(), 2, "{:?}", second.notes);

    // The administrator's own configuration counts; a unit of ours that was changed is mended; a kubelet that
    // was reconfigured gets its new command line.
    tree.write(CONFIG, "mine");
    tree.write("/etc/systemd/system/berthd.service", "changed");
    tree.write(
        "/usr/lib/systemd/system/kubelet.service.d/20-more.conf",
        "[Service]\nExecStart=\nExecStart=/k/kubelet --new\n",
    );
    let third = plan(&tree.facts(), &wishes()).unwrap();
    assert_eq!(written(&third, CONFIG), None);
    assert!(written(&third, "/etc/systemd/system/berthd.service").is_some());
    assert_eq!(written(&third, "/etc/systemd/system/berthd.socket"), None);
    let drop_in = written(&third, "/etc/systemd/system/kubelet.service.d/90-berth.conf").unwrap();
    assert!(
        drop_in
            .contains("ExecStart=/k/kubelet --new --container-runtime-endpoint=unix:///run/berth/cri.sock\n")
    );
}

#[test]
fn settings_become_env_of_the_service() {
    let with = |two, settings: &[(&str, &str)]| Wishes {
        two_programs: Some(two),
        has_shim: true,
        settings: settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ..wishes()
    };
    let [first, other] = [
        &[("BERTH_IMAGES_RESERVE", "5%"), ("BERTH_LOG_LEVEL", r#"a="\b" c"#)][..],
        &[("BERTH_LOG_LEVEL", "info")],
    ];
    let dir = "make /etc/systemd/system/berthd.service.d/";
    let file = "/etc/systemd/system/berthd.service.d/50-env.conf";
    for two in [false, true] {
        let tree = Tree::of(KUBEADM);
        let words = |wishes: &Wishes| {
            let plan = plan(&tree.facts(), wishes).unwrap();
            let words: Vec<String> = plan.actions.iter().map(super::super::show::action).collect();
            (plan, words)
        };
        let (fresh, all) = words(&with(two, first));
        assert!(all.contains(&dir.to_owned()) && !all.iter().any(|word| word.contains("restart berthd")));
        let text = written(&fresh, file).unwrap();
        let lines = text.split_once("[Service]\n").unwrap().1;
        assert_eq!(
            lines,
            "Environment=\"BERTH_IMAGES_RESERVE=5%%\"\nEnvironment=\"BERTH_LOG_LEVEL=a=\\\"\\\\b\\\" c\"\n"
        );
        carried_out(&tree, &fresh);
        let (same, all) = words(&with(two, first));
        assert!(written(&same, file).is_none() && !all.iter().any(|word| word.starts_with("remove")));

        for (settings, change) in [(other, format!("write {file}")), (&[], format!("remove {file}"))] {
            let (changed, all) = words(&with(two, settings));
            let reload = all.iter().position(|word| *word == "systemctl daemon-reload").unwrap();
            assert!(all[..reload].contains(&change), "{all:?}");
            let restarts = all.contains(&"systemctl restart berthd.service".to_owned());
            let is_said = changed.notes.iter().any(|note| note.contains("systemctl restart berthd.service"));
            assert_eq!((restarts, is_said), (two, !two), "{all:?} {:?}", changed.notes);
        }
        // The last of all: a berthd that was handed over to has the env of the one before it.
        let replace = vec![BERTHD];
        let (upgraded, _) = words(&Wishes { replace, ..with(two, other) });
        let end = match two {
            true => vec![
                Action::HandOver,
                Action::Restart { unit: SERVICE_UNIT },
                Action::AwaitBerthd,
                Action::AwaitShim,
            ],
            false => vec![Action::HandOver],
        };
        assert!(upgraded.actions.ends_with(&end), "{:?}", upgraded.actions);
    }
}

#[test]
fn a_program_that_is_replaced_is_handed_over_to_when_all_else_is_done() {
    let replaced = |replace: Vec<&'static str>| {
        let there = [(BERTHD, ""), (BERTHCTL, "")];
        let plan = planned(KUBEADM, &there, &Wishes { replace, ..wishes() }).unwrap();
        let programs = plan.actions.iter().filter(|action| {
            matches!(action, Action::Copy { .. } | Action::Replace { .. } | Action::HandOver)
        });
        (programs.map(super::super::show::action).collect::<Vec<_>>(), plan.notes.len())
    };
    assert_eq!(replaced(vec![]), (vec![], 1));
    assert_eq!(
        replaced(vec![BERTHCTL]),
        (vec!["replace /usr/local/bin/berthctl by /opt/berth/berthctl".to_owned()], 1)
    );
    let both = [
        "replace /usr/local/bin/berthd by /opt/berth/berthd",
        "replace /usr/local/bin/berthctl by /opt/berth/berthctl",
        "let berthd hand over to the new program, as berthctl upgrade does",
    ];
    assert_eq!(replaced(vec![BERTHD, BERTHCTL]), (both.map(str::to_owned).to_vec(), 0));
}

#[test]
fn crio_is_known_by_the_end_of_the_path() {
    let flags = "KUBELET_KUBEADM_ARGS=--container-runtime-endpoint=unix:///var/run/crio/crio.sock\n";
    let plan = planned(KUBEADM, &[("/var/lib/kubelet/kubeadm-flags.env", flags)], &wishes()).unwrap();
    assert!(plan.socket.ends_with("/run/crio/crio.sock") && places::is_ours(plan.socket));
    assert_eq!(configuration(&plan).socket.as_path().to_str(), Some(plan.socket));
    let listen = format!("ListenStream=\nListenStream={}\n", plan.socket);
    assert!(written(&plan, CRIO_SOCKET_DROP_IN).unwrap().ends_with(&listen));
    let drop_in = written(&plan, "/etc/systemd/system/kubelet.service.d/90-berth.conf").unwrap();
    assert!(drop_in.ends_with(&format!("--container-runtime-endpoint=unix://{}\n", plan.socket)));
}

#[test]
fn k3s_is_led_by_an_argument_of_its_kubelet() {
    let plan = planned(K3S, &[], &wishes()).unwrap();
    let drop_in = written(&plan, "/etc/rancher/k3s/config.yaml.d/90-berth.yaml").unwrap();
    assert!(drop_in.ends_with("\nkubelet-arg+:\n- container-runtime-endpoint=unix:///run/berth/cri.sock\n"));
    assert_eq!(configuration(&plan).node_name.as_deref(), Some("edge-1"));
    // Nothing makes k3s wait for berthd, which waits for the containerd that k3s starts.
    for (_, text) in UNITS {
        assert!(!text.contains("k3s") && !text.contains("rke2"), "{text}");
    }
    let redirected =
        plan.actions.iter().any(|action| matches!(action, Action::Redirect { unit: "k3s.service", .. }));
    assert!(
        redirected
            && plan.actions.contains(&Action::MakeDir { path: "/etc/rancher/k3s/config.yaml.d".into() })
    );
}

#[test]
fn images_go_the_same_way() {
    let config = "imageServiceEndpoint: unix:///run/containerd/containerd.sock\n";
    let plan = planned(KUBEADM, &[("/var/lib/kubelet/config.yaml", config)], &wishes()).unwrap();
    let drop_in = written(&plan, "/etc/systemd/system/kubelet.service.d/90-berth.conf").unwrap();
    assert!(drop_in.ends_with(" --image-service-endpoint=unix:///run/berth/cri.sock\n"), "{drop_in}");
}

#[test]
fn where_pods_are_seen() {
    let unit = "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf";
    let alone =
        (unit, "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml\n");
    let port = ("/var/lib/kubelet/config.yaml", "readOnlyPort: 10255\n");
    let own = Wishes { kubeconfig: Some("/etc/berth/kubeconfig".into()), ..wishes() };
    for (more, wishes, mode, kubeconfig, url) in [
        (vec![], wishes(), ViewMode::Api, Some("/etc/kubernetes/kubelet.conf"), None),
        (
            vec![port],
            wishes(),
            ViewMode::Api,
            Some("/etc/kubernetes/kubelet.conf"),
            Some("http://127.0.0.1:10255"),
        ),
        (vec![], own, ViewMode::Api, Some("/etc/berth/kubeconfig"), None),
        (vec![alone, port], wishes(), ViewMode::Kubelet, None, Some("http://127.0.0.1:10255")),
        (vec![alone], wishes(), ViewMode::None, None, None),
    ] {
        let view = configuration(&planned(KUBEADM, &more, &wishes).unwrap()).pod_view;
        let found = view.kubeconfig.as_ref().map(|path| path.to_str().unwrap());
        let asked = view.kubelet.as_ref().map(|kubelet| kubelet.url.as_str());
        assert_eq!((view.mode, found, asked), (mode, kubeconfig, url), "{more:?}");
    }
}

#[test]
fn a_kubelet_that_names_berth_itself() {
    let flags = (
        "/var/lib/kubelet/kubeadm-flags.env",
        "KUBELET_KUBEADM_ARGS=--container-runtime-endpoint=/var/run/berth/cri.sock\n",
    );
    assert_eq!(planned(KUBEADM, &[flags], &wishes()), Err(PlanError::NoRuntime));
    let config = (CONFIG, "runtimeEndpoint: unix:///run/c.sock\nsocket: /x\n");
    let plan = planned(KUBEADM, &[flags, config], &wishes()).unwrap();
    assert_eq!(plan.runtime, "unix:///run/c.sock");
    assert!(!plan.actions.iter().any(|action| matches!(action, Action::Redirect { .. })));
    let named = Wishes { runtime: Some(CONTAINERD.to_owned()), ..wishes() };
    assert_eq!(planned(KUBEADM, &[flags], &named).unwrap().runtime, CONTAINERD);
}

#[test]
fn what_cannot_be_done_is_said_with_a_remedy() {
    let unit = "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf";
    let starts = |line: &str| format!("[Service]\nExecStart=\nExecStart={line}\n");
    let (shell, tcp, docker) = (
        starts("/bin/sh -c 'exec /usr/bin/kubelet'"),
        starts("/usr/bin/kubelet --container-runtime-endpoint=tcp://127.0.0.1:1"),
        starts("/usr/bin/kubelet --container-runtime-endpoint=unix:///var/run/cri-dockerd.sock"),
    );
    let overruled =
        "[Service]\nExecStart=/usr/local/bin/k3s server --kubelet-arg=container-runtime-endpoint=/y\n";
    let nothing: &[(&str, &str)] = &[];
    for (files, more, wishes, word) in [
        (nothing, vec![], wishes(), "install Kubernetes first"),
        (
            K3S,
            vec![
                ("/etc/systemd/system/kubelet.service", "[Service]\nExecStart=/kubelet\n"),
                ("/etc/systemd/system/multi-user.target.wants/kubelet.service", ""),
            ],
            wishes(),
            "--kubelet-unit",
        ),
        (K3S, vec![("/etc/systemd/system/k3s.service", overruled)], wishes(), "take it out"),
        (KUBEADM, vec![(unit, &shell)], wishes(), "is no kubelet"),
        (KUBEADM, vec![(unit, "[Service]\nExecStart=/a/kubelet\n")], wishes(), "2 ExecStart="),
        (KUBEADM, vec![(unit, &tcp)], wishes(), "unix sockets"),
        (KUBEADM, vec![(unit, &docker)], wishes(), "cri-dockerd"),
        (KUBEADM, vec![], Wishes { has_berthd: false, ..wishes() }, "no berthd at /usr/local/bin/berthd"),
    ] {
        let error = planned(files, &more, &wishes).unwrap_err().to_string();
        assert!(error.contains(word), "expected {word:?} in {error:?}");
    }
}

#[test]
fn units_by_name() {
    assert_eq!(flavour("k3s"), Ok(Flavour::K3s));
    assert_eq!(flavour("rke2-server.service"), Ok(Flavour::Rke2Server));
    assert!(flavour("docker").unwrap_err().contains("kubelet.service"));
}
