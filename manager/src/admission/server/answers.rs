//! Bodies of answers. What counts is what has not been taken: a caller who asks for much and reads nothing
//! takes no more memory than there is room for, and loses its connection soon.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::StatusCode;
use serde_json::json;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Half of the time within which an answer is taken. An API server reads its connections all the time; when
/// it does not wait for an answer any longer it resets the stream, and the answer is gone as well.
pub(super) const HALF_TIME: Duration = Duration::from_millis(1500);

/// Room of all answers that have not been taken.
pub(super) struct Answers {
    free: Arc<Semaphore>,
    bytes: usize,
}

/// Room of one answer.
pub(super) struct Room {
    _free: OwnedSemaphorePermit,
}

/// Text of an answer, until it was taken.
struct Untaken {
    text: Vec<u8>,
    _room: Room,
    _gone: DropGuard,
}

impl Answers {
    /// Room for so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(bytes)), bytes }
    }

    /// Waits for the room of an answer; one that is larger than all of it takes all of it. Cancel-safe.
    pub(super) async fn room(&self, bytes: usize) -> Option<Room> {
        let bytes = u32::try_from(bytes.min(self.bytes)).unwrap_or(u32::MAX);
        let free = self.free.clone().acquire_many_owned(bytes).await.ok()?;
        Some(Room { _free: free })
    }
}

/// Body of an answer. `late` is cancelled when it is not taken in time.
pub(super) fn body(text: Vec<u8>, room: Room, late: CancellationToken) -> Bytes {
    let gone = CancellationToken::new();
    let taken = gone.clone();
    // Ends with the body, or after its time. In halves: one that is over because this process stood still
    // tells nothing of the caller.
    tokio::spawn(async move {
        for _ in 0..2 {
            if timeout(HALF_TIME, taken.cancelled()).await.is_ok() {
                return;
            }
        }
        late.cancel();
    });
    Bytes::from_owner(Untaken { text, _room: room, _gone: gone.drop_guard() })
}

impl AsRef<[u8]> for Untaken {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// A failure as the API says it. An API server shows its message to whoever asked; of any other text it says
/// that the request was rejected for an unknown reason.
pub(super) fn failure(code: StatusCode, text: &str) -> Bytes {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": text,
        "code": code.as_u16(),
    });
    status.to_string().into()
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_has_its_room_until_it_was_taken() {
        let (answers, late) = (Answers::new(10), CancellationToken::new());
        let whole = body(vec![b'x'; 8], answers.room(8).await.unwrap(), late.clone());
        let rest = whole.slice(6..);
        drop(whole);
        let next = timeout(HALF_TIME, answers.room(3));
        assert!(next.await.is_err(), "a part of it has not been taken");
        drop(rest);
        assert!(timeout(HALF_TIME, answers.room(3)).await.is_ok());
        sleep(HALF_TIME * 4).await;
        assert!(!late.is_cancelled(), "it was taken in time");

        let large = body(vec![b'x'; 20], answers.room(20).await.unwrap(), late.clone());
        assert!(timeout(HALF_TIME * 4, late.cancelled()).await.is_ok(), "nobody takes it");
        assert_eq!(large.len(), 20);
    }
}
