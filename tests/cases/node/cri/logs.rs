//! Logs of a container, in the file that CRI promises.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use berth_tests::compare::{PATIENCE, ReopenContainerLogRequest};
use berth_tests::wait::await_condition;

use super::same;
use super::way::{Sandbox, Way};

fn log(way: &Way, home: &Sandbox, name: &str) -> PathBuf {
    let file = way.script(name, "").log_path;
    Path::new(&home.config.log_directory).join(file)
}

/// Waits for the last line and writes down the file, each line without its time.
async fn read(way: &Way, log: &Path, last: &str) -> Result<()> {
    let text = await_condition("the log is written", PATIENCE, async || {
        let text = fs::read_to_string(log)?;
        ensure!(text.trim_end().ends_with(last), "{text}");
        Ok(text)
    })
    .await?;
    for line in text.lines() {
        let (time, rest) = line.split_once(' ').with_context(|| line.to_owned())?;
        time.parse::<jiff::Timestamp>().with_context(|| line.to_owned())?;
        way.say(format!("  {rest}"));
    }
    Ok(())
}

#[tokio::test]
async fn log_of_both_outputs() -> Result<()> {
    let shows = ["stdout F one", "stderr F two", "stdout P no end of line"];
    same("log_of_both_outputs", &shows, async |way| {
        let home = way.home().await?;
        // The files of the two outputs are read by two readers: what one has written the other waits for.
        let script = "echo one; until test -e /tmp/go; do sleep 0.1; done; echo two >&2; \
                      until test -e /tmp/on; do sleep 0.1; done; printf 'no end of line'; touch /tmp/done; sleep 1000000";
        let id = way.started(home, way.script("c", script)).await?;
        let log = log(way, home, "c");
        await_condition("the first line", PATIENCE, async || {
            ensure!(fs::read_to_string(&log)?.contains("one"));
            Ok(())
        })
        .await?;
        way.exec(&id, "touch /tmp/go").await?;
        await_condition("the second line", PATIENCE, async || {
            ensure!(fs::read_to_string(&log)?.contains("two"));
            Ok(())
        })
        .await?;
        way.exec(&id, "touch /tmp/on").await?;
        way.until(&id, "test -e /tmp/done").await?;
        way.stop(&id, 0).await?;
        read(way, &log, "no end of line").await
    })
    .await
}

#[tokio::test]
async fn log_of_a_long_line() -> Result<()> {
    same("log_of_a_long_line", &["P 16384", "P 16384", "F 7232"], async |way| {
        let home = way.home().await?;
        let script = "head -c 40000 /dev/zero | tr '\\0' x; echo; echo end";
        let id = way.started(home, way.script("c", script)).await?;
        way.exited(&id).await?;
        let log = log(way, home, "c");
        let text = await_condition("the log is written", PATIENCE, async || {
            let text = fs::read_to_string(&log)?;
            ensure!(text.ends_with(" end\n"));
            Ok(text)
        })
        .await?;
        for line in text.lines() {
            let parts: Vec<_> = line.splitn(4, ' ').collect();
            ensure!(parts.len() == 4, "{line}");
            way.say(format!("{} {}", parts[2], parts[3].len()));
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn log_after_rotation() -> Result<()> {
    let shows = ["stdout F first", "ReopenContainerLog: OK", "stdout F second"];
    same("log_after_rotation", &shows, async |way| {
        let home = way.home().await?;
        let script = "echo first; until test -e /tmp/go; do sleep 0.1; done; echo second; exec sleep 1000000";
        let id = way.started(home, way.script("c", script)).await?;
        let log = log(way, home, "c");
        read(way, &log, "first").await?;
        fs::rename(&log, log.with_extension("old"))?;
        way.must(ReopenContainerLogRequest { container_id: id.clone() }).await?;
        way.exec(&id, "touch /tmp/go").await?;
        read(way, &log, "second").await?;
        read(way, &log.with_extension("old"), "first").await
    })
    .await
}

#[tokio::test]
async fn log_of_what_does_not_run() -> Result<()> {
    same("log_of_what_does_not_run", &["CreateContainer: OK", "ReopenContainerLog: "], async |way| {
        let id = way.create(way.home().await?, way.idle("c")).await?;
        way.refused(ReopenContainerLogRequest { container_id: id }).await.map(drop)
    })
    .await
}
