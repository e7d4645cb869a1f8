//! The life of a container: created, started, ended, removed, and the signals that end it.

use anyhow::{Result, ensure};
use berth_proto::cri::*;
use berth_tests::compare::PATIENCE;
use berth_tests::wait::await_condition;

use super::same;

#[tokio::test]
async fn container_lives_and_dies() -> Result<()> {
    let shows = [
        "CreateContainer: OK",
        "ContainerCreated",
        "StartContainer: OK",
        "ContainerRunning",
        "created, started, finished: [true, true, false]",
        "StopContainer: OK",
        "exit 0 \"Completed\"",
        "RemoveContainer: OK",
        "ContainerStatus: NotFound",
    ];
    same("container_lives_and_dies", &shows, async |way| {
        let config = way.script("c", "trap 'exit 0' TERM; touch /tmp/set; sleep 1000000 & wait");
        let id = way.create(way.home().await?, config).await?;
        way.status(&id).await?;
        way.start(&id).await?;
        way.status(&id).await?;
        // Before that it would not hear the signal: it is the first process of its namespace.
        way.until(&id, "test -e /tmp/set").await?;
        way.stop(&id, 100).await?;
        way.status(&id).await?;
        way.must(RemoveContainerRequest { container_id: id.clone() }).await?;
        way.refused(ContainerStatusRequest { container_id: id, verbose: false }).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn exit_code_and_reason() -> Result<()> {
    same("exit_code_and_reason", &["ContainerExited", "exit 7 \"Error\""], async |way| {
        let id = way.started(way.home().await?, way.script("c", "exit 7")).await?;
        way.exited(&id).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn command_that_is_not_there() -> Result<()> {
    let shows = ["CreateContainer: OK", "StartContainer: ", "ContainerExited", "\"StartError\""];
    same("command_that_is_not_there", &shows, async |way| {
        let mut config = way.idle("c");
        config.command = vec!["/no/such/program".to_owned()];
        let id = way.create(way.home().await?, config).await?;
        way.refused(StartContainerRequest { container_id: id.clone() }).await?;
        way.status(&id).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn stop_ends_a_process_by_sigterm() -> Result<()> {
    same("stop_ends_a_process_by_sigterm", &["StopContainer: OK", "exit 5"], async |way| {
        let config = way.script("c", "trap 'exit 5' TERM; touch /tmp/set; sleep 1000000 & wait");
        let id = way.started(way.home().await?, config).await?;
        way.until(&id, "test -e /tmp/set").await?;
        way.stop(&id, 1000).await?;
        way.status(&id).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn stop_kills_a_process_that_ignores_sigterm() -> Result<()> {
    let shows = ["StopContainer: OK", "exit 137 \"Error\""];
    same("stop_kills_a_process_that_ignores_sigterm", &shows, async |way| {
        let config = way.script("c", "trap '' TERM; touch /tmp/set; while true; do sleep 1; done");
        let id = way.started(way.home().await?, config).await?;
        way.until(&id, "test -e /tmp/set").await?;
        way.stop(&id, 1).await?;
        way.status(&id).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn stop_without_grace() -> Result<()> {
    same("stop_without_grace", &["StopContainer: OK", "exit 137"], async |way| {
        let id = way.running("c").await?;
        way.stop(&id, 0).await?;
        way.status(&id).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn stop_of_what_has_ended() -> Result<()> {
    let shows = ["exit 0", "StopContainer: OK", "StopContainer: OK", "exit 0"];
    same("stop_of_what_has_ended", &shows, async |way| {
        let id = way.started(way.home().await?, way.script("c", "exit 0")).await?;
        way.exited(&id).await?;
        way.stop(&id, 10).await?;
        way.stop(&id, 10).await?;
        way.status(&id).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn stop_of_what_was_never_started() -> Result<()> {
    same("stop_of_what_was_never_started", &["CreateContainer: OK", "StopContainer: "], async |way| {
        let id = way.create(way.home().await?, way.idle("c")).await?;
        let _ = way.ask(StopContainerRequest { container_id: id.clone(), timeout: 10 }).await?;
        way.status(&id).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn two_clients_stop_one_container() -> Result<()> {
    same("two_clients_stop_one_container", &["both: OK, OK", "exit 137"], async |way| {
        let config = way.script("c", "trap '' TERM; touch /tmp/set; while true; do sleep 1; done");
        let id = way.started(way.home().await?, config).await?;
        way.until(&id, "test -e /tmp/set").await?;
        let stop = |timeout| StopContainerRequest { container_id: id.clone(), timeout };
        let (patient, hasty) = tokio::join!(way.quietly(stop(1000)), way.quietly(stop(0)));
        ensure!(patient?.is_ok() && hasty?.is_ok(), "one of them failed");
        way.say("both: OK, OK");
        way.status(&id).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn start_twice() -> Result<()> {
    same("start_twice", &["StartContainer: OK", "StartContainer: ", "ContainerRunning"], async |way| {
        let id = way.running("c").await?;
        way.refused(StartContainerRequest { container_id: id.clone() }).await?;
        way.status(&id).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn start_of_what_has_ended() -> Result<()> {
    same("start_of_what_has_ended", &["exit 0", "StartContainer: "], async |way| {
        let id = way.started(way.home().await?, way.script("c", "exit 0")).await?;
        way.exited(&id).await?;
        way.refused(StartContainerRequest { container_id: id }).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn name_that_is_taken() -> Result<()> {
    let shows = ["CreateContainer: OK", "CreateContainer: ", "is reserved for", "CreateContainer: OK"];
    same("name_that_is_taken", &shows, async |way| {
        let home = way.home().await?;
        let config = way.idle("c");
        way.create(home, config.clone()).await?;
        way.refused(way.create_request(home, config.clone())).await?;
        // The next attempt is another name.
        let mut next = config;
        next.metadata.get_or_insert_default().attempt = 1;
        let id = way.create(home, next).await?;
        way.status(&id).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn removal_of_what_runs() -> Result<()> {
    same("removal_of_what_runs", &["RemoveContainer: OK", "ContainerStatus: NotFound"], async |way| {
        let id = way.running("c").await?;
        way.must(RemoveContainerRequest { container_id: id.clone() }).await?;
        way.refused(ContainerStatusRequest { container_id: id, verbose: false }).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn removal_twice() -> Result<()> {
    same("removal_twice", &["RemoveContainer: OK", "RemoveContainer: OK"], async |way| {
        let id = way.create(way.home().await?, way.idle("c")).await?;
        way.must(RemoveContainerRequest { container_id: id.clone() }).await?;
        way.must(RemoveContainerRequest { container_id: id }).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn environment_directory_and_arguments() -> Result<()> {
    let shows = ["exit 0 \"/tmp one two \\n\""];
    same("environment_directory_and_arguments", &shows, async |way| {
        let mut config = way.script("c", "echo $PWD $ONE $0 > /tmp/seen; sleep 1000000");
        config.args = vec!["two".to_owned()];
        config.working_dir = "/tmp".to_owned();
        config.envs = vec![KeyValue { key: "ONE".to_owned(), value: "one".to_owned() }];
        let id = way.started(way.home().await?, config).await?;
        way.until(&id, "test -s /tmp/seen").await?;
        way.exec(&id, "tr '\\n' ' ' < /tmp/seen; echo").await.map(drop)
    })
    .await
}

#[tokio::test]
async fn mounts() -> Result<()> {
    let shows = ["exit 0 \"from the host\"", "exit 1", "Read-only file system"];
    same("mounts", &shows, async |way| {
        let dir = way.bench.node.run().make_dir(&format!("cri-mounts/{}", way.token()))?;
        std::fs::write(dir.join("file"), "from the host")?;
        let host_path = dir.display().to_string();
        let mount = |path: &str, readonly| Mount {
            container_path: path.to_owned(),
            host_path: host_path.clone(),
            readonly,
            ..Default::default()
        };
        let mut config = way.idle("c");
        config.mounts = vec![mount("/rw", false), mount("/ro", true)];
        let id = way.started(way.home().await?, config).await?;
        way.exec(&id, "cat /ro/file").await?;
        way.exec(&id, "touch /ro/new").await?;
        way.exec(&id, "touch /rw/new").await?;
        ensure!(dir.join("new").exists(), "nothing came to the host");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn verbose_status() -> Result<()> {
    same("verbose_status", &["ContainerStatus: OK", "info: [\"info\"]"], async |way| {
        let id = way.running("c").await?;
        let answer = way.must(ContainerStatusRequest { container_id: id, verbose: true }).await?;
        let mut keys: Vec<_> = answer.info.keys().collect();
        keys.sort();
        way.say(format!("info: {keys:?}"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn client_takes_a_stop_back() -> Result<()> {
    let shows = ["taken back", "ContainerRunning", "StopContainer: OK", "exit 137"];
    same("client_takes_a_stop_back", &shows, async |way| {
        let script = "trap 'touch /tmp/asked' TERM; touch /tmp/set; while true; do sleep 0.1; done";
        let id = way.started(way.home().await?, way.script("c", script)).await?;
        way.until(&id, "test -e /tmp/set").await?;
        let call = way.begin(StopContainerRequest { container_id: id.clone(), timeout: 100_000 }).await?;
        way.until(&id, "test -e /tmp/asked").await?;
        drop(call);
        way.say("taken back");
        way.status(&id).await?;
        way.stop(&id, 0).await?;
        way.status(&id).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn many_containers_at_once() -> Result<()> {
    same("many_containers_at_once", &["6 ended: {3}"], async |way| {
        let home = way.home().await?;
        let lives = (0..6).map(async |number| {
            let config = way.script(&format!("c{number}"), "exit 3");
            let id = way.quietly(way.create_request(home, config)).await??.container_id;
            way.quietly(StartContainerRequest { container_id: id.clone() }).await??;
            await_condition("it ends", PATIENCE, async || {
                let status = way.peek(&id).await?;
                ensure!(status.state() == ContainerState::ContainerExited, "{status:?}");
                Ok(status.exit_code)
            })
            .await
        });
        let codes = futures::future::try_join_all(lives).await?;
        let different: std::collections::BTreeSet<_> = codes.iter().collect();
        way.say(format!("{} ended: {different:?}", codes.len()));
        Ok(())
    })
    .await
}
