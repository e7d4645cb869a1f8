//! Streams of a container's own process.

use anyhow::Result;
use berth_tests::compare::{AttachRequest, Channels, STDERR, STDIN, STDOUT};

use super::exec::say_url;
use super::same;
use super::way::Way;

async fn attach(way: &Way, request: AttachRequest) -> Result<Channels> {
    let url = way.must(request).await?.url;
    say_url(way, &url);
    Channels::must_open(&url).await
}

fn all(id: &str) -> AttachRequest {
    AttachRequest { container_id: id.to_owned(), stdin: true, stdout: true, stderr: true, tty: false }
}

#[tokio::test]
async fn attach_speaks_with_the_process() -> Result<()> {
    let shows = ["Attach: OK", "http://127.0.0.1:<port>/attach/<token>", "came back", "ContainerRunning"];
    same("attach_speaks_with_the_process", &shows, async |way| {
        let mut config =
            way.script("c", "while read line; do echo \"out $line\"; echo \"err $line\" >&2; done");
        config.stdin = true;
        let id = way.started(way.home().await?, config).await?;
        let mut channels = attach(way, all(&id)).await?;
        channels.send(STDIN, b"hello\n").await?;
        channels.receive(STDOUT, b"out hello\n").await?;
        channels.receive(STDERR, b"err hello\n").await?;
        way.say("came back");
        drop(channels);
        // Its input stays open for the next one.
        way.status(&id).await?;
        let mut channels = attach(way, all(&id)).await?;
        channels.send(STDIN, b"again\n").await?;
        channels.receive(STDOUT, b"out again\n").await?;
        way.say("came back");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn attach_for_once_ends_the_input() -> Result<()> {
    same("attach_for_once_ends_the_input", &["Attach: OK", "ContainerExited", "exit 6"], async |way| {
        let mut config = way.script("c", "while read line; do echo \"out $line\"; done; exit 6");
        (config.stdin, config.stdin_once) = (true, true);
        let id = way.started(way.home().await?, config).await?;
        let mut channels = attach(way, all(&id)).await?;
        channels.send(STDIN, b"hello\n").await?;
        channels.receive(STDOUT, b"out hello\n").await?;
        drop(channels);
        way.exited(&id).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn attach_to_a_terminal() -> Result<()> {
    same("attach_to_a_terminal", &["Attach: OK", "a terminal", "exit 4"], async |way| {
        let mut config =
            way.script("c", "read line; test -t 0 && echo \"a terminal: $line\"; read line; exit 4");
        (config.stdin, config.tty) = (true, true);
        let id = way.started(way.home().await?, config).await?;
        let mut request = all(&id);
        (request.tty, request.stderr) = (true, false);
        let mut channels = attach(way, request).await?;
        channels.send(STDIN, b"hello\n").await?;
        channels.receive(STDOUT, b"a terminal: hello\r\n").await?;
        way.say("a terminal");
        channels.send(STDIN, b"end\n").await?;
        way.exited(&id).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn attach_to_what_does_not_run() -> Result<()> {
    same("attach_to_what_does_not_run", &["CreateContainer: OK", "Attach: "], async |way| {
        let id = way.create(way.home().await?, way.idle("c")).await?;
        way.refused(all(&id)).await.map(drop)
    })
    .await
}
