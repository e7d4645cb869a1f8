//! One run of a test node: its directory, ports, bridge, subnet and cgroup, so that runs never meet each
//! other or the host.
//!
//! Everything a run makes is below its directory or carries its number, which is what lets [`super::down`]
//! find it again after a crash. The directory is short because unix socket paths are limited to 108 bytes.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};

/// Where the runs of this machine are.
pub(super) const RUNS: &str = "/var/tmp/berth-tests";
/// The file of a run that its owner keeps locked: a run whose lock can be had is a leftover.
pub(super) const OWNER: &str = "owner";
/// Below the range that the kernel hands out to outgoing connections (32768 and up).
const FIRST_PORT: u16 = 20_000;
const PORTS_PER_RUN: u16 = 32;
const MOST_RUNS: u8 = 64;

/// The loopback ports of a run, one for each listener.
#[derive(Clone, Copy, Debug)]
pub enum Port {
    /// etcd, for its client (the API server).
    Etcd,
    /// etcd, for peers it does not have.
    EtcdPeer,
    /// The API server, HTTPS.
    Api,
    /// The kubelet's own API, HTTPS.
    Kubelet,
    /// The kubelet's `/healthz`.
    KubeletHealthz,
    /// The kubelet's read-only `/pods`.
    KubeletReadOnly,
    /// containerd's streaming server (exec, attach, port-forward).
    ContainerdStream,
    /// The image registry.
    Registry,
    /// The image registry that asks who one is.
    PrivateRegistry,
    /// kube-controller-manager, HTTPS.
    ControllerManager,
    /// kube-scheduler, HTTPS.
    Scheduler,
    /// `/healthz`, `/readyz` and `/metrics` of berthd.
    Berthd,
    /// The same of a second berthd, during a hand-over.
    BerthdNext,
    /// `/livez` and `/readyz` of berth-manager.
    Manager,
    /// `/metrics` of berth-manager.
    ManagerMetrics,
    /// `/livez` and `/readyz` of a second replica of berth-manager.
    ManagerNext,
    /// `/metrics` of a second replica of berth-manager.
    ManagerNextMetrics,
    /// The admission server of berth-manager, HTTPS.
    ManagerAdmission,
    /// The admission server of a second replica of berth-manager.
    ManagerNextAdmission,
    /// `/livez` and `/readyz` of berth-workloads.
    Workloads,
    /// `/metrics` of berth-workloads.
    WorkloadsMetrics,
    /// `/livez` and `/readyz` of a second replica of berth-workloads.
    WorkloadsNext,
    /// `/metrics` of a second replica of berth-workloads.
    WorkloadsNextMetrics,
    /// `/metrics` of berthd for scrapers of the cluster, HTTPS.
    BerthdMetrics,
}

/// A run in progress; its lock is released when the process that holds it ends, however it ends.
#[derive(Debug)]
pub struct Run {
    number: u8,
    dir: PathBuf,
    _owner: Flock<File>,
}

impl Run {
    /// Takes the first free number.
    pub fn claim() -> Result<Self> {
        for number in 0..MOST_RUNS {
            let dir = Path::new(RUNS).join(number.to_string());
            if dir.exists() {
                continue; // in use, or a leftover that is `down`'s to remove
            }
            fs::create_dir_all(RUNS).with_context(|| format!("create {RUNS}"))?;
            match fs::create_dir(&dir) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error).with_context(|| format!("create {}", dir.display())),
            }
            // Whoever removes leftovers may have taken it for one, and may have removed it already; and the
            // next one may have made it again.
            match File::create_new(dir.join(OWNER)) {
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => {
                    continue;
                }
                Err(error) => return Err(error).with_context(|| format!("own {}", dir.display())),
            }
            let Some(owner) = lock(&dir)? else { continue };
            fs::create_dir(dir.join("pids")).context("create pids")?;
            fs::create_dir(dir.join("log")).context("create log")?;
            return Ok(Self { number, dir, _owner: owner });
        }
        bail!("{MOST_RUNS} runs below {RUNS}: remove leftovers with `berth-node down`")
    }

    /// Its number, which its names and ports carry.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// The directory everything of this run is in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A path below the directory.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.join(name)
    }

    /// Makes a directory below the directory.
    pub fn make_dir(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
        Ok(path)
    }

    /// Writes a file below the directory.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// The port of a listener.
    pub fn port(&self, port: Port) -> u16 {
        FIRST_PORT + u16::from(self.number) * PORTS_PER_RUN + port as u16
    }

    /// `127.0.0.1:PORT` of a listener.
    pub fn address(&self, port: Port) -> String {
        format!("127.0.0.1:{}", self.port(port))
    }

    /// Names of what lives outside of the directory.
    pub fn names(&self) -> Names {
        Names::of(self.number)
    }

    /// The services' subnet.
    pub fn service_subnet(&self) -> String {
        format!("10.214.{}.0/24", self.number)
    }

    /// The address of the service `kubernetes`, the first of that subnet.
    pub fn service_address(&self) -> String {
        format!("10.214.{}.1", self.number)
    }

    /// The address of the service `berth-manager`, where a test gives it one.
    pub fn webhook_address(&self) -> String {
        format!("10.214.{}.9", self.number)
    }

    /// The node's address among the pods, the first of their subnet.
    pub fn gateway(&self) -> String {
        format!("10.213.{}.1/24", self.number)
    }

    /// The pods' subnet.
    pub fn subnet(&self) -> String {
        format!("10.213.{}.0/24", self.number)
    }
}

/// Names of everything that a run makes outside of its directory.
#[derive(Debug)]
pub struct Names {
    /// The bridge the pods are on.
    pub bridge: String,
    /// The CNI network, and the name its cached results carry.
    pub network: String,
    /// The cgroup all pods are in.
    pub cgroup: String,
}

impl Names {
    pub(super) fn of(number: u8) -> Self {
        Self {
            bridge: format!("berth{number}"),
            network: format!("berth-tests-{number}"),
            cgroup: format!("berth-tests-{number}"),
        }
    }
}

/// Locks a run's directory; `None` when its owner is alive, or it is gone or going: whoever removes it takes
/// [`OWNER`] away last, and nothing new may come into it meanwhile.
pub(super) fn lock(dir: &Path) -> Result<Option<Flock<File>>> {
    let path = dir.join(OWNER);
    let file = match File::options().append(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("open {}", path.display())),
    };
    let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => lock,
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => return Ok(None),
        Err((_, error)) => return Err(error).with_context(|| format!("lock {}", path.display())),
    };
    // Between the two steps its owner may have removed it, and the next run may have the number already.
    let locked = lock.metadata().with_context(|| path.display().to_string())?.ino();
    Ok(fs::metadata(&path).is_ok_and(|now| now.ino() == locked).then_some(lock))
}
