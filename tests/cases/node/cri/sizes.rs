//! Messages of all sizes: the kubelet takes up to 16 MiB, and so does the runtime.

use std::collections::HashMap;

use anyhow::Result;
use berth_proto::cri::*;

use super::same;
use super::way::{exec_request, map, message};

const MEBIBYTE: usize = 1 << 20;

/// A list that nothing matches, and whose request is this large.
fn large_list(bytes: usize) -> ListContainersRequest {
    let label_selector = map(&[("large", &"x".repeat(bytes))]);
    ListContainersRequest { filter: Some(ContainerFilter { label_selector, ..Default::default() }) }
}

/// One that berthd only passes on.
const VERSION: &str = "/runtime.v1.RuntimeService/Version";
/// One that it reads.
const LIST: &str = "/runtime.v1.RuntimeService/ListContainers";
/// One that it may hold.
const STOP: &str = "/runtime.v1.RuntimeService/StopContainer";

#[tokio::test]
async fn request_of_5_mebibytes() -> Result<()> {
    same("request_of_5_mebibytes", &["ListContainers: Ok", "Version: Ok"], async |way| {
        way.send(LIST, &[], message(large_list(5 * MEBIBYTE))).await?;
        way.send(VERSION, &[], message(VersionRequest { version: "x".repeat(5 * MEBIBYTE) })).await
    })
    .await
}

#[tokio::test]
async fn request_of_17_mebibytes() -> Result<()> {
    let shows = ["Version: ResourceExhausted", "ListContainers: ResourceExhausted", "Version: OK"];
    same("request_of_17_mebibytes", &shows, async |way| {
        way.send(VERSION, &[], message(VersionRequest { version: "x".repeat(17 * MEBIBYTE) })).await?;
        way.send(LIST, &[], message(large_list(17 * MEBIBYTE))).await?;
        let id = "x".repeat(17 * MEBIBYTE);
        way.send(STOP, &[], message(StopContainerRequest { container_id: id, timeout: 0 })).await?;
        // The connection is as good as before.
        way.must(VersionRequest::default()).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn request_at_the_limit() -> Result<()> {
    let shows = ["ListContainers: Ok", "ListContainers: ResourceExhausted"];
    same("request_at_the_limit", &shows, async |way| {
        // Four fields around the value: their tags and lengths.
        let around = prost::Message::encoded_len(&large_list(16 * MEBIBYTE - 100)) + 100 - 16 * MEBIBYTE;
        way.send(LIST, &[], message(large_list(16 * MEBIBYTE - around))).await?;
        way.send(LIST, &[], message(large_list(16 * MEBIBYTE - around + 1))).await
    })
    .await
}

#[tokio::test]
async fn answer_of_5_mebibytes() -> Result<()> {
    same("answer_of_5_mebibytes", &["ExecSync: OK", "5242880 bytes, all x: true"], async |way| {
        let id = way.running("c").await?;
        let request = exec_request(&id, "head -c 5242880 /dev/zero | tr '\\0' x");
        let stdout = way.must(request).await?.stdout;
        let all = stdout.iter().all(|byte| *byte == b'x');
        way.say(format!("{} bytes, all x: {all}", stdout.len()));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn answer_of_17_mebibytes() -> Result<()> {
    // What the runtime makes of it is its own affair: it cuts the output, or refuses.
    same("answer_of_17_mebibytes", &["ExecSync: "], async |way| {
        let id = way.running("c").await?;
        if let Ok(answer) = way.ask(exec_request(&id, "head -c 17825792 /dev/zero | tr '\\0' x")).await? {
            way.say(format!("{} bytes", answer.stdout.len()));
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn container_with_large_annotations() -> Result<()> {
    let shows = ["CreateContainer: OK", "large: 524288"];
    same("container_with_large_annotations", &shows, async |way| {
        let mut config = way.idle("c");
        config.annotations.insert("large".to_owned(), "x".repeat(MEBIBYTE / 2));
        let id = way.create(way.home().await?, config).await?;
        let annotations = way.peek(&id).await?.annotations;
        way.say(format!("large: {}", annotations.get("large").map_or(0, String::len)));
        let listed = way.must(ListContainersRequest { filter: Some(way.mine(way.home().await?)) }).await?;
        let sizes: HashMap<_, _> =
            listed.containers.iter().map(|of| (&of.id, of.annotations["large"].len())).collect();
        way.say(format!("  listed: {sizes:?}"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn many_calls_at_once() -> Result<()> {
    let shows = ["200 versions: 1 kind", "12 commands: 12 kinds"];
    same("many_calls_at_once", &shows, async |way| {
        let id = way.running("c").await?;
        let versions = (0..200).map(|_| way.quietly(VersionRequest::default()));
        let commands = (0..12).map(|number| way.quietly(exec_request(&id, &format!("echo {number}"))));
        let (versions, commands) = tokio::try_join!(
            futures::future::try_join_all(versions),
            futures::future::try_join_all(commands)
        )?;
        let kinds = |answers: Vec<String>| {
            let all = answers.len();
            (all, answers.into_iter().collect::<std::collections::BTreeSet<_>>())
        };
        let (all, versions) = kinds(versions.iter().map(|answer| format!("{answer:?}")).collect());
        way.say(format!("{all} versions: {} kind", versions.len()));
        versions.iter().for_each(|version| way.say(format!("  {version}")));
        let (all, commands) = kinds(commands.iter().map(|answer| format!("{answer:?}")).collect());
        way.say(format!("{all} commands: {} kinds", commands.len()));
        commands.iter().for_each(|command| way.say(format!("  {command}")));
        Ok(())
    })
    .await
}
