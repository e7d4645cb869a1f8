//! An error and its causes, in one line for a log field or for a person.

use std::error::Error;

use berth_proto::quoting;

/// The error with all its causes. Values that a parser of JSON quotes are left out.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    quoting::texts(error).join(": ")
}

/// The cause of all causes: the layers above it may only say "transport error".
pub fn innermost(error: &(dyn Error + 'static)) -> String {
    quoting::texts(error).pop().unwrap_or_default()
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
