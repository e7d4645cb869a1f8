//! `path: takeover` as processes: berthd in the place of a stand-in for the runtime, and the guardian that
//! outlives it.

#![allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should")]
#![allow(clippy::unwrap_used, reason = "the helpers of a test fail like the test")]

use std::{
    fs::{self, File},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use assert_cmd::cargo::cargo_bin;
use nix::{
    fcntl::{Flock, FlockArg},
    sys::{
        signal::{Signal, kill},
        socket::{getsockopt, sockopt::PeerCredentials},
    },
    unistd::Pid,
};

/// A node: the directory of the runtime's socket, and a runtime that listens and says nothing.
struct Node {
    dir: tempfile::TempDir,
    runtime: Option<UnixListener>,
}

/// A berthd that is killed with the test. Its guardian ends when the directory is gone.
struct Berthd(Child);

impl Drop for Berthd {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Berthd {
    fn pid(&self) -> i32 {
        self.0.id().try_into().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }
}

impl Node {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut node = Self { dir, runtime: None };
        node.start_runtime();
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// As runtimes do it: whatever is at the path is removed.
    fn start_runtime(&mut self) {
        let path = self.path("r.sock");
        let _ = fs::remove_file(&path);
        self.runtime = Some(UnixListener::bind(&path).unwrap());
        fs::set_permissions(path, fs::Permissions::from_mode(0o660)).unwrap();
    }

    fn start(&self) -> Berthd {
        let dir = self.dir.path().display();
        let config = format!(
            "apiVersion: berth.dev/v1alpha1\nkind: BerthdConfiguration\npath: takeover\nadminSocket: {dir}/admin.sock\n\
             stateDir: {dir}/state\ndesiredDir: {dir}/desired\nruntimeEndpoint: unix://{dir}/r.sock\n\
             httpAddress: 127.0.0.1:0\ndrainTimeout: 1s\n"
        );
        let file = self.path("berthd.yaml");
        fs::write(&file, config).unwrap();
        let log = File::options().create(true).append(true).open(self.path("berthd.log")).unwrap();
        let mut command = Command::new(cargo_bin("berthd"));
        command.env_clear().arg("--config").arg(file).stdin(Stdio::null()).stderr(log);
        Berthd(command.spawn().unwrap())
    }

    /// The process that listens at this name.
    fn listens(&self, name: &str) -> Option<i32> {
        let stream = UnixStream::connect(self.path(name)).ok()?;
        Some(getsockopt(&stream, PeerCredentials).unwrap().pid())
    }

    fn is_guarded(&self) -> bool {
        let file =
            File::options().write(true).create(true).truncate(false).open(self.path("r.sock.berth.guardian"));
        Flock::lock(file.unwrap(), FlockArg::LockSharedNonblock).is_err()
    }

    #[track_caller]
    fn await_condition(&self, what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(300);
        while !condition() {
            let log = |name: &str| fs::read_to_string(self.path(name)).unwrap_or_default();
            assert!(
                Instant::now() < deadline,
                "not in time: {what}\n{}\n{}",
                log("berthd.log"),
                log("state/guardian.log")
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[track_caller]
    fn await_taken(&self, berthd: &Berthd) {
        self.await_condition("berthd at the runtime's path, the runtime beside", || {
            self.listens("r.sock") == Some(berthd.pid()) && self.listens("r.sock.runtime") == Some(us())
        });
    }

    #[track_caller]
    fn await_runtime(&self) {
        self.await_condition("the runtime at its path", || self.listens("r.sock") == Some(us()));
    }

    /// Dials the runtime's path all the time; what is returned gives the number of attempts and of failures.
    fn dial(&self) -> impl FnOnce() -> (usize, usize) + use<> {
        let (path, stop) = (self.path("r.sock"), Arc::new(AtomicBool::new(false)));
        let (made, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let thread = std::thread::spawn({
            let (stop, made, failed) = (stop.clone(), made.clone(), failed.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    made.fetch_add(1, Ordering::Relaxed);
                    failed.fetch_add(usize::from(UnixStream::connect(&path).is_err()), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        move || {
            stop.store(true, Ordering::Relaxed);
            thread.join().unwrap();
            (made.load(Ordering::Relaxed), failed.load(Ordering::Relaxed))
        }
    }

    /// Nobody accepts for the runtime: what has been dialled must not fill its backlog.
    fn accept_for_ever(&self) {
        let listener = self.runtime.as_ref().unwrap().try_clone().unwrap();
        std::thread::spawn(move || while listener.accept().is_ok() {});
    }
}

fn us() -> i32 {
    std::process::id().try_into().unwrap()
}

/// A process of the node's root outlives berthd's container: it keeps no more than it needs.
#[test]
fn a_program_outside_has_no_capability_where_it_is_to_have_none() {
    let status = |flags: &[&str]| {
        let mut command = Command::new(cargo_bin("berthd"));
        let output =
            command.arg("outside").args(flags).args(["/bin/cat", "--", "/proc/self/status"]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let bounds = "CapBnd:\t0000000000000000";
    assert!(!status(&[]).contains(bounds));
    let confined = status(&["--confined"]);
    for line in ["CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", bounds, "NoNewPrivs:\t1"] {
        assert!(confined.contains(line), "{line}: {confined}");
    }
}

#[test]
fn taken_and_left_without_a_moment_in_which_nobody_answers() {
    let node = Node::new();
    node.accept_for_ever();
    let dialled = node.dial();
    let mut berthd = node.start();
    node.await_taken(&berthd);
    assert!(node.is_guarded());
    let mode = fs::metadata(node.path("r.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660, "as the runtime's");
    berthd.signal(Signal::SIGTERM);
    assert!(berthd.0.wait().unwrap().success());
    assert_eq!(node.listens("r.sock"), Some(us()));
    let (made, failed) = dialled();
    assert!(made > 50 && failed == 0, "{failed} of {made}");
    for gone in ["r.sock.berth", "r.sock.runtime", "r.sock.berth.next"] {
        assert!(!node.path(gone).exists(), "{gone}");
    }
    node.await_condition("the guardian ends", || !node.is_guarded());
    assert_eq!(node.listens("r.sock"), Some(us()));
}

#[test]
fn after_a_crash_the_guardian_puts_the_runtime_back_and_berthd_may_come_again() {
    let node = Node::new();
    let mut berthd = node.start();
    for round in 0..2 {
        node.await_taken(&berthd);
        let killed = Instant::now();
        berthd.signal(Signal::SIGKILL);
        berthd.0.wait().unwrap();
        let listens = node.listens("r.sock");
        // The guardian waits that long for a berthd that comes back. A test that has stood still looks later.
        assert!(
            listens != Some(us()) || killed.elapsed() >= Duration::from_secs(2),
            "round {round}: somebody was there before the guardian"
        );
        node.await_runtime();
        assert!(node.is_guarded(), "round {round}");
        berthd = node.start();
    }
    node.await_taken(&berthd);
    // One that is back at once finds its dead socket there.
    berthd.signal(Signal::SIGKILL);
    berthd.0.wait().unwrap();
    let berthd = node.start();
    node.await_taken(&berthd);
}

#[test]
fn a_guardian_that_is_killed_is_followed_by_another_one() {
    let node = Node::new();
    let berthd = node.start();
    node.await_taken(&berthd);
    let guardian = || fs::read_to_string(node.path("r.sock.berth.guardian")).unwrap().trim().parse::<i32>();
    let first = guardian().unwrap();
    kill(Pid::from_raw(first), Signal::SIGKILL).unwrap();
    node.await_condition("another guardian", || {
        node.is_guarded() && guardian().is_ok_and(|pid| pid != first)
    });
    drop(berthd);
    node.await_runtime();
}

#[test]
fn the_place_of_a_runtime_that_restarts_is_taken_again() {
    let mut node = Node::new();
    let mut berthd = node.start();
    node.await_taken(&berthd);
    for _ in 0..2 {
        node.runtime = None;
        let _ = fs::remove_file(node.path("r.sock"));
        std::thread::sleep(Duration::from_millis(600));
        assert!(!node.path("r.sock").exists(), "a runtime that starts has to find its path free");
        node.start_runtime();
        node.await_taken(&berthd);
    }
    // A runtime that is away at the end finds its path free, too, or is there.
    node.runtime = None;
    berthd.signal(Signal::SIGTERM);
    assert!(berthd.0.wait().unwrap().success());
    assert_eq!(node.listens("r.sock"), None);
    node.start_runtime();
    assert_eq!(node.listens("r.sock"), Some(us()));
}

#[test]
fn a_runtime_that_comes_later_is_waited_for() {
    let mut node = Node::new();
    node.runtime = None;
    let berthd = node.start();
    node.await_condition("berthd listens", || node.listens("r.sock.berth") == Some(berthd.pid()));
    assert_eq!(node.listens("r.sock"), None);
    node.start_runtime();
    node.await_taken(&berthd);
}

#[test]
fn a_path_that_is_no_socket_is_refused_and_left() {
    let mut node = Node::new();
    node.runtime = None;
    fs::remove_file(node.path("r.sock")).unwrap();
    let real = UnixListener::bind(node.path("real.sock")).unwrap();
    std::os::unix::fs::symlink(node.path("real.sock"), node.path("r.sock")).unwrap();
    let mut berthd = node.start();
    assert_eq!(berthd.0.wait().unwrap().code(), Some(1));
    let log = fs::read_to_string(node.path("berthd.log")).unwrap();
    assert!(log.contains("give the runtime's own path"), "{log}");
    assert_eq!(node.listens("r.sock"), Some(us()));
    drop(real);
}
