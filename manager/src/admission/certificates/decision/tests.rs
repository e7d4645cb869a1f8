use rstest::rstest;

use super::*;

const NAME: &str = "berth-manager.berth-system.svc";
const T: &str = "2026-07-02T10:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn names() -> Vec<String> {
    vec![NAME.to_owned()]
}

fn first() -> Secret {
    renewed(&Secret::default(), Step::Replace, &names(), at(T)).unwrap()
}

fn prepared(when: &str) -> Secret {
    renewed(&first(), Step::Prepare, &names(), at(when)).unwrap()
}

fn without(mut secret: Secret, key: &str) -> Secret {
    secret.data.as_mut().unwrap().remove(key);
    secret
}

fn annotated(mut secret: Secret, key: &str, value: &str) -> Secret {
    secret.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    secret
}

fn filled(mut secret: Secret, key: &str, value: &[u8]) -> Secret {
    secret.data.get_or_insert_default().insert(key.to_owned(), ByteString(value.to_vec()));
    secret
}

#[rstest]
#[case::as_the_manifest_has_it(Secret::default(), T, true, Decision::Renew(Step::Replace))]
#[case::fresh(first(), T, true, Decision::Keep)]
#[case::a_bundle_that_is_not_there_yet(first(), T, false, Decision::Keep)]
#[case::long_before_its_end(first(), "2027-04-02T10:00:00Z", true, Decision::Keep)]
#[case::three_months_before_it(first(), "2027-04-04T10:00:00Z", true, Decision::Renew(Step::Prepare))]
#[case::over(first(), "2027-07-03T10:00:00Z", true, Decision::Renew(Step::Replace))]
#[case::before_it_begins(first(), "2026-06-20T10:00:00Z", true, Decision::Renew(Step::Replace))]
#[case::asked_for(annotated(first(), RENEW, ""), T, true, Decision::Renew(Step::Prepare))]
#[case::no_key(without(first(), KEY), T, true, Decision::Renew(Step::Replace))]
#[case::no_bundle(without(first(), BUNDLE), T, true, Decision::Renew(Step::Replace))]
#[case::no_pem(filled(first(), CERTIFICATE, b"x"), T, true, Decision::Renew(Step::Replace))]
#[case::just_prepared(prepared(T), T, true, Decision::Keep)]
#[case::after_a_minute(prepared(T), "2026-07-02T10:01:00Z", true, Decision::Renew(Step::Promote))]
#[case::a_bundle_was_reset(prepared(T), "2026-07-02T10:01:00Z", false, Decision::Keep)]
#[case::a_clock_a_little_ahead(prepared("2026-07-02T10:00:30Z"), T, true, Decision::Keep)]
#[case::a_clock_far_ahead(prepared("2026-08-02T10:00:30Z"), T, true, Decision::Renew(Step::Prepare))]
#[case::a_since_far_ahead(
    annotated(prepared(T), NEXT_SINCE, "2026-07-03T10:00:00Z"),
    T,
    true,
    Decision::Renew(Step::Prepare)
)]
#[case::a_since_that_is_none(
    annotated(prepared(T), NEXT_SINCE, "x"),
    T,
    true,
    Decision::Renew(Step::Prepare)
)]
#[case::asked_for_again(annotated(prepared(T), RENEW, "1"), T, true, Decision::Renew(Step::Prepare))]
#[case::only_the_next_one_is_left(
    without(prepared(T), CERTIFICATE),
    T,
    false,
    Decision::Renew(Step::Promote)
)]
#[case::half_a_next_one(without(prepared(T), NEXT_KEY), T, true, Decision::Keep)]
fn steps(#[case] secret: Secret, #[case] now: &str, #[case] bundled: bool, #[case] decision: Decision) {
    assert_eq!(decide(&Stored::read(&secret), NAME, bundled, at(now)), decision);
}

/// A certificate that one replica serves and a bundle that another wrote fit at every step, in both orders.
#[test]
fn a_renewal_never_parts_the_two() {
    let before = first();
    let prepared = renewed(&before, Step::Prepare, &names(), at(T)).unwrap();
    let promoted = renewed(&prepared, Step::Promote, &names(), at("2026-07-02T10:01:00Z")).unwrap();
    let stages = [before, prepared, promoted].map(|secret| Stored::read(&secret));
    for (older, newer) in [(0, 1), (1, 2)] {
        for (served, bundle) in [(older, newer), (newer, older)] {
            let served = stages[served].served.as_ref().unwrap();
            pair::check(served, &stages[bundle].bundle, NAME, at(T)).unwrap();
        }
    }
    let (old, new) = (stages[0].served.as_ref().unwrap(), stages[2].served.as_ref().unwrap());
    assert_ne!(old.cert, new.cert);
    // Without the overlap they part: the new one is not known to those who know the first bundle alone.
    assert!(pair::check(new, &stages[0].bundle, NAME, at(T)).is_err());
    assert_eq!(decide(&stages[2], NAME, true, at("2026-07-02T10:01:00Z")), Decision::Keep);
}

#[test]
fn a_bundle_does_not_grow() {
    let (mut secret, mut now) = (first(), at(T));
    for _ in 0..10 {
        now = now.checked_add(SignedDuration::from_hours(1)).unwrap();
        secret = renewed(&secret, Step::Prepare, &names(), now).unwrap();
        secret = renewed(&secret, Step::Promote, &names(), now).unwrap();
        assert_eq!(Stored::read(&secret).bundle.len(), 2);
        assert!(Stored::read(&secret).usable(NAME, now).is_ok());
    }
    assert_eq!(secret.data.as_ref().unwrap().len(), 3, "nothing of the renewal is left");
    assert!(secret.metadata.annotations.unwrap().is_empty());
}

#[test]
fn what_others_keep_there_stays() {
    let secret = filled(annotated(Secret::default(), "a", "b"), "other", b"kept");
    let secret = renewed(&secret, Step::Replace, &names(), at(T)).unwrap();
    assert_eq!(secret.data.unwrap()["other"].0, b"kept");
    assert_eq!(secret.metadata.annotations.unwrap()["a"], "b");
}
