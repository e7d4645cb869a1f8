//! Decision of a candidate, given the lease as it was read. Pure.

use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use tokio::time::{Duration, Instant};

use super::Terms;

/// Move of a replica on the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// It is ours: prolong it.
    Renew,
    /// It is nobody's, or its holder shows no life: take it.
    Take,
    /// It is another's.
    Wait,
}

/// A state of the lease, and since when we have seen it so.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Observed {
    state: (Option<String>, Option<MicroTime>),
    since: Instant,
}

impl Observed {
    pub(super) fn next(before: Option<Self>, lease: &Lease, now: Instant) -> Self {
        let spec = lease.spec.as_ref();
        let state = (holder(lease).map(str::to_owned), spec.and_then(|spec| spec.renew_time.clone()));
        before.filter(|before| before.state == state).unwrap_or(Self { state, since: now })
    }
}

/// Returns the holder of the lease; one that was given up has an empty holder.
pub(super) fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

pub(super) fn decide(lease: &Lease, observed: &Observed, terms: &Terms, now: Instant) -> Move {
    match holder(lease) {
        Some(holder) if holder == terms.identity => Move::Renew,
        None => Move::Take,
        Some(_) => {
            // What its holder has promised counts, whatever we would promise ourselves.
            let promised = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
            let promised = promised.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
            let silent = now.saturating_duration_since(observed.since);
            if silent < promised.unwrap_or(terms.duration) { Move::Wait } else { Move::Take }
        }
    }
}

pub(super) fn renewed(mut lease: Lease, terms: &Terms, wall: Timestamp) -> Lease {
    let spec = lease.spec.get_or_insert_default();
    spec.renew_time = Some(MicroTime(wall));
    spec.lease_duration_seconds = Some(i32::try_from(terms.duration.as_secs()).unwrap_or(i32::MAX));
    lease
}

pub(super) fn taken(lease: Lease, terms: &Terms, wall: Timestamp) -> Lease {
    let mut lease = renewed(lease, terms, wall);
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(terms.identity.clone());
    spec.acquire_time = Some(MicroTime(wall));
    spec.lease_transitions = Some(spec.lease_transitions.map_or(0, |count| count.saturating_add(1)));
    lease
}

pub(super) fn given_up(mut lease: Lease, wall: Timestamp) -> Lease {
    let spec = lease.spec.get_or_insert_default();
    spec.renew_time = Some(MicroTime(wall));
    spec.holder_identity = Some(String::new());
    lease
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::LeaseSpec;
    use rstest::rstest;

    use super::*;

    fn terms() -> Terms {
        Terms {
            namespace: "berth-system".to_owned(),
            name: "berth-manager".to_owned(),
            identity: "a".to_owned(),
            duration: Duration::from_secs(15),
        }
    }

    fn lease(holder: Option<&str>, renewed: i64) -> Lease {
        Lease {
            spec: Some(LeaseSpec {
                holder_identity: holder.map(str::to_owned),
                lease_duration_seconds: Some(15),
                renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
                ..LeaseSpec::default()
            }),
            ..Lease::default()
        }
    }

    #[rstest]
    #[case::ours(Some("a"), 100, Move::Renew)]
    #[case::nobodys(None, 0, Move::Take)]
    #[case::given_up(Some(""), 0, Move::Take)]
    #[case::alive(Some("b"), 14, Move::Wait)]
    #[case::silent(Some("b"), 15, Move::Take)]
    fn next_move(#[case] holder: Option<&str>, #[case] silent: u64, #[case] expected: Move) {
        let (lease, start) = (lease(holder, 0), Instant::now());
        let observed = Observed::next(None, &lease, start);
        assert_eq!(decide(&lease, &observed, &terms(), start + Duration::from_secs(silent)), expected);
    }

    /// The holder's clock may show anything: only that it moves counts.
    #[test]
    fn a_holder_that_renews_is_never_followed() {
        let start = Instant::now();
        let mut observed = None;
        for step in 0..100 {
            let lease = lease(Some("b"), 4_000_000_000 - i64::from(step));
            let now = start + Duration::from_secs(14) * step;
            let seen = Observed::next(observed, &lease, now);
            assert_eq!(decide(&lease, &seen, &terms(), now + Duration::from_secs(13)), Move::Wait);
            observed = Some(seen);
        }
    }

    #[test]
    fn taking_it_over_is_counted_and_renewing_is_not() {
        let wall = Timestamp::from_second(1).unwrap();
        let taken = taken(lease(Some("b"), 0), &terms(), wall);
        assert_eq!(holder(&taken), Some("a"));
        let renewed = renewed(taken.clone(), &terms(), Timestamp::from_second(2).unwrap());
        let (taken, renewed) = (taken.spec.unwrap(), renewed.spec.unwrap());
        assert_eq!((taken.lease_transitions, renewed.lease_transitions), (Some(0), Some(0)));
        assert_eq!(
            (taken.acquire_time, renewed.acquire_time),
            (Some(MicroTime(wall)), Some(MicroTime(wall)))
        );
        assert_ne!(taken.renew_time, renewed.renew_time);
    }
}
