//! An error and its causes in one line.

use std::error::Error;

use crate::quoting::texts;

/// The error with all its causes, for the log: without the values that parsers quote. Clients of the API
/// server repeat a cause in their own text: such a cause is left out.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let said = texts(error).into_iter();
    said.reduce(|text, words| if text.contains(&words) { text } else { format!("{text}: {words}") })
        .unwrap_or_default()
}

/// The cause of all causes: the layers above it may only say "transport error".
pub fn innermost(error: &(dyn Error + 'static)) -> String {
    texts(error).pop().unwrap_or_default()
}

/// The error with all its causes, where one does not say the next by itself, for a person who typed a
/// command.
pub fn once(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for cause in std::iter::successors(Some(error), |&error| error.source()).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("reading the store")]
    struct Outer(#[source] std::io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("Error deserializing response: {0}")]
    struct Repeats(#[source] serde_json::Error);

    #[test]
    fn all_causes_or_the_last() {
        let error = Outer(std::io::Error::other("disk on fire"));
        assert_eq!(chain(&error), "reading the store: disk on fire");
        assert_eq!(innermost(&error), "disk on fire");
        let said = chain(&Repeats(serde_json::from_str::<u8>("[1").unwrap_err()));
        assert_eq!(said.matches("invalid type: sequence").count(), 1, "{said}");
    }
}
