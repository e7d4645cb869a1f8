//! Rules that several kinds have in common, for everybody who reads an object that no API server may have
//! checked.

use std::collections::BTreeSet;

use super::bounds::{MOST_CONTAINERS, MOST_SECONDS};

/// Value that cannot be. `Display` names the field, what is wrong with it and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {flaw}")]
pub struct Invalid {
    field: String,
    flaw: String,
}

impl Invalid {
    /// The flaw of this field: what is wrong with it, a colon, and the remedy.
    pub fn new(field: impl Into<String>, flaw: impl Into<String>) -> Self {
        Self { field: field.into(), flaw: flaw.into() }
    }
}

/// Checks the names of the containers that the list at this path has: each is given, each once, and not too
/// many.
pub fn distinct_containers<'a>(
    path: &str,
    names: impl ExactSizeIterator<Item = &'a str>,
) -> Result<(), Invalid> {
    let count = names.len();
    if count > MOST_CONTAINERS {
        return Err(Invalid::new(path, format!("has {count} entries: list at most {MOST_CONTAINERS}")));
    }
    let mut seen = BTreeSet::new();
    for (index, name) in names.enumerate() {
        let field = || format!("{path}[{index}].name");
        if name.is_empty() {
            return Err(Invalid::new(field(), "is empty: name the container"));
        }
        if !seen.insert(name) {
            return Err(Invalid::new(field(), format!("repeats {name:?}: list each container once")));
        }
    }
    Ok(())
}

/// Checks a number of seconds: at least `least`, at most [`MOST_SECONDS`], or left out.
pub fn seconds_within(field: &str, value: Option<impl Into<i64>>, least: i64) -> Result<(), Invalid> {
    match value.map(Into::into).filter(|value| !(least..=MOST_SECONDS).contains(value)) {
        Some(value) => {
            let flaw = format!("is {value}: give {least} or more, at most {MOST_SECONDS}, or leave it out");
            Err(Invalid::new(field, flaw))
        }
        None => Ok(()),
    }
}
