//! The cgroup that holds all pods of a run, below the root of each hierarchy of the machine (v1) or of the
//! only one (v2).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const MOUNT: &str = "/sys/fs/cgroup";
/// Share of the processors, by file (v1, v2): as that of twenty processes. Without it all pods of a run have
/// together what one compiler has, and on a busy machine no hook begins within its grace.
const SHARES: [(&str, &str); 2] = [("cpu.shares", "20480"), ("cpu.weight", "2000")];

/// The root of every hierarchy.
pub(super) fn roots() -> Result<Vec<PathBuf>> {
    let mount = Path::new(MOUNT);
    if mount.join("cgroup.controllers").exists() {
        return Ok(vec![mount.to_owned()]);
    }
    let mut roots = Vec::new();
    for entry in fs::read_dir(mount).context(MOUNT)? {
        let entry = entry.context(MOUNT)?;
        // Some controllers have a second name, which is a symbolic link.
        if entry.file_type().context(MOUNT)?.is_dir() {
            roots.push(entry.path());
        }
    }
    Ok(roots)
}

/// Makes the cgroup in every hierarchy; the kubelet insists that its root is there before it starts.
pub(super) fn make(name: &str) -> Result<()> {
    for root in roots()? {
        let path = root.join(name);
        fs::create_dir_all(&path).with_context(|| format!("create cgroup {}", path.display()))?;
        for (file, share) in SHARES {
            if path.join(file).exists() {
                fs::write(path.join(file), share).with_context(|| format!("{file} of {}", path.display()))?;
            }
        }
        // A new cpuset (v1) may run nowhere until it is told where.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if path.join(file).exists() && !root.join("cgroup.controllers").exists() {
                let all = fs::read_to_string(root.join(file)).context(file)?;
                fs::write(path.join(file), all.trim())
                    .with_context(|| format!("{file} of {}", path.display()))?;
            }
        }
    }
    Ok(())
}

/// Reads the processes of the cgroup and of those below it, in every hierarchy. A container whose shim has
/// died is nobody's child any more, but it is still here.
pub(super) fn processes(name: &str) -> Result<Vec<i32>> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = roots()?.into_iter().map(|root| root.join(name)).collect();
    while let Some(cgroup) = open.pop() {
        // One that is gone has no processes.
        let Ok(entries) = fs::read_dir(&cgroup) else { continue };
        let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        open.extend(folders.map(|entry| entry.path()));
        let pids = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
        found.extend(pids.lines().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}
