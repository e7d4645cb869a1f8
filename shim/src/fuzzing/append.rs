//! Any answer, cut in any way: what comes out is what went in, and the one message of it is longer by the
//! suffix.

use bytes::Bytes;

use super::pieces;
use crate::append::Append;

const PREFIX: usize = 5;
const LIMIT: usize = 16 << 20;

/// The suffix is the first piece of the answer, so that the two look alike.
pub fn append(data: &[u8]) {
    let (cut, bytes) = pieces(data);
    let suffix = &bytes[..cut[0].len()];
    let mut append = Append::new(Bytes::copy_from_slice(suffix));
    let mut out = Vec::new();
    for piece in &cut {
        out.extend(append.frame(Bytes::copy_from_slice(piece)));
    }
    out.extend(append.end());
    assert_eq!(out, expected(bytes, suffix));
}

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
