//! Out of berthd's session, cgroup and container: where these end, what is in them is killed.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use nix::{
    errno::Errno,
    sched::{CloneFlags, setns},
    unistd::setsid,
};
use tracing::{info, warn};

/// Tells whether this process sees another disk than the node's first process. Only with the node's PIDs
/// (`hostPID`) can that be asked.
///
/// # Errors
/// It is in a container that it cannot leave.
pub fn in_a_container() -> anyhow::Result<bool> {
    ensure!(
        std::process::id() != 1,
        "this is the first process of a container; its pod needs hostPID: true, so that it can be left"
    );
    let own = fs::read_link("/proc/self/ns/mnt").context("our own mounts")?;
    let error = match fs::read_link("/proc/1/ns/mnt") {
        Ok(first) => return Ok(own != first),
        Err(error) => error,
    };
    let groups = fs::read_to_string("/proc/1/cgroup").context("the cgroups of the node's first process")?;
    // Nobody may look at that process, on a node whose first process is none of the usual ones.
    ensure!(
        !is_outside(&groups),
        "{error} (/proc/1/ns/mnt), and this is a container; its pod needs to be privileged"
    );
    Ok(false)
}

/// Tells whether these cgroups lie outside of our own namespace of cgroups.
fn is_outside(groups: &str) -> bool {
    groups.lines().any(|line| line.rsplit(':').next().is_some_and(|path| path.starts_with("/..")))
}

/// Leaves the session and the cgroups; with `host` the namespaces of mounts and cgroups too.
///
/// # Errors
/// One of them could not be left: what ends the one who started this process may end this process too.
pub fn leave(host: bool) -> anyhow::Result<()> {
    match setsid() {
        // It leads its group: somebody started it by hand.
        Ok(_) | Err(Errno::EPERM) => {}
        Err(errno) => return Err(errno).context("a session of its own"),
    }
    if host {
        let open = |name: &str| {
            File::open(format!("/proc/1/ns/{name}")).with_context(|| format!("the node's {name}"))
        };
        let (mounts, cgroups) = (open("mnt")?, open("cgroup")?);
        setns(cgroups, CloneFlags::CLONE_NEWCGROUP).context("the node's cgroups")?;
        setns(mounts, CloneFlags::CLONE_NEWNS).context("the node's mounts")?;
    }
    // Also where that is not a container's: what is left of a service that ends is killed too.
    leave_cgroups().context("leave the cgroups")?;
    info!("Cgroups left");
    Ok(())
}

fn leave_cgroups() -> anyhow::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("the mounts")?;
    for root in roots(&mounts) {
        if let Err(error) = fs::write(root.join("cgroup.procs"), "0") {
            // Of a hierarchy that lets nobody in it is enough not to be below its root.
            warn!(%error, cgroup = ?root, "Not moved");
        }
    }
    let groups = fs::read_to_string("/proc/self/cgroup").context("the cgroups")?;
    let below: Vec<&str> = groups.lines().filter(|line| !line.ends_with(":/")).collect();
    ensure!(below.is_empty(), "still in {below:?}");
    Ok(())
}

/// The root of each hierarchy that is mounted as a whole.
fn roots(mountinfo: &str) -> Vec<PathBuf> {
    let root = |line: &str| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let kind = filesystem.split(' ').next()?;
        let mut fields = mount.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        (matches!(kind, "cgroup" | "cgroup2") && root == "/").then(|| Path::new(at).to_owned())
    };
    mountinfo.lines().filter_map(root).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_is_seen_from_a_container() {
        for (groups, expected) in [
            ("12:cpu:/\n0::/\n", false),
            ("0::/init.scope\n", false),
            ("0::/../../init.scope\n", true),
            ("9:name=systemd:/\n8:pids:/../../..\n", true),
        ] {
            assert_eq!(is_outside(groups), expected, "{groups}");
        }
    }

    #[test]
    fn the_roots_of_the_hierarchies_are_found_in_the_mounts() {
        let table = [
            ("31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,size=4096k", vec![]),
            (
                "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu",
                vec!["/sys/fs/cgroup/cpu"],
            ),
            ("33 31 0:30 / /sys/fs/cgroup rw shared:4 master:1 - cgroup2 cgroup2 rw", vec!["/sys/fs/cgroup"]),
            ("34 31 0:30 /kubepods/pod1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw", vec![]),
            ("nonsense", vec![]),
        ];
        for (line, expected) in table {
            let expected: Vec<PathBuf> = expected.into_iter().map(PathBuf::from).collect();
            assert_eq!(roots(line), expected, "{line}");
        }
    }
}
