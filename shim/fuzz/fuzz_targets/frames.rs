//! Any bytes, cut in any way: what comes out is what went in, and what is seen does not depend on the cuts.
#![no_main]

use bytes::Bytes;
use frames::{Assembler, MAX_MESSAGE, PREFIX, Payload, framed};
use libfuzzer_sys::fuzz_target;

#[path = "../../src/frames.rs"]
#[allow(dead_code)] // the shim uses what the target does not
mod frames;

fuzz_target!(|input: (Vec<u8>, &[u8])| {
    let (cuts, bytes) = input;
    let mut pieces = Assembler::default();
    let mut refused = false;
    let mut rest = bytes;
    for cut in cuts.iter().map(|cut| usize::from(*cut)).chain([usize::MAX]) {
        let (piece, tail) = rest.split_at(cut.min(rest.len()));
        rest = tail;
        if pieces.push(Bytes::copy_from_slice(piece)).is_err() {
            refused = true;
            break;
        }
    }
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

    assert_eq!(pieces.frames().concat(), bytes, "untouched is identical");
    assert_eq!(pieces.payload(), whole.payload());
    if let Payload::Message(message) = whole.payload() {
        assert_eq!(framed(&message), bytes);
    }
});
