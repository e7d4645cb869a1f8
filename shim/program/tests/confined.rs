//! `berth-shim` as a process: what it and its successors cannot do.

#![allow(clippy::unwrap_used, reason = "the helpers of a test fail like the test")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use berth_shim::remote::{self, ControlError, ShimState};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// How long a process may take to be there, on a machine that does other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// A `berth-shim` that runs from a copy of the program.
struct Shim {
    dir: tempfile::TempDir,
    first: Child,
}

impl Shim {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("berth-shim");
        fs::copy(env!("CARGO_BIN_EXE_berth-shim"), &program).unwrap();
        let at = |name: &str| dir.path().join(name);
        let first = Command::new(&program)
            .arg("--socket")
            .arg(at("cri.sock"))
            .arg("--shim-socket")
            .arg(at("shim.sock"))
            .arg("--runtime-endpoint")
            .arg(at("runtime.sock"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { dir, first }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    async fn state(&self) -> ShimState {
        let began = Instant::now();
        loop {
            match remote::look(&self.at("shim.sock")).await {
                Ok(state) => return state,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.first.kill();
        let _ = self.first.wait();
    }
}

/// A line of what the kernel says of a process.
fn line(pid: u32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in {status}")).trim().to_owned()
}

fn limit_of_data(pid: u32) -> String {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max data size"));
    line.unwrap().split_whitespace().next().unwrap().to_owned()
}

fn replace(program: &Path, content: impl AsRef<[u8]>) {
    fs::remove_file(program).unwrap();
    fs::write(program, content).unwrap();
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A shell in the place of a successor is refused what its shim is refused, and the shim goes on; a successor
/// has the filter of its predecessor and none beside it.
#[tokio::test]
async fn a_successor_is_confined_as_the_one_before_it() {
    let mut shim = Shim::start();
    let first = shim.state().await;
    assert_eq!((first.filtered, first.memory_limit), (Some(true), 1 << 30), "{first:?}");
    assert_eq!(limit_of_data(first.pid), (1_u64 << 30).to_string());
    let filters = line(first.pid, "Seccomp_filters:");
    assert_eq!((line(first.pid, "Seccomp:"), line(first.pid, "NoNewPrivs:")), ("2".into(), "1".into()));
    let page = remote::scrape(&shim.at("shim.sock")).await.unwrap();
    let version = env!("CARGO_PKG_VERSION");
    for metric in [
        format!("berth_shim_build_info{{version=\"{version}\"}} 1\n"),
        "berth_shim_filtered 1\n".to_owned(),
        "berth_shim_memory_limit_bytes 1073741824\n".to_owned(),
    ] {
        assert!(page.contains(&metric), "no {metric} in {page}");
    }

    let said = shim.at("said");
    let script = format!(
        "#!/bin/bash\n\
         {{ mkfifo {dir}/fifo && echo fifo; unshare --uts true && echo unshare; mount -t tmpfs none {dir} && echo mount\n\
         exec 3<>/dev/tcp/127.0.0.1/1; }} 2>&1 | cat > {said}\n",
        dir = shim.dir.path().display(),
        said = said.display()
    );
    replace(&shim.at("berth-shim"), script);
    let refused = remote::upgrade(&shim.at("shim.sock"), |_| ()).await;
    assert!(matches!(refused, Err(ControlError::Refused(_))), "{refused:?}");
    let said = fs::read_to_string(said).unwrap();
    assert_eq!(said.matches("Function not implemented").count(), 3, "{said}");
    assert!(said.contains("Address family not supported"), "{said}");
    assert_eq!(shim.state().await.pid, first.pid);

    let program = fs::read(env!("CARGO_BIN_EXE_berth-shim")).unwrap();
    replace(&shim.at("berth-shim"), program);
    let ready = remote::upgrade(&shim.at("shim.sock"), |_| ()).await.unwrap();
    let second = shim.state().await;
    assert!(second.pid == ready.pid && second.pid != first.pid, "{second:?}");
    assert_eq!((second.filtered, second.memory_limit), (Some(true), 1 << 30), "{second:?}");
    assert_eq!(line(second.pid, "Seccomp_filters:"), filters);
    kill(Pid::from_raw(second.pid.try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert!(shim.first.wait().unwrap().success());
}
