//! `berthctl` is killed in the middle.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, ensure};
use berth_tests::wait::await_condition;

use super::pods::Pods;
use super::{LONG, is_as_before};
use crate::case::PATIENCE;

#[tokio::test]
async fn killed_in_the_middle() -> Result<()> {
    let node = super::node().await?;
    let pods = Pods::of(&node).await?;
    let web = pods.plain("web").await?;
    let program = node.programs().join("berthd");
    let real = fs::read(&program).context("berthd")?;
    fs::remove_file(&program)?;
    fs::write(&program, "#!/bin/sh\ncase $1 in config) exit 0;; esac\nexec sleep 1000000\n")?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;

    for again in ["uninstall", "install"] {
        // It waits for berthd, which never serves.
        let berthctl = node.programs().join("berthctl");
        let line = format!("{} install --timeout=1h & echo $! > /run/berthctl.pid; wait", berthctl.display());
        let script = ["-c", &line];
        let waiting = node.systemd().run("/bin/sh", &script);
        let kill = async {
            let journal = node.systemd().path("/var/lib/berth/install.json");
            await_condition("it waits", PATIENCE, async || {
                let text = fs::read_to_string(&journal).context("journal")?;
                ensure!(text.contains("started") && text.contains("berthd.service\""), "{text}");
                ensure!(text.matches("\"started\"").count() == 3, "{text}");
                Ok(())
            })
            .await?;
            let pid = fs::read_to_string(node.systemd().path("/run/berthctl.pid"))?;
            node.systemd().succeed("kill", &["-9", pid.trim()]).await
        };
        let (_, killed) = tokio::join!(waiting, kill);
        killed?;
        if again == "install" {
            // The next one puts back what was left, the sleeper included, and does it right.
            fs::write(&program, &real)?;
            let said = node.ctl(&["install", LONG]).await?;
            ensure!(said.contains("was interrupted"), "{said}");
            pods.ordered("ordered").await?;
            node.ctl(&["uninstall", "--purge", LONG]).await?;
        } else {
            let doctor = node.berthctl(&["doctor"]).await?;
            let said = String::from_utf8_lossy(&doctor.stdout);
            ensure!(said.contains("an installation was interrupted"), "{said}");
            node.ctl(&[again, LONG]).await?;
        }
        is_as_before(&node).await?;
        pods.untouched("web", &web).await?;
    }
    node.down()
}
