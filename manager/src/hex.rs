//! Identifiers in hexadecimal that are kept as bytes, and must be written out again exactly as they were.

/// The value of a digit in lower case, the only one that is written.
pub(crate) fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}
