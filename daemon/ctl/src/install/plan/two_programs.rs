//! Whether a node has one program or two, which what is there must agree with.

use super::super::facts::Facts;
use super::{PlanError, Wishes, texts};
use crate::shim::SOCKET;

/// Tells whether the data path is a program of its own. What is there has to agree: a berthd and a
/// `berth-shim` that do not mean each other would both be without calls.
pub(crate) fn two_programs(facts: &Facts, wishes: &Wishes, runtime: &str) -> Result<bool, PlanError> {
    let installed = &facts.installed;
    let [socket, _] = &installed.units;
    let configured = installed.config.as_deref().map(texts::shim_socket_of);
    let two = match (wishes.two_programs, &configured) {
        (Some(false), _) if installed.two_programs() => return Err(PlanError::TwoPrograms),
        (Some(two), _) => two,
        (None, _) if installed.two_programs() => true,
        // What the administrator has written is followed.
        (None, Some(socket)) => socket.is_some(),
        (None, None) => socket.is_none(),
    };
    if let Some(has) = configured {
        let expected = two.then_some(SOCKET);
        if has.as_deref() != expected {
            if two && has.is_none() && socket.is_some() && !installed.two_programs() {
                return Err(PlanError::OneProgram);
            }
            let words = |socket: Option<&str>| match socket {
                Some(socket) => format!("shimSocket: {socket}"),
                None => "no shimSocket".to_owned(),
            };
            let programs = if two { "two programs" } else { "one program" };
            let (has, needs) = (words(has.as_deref()), words(expected));
            return Err(PlanError::Configured { programs, has, needs });
        }
    }
    if two && let Some(env) = &installed.shim_env {
        let has = texts::shim_runtime_of(env).unwrap_or_default();
        if has.strip_prefix("unix://").unwrap_or(&has) != runtime.strip_prefix("unix://").unwrap_or(runtime) {
            return Err(PlanError::ShimRuntime { has, runtime: runtime.to_owned() });
        }
    }
    Ok(two)
}

#[cfg(test)]
mod tests {
    use super::super::super::facts::tests::{KUBEADM, Tree};
    use super::super::super::places::{
        self, BERTH_SHIM, BERTHCTL, BERTHD, CONFIG, SHIM_ENV, SHIM_SOCKET_DROP_IN,
    };
    use super::super::super::show;
    use super::super::{Action, Plan, plan};
    use super::*;

    const RUNTIME: &str = "unix:///run/c.sock";
    const UNIT: &str = "/etc/systemd/system/berthd.socket";

    fn wishes() -> Wishes {
        let programs = "/opt/berth".into();
        Wishes { programs, has_berthd: true, has_shim: true, ..Wishes::default() }
    }

    fn written(plan: &Plan, wanted: &str) -> String {
        let found = plan.actions.iter().find_map(|action| match action {
            Action::Write { path, content, .. } | Action::Redirect { path, content, .. } => {
                (path == wanted).then(|| content.clone())
            }
            _ => None,
        });
        found.unwrap_or_else(|| panic!("{wanted} is not written"))
    }

    #[test]
    fn one_socket_unit_and_two_services() {
        let plan = plan(&Tree::of(KUBEADM).facts(), &wishes()).unwrap();
        let words: Vec<String> = plan.actions.iter().map(show::action).collect();
        assert_eq!(
            words[3..],
            [
                "copy /opt/berth/berthd to /usr/local/bin/berthd",
                "copy /opt/berth/berth-shim to /usr/local/bin/berth-shim",
                "copy /opt/berth/berthctl to /usr/local/bin/berthctl",
                "write /etc/berth/berthd.yaml",
                "write /etc/berth/shim.env",
                "write /etc/systemd/system/berthd.socket",
                "write /etc/systemd/system/berthd.service",
                "make /etc/systemd/system/berthd.socket.d/",
                "write /etc/systemd/system/berth-shim.service",
                "write /etc/systemd/system/berthd.socket.d/50-two-programs.conf",
                "systemctl daemon-reload",
                "systemctl enable berthd.socket",
                "systemctl enable berth-shim.service",
                "systemctl enable berthd.service",
                "systemctl start berthd.socket",
                "systemctl start berth-shim.service",
                "systemctl start berthd.service",
                "wait until berthd answers and reaches the runtime",
                "wait until berth-shim answers, and berthd is connected to it",
                "write /etc/systemd/system/kubelet.service.d/90-berth.conf, systemctl daemon-reload, systemctl restart kubelet.service",
                "wait until the kubelet has called the node Ready, through Berth",
            ]
        );
        let drop_in = written(&plan, "/etc/systemd/system/kubelet.service.d/90-berth.conf");
        assert!(drop_in.contains("\nWants=berthd.socket berth-shim.service berthd.service\nAfter=berthd.socket berth-shim.service berthd.service\n"), "{drop_in}");
        assert_eq!(texts::shim_socket_of(&written(&plan, CONFIG)).as_deref(), Some(SOCKET));
        let env = written(&plan, SHIM_ENV);
        assert_eq!(
            texts::shim_runtime_of(&env).as_deref(),
            Some("unix:///var/run/containerd/containerd.sock")
        );
        assert!(!env.contains("BERTH_SOCKET"), "{env}");
    }

