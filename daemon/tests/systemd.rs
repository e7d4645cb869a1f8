//! The units, and what berthd and systemd say to each other. Without a systemd as PID 1: the units are
//! checked by `systemd-analyze`, the socket is passed by `systemd-socket-activate`, and the test itself
//! listens to the notifications.

use std::{
    os::unix::net::{UnixDatagram, UnixStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use assert_cmd::cargo::cargo_bin;
use berth_proto::cri::{VersionRequest, runtime_service_client::RuntimeServiceClient};
use berthd::base::unix;

/// A process that is killed with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Arguments for an agent that keeps to `dir`.
fn flags(dir: &Path) -> Vec<String> {
    let dir = dir.display();
    vec![
        format!("--admin-socket={dir}/admin.sock"),
        format!("--state-dir={dir}/state"),
        format!("--desired-dir={dir}/desired"),
        format!("--runtime-endpoint=unix://{dir}/runtime.sock"),
        "--http-address=127.0.0.1:0".to_owned(),
    ]
}

#[test]
fn the_units_are_valid() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../systemd");
    let dir = tempfile::tempdir().unwrap();
    let berthd = cargo_bin("berthd");
    for unit in ["berthd.service", "berthd.socket"] {
        // The program is checked too, and is not installed here.
        let text = std::fs::read_to_string(units.join(unit)).unwrap();
        let text = text.replace("/usr/local/bin/berthd", berthd.to_str().unwrap());
        std::fs::write(dir.path().join(unit), text).unwrap();
    }
    let output = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .args([dir.path().join("berthd.service"), dir.path().join("berthd.socket")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}

/// Root's docker configuration is one of the places where credentials of registries are looked for; and
/// nothing is installed that a unit could point its readers to.
#[test]
fn the_units_hide_no_credentials_and_promise_no_document() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../systemd");
    for unit in ["berthd.service", "berthd.socket", "berth-shim.service"] {
        let text = std::fs::read_to_string(units.join(unit)).unwrap();
        let is_set = |line: &str| text.lines().any(|one| one == line);
        assert!(!text.contains("Documentation="), "{unit}");
        assert_eq!(is_set("ProtectHome=read-only"), unit == "berthd.service", "{unit}");
    }
}

/// `berth-shim` is not built with this package: what is checked is everything but its file.
#[test]
fn the_units_of_two_programs_are_valid() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../systemd");
    let dir = tempfile::tempdir().unwrap();
    for unit in ["berthd.service", "berthd.socket", "berth-shim.service"] {
        let text = std::fs::read_to_string(units.join(unit)).unwrap();
        let text = text
            .replace("/usr/local/bin/berthd", cargo_bin("berthd").to_str().unwrap())
            .replace("/usr/local/bin/berth-shim", "/bin/true");
        std::fs::write(dir.path().join(unit), text).unwrap();
    }
    let drop_in = dir.path().join("berthd.socket.d");
    std::fs::create_dir(&drop_in).unwrap();
    std::fs::copy(units.join("berthd.socket.d-two-programs.conf"), drop_in.join("50-two-programs.conf"))
        .unwrap();
    let output = Command::new("systemd-analyze")
        .env("SYSTEMD_UNIT_PATH", format!("{}:", dir.path().display()))
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .args(["berthd.service", "berthd.socket", "berth-shim.service"].map(|unit| dir.path().join(unit)))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}

/// No network, no capability, nothing to write to.
#[test]
fn the_sandbox_of_the_shim_is_tighter_than_that_of_berthd() {
    check_exposure("berth-shim.service", "8");
}

/// Checks the exposure that systemd computes for the sandbox, from 0.0 to 10.0. The rest of it is the agent's
/// purpose: it is root's program, on the host's network, and enters those of pods.
#[test]
fn the_sandbox_is_as_tight_as_it_was() {
    check_exposure("berthd.service", "20");
}

/// Fails above so many tenths.
#[expect(clippy::unwrap_used, reason = "a helper of tests")]
fn check_exposure(unit: &str, threshold: &str) {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../systemd").join(unit);
    let output = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager"])
        .arg(format!("--threshold={threshold}"))
        .arg(unit)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let score = said.lines().find(|line| line.contains("Overall exposure level")).unwrap_or_default();
    eprintln!("{score}");
    assert!(
        output.status.success() && !score.is_empty(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn it_tells_when_it_is_ready_and_that_it_is_alive() {
    let dir = tempfile::tempdir().unwrap();
    let notify = UnixDatagram::bind(dir.path().join("notify.sock")).unwrap();
    notify.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let child = Command::new(cargo_bin("berthd"))
        .env_clear()
        .args(flags(dir.path()))
        .arg(format!("--socket={}/cri.sock", dir.path().display()))
        .env("NOTIFY_SOCKET", dir.path().join("notify.sock"))
        .env("WATCHDOG_USEC", "600000")
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let process = Process(child);
    let mut said = String::new();
    let mut wait_for = |word: &str| {
        while !said.contains(word) {
            let mut buffer = [0; 256];
            let length =
                notify.recv(&mut buffer).unwrap_or_else(|error| panic!("no {word} in {said:?}: {error}"));
            said.push_str(&String::from_utf8_lossy(&buffer[..length]));
            said.push(' ');
        }
        said.clear();
    };
    wait_for("READY=1");
    UnixStream::connect(dir.path().join("cri.sock")).expect("ready means that it serves");
    wait_for("WATCHDOG=1");
    wait_for("WATCHDOG=1");
    let pid = nix::unistd::Pid::from_raw(process.0.id().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    wait_for("STOPPING=1");
}

#[test]
fn it_takes_the_socket_it_is_passed() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("cri.sock");
    let child = Command::new("systemd-socket-activate")
        .arg("--fdname=cri")
        .arg(format!("--listen={}", socket.display()))
        .arg(cargo_bin("berthd"))
        .args(flags(dir.path()))
        // If it bound a socket of its own, it would be here.
        .arg(format!("--socket={}/own.sock", dir.path().display()))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _process = Process(child);
    let deadline = Instant::now() + Duration::from_secs(120);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // The first connection makes systemd start it; it is answered by berthd, which says that the runtime is
    // away.
    let answer = loop {
        let text = runtime.block_on(version(&socket)).expect_err("there is no runtime");
        if text.contains("runtime.sock") || Instant::now() > deadline {
            break text;
        }
    };
    assert!(answer.contains("runtime.sock"), "{answer}");
    assert!(!dir.path().join("own.sock").exists());
}

/// A call that only the runtime can answer.
async fn version(socket: &Path) -> Result<(), String> {
    let endpoint = unix::endpoint().timeout(Duration::from_secs(10));
    let channel = endpoint.connect_with_connector(unix::connector(socket)).await;
    let mut client = RuntimeServiceClient::new(channel.map_err(|error| error.to_string())?);
    client.version(VersionRequest::default()).await.map_err(|status| status.message().to_owned())?;
    Ok(())
}
