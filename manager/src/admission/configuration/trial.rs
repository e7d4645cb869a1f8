//! Dry runs of entries at the API server, and the configuration without those that it refuses.

use kube::{Api, api::PostParams};
use tokio::time::timeout;

use super::{
    kind::Configuration,
    reconciler::ANSWER_WITHIN,
    refused::{Refused, Sieve},
};

/// Leaves out what is refused. Nothing where that is what stands.
pub(super) fn without<K: Configuration>(next: K, now: &K, refused: &Refused<K::Entry>) -> Option<K> {
    if refused.entries().is_empty() {
        return Some(next);
    }
    let Some(lesser) = refused.lesser(next.entries(), now.entries()) else { return Some(next) };
    (lesser != now.entries()).then(|| next.holding(lesser))
}

/// Tries entries of a configuration in dry runs. Returns those that are refused, if each was answered.
pub(super) async fn tried<K: Configuration>(
    api: &Api<K>,
    name: &str,
    like: &K,
    entries: &[K::Entry],
) -> Option<Vec<K::Entry>> {
    let (mut sieve, dry) = (Sieve::of(entries), PostParams { dry_run: true, ..PostParams::default() });
    while let Some(group) = sieve.next_group() {
        let trial = like.holding(group);
        match timeout(ANSWER_WITHIN, api.replace(name, &dry, &trial)).await {
            Ok(Ok(_)) => sieve.answered(true),
            Ok(Err(error)) if is_refusal(&error) => sieve.answered(false),
            _ => return None,
        }
    }
    Some(sieve.refused())
}

/// Says whether a policy, a webhook or a check of the API server says no.
pub(super) fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 403 | 422))
}
