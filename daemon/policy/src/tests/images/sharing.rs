//! One pull for many wishes.

use super::play::{A, NOTHING, Play, always, sealed, secs, wish};
use crate::{Bytes, ImageEvent, PullId, Wish, WishPhase};

#[test]
fn wishes_with_one_reference_and_credentials_share_a_pull() {
    let mut play = Play::new();
    let labels = [("k".to_owned(), "first".to_owned())].into();
    play.see(Wish { labels, timeout: secs(10), ..wish("1", A) });
    play.see(wish("2", A));
    assert_eq!(play.plan(), ["look r.io/a:1"], "one look for both");
    play.absent(A);
    assert_eq!(play.plan(), ["pull 1 r.io/a:1"]);
    assert_eq!((play.orders[0].labels["k"].as_str(), play.orders[0].timeout), ("first", secs(10)));
    play.see(always("3", A));
    assert_eq!(play.plan(), NOTHING, "a pull that goes on serves this as well");
    let bytes = Bytes { done: 50, total: 200 };
    play.apply(ImageEvent::PullProgressed { pull: PullId(1), bytes });
    for key in ["1", "2", "3"] {
        let report = play.report(key);
        assert_eq!((report.phase, report.attempts), (WishPhase::Pulling, 1), "{key}");
        assert_eq!((report.bytes, report.percent()), (Some(bytes), 25), "{key}");
    }
    play.gone("1");
    assert_eq!(play.plan(), NOTHING, "the others need it");
    play.pulled(1);
    for key in ["2", "3"] {
        assert_eq!(play.report(key).phase, WishPhase::Succeeded, "{key}");
    }
    assert_eq!(play.plan(), NOTHING);
}

#[test]
fn a_wish_that_is_still_looking_is_satisfied_by_the_pull() {
    let mut play = Play::new();
    play.see(always("1", A));
    play.plan();
    play.see(wish("2", A));
    assert_eq!(play.plan(), ["look r.io/a:1"]);
    play.pulled(1);
    assert_eq!(play.report("2").phase, WishPhase::Succeeded);
    assert_eq!(play.report("2").attempts, 0);
    // The answer to the look is late, and means nothing any more.
    play.absent(A);
    assert_eq!(play.plan(), NOTHING);
}

#[test]
fn other_credentials_look_for_themselves() {
    let mut play = Play::new();
    play.see(always("node", A));
    play.see(sealed(wish("sealed", A)));
    assert_eq!(play.plan(), ["look r.io/a:1", "pull 1 r.io/a:1"]);
    play.absent(A);
    assert_eq!(play.plan(), NOTHING, "not the same pull, and not two of one repository");
    assert_eq!(play.stands("sealed"), (WishPhase::Waiting, 0, "other pulls go first".to_owned()));
    play.pulled(1);
    assert_eq!(play.report("sealed").phase, WishPhase::Waiting, "it is not theirs by that");
    assert_eq!(play.plan(), ["look r.io/a:1"]);
    play.found(A);
    assert_eq!(play.report("sealed").phase, WishPhase::Succeeded);
}

#[test]
fn a_look_that_a_pull_overtook_is_repeated() {
    let mut play = Play::new();
    play.see(always("node", A));
    play.see(sealed(wish("sealed", A)));
    play.plan();
    play.pulled(1);
    play.absent(A);
    assert_eq!(play.plan(), ["look r.io/a:1"], "it was not there before the pull");
    play.absent(A);
    assert_eq!(play.plan(), ["pull 2 r.io/a:1"], "and it is not there after it");
    assert_ne!(play.orders[0].credentials, play.orders[1].credentials);
}

#[test]
fn what_is_always_pulled_is_pulled_with_its_own_credentials() {
    let mut play = Play::new();
    play.see(always("node", A));
    play.see(sealed(always("sealed", A)));
    assert_eq!(play.plan(), ["pull 1 r.io/a:1"]);
    play.pulled(1);
    assert_eq!(play.plan(), ["pull 2 r.io/a:1"]);
}

