//! Contents of the revisions of a set, as they stand in its status: one JSON list, compressed, for revisions
//! that differ in an image have nearly everything in common.

use std::io::{Read as _, Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use berth_proto::{crd::MOST_HISTORY_BYTES, nested};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::Object;

/// The most bytes that a history has without compression.
const MOST_BYTES: usize = 16 << 20;
/// The most memory that it takes when it is read: small maps take eighty times as much as their text.
const MOST_MEMORY: usize = 64 << 20;
/// Bytes of it that a revision takes at most beside the values of its fields.
const EACH: usize = 4096;
/// Fields of the spec that make a revision: what a pod gets.
pub(crate) const FIELDS: [&str; 5] =
    ["containers", "initContainers", "volumes", "imagePullSecrets", "patchPodMetadata"];

/// Contents of one revision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// Name of the revision.
    pub name: String,
    /// Fields of the spec, those that are there.
    #[serde(flatten)]
    pub fields: Object,
}

/// Reasons why a history cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// It is larger than the status may have.
    #[error("the history has more than {0} bytes: lower revisionHistoryLimit")]
    TooLarge(usize),
    /// It is none.
    #[error("status.history is no compressed list of revisions: {0}")]
    Unreadable(String),
}

/// Fields of a spec that make a revision.
pub fn fields_of(spec: &Object) -> Object {
    let fields = FIELDS.iter().filter_map(|field| {
        let value = spec.get(*field).filter(|value| value.as_array().is_some_and(|list| !list.is_empty()))?;
        Some(((*field).to_owned(), value.clone()))
    });
    fields.collect()
}

/// Reads a history.
pub fn decode(history: &str) -> Result<Vec<Content>, HistoryError> {
    if history.is_empty() {
        return Ok(Vec::new());
    }
    if history.len() > MOST_HISTORY_BYTES {
        return Err(HistoryError::TooLarge(MOST_HISTORY_BYTES));
    }
    let unreadable = |error: &dyn std::error::Error| HistoryError::Unreadable(error.to_string());
    let packed = STANDARD.decode(history).map_err(|error| unreadable(&error))?;
    let mut json = Vec::new();
    // One byte more than may be, to tell the largest from one that is cut.
    let most = MOST_BYTES + 1;
    GzDecoder::new(packed.as_slice())
        .take(most as u64)
        .read_to_end(&mut json)
        .map_err(|error| unreadable(&error))?;
    if json.len() > MOST_BYTES {
        return Err(HistoryError::TooLarge(MOST_BYTES));
    }
    let mut text = serde_json::Deserializer::from_slice(&json);
    let contents = nested::read_within(&mut text, MOST_MEMORY);
    let contents = contents.and_then(|contents| text.end().map(|()| contents));
    let contents = contents.map_err(|error| match error.to_string().starts_with(nested::TOO_LARGE) {
        true => HistoryError::TooLarge(MOST_MEMORY),
        false => unreadable(&error),
    })?;
    let none = || HistoryError::Unreadable("a revision has no name".to_owned());
    let Value::Array(contents) = contents else { return Err(none()) };
    contents.into_iter().map(|one| content(one).ok_or_else(none)).collect()
}

fn content(value: Value) -> Option<Content> {
    let Value::Object(mut fields) = value else { return None };
    match fields.remove("name") {
        Some(Value::String(name)) => Some(Content { name, fields }),
        _ => None,
    }
}

/// Writes a history; one that is too large for a status is an error.
pub fn encode(contents: &[Content]) -> Result<String, HistoryError> {
    let unreadable = |error: &dyn std::error::Error| HistoryError::Unreadable(error.to_string());
    let memory = contents.iter().flat_map(|content| content.fields.values()).map(nested::memory);
    if memory.fold(contents.len().saturating_mul(EACH), usize::saturating_add) > MOST_MEMORY {
        return Err(HistoryError::TooLarge(MOST_MEMORY));
    }
    let json = serde_json::to_vec(contents).map_err(|error| unreadable(&error))?;
    if json.len() > MOST_BYTES {
        return Err(HistoryError::TooLarge(MOST_BYTES));
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    let packed =
        packed.write_all(&json).and_then(|()| packed.finish()).map_err(|error| unreadable(&error))?;
    let text = STANDARD.encode(packed);
    if text.len() > MOST_HISTORY_BYTES {
        return Err(HistoryError::TooLarge(MOST_HISTORY_BYTES));
    }
    Ok(text)
}
