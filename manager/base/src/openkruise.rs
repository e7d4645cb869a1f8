//! Whether an OpenKruise decides in this cluster: two programs that decide on the same kinds fight over them,
//! so nothing is begun until it has stopped, or somebody has said whose the kinds are.
//!
//! Its manager renews a Lease while it leads (`kruise-manager` in `kruise-system`, by its defaults).
//! As in our own election only that the lease moves counts, by our own clock; a sign of life that is ten
//! minutes old needs no second look.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use kube::{Api, Client};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tracing::{info, warn};

use crate::{http::Check, ownership::Ownership, telemetry::chain};

const NAMESPACE: &str = "kruise-system";
const LEASE: &str = "kruise-manager";
/// Between two looks while nothing is begun.
const PAUSE: Duration = Duration::from_secs(2);
/// Between two looks once all has begun.
const LONG_PAUSE: Duration = Duration::from_secs(60);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Promise of a holder that makes none, and the most that is believed.
const PROMISED: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(60));
/// Age of a sign of life that cannot be a difference of clocks.
const LONG_GONE: SignedDuration = SignedDuration::from_mins(10);

/// Verdict of one look at the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// No OpenKruise runs.
    Free,
    /// One runs; the name of its leader.
    Decides(String),
    /// It is not known before the next look.
    Unclear,
}

/// A state of the lease, and since when it is so.
#[derive(Clone, Debug)]
struct Observed {
    holder: String,
    renewed: Option<MicroTime>,
    since: Instant,
    moved: bool,
}

/// Looks at the lease, again and again.
struct Look {
    api: Api<Lease>,
    observed: Option<Observed>,
    /// Outcome that was said last.
    said: Option<String>,
}

/// Comes back when the kinds are Berth's: at once where that is said, else when no OpenKruise runs. `clear`
/// tells that to the page of readiness. Cancel-safe.
pub async fn stopped(client: &Client, ownership: Ownership, clear: &watch::Sender<bool>) {
    if ownership.detects() {
        none_decides(client).await;
    }
    clear.send_replace(true);
}

async fn none_decides(client: &Client) {
    let mut look = Look::new(client);
    loop {
        match look.take().await {
            Some(Verdict::Free) => return,
            Some(Verdict::Decides(leader)) => look.say(
                leader,
                "Nothing is begun while an OpenKruise decides; stop its manager, or say with --ownership whose the kinds are",
            ),
            Some(Verdict::Unclear) | None => {}
        }
        sleep(PAUSE).await;
    }
}

/// Readiness by whether the kinds are Berth's.
pub fn check(owned: bool) -> Check {
    Check { name: "ownership", done: owned, missing: "an OpenKruise decides, or that is not known yet" }
}

/// Says so when an OpenKruise begins to decide as well, unless some kinds are its own. Never ends.
pub async fn warn_of(client: Client, ownership: Ownership) {
    if !ownership.has_all() {
        return std::future::pending().await;
    }
    let mut look = Look::new(&client);
    loop {
        match look.take().await {
            Some(Verdict::Decides(leader)) => {
                look.say(leader, "An OpenKruise decides on the same kinds; stop its manager, or this one");
            }
            Some(Verdict::Free) => look.said = None,
            Some(Verdict::Unclear) | None => {}
        }
        sleep(LONG_PAUSE).await;
    }
}

// === impl Look ===

impl Look {
    fn new(client: &Client) -> Self {
        Self { api: Api::namespaced(client.clone(), NAMESPACE), observed: None, said: None }
    }

    /// Takes one look; `None` without an answer.
    async fn take(&mut self) -> Option<Verdict> {
        let lease = match timeout(ANSWER_WITHIN, self.api.get_opt(LEASE)).await {
            Ok(Ok(lease)) => lease,
            // With the roles of an older release. It must not stand still for that.
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
                self.say(
                    String::new(),
                    "Whether an OpenKruise runs may not be looked for; apply the new roles",
                );
                return Some(Verdict::Free);
            }
            Ok(Err(error)) => {
                self.say(chain(&error), "Whether an OpenKruise runs is not known, looking again");
                return None;
            }
            Err(_) => {
                self.say("no answer".to_owned(), "Whether an OpenKruise runs is not known, looking again");
                return None;
            }
        };
        let Some(lease) = lease else { return Some(Verdict::Free) };
        let now = Instant::now();
        self.observed = Observed::next(self.observed.take(), &lease, now);
        Some(self.observed.as_ref().map_or(Verdict::Free, |seen| seen.verdict(&lease, Timestamp::now(), now)))
    }

    /// Says it, if it is news.
    fn say(&mut self, about: String, words: &'static str) {
        if self.said.as_ref() != Some(&about) {
            if about.is_empty() {
                info!("{words}");
            } else {
                warn!(lease = format!("{NAMESPACE}/{LEASE}"), about, "{words}");
            }
        }
        self.said = Some(about);
    }
}

