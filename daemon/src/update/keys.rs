//! Kubernetes' rules for labels and annotations, as far as they are checked here: what breaks them is refused by the API
//! server whenever it is tried, so it is never tried.

/// The longest name, and the longest value of a label.
const LONGEST: usize = 63;
/// The longest prefix of a key.
const LONGEST_PREFIX: usize = 253;
/// All annotations of a pod together.
pub(super) const LONGEST_ANNOTATIONS: usize = 256 << 10;

/// Finds the flaw of a key.
pub(super) fn key(key: &str) -> Option<&'static str> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if prefix.is_some_and(|prefix| !is_domain(prefix)) {
        return Some("what is before the slash is no DNS name");
    }
    (name.is_empty() || !is_word(name)).then_some(
        "a key is at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends, after a DNS name and a \
         slash or alone",
    )
}

/// Finds the flaw of a label's value.
pub(super) fn label(value: &str) -> Option<&'static str> {
    (!is_word(value)).then_some(
        "the value of a label is at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends",
    )
}

/// Empty is one, too.
fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()].into_iter().flatten();
    bytes.len() <= LONGEST
        && ends.into_iter().all(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn is_domain(text: &str) -> bool {
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        let is_inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
        !bytes.is_empty() && bytes.iter().all(is_inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= LONGEST_PREFIX && text.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        for good in ["a", "A.b_c-9", "example.com/config", "a-b.c/D", &"x".repeat(63)] {
            assert_eq!(key(good), None, "{good}");
        }
        for bad in [
            "",
            "a/",
            "/a",
            "a b",
            "-a",
            "a.",
            "a/b/c",
            "Example.com/a",
            "a..b/c",
            "-a/b",
            "ü",
            &"x".repeat(64),
        ] {
            assert!(key(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn values_of_labels() {
        for good in ["", "v1.2_3-x", "0"] {
            assert_eq!(label(good), None, "{good}");
        }
        for bad in ["a b", "-a", "a:1", "a/b", "é", &"x".repeat(64)] {
            assert!(label(bad).is_some(), "{bad}");
        }
    }
}
