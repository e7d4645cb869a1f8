//! Identifiers in hexadecimal that are kept as bytes, and must be written out again exactly as they were.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Both digits of a byte, in lower case.
pub(crate) fn digits(byte: u8) -> [u8; 2] {
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 0xf)]]
}

/// The value of a digit in lower case, the only one that is written.
pub(crate) fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}
