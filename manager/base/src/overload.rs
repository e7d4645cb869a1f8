//! How an API server says that it has too much to do.
//!
//! It says so in plain text, before anybody is asked: the next request would meet with the same, whatever it
//! is about. The word of a webhook, or of who holds an object back, comes as an object: that is about one
//! write.

use kube::core::Status;

/// Reason that the library gives an answer that is no object.
pub const NO_OBJECT: &str = "Failed to parse error data";

/// Tells whether an error is the API server's own word that it has too much to do.
pub fn is_overload(status: &Status) -> bool {
    status.code == 429 && status.reason == NO_OBJECT
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: code, reason, and whether it is the API server's own word.
    #[test]
    fn the_word_of_a_webhook_is_about_one_write() {
        let table = [
            (429, NO_OBJECT, true),
            (429, "TooManyRequests", false),
            (429, "", false),
            (503, NO_OBJECT, false),
        ];
        for (code, reason, expected) in table {
            let status = Status::failure("too many requests", reason).with_code(code);
            assert_eq!(is_overload(&status), expected, "{code} {reason}");
        }
    }
}
