//! The way past a `berth-shim` that is in the runtime's place, and back: berthd's guardian does it, berthctl
//! only says so and waits.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use berth_policy::time::later;
use berthd::succession::takeover::{Paths, bypass};

use super::super::super::output::progress;

/// Where containerd is by default.
pub(super) const RUNTIME: &str = "/run/containerd/containerd.sock";
/// How often the place is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Has the place given back, or taken again.
pub(super) async fn bypass(runtime: &Path, undo: bool, patience: Duration) -> Result<()> {
    let paths = Paths::of(runtime)?;
    let place = runtime.display();
    if undo {
        if !bypass::undo(&paths).with_context(|| format!("the wish beside {place}"))? {
            bail!("nobody wished to go past Berth at {place}: there is nothing to undo");
        }
        let taken = await_place(&paths, true, patience).await;
        taken.context("berthd does not take the place; its log says why")?;
        progress(&format!(
            "berth-shim is at {place} again; restart the kubelet once, its connections are the runtime's"
        ));
        return Ok(());
    }
    if !bypass::is_taken(&paths)? {
        bail!("no berth-shim is at {place}; for another path of the runtime give --takeover SOCKET");
    }
    bypass::want(&paths).with_context(|| format!("the wish beside {place}"))?;
    if let Err(error) = await_place(&paths, false, patience).await {
        bypass::undo(&paths)?;
        return Err(error.context(
            "no guardian gives the place back; a berthd that is there itself, in one program, does at its end: berthctl drain",
        ));
    }
    progress(&format!(
        "the runtime is at {place}, and berth-shim ends with its last call; berthctl bypass --takeover --undo leads there \
         again"
    ));
    Ok(())
}

async fn await_place(paths: &Paths, taken: bool, patience: Duration) -> Result<()> {
    let until = later(Instant::now(), patience);
    while bypass::is_taken(paths)? != taken {
        if Instant::now() > until {
            bail!("the place of {:?} is as it was after {patience:?}", paths.front());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A guardian's and a berthd's part is played by whoever changes the names.
    #[tokio::test]
    async fn the_place_is_given_back_and_taken_again() {
        let dir = tempfile::tempdir().unwrap();
        let front = dir.path().join("c.sock");
        let _runtime = UnixListener::bind(&front).unwrap();
        let paths = Paths::of(&front).unwrap();
        let soon = Duration::from_millis(300);
        let said = |result: Result<()>| format!("{:#}", result.unwrap_err());
        let none = said(bypass(&front, false, soon).await);
        assert!(none.contains("no berth-shim is at"), "{none}");
        let none = said(bypass(&front, true, soon).await);
        assert!(none.contains("nobody wished"), "{none}");

        std::fs::rename(&front, paths.aside()).unwrap();
        let _shim = UnixListener::bind(paths.own()).unwrap();
        let fill = || std::fs::hard_link(paths.own(), &front).unwrap();
        fill();
        let alone = said(bypass(&front, false, soon).await);
        assert!(alone.contains("no guardian"), "{alone}");
        let wish = dir.path().join("c.sock.berth.bypass");
        assert!(!wish.exists(), "a wish that nobody hears is taken back");

        let patience = Duration::from_secs(20);
        let guardian = async {
            while !wish.exists() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            std::fs::remove_file(&front).unwrap();
        };
        let (bypassed, ()) = tokio::join!(bypass(&front, false, patience), guardian);
        bypassed.unwrap();
        assert!(wish.exists());
        let berthd = async {
            while wish.exists() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            fill();
        };
        let (undone, ()) = tokio::join!(bypass(&front, true, patience), berthd);
        undone.unwrap();
    }
}
