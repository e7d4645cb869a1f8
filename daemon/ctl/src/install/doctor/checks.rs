//! Checks that need neither a cluster nor what runs: files and the machine.

use std::os::unix::fs::MetadataExt;

use berthd::config::Configuration;
use nix::sys::statvfs::statvfs;

use super::super::facts::Facts;
use super::super::host::Host;
use super::super::journal::Journal;
use super::super::places::{
    self, BERTH_SHIM, BERTHD, CONFIG, JOURNAL, SHIM_ENV, SHIM_UNITS, STATE_DIR, UNITS, unit_path,
};
use super::super::plan::{self, Wishes, texts};
use super::Check;
use crate::shim;

const MEBIBYTE: u64 = 1 << 20;
/// The store is some hundred kilobytes.
const ENOUGH: u64 = 100 * MEBIBYTE;
const TOO_LITTLE: u64 = 10 * MEBIBYTE;
/// Where any berthd of the node answers.
const ADMIN_SOCKET: &str = "/run/berth/admin.sock";
/// Finding on an agent that is no service.
const ELSEWHERE: &str =
    "no service: a pod of a DaemonSet, so files, units and the way of the kubelet are not judged";

/// Reports whether the agent is a service, or is to be one. What a service needs does not concern the agent
/// of a DaemonSet, and to install one beside it would be wrong.
pub(super) fn is_service(host: &Host, facts: &Facts) -> bool {
    let has_files = host.exists(CONFIG) || facts.installed.units.iter().any(Option::is_some);
    has_files || !host.exists(ADMIN_SOCKET)
}

/// Checks the files, their content and their modes.
pub(super) fn files(host: &Host, facts: &Facts, is_service: bool) -> Vec<Check> {
    let mut checks = match is_service {
        true => vec![kubelet(facts), config(host), units(facts), journal(host)],
        false => vec![Check::ok("agent", ELSEWHERE)],
    };
    checks.extend(data_path(facts));
    for (path, mode) in [
        (BERTHD, 0o755),
        (BERTH_SHIM, 0o755),
        (SHIM_ENV, 0o644),
        (CONFIG, 0o644),
        (STATE_DIR, 0o700),
        (JOURNAL, 0o600),
        (places::SOCKET, 0o600),
        (ADMIN_SOCKET, 0o600),
        (shim::SOCKET, 0o600),
    ] {
        if let Ok(metadata) = host.path(path).symlink_metadata() {
            checks.extend(mode_is_safe(path, metadata.mode() & 0o7777, metadata.uid(), mode));
        }
    }
    if !checks.iter().any(|check| check.check == "permissions") {
        checks.push(Check::ok("permissions", "files and sockets are root's alone to change"));
    }
    checks
}

fn kubelet(facts: &Facts) -> Check {
    let Some(kubelet) = &facts.kubelet else {
        let names: Vec<&str> = facts.candidates.iter().map(|one| one.unit()).collect();
        return match names.as_slice() {
            [] => Check::fail("kubelet", "no kubelet found", "install Kubernetes on this node"),
            _ => Check::warn(
                "kubelet",
                format!("several: {}", names.join(", ")),
                "name it with --kubelet-unit",
            ),
        };
    };
    let unit = kubelet.flavour.unit();
    let led = facts.installed.drop_ins.iter().find(|(flavour, _)| *flavour == kubelet.flavour);
    match led {
        Some((_, text)) if text.contains(places::socket_for(&kubelet.endpoint)) => {
            Check::ok("kubelet", format!("{unit} is led to Berth; its runtime is {}", kubelet.endpoint))
        }
        Some(_) => Check::fail(
            "kubelet",
            format!("{unit} has a {} that names another socket", kubelet.flavour.drop_in()),
            "berthctl install writes it anew",
        ),
        None if places::is_ours(&kubelet.endpoint) => {
            Check::ok("kubelet", format!("{unit} is led to Berth by its own configuration"))
        }
        None => Check::warn(
            "kubelet",
            format!("{unit} goes past Berth, to {}", kubelet.endpoint),
            "berthctl install, or berthctl bypass --undo",
        ),
    }
}

fn config(host: &Host) -> Check {
    if !host.exists(CONFIG) {
        return Check::fail("config", format!("there is no {CONFIG}"), "berthctl install writes one");
    }
    match Configuration::read(&host.path(CONFIG)).and_then(Configuration::check) {
        Ok(_) => Check::ok("config", format!("{CONFIG} is valid")),
        Err(error) => {
            Check::fail("config", format!("{:#}", anyhow::Error::from(error)), format!("correct {CONFIG}"))
        }
    }
}

