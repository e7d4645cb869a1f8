//! Any bytes, cut in any way: what comes out is what went in, and what is seen does not depend on the cuts.

use bytes::Bytes;

use super::pieces;
use crate::frames::{Assembler, MAX_MESSAGE, PREFIX, Payload, framed};

pub fn frames(data: &[u8]) {
    let (cut, bytes) = pieces(data);
    let mut pieces = Assembler::default();
    let refused = cut.iter().any(|piece| pieces.push(Bytes::copy_from_slice(piece)).is_err());
    let mut whole = Assembler::default();
    assert_eq!(whole.push(Bytes::copy_from_slice(bytes)).is_err(), refused);

    // Refused for its announced length only: no input here is that long.
    let announced = bytes
        .get(1..PREFIX)
        .map(|length| length.iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte)));
    assert_eq!(refused, announced.is_some_and(|length| length > MAX_MESSAGE));
    if refused {
        return;
    }

    assert_eq!(pieces.payload(), whole.payload());
    assert_eq!(pieces.into_frames().concat(), bytes, "untouched is identical");
    if let Payload::Message(message) = whole.payload() {
        assert_eq!(framed(&message), bytes);
    }
}
