//! Faults of an object, named by field and remedy.

/// Fault of an object: nothing is done for it before it is corrected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {why}")]
pub struct Fault {
    /// Path of the field.
    pub field: String,
    /// Fault and remedy.
    pub why: String,
}

impl Fault {
    pub(crate) fn new(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self { field: field.into(), why: why.into() }
    }
}
