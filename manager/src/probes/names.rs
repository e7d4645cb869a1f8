//! Keys of labels and annotations that are Kubernetes' own.

/// Domains whose keys are Kubernetes' own.
const RESERVED: [&str; 2] = ["kubernetes.io", "k8s.io"];
/// The one of their keys that is meant to be written by others.
pub(super) const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A key that only Kubernetes itself may write.
pub(super) fn is_reserved(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return false };
    let prefix = prefix.to_ascii_lowercase();
    let within = |domain: &str| {
        prefix.strip_suffix(domain).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    key != DELETION_COST && RESERVED.iter().any(|domain| within(domain))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

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
