//! The size of something as JSON, which is how objects are sent and kept; counted, not written.

use std::io::{self, Write};

use serde::Serialize;

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
    fn as_long_as_the_text() {
        let value = serde_json::json!({ "a": "\u{1}\n\"é", "b": [1, null] });
        assert_eq!(bytes(&value), value.to_string().len());
    }
}