fn units(facts: &Facts) -> Check {
    let ours = UNITS.map(|(unit, text)| (unit_path(unit), text)).into_iter().zip(&facts.installed.units);
    let shim = SHIM_UNITS.map(|(path, text)| (path.to_owned(), text)).into_iter();
    let shim = shim.zip(&facts.installed.shim_units).filter(|_| facts.installed.two_programs());
    for ((path, text), there) in ours.chain(shim) {
        match there {
            None => return Check::fail("units", format!("there is no {path}"), "berthctl install writes it"),
            Some(there) if there != text => {
                return Check::warn(
                    "units",
                    format!("{path} is not the one of this berthctl"),
                    "berthctl install writes it anew; put changes into a drop-in",
                );
            }
            Some(_) => {}
        }
    }
    Check::ok("units", "as this berthctl has them")
}

/// Tells whether berthd and `berth-shim` mean each other, and the same runtime; nothing where there is one
/// program.
fn data_path(facts: &Facts) -> Option<Check> {
    const NAME: &str = "data path";
    let wishes = Wishes { two_programs: Some(facts.installed.two_programs()), ..Wishes::default() };
    match plan::two_programs(facts, &wishes, &runtime(facts)) {
        Ok(false) => None,
        Ok(true) => Some(Check::ok(NAME, "berth-shim; berthd decides")),
        Err(error) => {
            let services = if facts.installed.two_programs() { "berth-shim berthd" } else { "berthd" };
            Some(Check::fail(NAME, error.to_string(), format!("then systemctl restart {services}")))
        }
    }
}

/// The runtime that calls are passed to.
pub(super) fn runtime(facts: &Facts) -> String {
    let configured = facts.installed.config.as_deref().and_then(texts::runtime_of);
    let of_kubelet = || facts.kubelet.as_ref().map(|kubelet| kubelet.endpoint.clone());
    configured.or_else(of_kubelet).unwrap_or_else(|| places::CONTAINERD.to_owned())
}

fn journal(host: &Host) -> Check {
    match Journal::load(host) {
        Ok(None) => Check::warn(
            "journal",
            "none: not installed by berthctl",
            "berthctl uninstall --force takes Berth off all the same",
        ),
        Ok(Some(journal)) if journal.changes.len() > journal.settled => Check::fail(
            "journal",
            "an installation was interrupted",
            "berthctl uninstall puts everything back, berthctl install begins anew",
        ),
        Ok(Some(journal)) => {
            Check::ok("journal", format!("{} changes, all can be undone", journal.changes.len()))
        }
        Err(error) => Check::fail(
            "journal",
            format!("{error:#}"),
            "berthctl uninstall --force goes without it, and so does berthctl bypass",
        ),
    }
}

fn mode_is_safe(path: &str, mode: u32, uid: u32, most: u32) -> Option<Check> {
    if uid != 0 {
        let found = format!("{path} belongs to user {uid}");
        return Some(Check::fail("permissions", found, format!("chown root {path}")));
    }
    let others = mode & 0o777 & !most;
    (others != 0).then(|| {
        let found = format!("{path} has mode {:04o}, more than {most:04o}", mode & 0o777);
        Check::fail("permissions", found, format!("chmod {most:04o} {path}"))
    })
}

/// The machine.
pub(super) fn machine(host: &Host) -> Vec<Check> {
    let dir = if host.exists(STATE_DIR) { STATE_DIR } else { "/var/lib" };
    let disk = match statvfs(&host.path(dir)) {
        Ok(disk) => room(disk.blocks_available().saturating_mul(disk.fragment_size())),
        Err(error) => Check::warn("disk", format!("{dir}: {error}"), format!("look at it: df {dir}")),
    };
    let cgroup = if host.exists("/sys/fs/cgroup/cgroup.controllers") {
        Check::ok("cgroup", "v2")
    } else {
        Check::warn(
            "cgroup",
            "v1",
            "kubelet 1.35 and newer needs failCgroupV1: false there; better move to v2",
        )
    };
    let read = |path: &str| host.read(path).ok().flatten().unwrap_or_default();
    let security = if read("/sys/fs/selinux/enforce").trim() == "1" {
        Check::warn(
            "security",
            "SELinux is enforcing, and Berth has no policy of its own",
            "if berthd is denied something (ausearch -m avc -c berthd), make a local module of that",
        )
    } else if read("/sys/module/apparmor/parameters/enabled").trim() == "Y" {
        Check::ok("security", "AppArmor; berthd has no profile and needs none")
    } else {
        Check::ok("security", "no SELinux or AppArmor in the way")
    };
    vec![disk, cgroup, security]
}

