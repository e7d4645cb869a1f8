//! Calls that end before their answer: by the client, and by a deadline of the client's.

use anyhow::{Result, ensure};
use berth_proto::cri::*;

use super::way::{Way, exec_request, message};
use super::{is_newer, same};

/// Makes a call with a deadline that passes while the runtime is at it. Where exactly that meets it is a
/// matter of its speed, and so are the code and most of the words. containerd 2.x may reset the stream before
/// its own answer is ready.
async fn too_late(way: &Way, method: &str, body: bytes::Bytes) -> Result<()> {
    let path = format!("/runtime.v1.RuntimeService/{method}");
    match way.raw(&path, &[("grpc-timeout", "1S")], body).await {
        Ok(reply) => {
            let message = reply.message();
            ensure!(reply.status().is_some_and(|code| code != 0), "{method} succeeded");
            ensure!(message.contains("deadline exceeded"), "{method}: {message}");
        }
        Err(error) if is_newer() && format!("{error:#}").ends_with("stream no longer needed") => {}
        Err(error) => return Err(error),
    }
    way.say(format!("{method}: deadline exceeded"));
    Ok(())
}

/// A deadline of the client's on one that berthd only passes on, one that it reads, and one that it may hold.
async fn within(way: &Way, deadline: &str) -> Result<()> {
    let headers = [("grpc-timeout", deadline)];
    way.send("/runtime.v1.RuntimeService/Version", &headers, message(VersionRequest::default())).await?;
    let nothing = ContainerFilter { id: "absent".to_owned(), ..Default::default() };
    let list = ListContainersRequest { filter: Some(nothing) };
    way.send("/runtime.v1.RuntimeService/ListContainers", &headers, message(list)).await?;
    let stop = StopContainerRequest { container_id: "absent".to_owned(), timeout: 0 };
    way.send("/runtime.v1.RuntimeService/StopContainer", &headers, message(stop)).await
}

#[tokio::test]
async fn deadline_in_the_middle_of_a_command() -> Result<()> {
    let shows = ["ExecSync: deadline exceeded", "ContainerRunning"];
    same("deadline_in_the_middle_of_a_command", &shows, async |way| {
        let id = way.running("c").await?;
        too_late(way, "ExecSync", message(exec_request(&id, "sleep 1000000"))).await?;
        way.status(&id).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn deadline_in_the_middle_of_a_stop() -> Result<()> {
    let shows = ["StopContainer: deadline exceeded", "ContainerRunning", "StopContainer: OK", "exit 137"];
    same("deadline_in_the_middle_of_a_stop", &shows, async |way| {
        let script = "trap '' TERM; touch /tmp/set; while true; do sleep 0.1; done";
        let id = way.started(way.home().await?, way.script("c", script)).await?;
        way.until(&id, "test -e /tmp/set").await?;
        let stop = StopContainerRequest { container_id: id.clone(), timeout: 100_000 };
        too_late(way, "StopContainer", message(stop)).await?;
        way.status(&id).await?;
        way.stop(&id, 0).await?;
        way.status(&id).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn deadline_that_is_no_deadline() -> Result<()> {
    let refusal = if is_newer() { "Internal: malformed grpc-timeout" } else { "stream error" };
    let shows = ["Version", "ListContainers", "StopContainer"].map(|method| format!("{method}: {refusal}"));
    let shows = shows.each_ref().map(String::as_str);
    same("deadline_that_is_no_deadline", &shows, async |way| within(way, "soon").await).await
}

#[tokio::test]
async fn deadline_far_away() -> Result<()> {
    let shows = ["Version: Ok", "ListContainers: Ok", "StopContainer: ", "Version: Ok"];
    same("deadline_far_away", &shows, async |way| {
        within(way, "1H").await?;
        within(way, "99999999H").await
    })
    .await
}

#[tokio::test]
async fn client_takes_a_command_back() -> Result<()> {
    let shows = ["it runs", "taken back", "it was ended"];
    same("client_takes_a_command_back", &shows, async |way| {
        let id = way.running("c").await?;
        let call = way.begin(exec_request(&id, "touch /tmp/runs; exec sleep 7654321")).await?;
        way.until(&id, "test -e /tmp/runs && grep -q 7654321 /proc/[0-9]*/cmdline").await?;
        way.say("it runs");
        drop(call);
        way.say("taken back");
        way.until(&id, "! cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\\0' ' ' | grep -q 'sleep 76543[2]1'")
            .await?;
        way.say("it was ended");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn client_takes_back_one_call_of_many() -> Result<()> {
    same("client_takes_back_one_call_of_many", &["ExecSync: OK", "\"all the same\\n\""], async |way| {
        let id = way.running("c").await?;
        let other =
            async || way.exec(&id, "until test -e /tmp/go; do sleep 0.1; done; echo all the same").await;
        let taken_back = async || {
            for _ in 0..20 {
                drop(way.begin(exec_request(&id, "sleep 1000000")).await?);
            }
            way.until(&id, "touch /tmp/go").await
        };
        tokio::try_join!(other(), taken_back())?;
        Ok(())
    })
    .await
}
