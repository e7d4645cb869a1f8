//! An error and its causes, in one line for a log field or for a person.

use std::error::Error;

/// The error with all its causes.
pub fn chain(error: &dyn Error) -> String {
    let texts: Vec<String> = causes(error).map(ToString::to_string).collect();
    texts.join(": ")
}

/// The cause of all causes: the layers above it may only say "transport error".
pub fn innermost(error: &dyn Error) -> String {
    causes(error).last().unwrap_or(error).to_string()
}

/// The error first, what caused it after it.
fn causes<'a>(error: &'a (dyn Error + 'a)) -> impl Iterator<Item = &'a (dyn Error + 'a)> {
    std::iter::successors(Some(error), |&error| error.source().map(|cause| cause as _))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_or_the_last() {
        #[derive(Debug, thiserror::Error)]
        #[error("reading the store")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::Error::other("disk on fire"));
        assert_eq!(chain(&error), "reading the store: disk on fire");
        assert_eq!(innermost(&error), "disk on fire");
    }
}
