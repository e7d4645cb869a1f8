//! Any answer, cut in any way: what comes out does not depend on the cuts, and changed again it is what it
//! was.

use bytes::Bytes;

use super::pieces;
use crate::edit::{Edit, OF_EVENT, OF_SANDBOX};

/// The pieces of the answer, as [`pieces`] has them.
pub fn edit(data: &[u8]) {
    let (cut, bytes) = pieces(data);
    for field in [OF_SANDBOX, OF_EVENT] {
        let out = through(field, &cut);
        assert_eq!(out, through(field, &[bytes]), "the cuts do not count");
        assert!(out.len() >= bytes.len(), "nothing is taken away");
        if out.len() == bytes.len() {
            assert_eq!(out, bytes, "untouched is identical");
        }
    }
}

fn through(field: u64, pieces: &[&[u8]]) -> Vec<u8> {
    let mut edit = Edit::of_all(field);
    let mut out = Vec::new();
    for piece in pieces {
        out.extend(edit.frame(Bytes::copy_from_slice(piece)));
    }
    out.extend(edit.end());
    out
}
