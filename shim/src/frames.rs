//! The gRPC message inside the DATA frames of a unary request: collected, never changed.
//!
//! The collected frames themselves go to the runtime, small ones together; the message is looked at beside
//! them. However the bytes were cut into frames, what is seen is the same.

use bytes::{Bytes, BytesMut};

/// The largest message that is looked at; the kubelet's own limit.
pub const MAX_MESSAGE: usize = 16 << 20;
/// One byte that says whether the message is compressed, and its length in four.
pub const PREFIX: usize = 5;

/// Frames shorter than this are copied together: kept by itself one takes some 40 bytes beside its own, and
/// keeps the buffer that it was read into.
const SMALL_FRAME: usize = 1 << 10;

/// Collects the frames of one request.
#[derive(Debug, Default)]
pub struct Assembler {
    frames: Vec<Bytes>,
    /// Small frames after those.
    tail: BytesMut,
    collected: usize,
}

/// A message above [`MAX_MESSAGE`]. The words are those of grpc-go, by which the runtime refuses the same
/// message when it comes past us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("grpc: received message larger than max ({length} vs. {MAX_MESSAGE})")]
pub struct TooLarge {
    /// Length that its prefix announces, or of the bytes that have arrived when that is more.
    pub length: usize,
}

/// Content of the collected frames.
#[derive(Debug, PartialEq, Eq)]
pub enum Payload {
    /// Exactly one message, not compressed.
    Message(Bytes),
    /// Exactly one message, compressed in a way that only the two ends know.
    Compressed,
    /// Cut off, or more than one message.
    Broken,
}

// === impl Assembler ===

impl Assembler {
    /// Takes the next frame. An error as soon as it is clear that the message is too large.
    pub fn push(&mut self, frame: Bytes) -> Result<(), TooLarge> {
        self.collected += frame.len();
        // Nearly always there is one frame: no copy.
        if frame.len() < SMALL_FRAME && !self.frames.is_empty() {
            self.tail.extend_from_slice(&frame);
        } else {
            self.close_tail();
            self.frames.push(frame);
        }
        let length = self.prefix().map_or(0, |(_, length)| length).max(self.collected.saturating_sub(PREFIX));
        if length > MAX_MESSAGE { Err(TooLarge { length }) } else { Ok(()) }
    }

    /// Returns the content of the frames, once the last one is there.
    pub fn payload(&self) -> Payload {
        match self.prefix() {
            Some((flag, length)) if self.collected == PREFIX + length => match flag {
                0 => Payload::Message(self.joined().slice(PREFIX..)),
                1 => Payload::Compressed,
                _ => Payload::Broken,
            },
            _ => Payload::Broken,
        }
    }

    /// Gives the frames on.
    pub fn into_frames(mut self) -> Vec<Bytes> {
        self.close_tail();
        self.frames
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            self.frames.push(std::mem::take(&mut self.tail).freeze());
        }
    }

    fn prefix(&self) -> Option<(u8, usize)> {
        let mut bytes = self.frames.iter().flat_map(|frame| &frame[..]).chain(&self.tail[..]).copied();
        let flag = bytes.next()?;
        let mut length = 0;
        for _ in 1..PREFIX {
            length = length << 8 | usize::from(bytes.next()?);
        }
        Some((flag, length))
    }

    fn joined(&self) -> Bytes {
        match self.frames.as_slice() {
            [frame] if self.tail.is_empty() => frame.clone(),
            frames => {
                let mut joined = BytesMut::with_capacity(self.collected);
                frames.iter().for_each(|frame| joined.extend_from_slice(frame));
                joined.extend_from_slice(&self.tail);
                joined.freeze()
            }
        }
    }
}

/// A message with its prefix, in one frame.
pub fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX + message.len());
    frame.extend_from_slice(&[0]);
    frame.extend_from_slice(&(message.len() as u32).to_be_bytes());
    frame.extend_from_slice(message);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn assembled(chunks: &[&[u8]]) -> Result<Payload, TooLarge> {
        let mut assembler = Assembler::default();
        for chunk in chunks {
            assembler.push(Bytes::copy_from_slice(chunk))?;
        }
        Ok(assembler.payload())
    }

    #[test]
    fn tells_a_message_from_what_is_none() {
        let message = |bytes: &'static [u8]| Payload::Message(Bytes::from_static(bytes));
        let table: [(&[&[u8]], Payload); 8] = [
            (&[&[0, 0, 0, 0, 0]], message(b"")),
            (&[&[0, 0, 0, 0, 2, b'h', b'i']], message(b"hi")),
            (&[&[0, 0], &[0, 0, 2, b'h'], &[], b"i"], message(b"hi")),
            (&[&[1, 0, 0, 0, 1, 9]], Payload::Compressed),
            (&[], Payload::Broken),
            (&[&[0, 0, 0]], Payload::Broken),
            (&[&[0, 0, 0, 0, 3, b'h', b'i']], Payload::Broken),
            (&[&[0, 0, 0, 0, 0], &[0, 0, 0, 0, 0]], Payload::Broken),
        ];
        for (chunks, expected) in table {
            assert_eq!(assembled(chunks), Ok(expected), "{chunks:?}");
        }
    }

    #[test]
    fn refuses_by_the_announced_length_and_by_the_real_one() {
        let announced = [0, 1, 0, 0, 1];
        assert_eq!(assembled(&[&announced]), Err(TooLarge { length: MAX_MESSAGE + 1 }));
        let limit = [&[0, 1, 0, 0, 0][..], &vec![0; MAX_MESSAGE]].concat();
        assert!(matches!(assembled(&[&limit]), Ok(Payload::Message(_))));
        let lie = [&[0, 0, 0, 0, 1][..], &vec![0; MAX_MESSAGE + 1]].concat();
        assert_eq!(assembled(&[&lie]), Err(TooLarge { length: MAX_MESSAGE + 1 }));
    }

    #[test]
    fn small_frames_are_kept_together() {
        let large = [0; SMALL_FRAME];
        let mut assembler = Assembler::default();
        let small = vec![&[0][..]; 100_000];
        for frame in small.iter().chain([&&large[..]]).chain(&small) {
            assembler.push(Bytes::copy_from_slice(frame)).unwrap();
        }
        let lengths: Vec<_> = assembler.into_frames().iter().map(Bytes::len).collect();
        assert_eq!(lengths, [1, 99_999, SMALL_FRAME, 100_000]);
    }

    proptest! {
        #[test]
        fn the_cut_does_not_matter(bytes in proptest::collection::vec(any::<u8>(), 0..60), cuts in proptest::collection::vec(1..9_usize, 1..60)) {
            let mut rest = &bytes[..];
            let mut chunks = Vec::new();
            for cut in cuts {
                let (chunk, tail) = rest.split_at(cut.min(rest.len()));
                chunks.push(chunk);
                rest = tail;
            }
            chunks.push(rest);
            prop_assert_eq!(assembled(&chunks), assembled(&[&bytes]));
        }

        #[test]
        fn what_is_framed_is_found(message in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(assembled(&[&framed(&message)]), Ok(Payload::Message(message.into())));
        }
    }
}
