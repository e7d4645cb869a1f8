//! Upgrades that do not go well: the old berthd goes on, or its program does.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_tests::manifest::Container;
use berth_tests::node::programs;
use berth_tests::observe::Caller;

use super::QUICKLY;
use crate::case::{Case, run_alone};

/// A shell script in a directory of its own.
fn script(dir: &tempfile::TempDir, text: &str) -> Result<PathBuf> {
    let path = dir.path().join("berthd");
    programs::script(&path, text)?;
    Ok(path)
}

/// Before anything was given away nothing has changed: the same process serves.
#[tokio::test]
async fn programs_that_are_none() -> Result<()> {
    run_alone("programs_that_are_none", async |case: &Case| {
        let berthd = case.node.berthd()?;
        let caller = Caller::start(berthd.socket())?;
        let before = berthd.service().pid();
        let answers = "case $1 in --version) echo berthd 9.9.9; exit;; config) exit;; esac";
        // Only the one that is never ready has to run out of time.
        let (short, long) = ("--ready-within=2s", "--ready-within=120s");
        let table = [
            ("echo another 1.0", long, "is not berthd"),
            (
                "case $1 in --version) echo berthd 9.9.9; exit;; esac; echo 'no such field' >&2; exit 64",
                long,
                "no such field",
            ),
            (&*format!("{answers}; exit 3"), long, "the new berthd ended before it was ready"),
            (&*format!("{answers}; exec sleep 1000000"), short, "was not ready within 2s"),
            (
                &*format!("{answers}; echo '{{\"ready\":null}}' >&0; exec sleep 1000000"),
                short,
                "the new berthd",
            ),
        ];
        for (text, within, words) in table {
            let dir = tempfile::tempdir().context("a directory")?;
            let flags = [QUICKLY, &[within]].concat();
            let error = berthd.upgrade(&script(&dir, text)?, &flags).await.err().context(text.to_owned())?;
            let error = format!("{error:#}");
            ensure!(error.contains("nothing was changed") && error.contains(words), "{text}: {error}");
            ensure!(berthd.service().pid() == before, "{text}: another process answers");
        }
        caller.all_answered().await?;
        berthd.ready().await
    })
    .await
}

/// Once it has the store there is no way back but to a new process of the old program; no call fails on that
/// way either.
#[tokio::test]
async fn successors_that_die() -> Result<()> {
    run_alone("successors_that_die", async |case: &Case| {
        let berthd = case.node.berthd()?;
        for (round, point) in ["taken", "accepting", "succeeded"].into_iter().enumerate() {
            let caller = Caller::start(berthd.socket())?;
            let before = berthd.service().pid();
            berthd.die_at(point)?;
            let upgraded = berthd.upgrade(&berthd.program()?, &["--watch=60s"]).await;
            ensure!(upgraded.is_err(), "{point}: nobody noticed");
            ensure!(berthd.service().pid() != before, "{point}: the same process answers");
            berthd.ready().await?;
            // After it had said that it accepts its own connections die with it; those of a shim do not.
            if point != "succeeded" || berthd.shim().is_some() {
                caller.all_answered().await.context(point)?;
            }
            let name = format!("pod-{round}");
            let pod = case
                .manifest(&name)
                .container(Container::new("b").priority(1))
                .container(Container::new("a").priority(2));
            let recorder = case.record(&name);
            case.create(&pod).await?;
            case.await_ready(&name).await?;
            recorder.finish().await?.check_start_order(&["a", "b"], Duration::ZERO)?;
        }
        Ok(())
    })
    .await
}