#[test]
fn another_spelling_is_looked_for_when_it_has_come() {
    let mut play = Play::new();
    play.see(always("1", "d:1"));
    play.plan();
    play.miss(wish("2", "docker.io/library/d:1"));
    assert_eq!(play.plan(), NOTHING, "the runtime is asked for what was given, but not for both at once");
    play.pulled(1);
    assert_eq!(play.plan(), ["look docker.io/library/d:1"]);
    play.found("docker.io/library/d:1");
    assert_eq!(play.report("2").phase, WishPhase::Succeeded);
}

#[test]
fn what_is_always_pulled_takes_no_answer_from_before() {
    let mut play = Play::new();
    play.see(always("1", A));
    play.plan();
    play.see(always("2", A));
    assert_eq!(play.plan(), NOTHING, "the runtime has not been asked yet");
    play.asks(1, 5);
    play.see(always("3", A));
    play.miss(wish("4", A));
    assert_eq!(play.plan(), NOTHING, "one at a time");
    assert_eq!(play.stands("2").0, WishPhase::Pulling);
    assert_eq!(play.stands("3"), (WishPhase::Waiting, 0, "other pulls go first".to_owned()));
    assert_eq!(play.stands("4").0, WishPhase::Pulling, "what is there is enough for this one");
    play.pulled(1);
    assert_eq!(play.report("2").phase, WishPhase::Succeeded);
    assert_eq!(play.report("3").phase, WishPhase::Waiting);
    assert_eq!(play.plan(), ["pull 2 r.io/a:1"]);
    play.pulled(2);
    assert_eq!(play.report("3").phase, WishPhase::Succeeded);
}

#[test]
fn a_failure_counts_for_each_wish_it_served() {
    let mut play = Play::new();
    play.see(Wish { retries: 0, ..always("1", A) });
    play.see(Wish { retries: 1, ..always("2", A) });
    play.plan();
    let bytes = Bytes { done: 1, total: 2 };
    play.apply(ImageEvent::PullProgressed { pull: PullId(1), bytes });
    play.refused(1);
    assert_eq!(play.stands("1"), (WishPhase::Failed, 1, "no such tag".to_owned()));
    assert_eq!(play.stands("2"), (WishPhase::Waiting, 1, "attempt 1 of 2 failed: no such tag".to_owned()));
    assert_eq!(play.report("2").bytes, None);
}

#[test]
fn one_between_two_attempts_comes_along() {
    let mut play = Play::new();
    play.see(always("1", A));
    play.plan();
    play.refused(1);
    play.see(always("2", A));
    assert_eq!(play.plan(), ["pull 2 r.io/a:1"], "the new one has no reason to wait");
    assert_eq!(play.stands("1").1, 2);
    play.pulled(2);
    assert_eq!(play.report("1").phase, WishPhase::Succeeded);
    assert_eq!(play.report("2").phase, WishPhase::Succeeded);
}

#[test]
fn a_pull_that_goes_on_is_not_ended_by_a_find() {
    let mut play = Play::new();
    play.miss(wish("1", A));
    play.plan();
    play.see(sealed(wish("2", A)));
    assert_eq!(play.plan(), ["look r.io/a:1"]);
    play.found(A);
    assert_eq!(play.report("2").phase, WishPhase::Succeeded);
    assert_eq!(play.report("1").phase, WishPhase::Pulling);
    assert_eq!(play.plan(), NOTHING);
}

#[test]
fn a_find_is_for_all_who_take_what_is_there() {
    let mut play = Play::new();
    play.miss(wish("1", A));
    play.plan();
    play.refused(1);
    play.see(sealed(wish("2", A)));
    assert_eq!(play.plan(), ["look r.io/a:1"]);
    play.found(A);
    assert_eq!(play.report("1").phase, WishPhase::Succeeded);
    assert_eq!(play.report("2").phase, WishPhase::Succeeded);
}
