//! Kubernetes' rules for labels and annotations, as far as they are checked here, in words.

use berth_proto::{crd::MOST_ANNOTATION_BYTES, names};

/// All annotations of a pod together.
pub(super) const LONGEST_ANNOTATIONS: usize = MOST_ANNOTATION_BYTES;

/// Finds the flaw of a key.
pub(super) fn key(key: &str) -> Option<&'static str> {
    if key.split_once('/').is_some_and(|(prefix, _)| !names::is_dns_subdomain(prefix)) {
        return Some("what is before the slash is no DNS name");
    }
    (!names::is_qualified(key)).then_some(
        "a key is at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends, after a DNS name and a \
         slash or alone",
    )
}

/// Finds the flaw of a label's value.
pub(super) fn label(value: &str) -> Option<&'static str> {
    (!names::is_label_value(value)).then_some(
        "the value of a label is at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flaw_of_a_key_is_named() {
        assert_eq!(key("example.com/config"), None);
        assert!(key("Example.com/a").unwrap().contains("before the slash"));
        assert!(key("a b").unwrap().contains("at most 63 letters"));
        assert!(label("a b").is_some() && label("").is_none());
    }
}
