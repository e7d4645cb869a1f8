//! The few HTTP requests that tests make of health and metrics endpoints on loopback.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Far more than an answer takes on a machine with other work to do.
const PATIENCE: Duration = Duration::from_secs(20);

/// Answer that came back.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// All of the body.
    pub body: String,
}

/// A GET with HTTP/1.0, so that the end of the connection is the end of the body.
pub async fn get(address: &str, path: &str) -> Result<Answer> {
    timeout(PATIENCE, exchange(address, path))
        .await
        .with_context(|| format!("{address}{path} does not answer"))?
        .with_context(|| format!("GET {address}{path}"))
}

/// Accepts a program that says that it is ready.
pub async fn is_ready(address: &str) -> Result<()> {
    let answer = get(address, "/readyz").await?;
    ensure!(answer.status == 200, "/readyz: {} {}", answer.status, answer.body);
    Ok(())
}

async fn exchange(address: &str, path: &str) -> Result<Answer> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").context("no end of the headers")?;
    let status = head.split(' ').nth(1).context("no status")?.parse().context("status")?;
    Ok(Answer { status, body: body.to_owned() })
}