fn room(available: u64) -> Check {
    let found = format!("{} MiB left for the state", available / MEBIBYTE);
    let remedy = format!("make room on the filesystem of {STATE_DIR}");
    match available {
        ENOUGH.. => Check::ok("disk", found),
        TOO_LITTLE.. => Check::warn("disk", found, remedy),
        _ => {
            let why = "what berthd cannot write down there it forgets when it starts anew";
            Check::fail("disk", found, format!("{remedy}: {why}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::facts::tests::{KUBEADM, Tree};
    use super::*;
    use crate::findings::Verdict;

    /// The remedies would install a second agent.
    #[test]
    fn the_agent_of_a_daemon_set_is_not_judged_as_a_service() {
        let (socket, unit) = ((ADMIN_SOCKET, ""), ("/etc/systemd/system/berthd.service", ""));
        for (there, expected) in [
            (vec![], true),
            (vec![socket], false),
            (vec![socket, unit], true),
            (vec![socket, (CONFIG, "")], true),
        ] {
            let tree = Tree::of(KUBEADM);
            there.iter().for_each(|(path, text)| tree.write(path, text));
            let (host, facts) = (tree.host(), tree.facts());
            assert_eq!(is_service(&host, &facts), expected, "{there:?}");
            let all = files(&host, &facts, expected);
            let installs = all.iter().any(|check| check.remedy.contains("berthctl install"));
            assert_eq!(installs, expected, "{all:?}");
        }
    }

    #[test]
    fn modes() {
        for (mode, uid, most, fails) in [
            (0o600, 0, 0o600, None),
            (0o400, 0, 0o600, None),
            (0o640, 0, 0o600, Some("chmod 0600 /x")),
            (0o644, 0, 0o644, None),
            (0o666, 0, 0o644, Some("chmod 0644 /x")),
            (0o600, 1000, 0o600, Some("chown root /x")),
        ] {
            let found = mode_is_safe("/x", mode, uid, most).map(|check| check.remedy);
            assert_eq!(found.as_deref(), fails, "{mode:o} {uid}");
        }
    }

    /// Each would leave a kubelet without calls, or berthd without them.
    #[test]
    fn both_programs_mean_each_other() {
        let [_, (_, drop_in)] = SHIM_UNITS;
        let config = "runtimeEndpoint: unix:///run/c.sock\n";
        let with_shim = format!("{config}shimSocket: /run/berth/shim.sock\n");
        let other_shim = format!("{config}shimSocket: /run/other.sock\n");
        let env = "BERTH_RUNTIME_ENDPOINT=unix:///run/c.sock\n";
        let other_env = "BERTH_RUNTIME_ENDPOINT=unix:///run/other.sock\n";
        for (two, config, env, verdict) in [
            (false, config, None, None),
            (false, with_shim.as_str(), None, Some(Verdict::Fail)),
            (true, config, Some(env), Some(Verdict::Fail)),
            (true, &with_shim, Some(env), Some(Verdict::Ok)),
            (true, &other_shim, Some(env), Some(Verdict::Fail)),
            (true, &with_shim, Some(other_env), Some(Verdict::Fail)),
            (true, &with_shim, Some(""), Some(Verdict::Fail)),
        ] {
            let mut facts = Facts::default();
            facts.installed.config = Some(config.to_owned());
            facts.installed.shim_units = [None, two.then(|| drop_in.to_owned())];
            facts.installed.shim_env = env.map(str::to_owned);
            let found = data_path(&facts);
            assert_eq!(
                found.as_ref().map(|check| check.verdict),
                verdict,
                "{two} {config} {env:?}: {found:?}"
            );
            let remedy = match two {
                true => "then systemctl restart berth-shim berthd",
                false => "then systemctl restart berthd",
            };
            let fails = found.filter(|check| check.verdict == Verdict::Fail);
            assert!(fails.is_none_or(|check| check.remedy == remedy), "{two} {config} {env:?}");
        }
    }

    #[test]
    fn room_for_the_state() {
        for (available, verdict) in
            [(0, Verdict::Fail), (10 * MEBIBYTE, Verdict::Warn), (100 * MEBIBYTE, Verdict::Ok)]
        {
            let check = room(available);
            assert_eq!(check.verdict, verdict, "{available}");
            assert_eq!(check.remedy.contains("/var/lib/berth"), verdict != Verdict::Ok, "{check:?}");
        }
    }
}
