//! What containers print, and what their servers answer a probe with.

use super::message;

/// What is said of it is short, has nothing a terminal would obey, and is said the same of itself.
pub fn message(data: &[u8]) {
    let said = message::readable(data);
    assert!(
        said.len() <= 1 << 10
            && !said.contains(|shown: char| shown.is_control() && shown != '\n' && shown != '\t')
    );
    assert_eq!(message::readable(said.as_bytes()), said);
    let steady = message::steady(&String::from_utf8_lossy(data));
    assert_eq!(message::steady(&steady), steady);
}
