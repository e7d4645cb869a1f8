//! Probes that cannot be carried out, and probes that are made to harm the node.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use berth_tests::manifest::Container;
use berth_tests::markers::{Marker, says};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use serde_json::{Value, json};

use super::{Stage, every_second, exec, run};
use crate::case::PATIENCE;

/// Bytes that one of the probes prints.
const PRINTED: u64 = 64 << 20;

/// Waits for an Event of a reason whose note has these words, which are to be in one each.
async fn await_events(stage: &Stage<'_>, reason: &str, type_: &str, words: &[&str]) -> Result<()> {
    let events: Api<Event> = Api::namespaced(stage.client.clone(), &stage.case.namespace);
    await_condition(format!("Events {reason} of {words:?}"), PATIENCE, async || {
        let found = events.list(&Default::default()).await?.items;
        let found: Vec<_> =
            found.into_iter().filter(|event| event.reason.as_deref() == Some(reason)).collect();
        let notes: Vec<_> = found.iter().filter_map(|event| event.note.as_deref()).collect();
        ensure!(words.iter().all(|word| notes.iter().any(|note| note.contains(word))), "{notes:?}");
        ensure!(found.iter().all(|event| event.type_.as_deref() == Some(type_)), "{found:?}");
        Ok(())
    })
    .await
}

/// Never silence: the runtime's words are in the condition and in an Event.
#[tokio::test]
async fn what_cannot_be_carried_out_is_said() -> Result<()> {
    run("what_cannot_be_carried_out_is_said", async |stage: &Stage| {
        stage.case.create(&stage.manifest("pod").container(Container::new("main"))).await?;
        let no_program = every_second("exec", json!({ "command": ["/no/such/program"] }));
        let no_permission = every_second("exec", json!({ "command": ["/etc/passwd"] }));
        let marker = Marker::new("marker", "pod")
            .probe("no-program", "main", no_program)
            .label("no-program")
            .probe("no-permission", "main", no_permission)
            // This one was carried out: a shell said no.
            .probe("shell", "main", exec("/no/such/program"));
        stage.mark(&marker).await?;
        stage.await_says("pod", "no-program", "Unknown", "no such file or directory").await?;
        stage.await_says("pod", "no-permission", "Unknown", "permission denied").await?;
        let pod = stage.await_says("pod", "shell", "False", "not found").await?;
        let labels = pod.metadata.labels.unwrap_or_default();
        ensure!(!labels.contains_key("no-program"), "{labels:?}");
        let words = ["marker#no-program: ", "no such file", "marker#no-permission: ", "permission denied"];
        await_events(stage, "ProbeUnknown", "Warning", &words).await?;
        await_events(stage, "KruiseProbeFailed", "Normal", &["marker#shell: "]).await
    })
    .await
}

/// The most memory berthd ever had, in bytes.
fn peak(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("status of berthd")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().context("VmHWM")?;
    Ok(kibibytes << 10)
}

#[tokio::test]
async fn probes_that_do_harm() -> Result<()> {
    run("probes_that_do_harm", async |stage: &Stage| {
        stage.case.create(&stage.manifest("pod").container(Container::new("main"))).await?;
        stage.case.create(&stage.manifest("good").container(Container::new("main"))).await?;
        stage.mark(&Marker::new("good", "good").probe("good", "main", exec("test -f /tmp/good"))).await?;
        stage.case.await_ready("pod").await?;
        stage.await_says("good", "good", "False", "").await?;
        let pid = || stage.case.node.berthd()?.service().pid().context("berthd does not run");
        let (before, pid_before) = (peak(pid()?)?, pid()?);

        let short = |script: &str| -> Value {
            let mut probe = exec(script);
            probe["timeoutSeconds"] = 1.into();
            probe
        };
        let table = [
            ("hangs", short("sleep 1000"), "False", "timed out"),
            ("deaf", short("trap '' TERM INT; sleep 1000"), "False", "timed out"),
            ("prints", exec(&format!("head -c {PRINTED} /dev/zero")), "Unknown", "printed too much"),
            ("forks", exec("sleep 1000 >/dev/null 2>&1 & echo gone"), "True", "gone"),
            // Whoever has the output open keeps the runtime waiting.
            ("forks-aloud", short("sleep 1000 & echo gone"), "False", "timed out"),
        ];
        let marker = Marker::new("harm", "pod");
        let marker =
            table.iter().fold(marker, |marker, (name, probe, ..)| marker.probe(name, "main", probe.clone()));
        stage.mark(&marker).await?;
        let as_expected =
            |pod: &Pod| table.iter().try_for_each(|(name, _, status, words)| says(pod, name, status, words));
        let said = stage.case.await_pod("pod", "says what the probes do", as_expected).await;
        // Others go on meanwhile.
        for (script, status) in [("touch /tmp/good", "True"), ("rm /tmp/good", "False")] {
            stage.case.inside("good", "main", script).await?;
            stage.await_says("good", "good", status, "").await?;
        }
        stage.unmark("harm").await?;
        said?;
        let (after, pid_after) = (peak(pid()?)?, pid()?);
        ensure!(pid_before == pid_after, "berthd is another one");
        stage.case.node.berthd()?.service().check_running()?;
        let more = after.saturating_sub(before);
        ensure!(more < PRINTED / 4, "berthd grew by {} KiB", more >> 10);
        // What timed out is gone: only children that somebody made are left, one for each run.
        await_condition("no probe hangs any more", PATIENCE, async || {
            let instances = stage.case.cri.containers(&stage.case.namespace, "pod").await?;
            let id = &instances.last().context("no container")?.id;
            let (_, left) = stage.case.cri.exec(id, &["/bin/sh", "-c", "ps -o args"]).await?;
            let shells =
                left.lines().filter(|line| line.contains("trap '' TERM") || line.contains("head -c"));
            if shells.count() > 0 {
                bail!("{left}");
            }
            Ok(())
        })
        .await
    })
    .await
}
