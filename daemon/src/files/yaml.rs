//! YAML as an author wrote it: one document a file, read strictly, with errors that name line and field.

use serde::{Deserialize, de::IgnoredAny};

/// Why a text is not the object it should be. The message has line and field.
#[derive(Debug, thiserror::Error)]
pub(crate) enum YamlError {
    /// It has several documents.
    #[error("it has several YAML documents: give each its own file")]
    Several,
    /// It is no YAML, or not of that kind.
    #[error("{0}")]
    Yaml(String),
}

/// Reads the `apiVersion` and `kind` of a document.
pub(crate) fn head(text: &str) -> Option<(String, String)> {
    let Head { api_version, kind } = parse(text).ok()?;
    Some((api_version?, kind?))
}

/// Reads a document strictly.
pub(crate) fn parse<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, serde_saphyr::Error> {
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options)
}

/// The parser's message without its list of all known fields, and with the line it is about: that has the
/// field.
pub(crate) fn readable(error: serde_saphyr::Error, text: &str) -> YamlError {
    if matches!(error.without_snippet(), serde_saphyr::Error::MultipleDocuments { .. }) {
        return YamlError::Several;
    }
    let what = error.to_string();
    let Some(at) = error.location() else { return YamlError::Yaml(what) };
    let line = usize::try_from(at.line()).ok().and_then(|line| text.lines().nth(line.checked_sub(1)?));
    let what = [", expected one of", " at line"]
        .iter()
        .fold(what.as_str(), |what, end| what.find(end).map_or(what, |end| &what[..end]));
    let line = line.map(str::trim).filter(|line| !line.is_empty()).unwrap_or("the end");
    YamlError::Yaml(format!("{what} at line {}, column {} ({line})", at.line(), at.column()))
}

/// Just enough to say what a document is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: Option<String>,
    kind: Option<String>,
}

/// Whatever it is.
pub(crate) type Any = Option<IgnoredAny>;

/// The fields of `metadata` that a file may have.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct MetadataFields {
    #[serde(rename = "name")]
    _name: Any,
    #[serde(rename = "namespace")]
    _namespace: Any,
    #[serde(rename = "labels")]
    _labels: Any,
    #[serde(rename = "annotations")]
    _annotations: Any,
    // `kubectl create --dry-run` writes a null.
    #[serde(rename = "creationTimestamp")]
    _creation_timestamp: Any,
}
