//! The size of something as JSON, which is how objects are sent and kept; counted, not written. The API
//! server writes JSON as Go does, also into etcd: `<` takes six bytes there, and an author may write a
//! million.

use std::io::{self, Write};

use serde::Serialize;

use crate::nested;

/// Bytes in memory that weigh as much as one byte of JSON. Parts of an object that weigh 768 KiB together
/// take less than an object may when it is read ([`nested::MOST_MEMORY`]).
const LIGHT: usize = 10;

/// Weight of a part of an object that has to be read as a whole: bytes as JSON, and more where it takes far
/// more memory than its text, as one of many small lists and maps does.
pub fn weight(value: &impl Serialize) -> usize {
    bytes(value).max(memory(value).div_ceil(LIGHT))
}

/// Bytes that a value takes in memory when it is read, about.
pub fn memory(value: &impl Serialize) -> usize {
    serde_json::to_value(value).map_or(usize::MAX, |value| nested::memory(&value))
}

/// Bytes of a value as the API server's JSON. One that cannot be written has no size that would fit anywhere.
pub fn bytes(value: &impl Serialize) -> usize {
    let mut counted = Counted(0);
    serde_json::to_writer(&mut counted, value).map_or(usize::MAX, |()| counted.0)
}

/// A place for bytes that only counts them.
struct Counted(usize);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len()).saturating_add(escapes(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes that Go's JSON has more than this: `<`, `>`, `&` and the two separators of lines of Unicode are
/// written as `\u003c` and the like. They stand in texts alone, and no text is cut within a character.
fn escapes(bytes: &[u8]) -> usize {
    let marks = bytes.iter().filter(|byte| matches!(**byte, b'<' | b'>' | b'&')).count();
    let lines = bytes.windows(3).filter(|three| matches!(three, [0xe2, 0x80, 0xa8 | 0xa9])).count();
    marks.saturating_mul(5).saturating_add(lines.saturating_mul(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_long_as_go_writes_it() {
        for (text, written) in [
            ("plain", r#""plain""#),
            ("a<b>&&", r#""a\u003cb\u003e\u0026\u0026""#),
            ("é\u{2028}\u{2029}\u{2027}", "\"é\\u2028\\u2029\u{2027}\""),
        ] {
            assert_eq!(bytes(&text), written.len(), "{text:?}");
            assert_eq!(bytes(&serde_json::json!({ text: [text] })), 2 * written.len() + 5, "{text:?}");
        }
    }

    #[test]
    fn many_small_maps_weigh_more_than_their_text() {
        let (text, maps) = ("x".repeat(10_000), vec![serde_json::json!({ "a": 1 }); 1000]);
        assert_eq!(weight(&text), bytes(&text));
        assert!(weight(&maps) > 8 * bytes(&maps), "{}", weight(&maps));
    }

    #[test]
    fn as_long_as_the_text() {
        let value = serde_json::json!({ "a": "\u{1}\n\"é", "b": [1, null] });
        assert_eq!(bytes(&value), value.to_string().len());
    }
}
