//! Carries out a plan, and the way back. Each change is in the journal before it is made; nothing is decided
//! here.

#[cfg(test)]
mod tests;

use std::time::Duration;

use anyhow::Result;

use super::host::Host;
use super::journal::{Change, Journal, Undo};
use super::places::{RUN_DIR, SHIM_UNIT, unit_path};
use super::plan::Action;

/// An ordinary `systemctl`.
const SYSTEMCTL_TIMEOUT: Duration = Duration::from_secs(30);
/// A `systemctl` that waits for a service: berthd finishes its open calls first (`TimeoutStopSec=` of its
/// unit).
const LONG: Duration = Duration::from_secs(240);
const PROGRAM: u32 = 0o755;
const FILE: u32 = 0o644;
/// The configuration names the files of credentials, and is read by root.
const CONFIG: u32 = 0o600;

/// Writes down what an action will change. What it would not change is not written down.
pub(crate) async fn record(host: &Host, journal: &mut Journal, action: &Action) -> Result<()> {
    let change = match action {
        Action::MakeDir { path } if !host.exists(path) => Change::Folder { path: path.clone() },
        Action::Copy { path, .. } => {
            Change::File { path: path.clone(), before: host.before(path)?, theirs: None }
        }
        Action::Replace { path, kept, .. } => {
            // One that died after it had settled has left it there. From the record on it is what the way
            // back puts back.
            host.remove(kept)?;
            Change::Replaced { path: (*path).to_owned(), kept: kept.clone() }
        }
        Action::Write { path, content, theirs } => Change::File {
            path: path.clone(),
            before: host.before(path)?,
            theirs: theirs.then(|| content.clone()),
        },
        Action::Remove { path } => {
            Change::File { path: (*path).to_owned(), before: host.before(path)?, theirs: None }
        }
        Action::Enable { unit } if !is(host, "is-enabled", unit).await? => {
            Change::Enabled { unit: (*unit).to_owned() }
        }
        Action::Start { unit } if !is(host, "is-active", unit).await? => {
            Change::Started { unit: (*unit).to_owned() }
        }
        Action::Restart { unit } => match is(host, "is-active", unit).await? {
            true => Change::Restarted { unit: (*unit).to_owned() },
            false => Change::Started { unit: (*unit).to_owned() },
        },
        Action::Redirect { unit, path, .. } => {
            Change::Redirected { unit: (*unit).to_owned(), path: path.clone(), before: host.before(path)? }
        }
        Action::MakeDir { .. }
        | Action::Enable { .. }
        | Action::Start { .. }
        | Action::Reload
        | Action::AwaitBerthd
        | Action::AwaitShim
        | Action::AwaitNode
        | Action::HandOverShim
        | Action::HandOver => return Ok(()),
    };
    journal.push(host, change)
}

/// Makes the change. Waiting is not done here, nor is what is asked of berthd.
pub(crate) async fn perform(host: &Host, action: &Action) -> Result<()> {
    match action {
        Action::MakeDir { path } => host.make_dir(path, 0o755),
        Action::Copy { from, path } => host.copy(from, path, PROGRAM),
        Action::Replace { from, path, kept } => {
            host.copy(&host.path(path), kept, PROGRAM)?;
            host.copy(from, path, PROGRAM)
        }
        Action::Write { path, content, theirs } => {
            host.write(path, content.as_bytes(), if *theirs { CONFIG } else { FILE })
        }
        Action::Remove { path } => host.remove(path),
        Action::Reload => reload(host).await,
        Action::Enable { unit } => host.systemctl(&["enable", unit], SYSTEMCTL_TIMEOUT).await.map(drop),
        // Whether it comes up is waited for with a limit of ours, not with the unit's.
        Action::Start { unit } => {
            host.systemctl(&["start", "--no-block", unit], SYSTEMCTL_TIMEOUT).await.map(drop)
        }
        Action::Restart { unit } => host.systemctl(&["restart", unit], LONG).await.map(drop),
        Action::Redirect { unit, path, content } => {
            host.write(path, content.as_bytes(), FILE)?;
            reload(host).await?;
            restart_kubelet(host, unit).await
        }
        Action::AwaitBerthd
        | Action::AwaitShim
        | Action::AwaitNode
        | Action::HandOverShim
        | Action::HandOver => Ok(()),
    }
}

/// Goes one step back. What stays although it was ours is said.
pub(crate) async fn undo(host: &Host, step: &Undo) -> Result<Option<String>> {
    match step {
        Undo::Restore { path, before, only_if } => {
            if let (Some(written), Some(there)) = (only_if, host.read(path)?)
                && *written != there
            {
                return Ok(Some(format!("{path} was changed since and stays")));
            }
            host.restore(path, before)?;
        }
        // Where nothing is kept nothing was replaced, or this is the second time.
        Undo::TakeBack { kept, .. } if !host.exists(kept) => {}
        Undo::TakeBack { path, kept } => {
            host.copy(&host.path(kept), path, PROGRAM)?;
            host.remove(kept)?;
        }
        Undo::HandOverShim => return hand_back(host).await,
        Undo::Reload => reload(host).await?,
        Undo::RestartKubelet { unit } => restart_kubelet(host, unit).await?,
        // A way back that was interrupted has been here already: systemctl knows the unit no more.
        Undo::Stop { unit } | Undo::Disable { unit } if !host.exists(&unit_path(unit)) => {}
        Undo::Stop { unit } => drop(host.systemctl(&["stop", unit], LONG).await?),
        // Whatever is wrong with it, the rest is put back, and this is the last step.
        Undo::Restart { unit } => {
            let failed = host.systemctl(&["restart", unit], LONG).await.err();
            return Ok(failed.map(|error| format!("warning: {error:#}; systemctl restart {unit}")));
        }
        Undo::Disable { unit } => drop(host.systemctl(&["disable", unit], SYSTEMCTL_TIMEOUT).await?),
        Undo::RemoveSockets => host.remove_tree(RUN_DIR)?,
        Undo::RemoveFolder { path } => host.remove_empty_dir(path)?,
    }
    Ok(None)
}

/// Lets the `berth-shim` that runs be of the program that is there. What goes on to run is said: it is well,
/// but not the one on the disk.
async fn hand_back(host: &Host) -> Result<Option<String>> {
    let socket = host.path(crate::shim::SOCKET);
    if !socket.exists() {
        return Ok(None);
    }
    let failed = crate::shim::upgrade(&socket).await.err();
    Ok(failed.map(|error| format!("warning: {error:#}; systemctl restart {SHIM_UNIT}")))
}

/// Lets systemd read its units again.
pub(crate) async fn reload(host: &Host) -> Result<()> {
    host.systemctl(&["daemon-reload"], SYSTEMCTL_TIMEOUT).await.map(drop)
}

/// Restarts the kubelet, whatever berthd does: its unit is ordered after berthd's, and a berthd that never
/// gets ready would hold up the restart that leads the kubelet away from it.
pub(crate) async fn restart_kubelet(host: &Host, unit: &str) -> Result<()> {
    // It may have given up after too many failures in a row.
    host.ask_systemctl(&["reset-failed", unit], SYSTEMCTL_TIMEOUT).await?;
    host.systemctl(&["restart", "--job-mode=ignore-dependencies", unit], LONG).await.map(drop)
}

async fn is(host: &Host, question: &str, unit: &str) -> Result<bool> {
    Ok(host.ask_systemctl(&[question, "--quiet", unit], SYSTEMCTL_TIMEOUT).await?.status.success())
}
