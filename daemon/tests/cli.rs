//! `berthd` as a process: what it says and how it ends, without a runtime.

#![allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should")]
#![allow(clippy::unwrap_used, reason = "the helpers of a test fail like the test")]

use std::{
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use assert_cmd::{assert::OutputAssertExt, cargo::cargo_bin};

const EX_USAGE: i32 = 64;

/// A directory with a configuration for one agent.
struct Home {
    dir: tempfile::TempDir,
}

/// An agent that is killed with the test.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Home {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn config(&self, more: &str) -> PathBuf {
        let dir = self.dir.path().display();
        let text = format!(
            "apiVersion: berth.dev/v1alpha1\nkind: BerthdConfiguration\nsocket: {dir}/cri.sock\nadminSocket: \
             {dir}/admin.sock\nstateDir: {dir}/state\ndesiredDir: {dir}/desired\nruntimeEndpoint: unix://{dir}/runtime.sock\nhttpAddress: \
             127.0.0.1:0\n{more}"
        );
        let path = self.path("berthd.yaml");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn berthd(&self) -> Command {
        let mut command = berthd();
        command.arg("--config").arg(self.config(""));
        command
    }

    /// Starts an agent and waits until it has its socket.
    fn start(&self) -> Agent {
        let child = self.berthd().stderr(Stdio::null()).spawn().unwrap();
        let agent = Agent(child);
        await_condition("a connection", || UnixStream::connect(self.path("cri.sock")).is_ok());
        agent
    }
}

fn berthd() -> Command {
    let mut command = Command::new(cargo_bin("berthd"));
    command.env_clear();
    command
}

