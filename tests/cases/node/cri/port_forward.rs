//! Connections into a sandbox's network.

use anyhow::{Context, Result};
use berth_tests::compare::{Channels, PortForwardRequest};

use super::exec::say_url;
use super::same;
use super::way::{Sandbox, Way};

/// The channels of the first port: the connection, and what is said when there is none.
const DATA: u8 = 0;
const ERROR: u8 = 1;
/// Where the container listens.
const PORT: u16 = 8080;
/// Text of the page that the container serves.
const PAGE: &str = "a page of the pod";

/// A sandbox with a web server.
async fn server(way: &Way) -> Result<Sandbox> {
    let sandbox = way.sandbox(way.pod("pod")?).await?;
    let script = format!("mkdir /www; echo '{PAGE}' > /www/page; exec httpd -f -p {PORT} -h /www");
    let id = way.started(&sandbox, way.script("c", &script)).await?;
    way.until(&id, &format!("cat /proc/net/tcp /proc/net/tcp6 | grep -q :{PORT:04X}")).await?;
    Ok(sandbox)
}

/// Forwards one port; both channels begin with its number.
async fn forward(way: &Way, sandbox: &Sandbox, port: u16) -> Result<Channels> {
    let request = PortForwardRequest { pod_sandbox_id: sandbox.id.clone(), port: vec![port.into()] };
    let url = way.must(request).await?.url;
    say_url(way, &url);
    let mut channels = Channels::must_open(&format!("{url}?port={port}")).await?;
    for channel in [DATA, ERROR] {
        channels.receive(channel, &port.to_le_bytes()).await.context("the port")?;
    }
    Ok(channels)
}

#[tokio::test]
async fn port_of_a_pod() -> Result<()> {
    let shows = ["PortForward: OK", "http://127.0.0.1:<port>/portforward/<token>", "a page of the pod"];
    same("port_of_a_pod", &shows, async |way| {
        let mut channels = forward(way, &server(way).await?, PORT).await?;
        channels.send(DATA, b"GET /page HTTP/1.0\r\n\r\n").await?;
        channels.receive(DATA, PAGE.as_bytes()).await?;
        way.say(PAGE);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn port_nobody_listens_on() -> Result<()> {
    let shows = ["PortForward: OK", "connection refused"];
    same("port_nobody_listens_on", &shows, async |way| {
        let mut channels = forward(way, &server(way).await?, 8081).await?;
        channels.receive(ERROR, b"connection refused").await?;
        way.say("connection refused");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn port_of_a_stopped_pod() -> Result<()> {
    same("port_of_a_stopped_pod", &["StopPodSandbox: OK", "PortForward: "], async |way| {
        let sandbox = way.sandbox(way.pod("pod")?).await?;
        let stop = berth_proto::cri::StopPodSandboxRequest { pod_sandbox_id: sandbox.id.clone() };
        way.must(stop).await?;
        let request = PortForwardRequest { pod_sandbox_id: sandbox.id, port: vec![80] };
        way.refused(request).await.map(drop)
    })
    .await
}
