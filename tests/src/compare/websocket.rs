//! The client's half of a WebSocket (RFC 6455), as little of it as the runtime's streaming server needs.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// Any key will do: it is not a secret, and the server is not somebody else's.
const KEY: &str = "YmVydGgtdGVzdHMtYmVydGg=";
/// Bytes of the mask; its purpose, to confuse proxies, has none here.
const MASK: [u8; 4] = [0x5a, 0xa5, 0x3c, 0xc3];
const CONNECT: Duration = Duration::from_secs(60);

/// A connection.
#[derive(Debug)]
pub struct WebSocket {
    stream: BufReader<TcpStream>,
}

/// The answer to the wish for one.
#[derive(Debug)]
pub enum Handshake {
    /// Here it is, in this subprotocol.
    Open(WebSocket, String),
    /// An HTTP status and what else was said.
    Refused(u16, String),
}

impl WebSocket {
    /// Asks an `http://` URL for a WebSocket of this subprotocol.
    pub async fn open(url: &str, protocol: &str) -> Result<Handshake> {
        let (host, path) = url
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once('/'))
            .with_context(|| format!("{url} is not http://HOST/PATH"))?;
        let stream =
            tokio::time::timeout(CONNECT, TcpStream::connect(host)).await.context(host.to_owned())?;
        let mut stream = BufReader::new(stream.with_context(|| host.to_owned())?);
        let request = format!(
            "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.context("ask for a WebSocket")?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.context("the answer to the upgrade")?);
        }
        let head = String::from_utf8(head).context("headers")?;
        let status = head.split(' ').nth(1).context("no status")?.parse().context("status")?;
        let header = |wanted: &str| {
            head.lines()
                .filter_map(|line| line.split_once(": "))
                .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
                .map(|(_, value)| value.to_owned())
        };
        if status == 101 {
            let chosen = header("sec-websocket-protocol").unwrap_or_default();
            return Ok(Handshake::Open(Self { stream }, chosen));
        }
        let length = header("content-length").map_or(Ok(0), |length| length.parse()).context("length")?;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.context("the body of a refusal")?;
        Ok(Handshake::Refused(status, String::from_utf8_lossy(&body).into_owned()))
    }

    /// Sends one binary message.
    pub async fn send(&mut self, message: &[u8]) -> Result<()> {
        self.frame(BINARY, message).await
    }

    /// The next message; `None` when the other end said goodbye, or went without.
    pub async fn receive(&mut self) -> Result<Option<Vec<u8>>> {
        let mut message = Vec::new();
        loop {
            let Ok(first) = self.stream.read_u8().await else { return Ok(None) };
            let second = self.stream.read_u8().await.context("length of a frame")?;
            ensure!(second & 0x80 == 0, "a server does not mask");
            let length = match second {
                126 => self.stream.read_u16().await.context("length of a frame")?.into(),
                127 => self.stream.read_u64().await.context("length of a frame")?,
                length => length.into(),
            };
            let mut payload = vec![0; usize::try_from(length).context("length of a frame")?];
            self.stream.read_exact(&mut payload).await.context("payload of a frame")?;
            match first & 0x0f {
                0..=2 => message.extend(payload),
                CLOSE => return Ok(None),
                PING => {
                    self.frame(PONG, &payload).await?;
                    continue;
                }
                PONG => continue,
                other => bail!("a frame of the unknown kind {other}"),
            }
            if first & 0x80 != 0 {
                return Ok(Some(message));
            }
        }
    }

    async fn frame(&mut self, kind: u8, payload: &[u8]) -> Result<()> {
        let mut frame = vec![0x80 | kind];
        match payload.len() {
            short @ 0..126 => frame.push(0x80 | u8::try_from(short)?),
            long @ 126..0x1_0000 => {
                frame.push(0x80 | 126);
                frame.extend(u16::try_from(long)?.to_be_bytes());
            }
            longer => {
                frame.push(0x80 | 127);
                frame.extend(u64::try_from(longer)?.to_be_bytes());
            }
        }
        frame.extend(MASK);
        frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.stream.write_all(&frame).await.context("send a frame")
    }
}