#[track_caller]
fn await_condition(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(300);
    while !condition() {
        assert!(Instant::now() < deadline, "no {what} in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn berthctl(home: &Home, args: &[&str]) -> std::process::Output {
    let program = cargo_bin("berthctl");
    assert!(program.exists(), "{} is built by cargo test --workspace --test cli", program.display());
    let mut command = Command::new(program);
    command.env_clear().arg("--admin-socket").arg(home.path("admin.sock"));
    command.args(args).output().unwrap()
}

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn printed_defaults_are_valid() {
    let home = Home::new();
    let printed = berthd().args(["config", "print-defaults"]).output().unwrap();
    assert!(printed.status.success());
    let path = home.path("defaults.yaml");
    std::fs::write(&path, &printed.stdout).unwrap();
    berthd().args(["config", "validate", "--config"]).arg(&path).assert().success();
}

#[test]
fn a_bad_configuration_exits_64_before_a_socket_is_bound() {
    let home = Home::new();
    for bad in [
        "launchOrder: {holdTimeout: soon}\n",
        "nonsense: 1\n",
        "httpAddress: 0.0.0.0:1\n",
        "logging: {level: 'a=b=c'}\n",
    ] {
        let config = home.config(bad);
        let output = berthd().arg("--config").arg(&config).output().unwrap();
        assert_eq!(output.status.code(), Some(EX_USAGE), "{bad}: {}", stderr(&output));
        assert!(!home.path("cri.sock").exists() && !home.path("cri.sock.lock").exists(), "{bad}");
    }
    let output = berthd().args(["--config", "/nonexistent/berthd.yaml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(EX_USAGE));
    assert!(stderr(&output).contains("/nonexistent/berthd.yaml"), "{}", stderr(&output));
    let output = berthd().arg("--no-such-flag").output().unwrap();
    assert_eq!(output.status.code(), Some(EX_USAGE));
}

#[test]
fn an_error_names_line_and_field() {
    let home = Home::new();
    let config = home.config("podView:\n  mode: sometimes\n");
    let output = berthd().args(["config", "validate", "--config"]).arg(&config).output().unwrap();
    let text = stderr(&output);
    for part in ["berthd.yaml", "line 10", "sometimes"] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
}

#[test]
fn one_agent_a_socket() {
    let home = Home::new();
    let _first = home.start();
    let output = home.berthd().output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cri.sock"), "{}", stderr(&output));
    UnixStream::connect(home.path("cri.sock")).expect("the first one is unharmed");
}

#[test]
fn the_socket_is_for_root_only_and_its_directory_can_be_passed() {
    let home = Home::new();
    let dir = home.path("run");
    let socket = dir.join("cri.sock");
    let mut command = home.berthd();
    let child = command.arg("--socket").arg(&socket).stderr(Stdio::null()).spawn().unwrap();
    let _agent = Agent(child);
    await_condition("socket", || UnixStream::connect(&socket).is_ok());
    await_condition("admin socket", || UnixStream::connect(home.path("admin.sock")).is_ok());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&socket), mode(&dir)), (0o600, 0o711));
    assert_eq!(mode(&home.path("admin.sock")), 0o600);
}

#[test]
fn a_stale_socket_is_taken_over_and_a_live_one_is_not() {
    let home = Home::new();
    let socket = home.path("cri.sock");
    let foreign = UnixListener::bind(&socket).unwrap();
    let output = home.berthd().output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    drop(foreign);
    assert!(std::fs::metadata(&socket).unwrap().file_type().is_socket(), "left as it was");
    let _agent = home.start();
}

#[test]
fn a_killed_agent_is_followed_by_another_one() {
    let home = Home::new();
    let mut first = home.start();
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    assert!(home.path("cri.sock").exists(), "what it left");
    let _second = home.start();
}

#[test]
fn sigterm_ends_it_well() {
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };
    let home = Home::new();
    let mut agent = home.start();
    let pid = Pid::from_raw(agent.0.id().try_into().unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    assert!(agent.0.wait().unwrap().success());
}

#[test]
fn a_file_is_answered_beside_it_and_listed_by_berthctl() {
    let home = Home::new();
    let _agent = home.start();
    // The directory may come later than the agent.
    std::fs::create_dir(home.path("desired")).unwrap();
    let head =
        "apiVersion: apps.kruise.io/v1alpha1\nkind: ContainerRecreateRequest\nmetadata: {namespace: shop}\n";
    std::fs::write(
        home.path("desired/again.yaml"),
        format!("{head}spec: {{podName: web, containers: [{{name: app}}]}}\n"),
    )
    .unwrap();
    std::fs::write(home.path("desired/bad.yaml"), format!("{head}spec: {{podName: web, containers: []}}\n"))
        .unwrap();
    let says = |name: &str, what: &str| {
        std::fs::read_to_string(home.path(name)).is_ok_and(|text| text.contains(what))
    };
    await_condition("waiting", || says("desired/again.yaml.status.yaml", "phase: Pending"));
    await_condition("refusal", || says("desired/bad.yaml.status.yaml", "spec.containers is empty"));
    let mode = std::fs::metadata(home.path("desired/again.yaml.status.yaml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);

    // The admin socket answers root only.
    if nix::unistd::geteuid().is_root() {
        let listed = berthctl(&home, &["get", "crr"]);
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(listed.status.success(), "{}", stderr(&listed));
        assert!(text.contains("again   shop/web   Pending   app "), "{text}");
        assert!(text.contains("spec.containers is empty"), "{text}");
        let json = berthctl(&home, &["get", "requests", "shop/again", "-o", "json"]);
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(
            (&json["requests"][0]["origin"], &json["requests"][0]["podUid"]),
            (&"file".into(), &"".into())
        );
        let unknown = berthctl(&home, &["recreate", "web", "app"]);
        assert_eq!(unknown.status.code(), Some(1));
        assert!(stderr(&unknown).contains("pod web is not on this node"), "{}", stderr(&unknown));
        for command in [&["update", "web", "app=web:v2"][..], &["get", "updates"]] {
            let refused = berthctl(&home, command);
            assert_eq!(refused.status.code(), Some(1));
            assert!(stderr(&refused).contains("updates need podView.mode api"), "{}", stderr(&refused));
        }
        let probes = berthctl(&home, &["probes"]);
        assert!(
            String::from_utf8_lossy(&probes.stdout).contains("no probe is wanted"),
            "{}",
            stderr(&probes)
        );
        let status = berthctl(&home, &["status", "-o", "json"]);
        assert!(status.status.success(), "{}", stderr(&status));
    }

    std::fs::remove_file(home.path("desired/bad.yaml")).unwrap();
    await_condition("tidying", || !home.path("desired/bad.yaml.status.yaml").exists());
}
