//! Any bytes of a client, cut in any way: what is mended does not depend on the cuts, only characters that no
//! authority may have are changed, and mended again it is what it was.

use super::pieces;
use crate::authority::Authorities;

/// The pieces that a client sends, as [`pieces`] has them.
pub fn authority(data: &[u8]) {
    let (cut, bytes) = pieces(data);
    let mended = through(&cut);
    assert_eq!(mended, through(&[bytes]), "the cuts do not count");
    assert_eq!(mended, through(&[&mended[..]]), "what is mended stays as it is");
    assert_eq!(mended.len(), bytes.len());
    for (before, after) in bytes.iter().zip(&mended).filter(|(before, after)| before != after) {
        let plain = matches!((before, after), (b' ', b'-') | (b'%', b'.') | (b'/', b'3'));
        // In Huffman's code a bit of each symbol, and no symbol has less than five.
        assert!(plain || (before & !after == 0 && (before ^ after).count_ones() <= 2), "{before} {after}");
    }
}

fn through(pieces: &[&[u8]]) -> Vec<u8> {
    let mut authorities = Authorities::new();
    let mut out = Vec::new();
    for piece in pieces {
        let mut piece = piece.to_vec();
        authorities.pass(&mut piece);
        out.extend(piece);
    }
    out
}