    #[test]
    fn both_are_at_the_path_that_crio_is_known_by() {
        let tree = Tree::of(KUBEADM);
        let flags = "KUBELET_KUBEADM_ARGS=--container-runtime-endpoint=unix:///var/run/crio/crio.sock\n";
        tree.write("/var/lib/kubelet/kubeadm-flags.env", flags);
        let plan = plan(&tree.facts(), &wishes()).unwrap();
        let env = written(&plan, SHIM_ENV);
        assert!(env.ends_with(&format!("BERTH_SOCKET=\"{}\"\n", places::CRIO_SOCKET)), "{env}");
        // The first empties the list of sockets, so it must be read before the one that adds to it.
        assert!(places::CRIO_SOCKET_DROP_IN < SHIM_SOCKET_DROP_IN);
        written(&plan, places::CRIO_SOCKET_DROP_IN);
        let made = plan
            .actions
            .iter()
            .filter(|action| matches!(action, Action::MakeDir { path } if path.ends_with("berthd.socket.d")));
        assert_eq!(made.count(), 1);
    }

    /// A node that has two keeps two, and nothing is done twice.
    #[test]
    fn a_second_installation_needs_no_flag() {
        let tree = Tree::of(KUBEADM);
        for action in plan(&tree.facts(), &wishes()).unwrap().actions {
            match action {
                Action::Write { path, content, .. } | Action::Redirect { path, content, .. } => {
                    tree.write(&path, &content);
                }
                Action::Copy { path, .. } => tree.write(&path, "program"),
                _ => {}
            }
        }
        tree.write("/etc/berth/desired/x", "");
        let again = Wishes { programs: "/opt/berth".into(), ..Wishes::default() };
        let second = plan(&tree.facts(), &again).unwrap();
        assert!(
            second.actions.iter().all(|action| matches!(
                action,
                Action::Enable { .. } | Action::Start { .. } | Action::AwaitBerthd | Action::AwaitShim
            )),
            "{:?}",
            second.actions
        );
        let replace = vec![BERTHD, BERTH_SHIM, BERTHCTL];
        let upgraded = plan(&tree.facts(), &Wishes { replace, ..again }).unwrap();
        // Each is the way back from what is before it.
        assert!(
            upgraded.actions.ends_with(&[Action::HandOverShim, Action::HandOver]),
            "{:?}",
            upgraded.actions
        );
    }

    #[test]
    fn what_does_not_agree_is_said_with_a_remedy() {
        let one = "runtimeEndpoint: unix:///run/c.sock\n";
        let (two, other) = (format!("{one}shimSocket: {SOCKET}\n"), format!("{one}shimSocket: /x.sock\n"));
        let env = "BERTH_RUNTIME_ENDPOINT=/run/c.sock\n";
        for (files, wished, expected) in [
            (vec![], None, Ok(true)),
            (vec![], Some(false), Ok(false)),
            (vec![], Some(true), Ok(true)),
            (vec![(UNIT, "")], None, Ok(false)),
            (vec![(CONFIG, one)], None, Ok(false)),
            (vec![(CONFIG, one)], Some(false), Ok(false)),
            (vec![(CONFIG, two.as_str())], None, Ok(true)),
            (vec![(CONFIG, two.as_str())], Some(true), Ok(true)),
            (vec![(CONFIG, &two), (SHIM_SOCKET_DROP_IN, "")], None, Ok(true)),
            (vec![(CONFIG, &two), (SHIM_SOCKET_DROP_IN, "")], Some(false), Err("with --one-program")),
            (vec![(CONFIG, &two), (SHIM_ENV, env)], Some(true), Ok(true)),
            (vec![(CONFIG, one)], Some(true), Err("needs shimSocket: /run/berth/shim.sock")),
            (vec![(CONFIG, &other)], None, Err("has shimSocket: /x.sock")),
            (vec![(CONFIG, &two)], Some(false), Err("for one program it needs no shimSocket")),
            (vec![(CONFIG, one), (UNIT, "")], Some(true), Err("berthctl uninstall")),
            (vec![(CONFIG, one), (SHIM_SOCKET_DROP_IN, "")], None, Err("for two programs it needs")),
            (
                vec![(SHIM_ENV, "BERTH_RUNTIME_ENDPOINT=/run/d.sock\n")],
                None,
                Err("correct or remove that file"),
            ),
            (vec![(SHIM_ENV, "")], None, Err("BERTH_RUNTIME_ENDPOINT=, and")),
        ] {
            let tree = Tree::of(KUBEADM);
            files.iter().for_each(|(path, text)| tree.write(path, text));
            let found = two_programs(&tree.facts(), &Wishes { two_programs: wished, ..wishes() }, RUNTIME);
            match expected {
                Ok(two) => assert_eq!(found, Ok(two), "{files:?} {wished:?}"),
                Err(words) => {
                    let error = found.unwrap_err().to_string();
                    assert!(error.contains(words), "{files:?}: {error}");
                }
            }
        }
        let no_shim = Wishes { has_shim: false, ..wishes() };
        let error = plan(&Tree::of(KUBEADM).facts(), &no_shim).unwrap_err().to_string();
        assert!(error.contains("no berth-shim at /usr/local/bin/berth-shim"), "{error}");
    }
}
