//! Bytes put at the end of the one message of an answer, while it passes.
//!
//! Protobuf merges what is appended into what stands before it, so an answer can say one thing more without
//! being decoded: all bytes of the runtime stay as they came. What grows is the length in front of the
//! message, and that is in the first five bytes; nothing but these is ever kept back.
//!
//! ```text
//!  in    | flag | length     | message .......... |            whatever comes in which frames
//!  out   | flag | length + n | message .......... | n bytes |
//! ```
//!
//! An answer that cannot be changed in this way passes as it is.

use bytes::{Bytes, BytesMut};

/// The kubelet's own limit for a message: one that it would take must not become one that it refuses.
pub(crate) const MAX_LENGTH: usize = 16 << 20;
/// One byte that says whether the message is compressed, and its length in four.
const PREFIX: usize = 5;

/// Appends to one answer.
#[derive(Debug)]
pub(crate) struct Append {
    suffix: Bytes,
    state: State,
}

#[derive(Debug)]
enum State {
    /// These first bytes are not the whole prefix yet.
    Prefix(BytesMut),
    /// The prefix is on its way, changed; so many bytes of the message are to come.
    Message { rest: usize },
    /// All other bytes pass as they are.
    Settled(Outcome),
}

/// Outcome of checking the prefix of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It says what it was to say.
    Appended,
    /// Compressed, or no gRPC message at all.
    Compressed,
    /// Nothing to append to: the runtime says nothing, and so do we.
    Empty,
    /// It would exceed [`MAX_LENGTH`].
    TooLarge,
}

// === impl Append ===

impl Append {
    pub(crate) fn new(suffix: Bytes) -> Self {
        Self { suffix, state: State::Prefix(BytesMut::new()) }
    }

    /// Gives the bytes that go out for this frame. Empty while the prefix is incomplete.
    pub(crate) fn frame(&mut self, frame: Bytes) -> Bytes {
        match &mut self.state {
            State::Settled(_) => frame,
            State::Message { rest } if frame.len() < *rest => {
                *rest -= frame.len();
                frame
            }
            State::Message { rest } => {
                let (message, after) = frame.split_at(*rest);
                let whole = [message, &self.suffix, after].concat();
                self.state = State::Settled(Outcome::Appended);
                whole.into()
            }
            State::Prefix(begun) => {
                begun.extend_from_slice(&frame);
                let Some((prefix, _)) = begun.split_first_chunk_mut() else { return Bytes::new() };
                match lengthened(prefix, self.suffix.len()) {
                    Err(outcome) => {
                        let unchanged = std::mem::take(begun).freeze();
                        self.state = State::Settled(outcome);
                        unchanged
                    }
                    Ok(length) => {
                        let begun = std::mem::take(begun).freeze();
                        self.state = State::Message { rest: PREFIX + length };
                        self.frame(begun)
                    }
                }
            }
        }
    }

    /// Returns the bytes that were kept back of an answer that ended within its prefix.
    pub(crate) fn end(&mut self) -> Bytes {
        match &mut self.state {
            State::Prefix(begun) => std::mem::take(begun).freeze(),
            State::Message { .. } | State::Settled(_) => Bytes::new(),
        }
    }

    /// `None` for an answer without a whole message, such as an error.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        match self.state {
            State::Settled(outcome) => Some(outcome),
            State::Prefix(_) | State::Message { .. } => None,
        }
    }
}

// === impl Outcome ===

impl Outcome {
    /// A constant word for logs and metric labels.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Appended => "appended",
            Self::Compressed => "compressed",
            Self::Empty => "empty",
            Self::TooLarge => "too-large",
        }
    }
}

/// Announces so many bytes more. Gives the length that was announced.
fn lengthened(prefix: &mut [u8; PREFIX], more: usize) -> Result<usize, Outcome> {
    let [flag, a, b, c, d] = *prefix;
    if flag != 0 {
        return Err(Outcome::Compressed);
    }
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if length == 0 {
        return Err(Outcome::Empty);
    }
    let longer = length + more;
    if longer > MAX_LENGTH {
        return Err(Outcome::TooLarge);
    }
    prefix[1..].copy_from_slice(&(longer as u32).to_be_bytes());
    Ok(length)
}

#[cfg(test)]
#[path = "tests/append.rs"]
mod tests;
