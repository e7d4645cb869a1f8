//! Dry runs of entries at the API server, and the configuration without those that it refuses.

use std::time::Duration;

use kube::{Api, api::PostParams};
use tokio::time::{Instant, timeout};
use tracing::info;

use super::{
    kind::Configuration,
    reconciler::ANSWER_WITHIN,
    refused::{Refused, Search},
};

/// No trial of a look begins after it: a search has some dozens of them, and the API server may take seconds
/// for each.
const SEARCHED_FOR: Duration = Duration::from_secs(5);

/// How the API server says, by whatever code, that an admission policy or a webhook refuses a write.
const DENIED: [&str; 2] = ["denied request", "denied the request"];

/// Leaves out what is refused. Nothing where that is what stands.
pub(super) fn without<K: Configuration>(next: K, now: &K, refused: &Refused<K::Entry>) -> Option<K> {
    if refused.entries().is_empty() {
        return Some(next);
    }
    let Some(lesser) = refused.lesser(next.entries(), now.entries()) else { return Some(next) };
    (lesser != now.entries()).then(|| next.holding(lesser))
}

/// End of the trials of one look.
pub(super) enum Trials<E> {
    /// All are done: entries that are refused.
    Done(Vec<E>),
    /// There was no time for all of them, and the next look goes on.
    GoOn,
    /// One was not answered. The next look tries it again.
    Unanswered,
}

/// Tries entries of a configuration in dry runs, for some seconds at the most.
pub(super) async fn tried<K: Configuration>(
    api: &Api<K>,
    name: &str,
    like: &K,
    entries: &[K::Entry],
    search: &mut Search<K::Entry>,
) -> Trials<K::Entry> {
    let (begun, dry) = (Instant::now(), PostParams { dry_run: true, ..PostParams::default() });
    let sieve = search.go_on(entries);
    while let Some(group) = sieve.next_group() {
        if begun.elapsed() >= SEARCHED_FOR {
            info!(
                kind = %K::kind(&()), trials = sieve.trials(),
                "Refused webhook entries are still looked for, and what stands stays until they are found"
            );
            return Trials::GoOn;
        }
        let trial = like.holding(group);
        match timeout(ANSWER_WITHIN, api.replace(name, &dry, &trial)).await {
            Ok(Ok(_)) => sieve.answered(true),
            Ok(Err(error)) if is_refusal(&error) => sieve.answered(false),
            _ => return Trials::Unanswered,
        }
    }
    Trials::Done(search.end())
}

/// Says whether a policy, a webhook or a check of the API server says no. A right that is missing is none: an
/// API server that comes up has read no roles, and refuses everybody.
pub(super) fn is_refusal(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == 422 || DENIED.iter().any(|words| status.message.contains(words))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_missing_right_is_no_refusal() {
        for (code, message, refused) in [
            (403, "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", true),
            (400, "admission webhook \"policies.example\" denied the request: no", true),
            (422, "webhooks[0].matchConditions[0].expression: Invalid value", true),
            (403, "User \"berth-manager\" cannot update resource", false),
            (409, "the object has been modified", false),
            (500, "etcdserver: request timed out", false),
        ] {
            let status = Status { code, message: message.to_owned(), ..Status::default() };
            assert_eq!(is_refusal(&kube::Error::Api(status.boxed())), refused, "{message}");
        }
    }
}
