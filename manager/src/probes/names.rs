//! Names as every object's metadata has them: keys of labels and annotations, values of labels, types of conditions.

/// Domains whose keys are Kubernetes' own.
const RESERVED: [&str; 2] = ["kubernetes.io", "k8s.io"];
/// The one of their keys that is meant to be written by others.
pub(super) const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Longest prefix, and longest name or value behind it.
const LONGEST: (usize, usize) = (253, 63);

/// A name, with a DNS name and "/" before it or without.
pub(super) fn is_qualified(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_domain(prefix) && is_name(name),
        None => is_name(key),
    }
}

/// Returns whether a text may be the value of a label.
pub(super) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_name(value)
}

/// A key that only Kubernetes itself may write.
pub(super) fn is_reserved(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return false };
    let prefix = prefix.to_ascii_lowercase();
    let within = |domain: &str| {
        prefix.strip_suffix(domain).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    key != DELETION_COST && RESERVED.iter().any(|domain| within(domain))
}

fn is_name(text: &str) -> bool {
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.len() <= LONGEST.1 && has_ends(text, u8::is_ascii_alphanumeric) && text.as_bytes().iter().all(inner)
}

fn is_domain(text: &str) -> bool {
    let end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| has_ends(label, end) && label.bytes().all(|byte| end(&byte) || byte == b'-');
    text.len() <= LONGEST.0 && text.split('.').all(label)
}

/// Not empty, and such at both ends.
fn has_ends(text: &str, is: impl Fn(&u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(&is) && bytes.last().is_some_and(&is)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("idle", true)]
    #[case::qualified("game.kruise.io/idle", true)]
    #[case::all_letters("A_b.c-9", true)]
    #[case::empty("", false)]
    #[case::no_name("game.io/", false)]
    #[case::no_prefix("/idle", false)]
    #[case::two_slashes("a/b/c", false)]
    #[case::upper_prefix("Game.io/idle", false)]
    #[case::empty_label("game..io/idle", false)]
    #[case::hyphen_at_the_end("idle-", false)]
    #[case::space("i dle", false)]
    #[case::not_ascii("idlé", false)]
    fn keys(#[case] key: &str, #[case] good: bool) {
        assert_eq!(is_qualified(key), good);
    }

    #[test]
    fn lengths() {
        let (prefix, name) = ("a".repeat(253), "n".repeat(63));
        assert!(is_qualified(&format!("{prefix}/{name}")));
        assert!(!is_qualified(&format!("{prefix}a/{name}")) && !is_qualified(&format!("{name}n")));
        assert!(is_label_value(&name) && is_label_value("") && !is_label_value(&format!("{name}n")));
    }

    #[rstest]
    #[case::kubernetes("kubernetes.io/os", true)]
    #[case::below("node.kubernetes.io/x", true)]
    #[case::k8s("k8s.io/x", true)]
    #[case::upper("Batch.Kubernetes.IO/x", true)]
    #[case::deletion_cost(DELETION_COST, false)]
    #[case::looks_alike("mykubernetes.io/x", false)]
    #[case::another("game.io/kubernetes.io", false)]
    #[case::no_prefix("kubernetes.io", false)]
    fn reserved(#[case] key: &str, #[case] yes: bool) {
        assert_eq!(is_reserved(key), yes);
    }
}