// === impl Observed ===

impl Observed {
    /// State after this look; `None` where nobody holds the lease.
    fn next(before: Option<Self>, lease: &Lease, now: Instant) -> Option<Self> {
        let spec = lease.spec.as_ref()?;
        let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty())?;
        let renewed = spec.renew_time.clone();
        Some(match before {
            Some(before) if before.holder == holder && before.renewed == renewed => before,
            before => Self { holder, renewed, since: now, moved: before.is_some() },
        })
    }

    fn verdict(&self, lease: &Lease, wall: Timestamp, now: Instant) -> Verdict {
        let old = self.renewed.as_ref().is_some_and(|renewed| wall.duration_since(renewed.0) > LONG_GONE);
        let promised = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let promised = promised.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
        let silent = now.saturating_duration_since(self.since);
        match silent >= promised.unwrap_or(PROMISED.0).min(PROMISED.1) {
            true => Verdict::Free,
            false if self.moved => Verdict::Decides(self.holder.clone()),
            false if old => Verdict::Free,
            false => Verdict::Unclear,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::LeaseSpec;
    use rstest::rstest;

    use super::*;

    const WALL: i64 = 1_000_000;

    fn lease(holder: Option<&str>, renewed: i64, promised: Option<i32>) -> Lease {
        let spec = LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            renew_time: Some(MicroTime(Timestamp::from_second(WALL + renewed).unwrap())),
            lease_duration_seconds: promised,
            ..LeaseSpec::default()
        };
        Lease { spec: Some(spec), ..Lease::default() }
    }

    /// Looks, each with the seconds since the first, at leases renewed so long before the first.
    fn last(holder: Option<&str>, promised: Option<i32>, looks: &[(u64, i64)]) -> Verdict {
        let start = Instant::now();
        let (mut observed, mut verdict) = (None, Verdict::Unclear);
        for (after, renewed) in looks {
            let (lease, now) = (lease(holder, *renewed, promised), start + Duration::from_secs(*after));
            let wall = Timestamp::from_second(WALL + i64::try_from(*after).unwrap()).unwrap();
            observed = Observed::next(observed, &lease, now);
            verdict = observed.as_ref().map_or(Verdict::Free, |seen| seen.verdict(&lease, wall, now));
        }
        verdict
    }

    #[rstest]
    #[case::nobody(None, None, &[(0, 0)], Verdict::Free)]
    #[case::given_up(Some(""), None, &[(0, 0)], Verdict::Free)]
    #[case::first_look(Some("a"), Some(15), &[(0, -1)], Verdict::Unclear)]
    #[case::moves(Some("a"), Some(15), &[(0, -1), (2, 1)], Verdict::Decides("a".to_owned()))]
    #[case::moves_by_a_clock_far_behind(Some("a"), Some(15), &[(0, -9000), (2, -8998)], Verdict::Decides("a".to_owned()))]
    #[case::long_gone(Some("a"), Some(15), &[(0, -9000)], Verdict::Free)]
    #[case::goes_silent(Some("a"), Some(15), &[(0, -1), (14, -1)], Verdict::Unclear)]
    #[case::silent(Some("a"), Some(15), &[(0, -1), (15, -1)], Verdict::Free)]
    #[case::silent_after_it_moved(Some("a"), Some(15), &[(0, -1), (2, 1), (17, 1)], Verdict::Free)]
    #[case::no_promise(Some("a"), None, &[(0, -1), (15, -1)], Verdict::Free)]
    #[case::no_end(Some("a"), Some(i32::MAX), &[(0, -1), (60, -1)], Verdict::Free)]
    #[case::less_than_nothing(Some("a"), Some(-1), &[(0, -1), (2, -1)], Verdict::Unclear)]
    fn verdict(
        #[case] holder: Option<&str>,
        #[case] promised: Option<i32>,
        #[case] looks: &[(u64, i64)],
        #[case] expected: Verdict,
    ) {
        assert_eq!(last(holder, promised, looks), expected);
    }

    /// A lease without a time has no age.
    #[test]
    fn no_time_is_no_sign_of_age() {
        let mut lease = lease(Some("a"), 0, None);
        lease.spec.as_mut().unwrap().renew_time = None;
        let now = Instant::now();
        let seen = Observed::next(None, &lease, now).unwrap();
        assert_eq!(seen.verdict(&lease, Timestamp::MAX, now), Verdict::Unclear);
    }
}
