//! A UID in little space. Each object has one, and nearly all look alike: 36 characters that say 16 bytes.

use std::fmt;

use crate::hex::{digit, digits};

/// Where a UUID has its hyphens.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// The UID of an object. Sorted as their texts are, if all are UUIDs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Uid {
    /// As the API server makes them: lowercase, with hyphens.
    Uuid([u8; 16]),
    /// Any other, as it is.
    Other(Box<str>),
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        parse(text.as_bytes()).map_or_else(|| Self::Other(text.into()), Self::Uuid)
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // One write: a plan of a set with tens of thousands of pods writes the UID of each.
            Self::Uuid(bytes) => {
                let mut text = [b'-'; 36];
                let places = (0..text.len()).filter(|at| !HYPHENS.contains(at));
                for (place, digit) in places.zip(bytes.iter().flat_map(|byte| digits(*byte))) {
                    text[place] = digit;
                }
                f.write_str(std::str::from_utf8(&text).unwrap_or_default())
            }
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// Parses only what is written out again exactly as it was.
fn parse(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != 36 || HYPHENS.iter().any(|at| text[*at] != b'-') {
        return None;
    }
    let mut digits = text.iter().enumerate().filter(|(at, _)| !HYPHENS.contains(at)).map(|(_, byte)| *byte);
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        *byte = digit(digits.next()?)? << 4 | digit(digits.next()?)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::uuid("4a1e9a0e-9a6b-4d0c-bd47-4c2d5a1f2b33", true)]
    #[case::upper("4A1E9A0E-9A6B-4D0C-BD47-4C2D5A1F2B33", false)]
    #[case::hyphen_for_a_digit("4a1e9a0e-9a6b-4d0c-bd47-4c2d5a1f2b-3", false)]
    #[case::hyphen_moved("4a1e9a0e9-a6b-4d0c-bd47-4c2d5a1f2b33", false)]
    #[case::short("4a1e9a0e", false)]
    #[case::empty("", false)]
    #[case::of_a_static_pod("0123456789abcdef0123456789abcdef", false)]
    fn it_comes_out_as_it_went_in(#[case] text: &str, #[case] small: bool) {
        let uid = Uid::from(text);
        assert_eq!((uid.to_string().as_str(), matches!(uid, Uid::Uuid(_))), (text, small));
    }

    #[test]
    fn it_is_small() {
        assert_eq!(size_of::<Uid>(), 24);
    }
}
