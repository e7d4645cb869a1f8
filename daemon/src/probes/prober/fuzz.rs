//! Fuzzing of what containers print, and of what their servers answer a probe with.

use super::message;

/// Checks that a message about the output is short, has nothing a terminal would obey, is said the same of
/// itself, and is no news when only an identifier in it is.
pub fn message(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let with = |id: &str| message::steady(&format!("{text}\"{}\"{text}", id.repeat(16)));
    assert_eq!(with("0a"), with("1b"));
    let said = message::readable(data);
    assert_eq!(message::readable(said.as_bytes()), said);
    for said in [said, with("0a")] {
        assert!(
            said.len() <= 1 << 10
                && !said.contains(|shown: char| shown.is_control() && shown != '\n' && shown != '\t')
        );
    }
}
