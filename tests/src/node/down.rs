//! Takes a run apart: its processes, containers, mounts, bridge, cgroups and directory. Works from what it
//! finds on the machine and not from memory, so it is the same for a run that ends, one that crashed and one
//! that was killed.
//!
//! It never ends a process that it cannot show to be the run's: a recorded pid counts only while its command
//! line still names the run's directory, and a container only as a child of a shim that serves the run's
//! containerd.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::run_dir::{Names, OWNER, RUNS, lock};

/// Where the logs of ended runs are, beside the runs.
const LOGS: &str = "logs";
/// Far more than processes that are killed take to end, and what the kernel keeps of them, on a machine with
/// other work to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// Removes every leftover: the runs whose owner is gone. Says which.
pub fn leftovers() -> Result<Vec<u8>> {
    let mut removed = Vec::new();
    let runs = match fs::read_dir(RUNS) {
        Ok(runs) => runs,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(removed),
        Err(error) => return Err(error).context(RUNS),
    };
    for run in runs {
        let run = run.context(RUNS)?;
        let Some(number) = run.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Some(_owner) = lock(&run.path())? else {
            // One with nothing in it, not even an owner, is of a process that was killed. Any other stays.
            let _ = fs::remove_dir(run.path());
            continue;
        };
        remove(number)?;
        removed.push(number);
    }
    Ok(removed)
}

/// Removes one run, whoever owns it.
pub fn remove(number: u8) -> Result<()> {
    let dir = Path::new(RUNS).join(number.to_string());
    let names = Names::of(number);
    let bundles = Bundle::all(&dir)?;
    end_processes(&dir, &names.cgroup)?;
    unmount(&dir)?;
    remove_bridge(&names.bridge)?;
    remove_cni_results(&names.network, &bundles)?;
    remove_shim_sockets(&bundles)?;
    remove_cgroups(&names.cgroup)?;
    remove_log_links(&dir)?;
    keep_logs(&dir, number)?;
    remove_folder(&dir)
}

// === processes ===

