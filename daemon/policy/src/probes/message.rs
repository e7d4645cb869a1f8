//! Messages of probes, as long as conditions, Events and reports have them.
//!
//! Containers say what they like, and all reports of a node stand in one object, where the manager keeps so
//! much room for each. The API server writes that as JSON, in which a character may take six bytes.

use std::sync::Arc;

use super::model::ProbeResult;

/// Maximum length of a message; in bytes of JSON as the API server writes it.
const LONGEST: usize = 1024;

/// Message of a run.
pub(super) fn words(result: &ProbeResult) -> Arc<str> {
    match result {
        ProbeResult::Success(text) | ProbeResult::Failure(text) => cut(text),
        // Unknown without words would mean that nothing was tried.
        ProbeResult::Unknown(text) | ProbeResult::Refused(text) if text.is_empty() => {
            "the probe could not be carried out".into()
        }
        ProbeResult::Unknown(text) | ProbeResult::Refused(text) => cut(text),
    }
}

/// Cuts a message to what may be shown, between two characters.
pub(super) fn cut(text: &str) -> Arc<str> {
    let mut length = 0_usize;
    let beyond = text.char_indices().find(|(_, character)| {
        length = length.saturating_add(written(*character));
        length > LONGEST
    });
    text[..beyond.map_or(text.len(), |(at, _)| at)].into()
}

/// Bytes of a character in Go's JSON.
fn written(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\t' | '\r' => 2,
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => 6,
        _ if character.is_ascii_control() => 6,
        _ => character.len_utf8(),
    }
}
