//! `berth-shim`, where the data path is a program of its own: how it is, its upgrade, and its end.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use berth_proto::causes;
use berth_shim::remote::{self, ControlError, ShimState, UpgradeStage};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use tokio::time::{sleep, timeout};

use super::duration;
use super::output::progress;

/// Socket that `berth-shim` has for berthd, which is asked here too.
pub(crate) const SOCKET: &str = "/run/berth/shim.sock";
/// Interval at which a process is looked for that is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Has the `berth-shim` at this socket give its place to a new process of the file that it was started from.
pub(crate) async fn upgrade(socket: &Path) -> Result<()> {
    let began = Instant::now();
    let tell = |words: String| progress(&format!("{:>7}  {words}", duration::short(began.elapsed())));
    let started = |stage: &UpgradeStage| {
        tell(format!("berth-shim {} started as process {}", stage.version, stage.pid));
    };
    let upgraded = remote::upgrade(socket, started).await;
    upgraded.map_err(|error| failed(error, socket, "upgraded"))?;
    tell("it serves; the old berth-shim stays until its last call has ended".to_owned());
    Ok(())
}

/// The same, and then waits for the end of the old one, up to `limit`: a berthd that is upgraded while it
/// goes on finds only the new one, and stops that wait in the old one are carried out in no order.
pub(crate) async fn upgrade_to_its_end(socket: &Path, limit: Duration) -> Result<()> {
    let old = remote::look(socket).await.ok().and_then(|state| i32::try_from(state.pid).ok());
    upgrade(socket).await?;
    let runs = |pid| kill(Pid::from_raw(pid), None).is_ok();
    let Some(old) = old.filter(|pid| *pid > 0 && runs(*pid)) else { return Ok(()) };
    progress(&format!("berth-shim: process {old} ends its last calls"));
    let ended = async {
        while runs(old) {
            sleep(POLL_INTERVAL).await;
        }
    };
    if timeout(limit, ended).await.is_err() {
        progress(&format!("process {old} still has calls after {}, going on", duration::short(limit)));
    }
    Ok(())
}

/// Has the `berth-shim` at this socket end with its last open call.
pub(crate) async fn drain(socket: &Path) -> Result<()> {
    let began = Instant::now();
    let said = Cell::new(None);
    let tell = |state: &ShimState| {
        let now = Some((state.connections, state.held));
        if said.replace(now) != now {
            let took = duration::short(began.elapsed());
            let ShimState { connections, held, .. } = state;
            progress(&format!("{took:>7}  berth-shim: {connections} connections, {held} calls wait"));
        }
    };
    let last = remote::drain(socket, tell).await;
    let last = last.map_err(|error| failed(error, socket, "drained"))?;
    ensure!(
        last.connections <= 0,
        "berth-shim ended with {} connections still open (--drain-timeout)",
        last.connections
    );
    Ok(())
}

/// Words for a shim that did not do it; where nobody is there, with what to do.
fn failed(error: ControlError, socket: &Path, what: &str) -> anyhow::Error {
    let remedy = match error {
        ControlError::Away(_) => {
            "; systemctl start berth-shim, run berthctl as root, or name its socket with --shim=SOCKET"
        }
        ControlError::Mumbles(_) | ControlError::Silent | ControlError::Refused(_) => "",
    };
    anyhow!("berth-shim at {} not {what}: {}{remedy}", socket.display(), causes::once(&error))
}

/// A line of `berthctl status`; `None` where there is no such socket.
pub(crate) async fn state(socket: &Path) -> Option<String> {
    if !socket.exists() {
        return None;
    }
    Some(match remote::look(socket).await {
        Ok(state) => words(&state),
        Err(error) => format!("berth-shim at {}: {:#}", socket.display(), anyhow::Error::from(error)),
    })
}

fn words(state: &ShimState) -> String {
    let ShimState { program, pid, agent, table, connections, kubelet, held, filtered, .. } = state;
    let berthd = match agent {
        true => format!("berthd is connected (table {table})"),
        false => format!("no berthd is connected (table {table} stays in force)"),
    };
    let filter = match filtered {
        Some(true) => "; system calls filtered",
        Some(false) => "; system calls NOT filtered, its log says why",
        None => "",
    };
    let limit = match state.memory_limit {
        0 => String::new(),
        bytes => format!("; {} MiB of data at most", bytes >> 20),
    };
    format!(
        "berth-shim {program}, process {pid}; {berthd}; {connections} connections, {kubelet} of them the kubelet's; \
         {held} calls wait{filter}{limit}"
    )
}

#[cfg(test)]
mod tests {
    use berth_shim::remote::{Line, LineEnds, RemoteGate};
    use berth_shim::{Confined, Metrics, RuntimeEndpoint, bind};
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[tokio::test]
    async fn a_shim_says_how_it_is_and_how_its_upgrade_goes() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("shim.sock");
        assert_eq!(state(&socket).await, None);
        let gone = upgrade(&socket).await.unwrap_err();
        assert!(format!("{gone:#}").contains("no berth-shim answers"), "{gone:#}");
        let runtime = RuntimeEndpoint::from(dir.path().join("runtime.sock"));
        let (upgrades, mut asked) = mpsc::channel(1);
        let confined = Confined { filtered: true, memory_limit: Some(64 << 20) };
        let line = Line::new(bind(&socket, &runtime).await.unwrap()).upgrading(upgrades).confined(confined);
        tokio::spawn(line.serve(RemoteGate::new(Metrics::default()), LineEnds::default()));
        let said = state(&socket).await.unwrap();
        assert!(said.contains(&format!("process {}; no berthd is connected", std::process::id())), "{said}");
        assert!(said.ends_with("0 calls wait; system calls filtered; 64 MiB of data at most"), "{said}");
        for (stage, expected) in [
            (UpgradeStage { pid: 7, ready: true, ..UpgradeStage::default() }, None),
            (UpgradeStage { error: "it ended".into(), ..UpgradeStage::default() }, Some("goes on: it ended")),
        ] {
            let answers = async {
                asked.recv().await.unwrap().tell(stage);
            };
            let (upgraded, ()) = tokio::join!(upgrade(&socket), answers);
            match expected {
                None => upgraded.unwrap(),
                Some(words) => {
                    let error = format!("{:#}", upgraded.unwrap_err());
                    assert!(error.contains(words), "{error}");
                }
            }
        }
    }

    /// A drain is well when nothing was left; a shim that knows no drain says nothing.
    #[tokio::test]
    async fn a_shim_is_drained_to_its_last_connection() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("shim.sock");
        let runtime = RuntimeEndpoint::from(dir.path().join("runtime.sock"));
        for knows in [true, false] {
            let (asked, ends) = (CancellationToken::new(), LineEnds::default());
            let mut line = Line::new(bind(&socket, &runtime).await.unwrap());
            if knows {
                line = line.draining(asked.clone());
            }
            let serving = tokio::spawn(line.serve(RemoteGate::new(Metrics::default()), ends.clone()));
            let ending = async {
                if knows {
                    asked.cancelled().await;
                    ends.all.cancel();
                }
            };
            let (drained, ()) = tokio::join!(drain(&socket), ending);
            match knows {
                true => drained.unwrap(),
                false => {
                    let error = format!("{:#}", drained.unwrap_err());
                    assert!(error.contains("not drained: berth-shim went away"), "{error}");
                }
            }
            ends.all.cancel();
            serving.await.unwrap();
        }
    }
}