fn end_processes(dir: &Path, cgroup: &str) -> Result<()> {
    // The kubelet and berthd first: they would start again what is ended below. What was being started during
    // one round is found by the next, until a round finds nothing.
    let until = Instant::now() + PATIENCE;
    loop {
        let mut ours = recorded(dir)?;
        ours.extend(containers(dir)?);
        ours.extend(super::cgroup::processes(cgroup)?);
        ours.retain(|pid| is_running(*pid));
        if ours.is_empty() {
            return Ok(());
        }
        for pid in &ours {
            // Gone in the meantime is what we want.
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        while ours.iter().any(|pid| is_running(*pid)) {
            if Instant::now() > until {
                bail!("processes of {} do not end: {ours:?}", dir.display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The recorded processes that still are what was recorded.
fn recorded(dir: &Path) -> Result<Vec<i32>> {
    let mut found = Vec::new();
    let pids = match fs::read_dir(dir.join("pids")) {
        Ok(pids) => pids,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error).context("pids"),
    };
    for file in pids {
        let path = file.context("pids")?.path();
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        // An empty file is a process that was about to be started when its parent was killed.
        let Ok(pid) = text.trim().parse() else { continue };
        if command_line(pid).contains(&below(dir)) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// The shims of this run's containerd and all that descends from them.
fn containers(dir: &Path) -> Result<Vec<i32>> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("/proc")? {
        let Some(pid) = entry.ok().and_then(|e| e.file_name().to_str().and_then(|name| name.parse().ok()))
        else {
            continue;
        };
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
        let line = command_line(pid);
        if line.contains("containerd-shim") && line.contains(&below(dir)) {
            found.push(pid);
        }
    }
    let mut next = 0;
    while next < found.len() {
        found.extend(children.remove(&found[next]).unwrap_or_default());
        next += 1;
    }
    found.reverse(); // children before their shim: a shim whose child ends first tidies up after it
    Ok(found)
}

/// With a slash at the end, so that run 1 is not taken for run 12.
fn below(dir: &Path) -> String {
    format!("{}/", dir.display())
}

fn command_line(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// The third and fourth field of `stat` follow the name, which is in brackets and may itself contain
/// anything.
fn stat(file: &Path) -> Option<(char, i32)> {
    let text = fs::read_to_string(file).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn parent(pid: i32) -> Option<i32> {
    stat(Path::new(&format!("/proc/{pid}/stat"))).map(|(_, parent)| parent)
}

/// Reads whether any thread of it runs. A zombie has ended: it is its parent who has not looked yet. But
/// another thread of a killed process may still be in a system call that waits for the disk, and makes its
/// file after the first thread is a zombie.
fn is_running(pid: i32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().any(|thread| {
        stat(&thread.path().join("stat")).is_some_and(|(state, _)| state != 'Z' && state != 'X')
    })
}

// === what processes leave behind ===

/// State that containerd keeps of a running container or sandbox.
struct Bundle {
    id: String,
    shim_socket: Option<String>,
}

impl Bundle {
    fn all(dir: &Path) -> Result<Vec<Self>> {
        let tasks = dir.join("containerd/state/io.containerd.runtime.v2.task/k8s.io");
        let entries = match fs::read_dir(&tasks) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(|| tasks.display().to_string()),
        };
        let mut bundles = Vec::new();
        for entry in entries {
            let entry = entry.with_context(|| tasks.display().to_string())?;
            let address = shim_address(&entry.path());
            bundles.push(Self {
                id: entry.file_name().to_string_lossy().into_owned(),
                shim_socket: address.and_then(|text| Some(text.trim().strip_prefix("unix://")?.to_owned())),
            });
        }
        Ok(bundles)
    }
}

/// Where a bundle's shim listens: 1.x notes it alone, 2.x with more. In 1.x a container in the sandbox's shim
/// has none of its own.
fn shim_address(bundle: &Path) -> Option<String> {
    if let Ok(address) = fs::read_to_string(bundle.join("address")) {
        return Some(address);
    }
    let bootstrap = fs::read_to_string(bundle.join("bootstrap.json")).ok()?;
    let bootstrap: serde_json::Value = serde_json::from_str(&bootstrap).ok()?;
    Some(bootstrap.get("address")?.as_str()?.to_owned())
}

fn unmount(dir: &Path) -> Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("mountinfo")?;
    let mut points: Vec<String> = table
        .lines()
        .filter_map(|line| line.split_whitespace().nth(4))
        .map(|point| point.replace("\\040", " "))
        .filter(|point| point.starts_with(&below(dir)))
        .collect();
    points.reverse(); // the last mounted first
    for point in points {
        match umount2(point.as_str(), MntFlags::MNT_DETACH) {
            // Gone in the meantime is what we want.
            Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
            Err(error) => return Err(error).with_context(|| format!("unmount {point}")),
        }
    }
    Ok(())
}

fn remove_bridge(bridge: &str) -> Result<()> {
    if !Path::new("/sys/class/net").join(bridge).exists() {
        return Ok(());
    }
    let done = Command::new("ip").args(["link", "delete", bridge]).output().context("ip")?;
    if !done.status.success() {
        bail!("delete bridge {bridge}: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(())
}

/// libcni remembers what it gave to each sandbox, at a place that cannot be configured.
fn remove_cni_results(network: &str, bundles: &[Bundle]) -> Result<()> {
    let ours = format!("{network}-");
    remove_entries("/var/lib/cni/results", |path| {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
        name.starts_with(&ours) || bundles.iter().any(|bundle| name.contains(&bundle.id))
    })
}

/// The same is true of the sockets of containerd's shims.
fn remove_shim_sockets(bundles: &[Bundle]) -> Result<()> {
    for socket in bundles.iter().filter_map(|bundle| bundle.shim_socket.as_deref()) {
        match fs::remove_file(socket) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("remove {socket}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The kubelet links the logs of its containers in a folder that cannot be configured.
fn remove_log_links(dir: &Path) -> Result<()> {
    remove_entries("/var/log/containers", |path| {
        fs::read_link(path).is_ok_and(|target| target.starts_with(dir))
    })
}

/// The last logs of each number stay: what went wrong is often asked after the run.
fn keep_logs(dir: &Path, number: u8) -> Result<()> {
    let kept = Path::new(RUNS).join(LOGS).join(number.to_string());
    if !dir.join("log").exists() {
        return Ok(());
    }
    if kept.exists() {
        fs::remove_dir_all(&kept).with_context(|| format!("remove {}", kept.display()))?;
    }
    fs::create_dir_all(Path::new(RUNS).join(LOGS)).context("folder of old logs")?;
    fs::rename(dir.join("log"), &kept).with_context(|| format!("keep the logs in {}", kept.display()))
}

/// Removes the folder, and waits for the last who write to it: what a containerd has started that was killed,
/// such as a plugin of its network, is nobody's child any more, and shows nothing of the run.
fn remove_folder(dir: &Path) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        unmount(dir)?;
        let Err(error) = remove_all(dir) else { return Ok(()) };
        let may_pass = matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty | ErrorKind::ResourceBusy
        );
        if error.kind() == ErrorKind::NotFound && !dir.exists() {
            return Ok(());
        }
        if !may_pass || Instant::now() > until {
            let left = left_in(dir);
            // Somebody may remove the rest later, as a leftover.
            let _ = File::create_new(dir.join(OWNER));
            return Err(error).with_context(|| format!("remove {}: it has {left:?}", dir.display()));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The [`OWNER`] goes last: as long as there is one, the folder is somebody's, and whoever is killed in the
/// middle leaves a leftover.
fn remove_all(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name() == OWNER {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    match fs::remove_file(dir.join(OWNER)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::remove_dir(dir)
}

/// Lists the files that are left in a folder and in those below it, to say who wrote them.
fn left_in(dir: &Path) -> Vec<PathBuf> {
    const ENOUGH: usize = 20;
    let mut open = vec![dir.to_owned()];
    let mut left = Vec::new();
    while let Some(next) = open.pop()
        && left.len() < ENOUGH
    {
        match fs::read_dir(&next) {
            Ok(entries) => open.extend(entries.flatten().map(|entry| entry.path())),
            Err(_) => left.push(next),
        }
    }
    left
}

fn remove_entries(folder: &str, is_ours: impl Fn(&Path) -> bool) -> Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).context(folder.to_owned()),
    };
    for entry in entries {
        let path = entry.with_context(|| folder.to_owned())?.path();
        if is_ours(&path) {
            fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    Ok(())
}

fn remove_cgroups(cgroup: &str) -> Result<()> {
    for root in super::cgroup::roots()? {
        remove_cgroup(&root.join(cgroup))?;
    }
    Ok(())
}

/// A cgroup is removed from the inside out, and only when its last process has been reaped: that takes a
/// moment.
fn remove_cgroup(path: &Path) -> Result<()> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    for entry in entries {
        let entry = entry.with_context(|| path.display().to_string())?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_cgroup(&entry.path())?;
        }
    }
    let until = Instant::now() + PATIENCE;
    loop {
        match fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if Instant::now() > until => {
                return Err(error).with_context(|| format!("remove cgroup {}", path.display()));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

#[cfg(test)]
mod tests;
