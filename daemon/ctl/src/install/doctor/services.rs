//! Checks of what runs: the units, the runtime, berthd and `berth-shim`.

use std::path::Path;
use std::time::Duration;

use berth_shim::remote::ShimState;

use super::super::super::cli::Global;
use super::super::super::cri::Cri;
use super::super::facts::Facts;
use super::super::host::Host;
use super::super::places;
use super::super::ready;
use super::Check;
use super::checks::runtime;
use crate::shim;

const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// Remedy for programs of two releases.
const OF_ONE_RELEASE: &str =
    "berthctl install --upgrade, by the berthctl of a folder with all programs of one release";

/// Checks that the services run and answer; of an agent that is none, only that it and its runtime answer.
pub(super) async fn checks(global: &Global, host: &Host, facts: &Facts, is_service: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    let (two, runtime) = (facts.installed.two_programs(), runtime(facts));
    let units = places::started(two);
    for unit in units.iter().filter(|_| is_service) {
        checks.push(unit_runs(host, unit).await);
    }
    let start = "start the runtime that serves it, such as systemctl start containerd";
    checks.push(answers(global, "runtime", &runtime, start).await);
    if is_service {
        let socket = format!("unix://{}", places::socket_for(&runtime));
        let restart = format!("systemctl restart {}", units.join(" "));
        checks.push(answers(global, "socket", &socket, &restart).await);
    }
    checks.push(berthd(global, is_service).await);
    if two {
        let looked = berth_shim::remote::look(Path::new(shim::SOCKET)).await;
        checks.push(shim_is_well(looked.map_err(anyhow::Error::from)));
    }
    checks
}

async fn unit_runs(host: &Host, unit: &'static str) -> Check {
    let is = async |question: &str| match host.ask_systemctl(&[question, unit], CHECK_TIMEOUT).await {
        Ok(answer) => String::from_utf8_lossy(&answer.stdout).trim().to_owned(),
        Err(error) => format!("{error:#}"),
    };
    let (enabled, active) = (is("is-enabled").await, is("is-active").await);
    match (enabled.as_str(), active.as_str()) {
        ("enabled" | "enabled-runtime" | "static", "active") => {
            Check::ok("unit", format!("{unit} is enabled and active"))
        }
        (_, "active") => {
            Check::warn("unit", format!("{unit} runs and is {enabled}"), format!("systemctl enable {unit}"))
        }
        _ => Check::fail(
            "unit",
            format!("{unit} is {active}"),
            format!("systemctl enable --now {unit}; why: journalctl -u {unit}"),
        ),
    }
}

async fn answers(global: &Global, check: &'static str, endpoint: &str, remedy: &str) -> Check {
    let global = Global {
        runtime_endpoint: Some(endpoint.to_owned()),
        admin_socket: global.admin_socket.clone(),
        timeout: global.timeout,
        debug: global.debug,
    };
    let asked = async { anyhow::Ok(Cri::connect(&global).await?.version().await?) };
    match asked.await {
        Ok(version) => Check::ok(
            check,
            format!("{endpoint} answers: {} {}", version.runtime_name, version.runtime_version),
        ),
        Err(error) => Check::fail(check, format!("{error:#}"), remedy),
    }
}

async fn berthd(global: &Global, is_service: bool) -> Check {
    let status = match ready::status(global).await {
        Ok(status) => status,
        Err(error) => {
            let remedy = "why: journalctl -u berthd, or the log of its pod";
            return Check::fail("berthd", format!("{error:#}"), remedy);
        }
    };
    let own = env!("CARGO_PKG_VERSION");
    let runtime = status.runtime.unwrap_or_default();
    let view = status.pod_view.unwrap_or_default();
    if !runtime.reachable {
        return Check::fail(
            "berthd",
            format!("berthd does not reach {}: {}", runtime.endpoint, runtime.error),
            "what the check runtime says; where that is well: journalctl -u berthd",
        );
    }
    if status.version != own {
        let found = format!("berthd is {}, berthctl is {own}", status.version);
        return Check::warn("berthd", found, of_one_release(is_service));
    }
    if !view.synced && view.source != "none" {
        let found = format!("it does not see the pods: {}", view.error);
        let remedy = "what the check kubeconfig says; where that is well: journalctl -u berthd";
        return Check::warn("berthd", found, remedy);
    }
    let found =
        format!("berthd {own} serves {} connections, pod view {}", status.client_connections, view.source);
    Check::ok("berthd", found)
}

/// Remedy for a berthd of another release than this program. An installation beside a pod would be a second
/// agent.
fn of_one_release(is_service: bool) -> &'static str {
    if is_service { OF_ONE_RELEASE } else { "take the berthctl of the release that the pod's image is of" }
}

fn shim_is_well(looked: anyhow::Result<ShimState>) -> Check {
    const NAME: &str = "berth-shim";
    let own = env!("CARGO_PKG_VERSION");
    match looked {
        Err(error) => Check::fail(NAME, format!("{error:#}"), "why: journalctl -u berth-shim"),
        Ok(state) if !state.agent => Check::fail(
            NAME,
            "no berthd is connected to it: order, hooks and updates wait, and creations may be refused",
            "what the check berthd says; shimSocket in /etc/berth/berthd.yaml has to be /run/berth/shim.sock",
        ),
        Ok(state) if state.program != own => {
            Check::warn(NAME, format!("berth-shim is {}, berthctl is {own}", state.program), OF_ONE_RELEASE)
        }
        Ok(state) if state.filtered == Some(false) => Check::warn(
            NAME,
            "system calls of berth-shim are not filtered",
            "journalctl -u berth-shim says why: a kernel without seccomp, or a machine without a filter",
        ),
        Ok(state) => {
            let ShimState { connections, kubelet, .. } = state;
            Check::ok(NAME, format!("{connections} connections, {kubelet} of them the kubelet's"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Verdict;

    #[test]
    fn nothing_is_installed_beside_the_agent_of_a_daemon_set() {
        for is_service in [true, false] {
            assert_eq!(of_one_release(is_service).contains("berthctl install"), is_service);
        }
    }

    #[test]
    fn a_shim_is_well_with_its_berthd() {
        let own = env!("CARGO_PKG_VERSION");
        let state = |program: &str, agent| ShimState {
            program: program.into(),
            agent,
            connections: 3,
            kubelet: 2,
            ..ShimState::default()
        };
        for (looked, verdict, words) in [
            (Ok(state(own, true)), Verdict::Ok, "3 connections, 2 of them the kubelet's"),
            (Ok(state("0.0.1", true)), Verdict::Warn, "berth-shim is 0.0.1"),
            (
                Ok(ShimState { filtered: Some(false), ..state(own, true) }),
                Verdict::Warn,
                "system calls of berth-shim are not filtered",
            ),
            (Ok(state(own, false)), Verdict::Fail, "no berthd is connected"),
            (Err(anyhow::anyhow!("no berth-shim answers")), Verdict::Fail, "no berth-shim answers"),
        ] {
            let check = shim_is_well(looked);
            assert_eq!(check.verdict, verdict, "{check:?}");
            assert!(check.found.contains(words), "{check:?}");
        }
    }
}
