//! Bodies of requests. What counts is what has come: a caller who announces much and sends little holds up
//! nobody.

use std::{error::Error, pin::pin, time::Duration};

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use super::MOST_BYTES;

/// The next piece of a body comes within it.
pub(super) const PIECE_WITHIN: Duration = Duration::from_secs(1);

/// Reasons why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotRead {
    TooLarge,
    BrokeOff,
    Late,
    /// Others have not been worked on yet.
    NoRoom,
}

/// Reads a body; with it comes the room that it takes.
pub(super) async fn read<B>(body: B, room: &Semaphore) -> Result<(Bytes, SemaphorePermit<'_>), NotRead>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    let mut body = pin!(body);
    let mut held = room.try_acquire_many(0).map_err(|_| NotRead::NoRoom)?;
    let mut read = Vec::new();
    loop {
        let frame = timeout(PIECE_WITHIN, body.frame()).await.map_err(|_| NotRead::Late)?;
        let Some(frame) = frame else { return Ok((read.into(), held)) };
        let Ok(piece) = frame.map_err(|_| NotRead::BrokeOff)?.into_data() else { continue };
        if read.len().saturating_add(piece.len()) > MOST_BYTES {
            return Err(NotRead::TooLarge);
        }
        let bytes = u32::try_from(piece.len()).unwrap_or(u32::MAX);
        match timeout(PIECE_WITHIN, room.acquire_many(bytes)).await {
            Ok(Ok(more)) => held.merge(more),
            Ok(Err(_)) | Err(_) => return Err(NotRead::NoRoom),
        }
        read.extend_from_slice(&piece);
    }
}

// === impl NotRead ===

impl NotRead {
    /// Code and text of the answer.
    pub(super) fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the body has more than 3 MiB"),
            Self::BrokeOff => (StatusCode::BAD_REQUEST, "the body broke off"),
            Self::Late => (StatusCode::REQUEST_TIMEOUT, "the body did not come in time"),
            Self::NoRoom => (StatusCode::SERVICE_UNAVAILABLE, "too many requests at the same time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures::{StreamExt, stream};
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    /// A body in pieces of so many bytes; then it ends, or nothing more comes.
    fn body(pieces: &[usize], ends: bool) -> impl Body<Data = Bytes, Error = io::Error> {
        let pieces: Vec<_> =
            pieces.iter().map(|bytes| Ok(Frame::data(Bytes::from(vec![b'x'; *bytes])))).collect();
        let rest = stream::pending().take(usize::from(!ends));
        StreamBody::new(stream::iter(pieces).chain(rest))
    }

    #[tokio::test(start_paused = true)]
    async fn room_is_taken_by_what_has_come() {
        let room = Semaphore::new(10);
        let (read_one, held) = read(body(&[3, 4], true), &room).await.unwrap();
        assert_eq!((read_one.len(), room.available_permits()), (7, 3));
        // One that stops holds no more than it sent, and not for long.
        let (stopped, ()) = tokio::join!(read(body(&[1], false), &room), async {
            tokio::time::sleep(PIECE_WITHIN / 2).await;
            assert_eq!(room.available_permits(), 2);
        });
        assert_eq!(stopped.unwrap_err(), NotRead::Late);
        assert_eq!(read(body(&[4], true), &room).await.unwrap_err(), NotRead::NoRoom);
        drop(held);
        assert_eq!(room.available_permits(), 10);
        let room = Semaphore::new(2 * MOST_BYTES);
        assert_eq!(read(body(&[MOST_BYTES, 1], true), &room).await.unwrap_err(), NotRead::TooLarge);
        let broken = stream::iter([Err(io::Error::other("reset"))]);
        assert_eq!(read(StreamBody::<_>::new(broken), &room).await.unwrap_err(), NotRead::BrokeOff);
    }
}
