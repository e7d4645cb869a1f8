//! Job sidecars in answers with the status of several containers: of a sandbox, and in the stream of events.
//! The kubelet reads both with Evented PLEG. A status of a sandbox waits for what the gate is told first
//! ([`Gate::can_tell`]); an event does not, so one in the first moment of a data path may show a sidecar's
//! own code.
//!
//! Unlike what is appended to one message ([`crate::append`]) this is a change inside of it, so a message is
//! kept back until it is whole. Every byte but those of the container in question stays as it came, and a
//! message that cannot be changed passes as it is.

use std::sync::Arc;

use berth_policy::ContainerId;
use bytes::{Bytes, BytesMut};
use prost::Message;

use crate::{
    frames::{MAX_MESSAGE, PREFIX, framed},
    gate::Gate,
    wire::{self, LENGTH_DELIMITED, Malformed, field},
};

/// `containers_statuses` in `PodSandboxStatusResponse` and in `ContainerEventResponse`.
pub(crate) const OF_SANDBOX: u64 = 3;
pub(crate) const OF_EVENT: u64 = 5;
/// `ContainerStatus.id`.
const ID: u64 = 1;

/// Changes the messages of one answer.
pub(crate) struct Edit {
    /// The field with the statuses.
    statuses: u64,
    is_completed: Box<dyn Fn(&ContainerId) -> bool + Send>,
    begun: BytesMut,
    /// The answer cannot be parsed: the rest of it passes as it is.
    broken: bool,
    edited: u64,
}

impl Edit {
    pub(crate) fn new(statuses: u64, gate: Arc<dyn Gate>) -> Self {
        let is_completed = Box::new(move |container: &ContainerId| gate.is_completed(container));
        Self { statuses, is_completed, begun: BytesMut::new(), broken: false, edited: 0 }
    }

    /// An edit that shows all containers as ended well.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn of_all(statuses: u64) -> Self {
        let is_completed = Box::new(|_: &ContainerId| true);
        Self { statuses, is_completed, begun: BytesMut::new(), broken: false, edited: 0 }
    }

    /// Gives the bytes that go out for this frame: the messages that are whole with it.
    pub(crate) fn frame(&mut self, frame: Bytes) -> Bytes {
        if self.broken {
            return frame;
        }
        self.begun.extend_from_slice(&frame);
        let mut out = BytesMut::new();
        while let Some([flag, a, b, c, d]) = self.begun.first_chunk::<PREFIX>().copied() {
            let length = u32::from_be_bytes([a, b, c, d]) as usize;
            if length > MAX_MESSAGE {
                self.broken = true;
                out.extend_from_slice(&std::mem::take(&mut self.begun));
                break;
            }
            if self.begun.len() < PREFIX + length {
                break;
            }
            let message = self.begun.split_to(PREFIX + length).freeze();
            out.extend_from_slice(&self.changed(flag, message));
        }
        out.freeze()
    }

    /// Returns the bytes that are still to go at the end of the answer.
    pub(crate) fn end(&mut self) -> Bytes {
        std::mem::take(&mut self.begun).freeze()
    }

    /// Returns how many messages were changed.
    pub(crate) fn edited(&self) -> u64 {
        self.edited
    }

    fn changed(&mut self, flag: u8, whole: Bytes) -> Bytes {
        // A compressed one only the two ends can read; what is malformed is the client's to judge.
        let edit =
            |message| wire::replace_each(message, self.statuses, |status| self.status(status)).ok().flatten();
        match (flag == 0).then(|| edit(&whole[PREFIX..])).flatten() {
            Some(edited) if edited.len() <= MAX_MESSAGE => {
                self.edited += 1;
                framed(&edited)
            }
            // Nor must one that the client would take become one that it refuses.
            Some(_) | None => whole,
        }
    }

    fn status(&self, status: &[u8]) -> Result<Option<Bytes>, Malformed> {
        let Some(id) = id(status)? else { return Ok(None) };
        Ok((self.is_completed)(&id).then(|| [status, &completed()].concat().into()))
    }
}

impl std::fmt::Debug for Edit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Edit")
            .field("statuses", &self.statuses)
            .field("edited", &self.edited)
            .finish_non_exhaustive()
    }
}

/// The fields of `ContainerStatus` by which a container has ended well; at the end of a status they take the
/// place of its own.
pub(crate) fn completed() -> Vec<u8> {
    let reason = berth_cri::ContainerStatus { reason: "Completed".to_owned(), ..Default::default() };
    // `exit_code` (7) = 0, which the encoder would leave out, and `reason` (10) as runtimes give it for that
    // code.
    [&[0x38, 0], &reason.encode_to_vec()[..]].concat()
}

fn id(status: &[u8]) -> Result<Option<ContainerId>, Malformed> {
    let (mut at, mut id) = (0, None);
    while at < status.len() {
        let field = field(status, at)?;
        if field.number == ID && field.wire_type == LENGTH_DELIMITED {
            id = std::str::from_utf8(&status[field.content(status)?]).ok().map(ContainerId::from);
        }
        at = field.value.end;
    }
    Ok(id)
}

#[cfg(test)]
#[path = "tests/edit.rs"]
mod tests;
