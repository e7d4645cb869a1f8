//! One end of a connection of HTTP/2, written frame by frame: what no library sends, and what none lets a
//! test choose.

use std::path::Path;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;
pub(crate) const HAS_PRIORITY: u8 = 0x20;
/// Flag of SETTINGS.
const ACK: u8 = 1;

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// A connection on which both ends have sent their settings.
pub(crate) struct Raw(UnixStream);

impl Raw {
    /// The end of a runtime.
    pub(crate) async fn accept(listener: &UnixListener) -> Self {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut preface = [0; PREFACE.len()];
        socket.read_exact(&mut preface).await.unwrap();
        let mut this = Self(socket);
        this.write(SETTINGS, 0, 0, &[]).await;
        this
    }

    /// The end of a client, with these settings.
    pub(crate) async fn connect(path: &Path, settings: &[u8]) -> Self {
        let mut this = Self(UnixStream::connect(path).await.unwrap());
        this.0.write_all(PREFACE).await.unwrap();
        this.write(SETTINGS, 0, 0, settings).await;
        loop {
            let frame = this.read().await;
            if frame.kind == SETTINGS && frame.flags & ACK == 0 {
                break;
            }
        }
        this.write(SETTINGS, ACK, 0, &[]).await;
        this
    }

    pub(crate) async fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.0.write_all(&frame).await.unwrap();
    }

    pub(crate) async fn read(&mut self) -> Frame {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.unwrap();
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).await.unwrap();
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Frame { kind: head[3], flags: head[4], stream, payload }
    }

    /// Reads until a request has ended; its stream.
    pub(crate) async fn request(&mut self) -> u32 {
        loop {
            let frame = self.read().await;
            if matches!(frame.kind, DATA | HEADERS) && frame.flags & END_STREAM != 0 {
                return frame.stream;
            }
        }
    }

    pub(crate) async fn goaway(&mut self, last: u32) {
        let payload = [last.to_be_bytes(), 0_u32.to_be_bytes()].concat();
        self.write(GOAWAY, 0, 0, &payload).await;
    }
}

/// Headers of a call, as HPACK has them without its tables of names that were sent before.
pub(crate) fn head(path: &str) -> Vec<u8> {
    head_with("localhost", path)
}

/// The same with this authority.
pub(crate) fn head_with(authority: &str, path: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat();
    let literal = |name: &str, value: &str| [vec![0], text(name), text(value)].concat();
    // POST and http; the authority and the path by the numbers of their names.
    let (authority, path) = ([vec![1], text(authority)].concat(), [vec![4], text(path)].concat());
    let others = [literal("content-type", "application/grpc"), literal("te", "trailers")].concat();
    [vec![0x83, 0x86], authority, path, others].concat()
}
