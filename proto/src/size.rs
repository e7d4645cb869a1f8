//! The size of something as JSON, which is how objects are sent and kept; counted, not written.

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

/// Bytes of a value as JSON. One that cannot be written has no size that would fit anywhere.
pub fn bytes(value: &impl Serialize) -> usize {
    let mut counted = Counted(0);
    serde_json::to_writer(&mut counted, value).map_or(usize::MAX, |()| counted.0)
}

/// A place for bytes that only counts them.
struct Counted(usize);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
