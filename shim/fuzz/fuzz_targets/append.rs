//! Any answer, cut in any way: what comes out is what went in, and the one message of it is longer by the suffix.
#![no_main]

use append::Append;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

#[path = "../../src/append.rs"]
#[allow(dead_code)] // the shim uses what the target does not
mod append;

const PREFIX: usize = 5;
const LIMIT: usize = 16 << 20;

fuzz_target!(|input: (Vec<u8>, Vec<u8>, &[u8])| {
    let (cuts, suffix, bytes) = input;
    let mut append = Append::new(Bytes::from(suffix.clone()));
    let mut out = Vec::new();
    let mut rest = bytes;
    for cut in cuts.iter().map(|cut| usize::from(*cut)).chain([usize::MAX]) {
        let (piece, tail) = rest.split_at(cut.min(rest.len()));
        rest = tail;
        out.extend(append.frame(Bytes::copy_from_slice(piece)));
    }
    out.extend(append.end());
    assert_eq!(out, expected(bytes, &suffix));
});

/// The same, of the whole and in the plainest way.
fn expected(bytes: &[u8], suffix: &[u8]) -> Vec<u8> {
    let Some((prefix, rest)) = bytes.split_at_checked(PREFIX) else { return bytes.to_vec() };
    let length = prefix[1..].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    if prefix[0] != 0 || length == 0 || length + suffix.len() > LIMIT {
        return bytes.to_vec();
    }
    let mut out = vec![0];
    out.extend(((length + suffix.len()) as u32).to_be_bytes());
    match rest.split_at_checked(length) {
        Some((message, after)) => out.extend([message, suffix, after].concat()),
        None => out.extend(rest),
    }
    out
}
