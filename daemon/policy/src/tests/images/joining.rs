//! The kubelet's calls that wait for a pull of ours.

use super::play::{A, NOTHING, Play, always, wish};
use crate::{CredentialKey, JoinedPull, PullFailure, PullId};

const OURS: PullId = PullId(1);

fn done() -> JoinedPull {
    JoinedPull::Done("ref of r.io/a:1".to_owned())
}

/// Pull 1 goes on, and the runtime is asked with credential 5.
fn pulling() -> Play {
    let mut play = Play::new();
    play.see(always("w", A));
    play.plan();
    play.asks(1, 5);
    play
}

#[test]
fn a_call_joins_the_same_image_with_the_same_credential() {
    let table = [(A, 5, Some(OURS)), (A, 6, None), ("r.io/a:2", 5, None), ("a:1", 5, None)];
    for (image, credential, joins) in table {
        let play = pulling();
        assert_eq!(play.images.joinable(image, CredentialKey(credential)), joins, "{image} {credential}");
    }
    let mut play = Play::new();
    play.see(always("w", "d:1"));
    play.plan();
    play.asks(1, 5);
    for (image, joins) in [("docker.io/library/d:1", Some(OURS)), ("d:1", None)] {
        assert_eq!(play.images.joinable(image, CredentialKey(5)), joins, "by its record: {image}");
    }
    let mut play = Play::new();
    play.see(always("w", A));
    play.plan();
    assert_eq!(play.images.joinable(A, CredentialKey(5)), None, "nobody knows yet with what it is asked for");
}

/// From before a pull can be joined until none can be.
#[test]
fn images_are_busy_from_a_wish_to_its_end() {
    let mut play = Play::new();
    assert!(!play.images.is_busy());
    play.see(wish("w", A));
    assert!(play.images.is_busy(), "it may have to be pulled");
    play.plan();
    play.absent(A);
    assert!(play.images.is_busy());
    assert_eq!(play.plan(), ["pull 1 r.io/a:1"]);
    play.asks(1, 5);
    play.join(1, 1);
    assert!(play.images.is_busy());
    play.pulled(1);
    assert!(!play.images.is_busy(), "who has joined knows where to ask");

    let mut play = pulling();
    play.refused(1);
    assert!(play.images.is_busy(), "it is tried again");
    let mut play = pulling();
    play.gone("w");
    play.plan();
    assert!(play.images.is_busy(), "until the runtime has let it go");
    play.fails(1, PullFailure::Cancelled);
    assert!(!play.images.is_busy());

    let mut play = Play::new();
    play.see(wish("w", A));
    play.plan();
    play.found(A);
    assert!(!play.images.is_busy(), "it is there");
    play.kubelet_pulls(1, "r.io/b:1");
    assert!(!play.images.is_busy(), "the kubelet's own");
}

#[test]
fn a_pull_that_ends_is_not_joined() {
    let mut play = pulling();
    play.gone("w");
    play.plan();
    assert_eq!(play.images.joinable(A, CredentialKey(5)), None, "it was told to end");
    let mut play = pulling();
    play.join(1, 1);
    play.pulled(1);
    assert_eq!(play.images.joinable(A, CredentialKey(5)), None, "it has ended");
}

#[test]
fn who_joined_hears_how_it_ended() {
    let failures = [None, Some(PullFailure::Refused("no".to_owned())), Some(PullFailure::Cancelled)];
    for failure in failures {
        let mut play = pulling();
        assert_eq!(play.images.joined(PullId(9)), JoinedPull::Failed, "unknown");
        play.join(1, 1);
        play.join(2, 1);
        assert_eq!(play.images.joined(OURS), JoinedPull::Running);
        match &failure {
            None => play.pulled(1),
            Some(failure) => play.fails(1, failure.clone()),
        }
        let ended = if failure.is_none() { done() } else { JoinedPull::Failed };
        assert_eq!(play.images.joined(OURS), ended);
        play.leave(1);
        assert_eq!(play.images.joined(OURS), ended, "the other one has not heard yet");
        play.leave(2);
        assert_eq!(play.images.joined(OURS), JoinedPull::Failed, "forgotten");
        assert_eq!(play.images.size().pulling, 0);
    }
}

#[test]
fn an_outcome_nobody_waits_for_is_not_kept() {
    let mut play = pulling();
    play.pulled(1);
    assert_eq!(play.images.joined(OURS), JoinedPull::Failed);
    play.join(1, 1);
    play.leave(1);
    assert_eq!(play.images.size().pulling, 0);
}

#[test]
fn a_joined_pull_outlives_its_wish() {
    let mut play = pulling();
    play.join(1, 1);
    play.join(2, 1);
    play.gone("w");
    assert_eq!(play.plan(), NOTHING);
    play.leave(1);
    assert_eq!(play.plan(), NOTHING);
    play.leave(2);
    assert_eq!(play.plan(), ["cancel 1"]);
    assert_eq!(play.plan(), NOTHING, "given out once");
    assert_eq!(play.images.size().pulling, 1);
    play.fails(1, PullFailure::Cancelled);
    assert_eq!(play.images.size().pulling, 0);
}

#[test]
fn a_wish_joins_a_pull_that_a_call_keeps() {
    let mut play = pulling();
    play.join(1, 1);
    play.gone("w");
    play.miss(wish("other", A));
    assert_eq!(play.plan(), NOTHING);
    play.leave(1);
    assert_eq!(play.plan(), NOTHING, "the new wish needs it");
}

#[test]
fn a_pull_that_a_call_keeps_is_too_old_for_what_is_always_pulled() {
    let mut play = pulling();
    play.join(1, 1);
    play.gone("w");
    play.see(always("other", A));
    assert_eq!(play.plan(), NOTHING);
    play.leave(1);
    assert_eq!(play.plan(), ["cancel 1"]);
    play.fails(1, PullFailure::Cancelled);
    assert_eq!(play.plan(), ["pull 2 r.io/a:1"]);
}

#[test]
fn other_credentials_send_who_joined_on_their_way() {
    let mut play = pulling();
    play.join(1, 1);
    play.asks(1, 5);
    assert_eq!(play.images.joined(OURS), JoinedPull::Running, "said again");
    play.asks(1, 6);
    assert_eq!(play.images.joined(OURS), JoinedPull::Failed);
    assert_eq!(play.images.joinable(A, CredentialKey(6)), None, "not while it has failed for somebody");
    play.join(1, 1);
    play.asks(1, 5);
    assert_eq!(play.images.joined(OURS), JoinedPull::Failed, "going back helps nobody");
    play.asks(1, 6);
    play.leave(1);
    assert_eq!(play.images.joinable(A, CredentialKey(5)), None);
    assert_eq!(play.images.joinable(A, CredentialKey(6)), Some(OURS));
    play.join(2, 1);
    play.pulled(1);
    assert_eq!(play.images.joined(OURS), done());
}

#[test]
fn who_goes_its_own_way_keeps_nothing() {
    let mut play = pulling();
    play.join(1, 1);
    play.asks(1, 6);
    play.gone("w");
    assert_eq!(play.plan(), ["cancel 1"]);
    let mut play = pulling();
    play.join(1, 1);
    play.asks(1, 6);
    play.pulled(1);
    assert_eq!(play.images.joined(OURS), JoinedPull::Failed, "not with what it had shown");
    assert_eq!(play.images.size().pulling, 0);
}

#[test]
fn an_end_that_is_told_again_differently_changes_nothing() {
    let mut play = pulling();
    play.join(1, 1);
    play.pulled(1);
    play.refused(1);
    assert_eq!(play.images.joined(OURS), done());
    assert_eq!(play.report("w").phase, crate::WishPhase::Succeeded);
}

#[test]
fn a_call_waits_for_one_pull_at_a_time() {
    let mut play = pulling();
    play.see(always("b", "r.io/b:1"));
    assert_eq!(play.plan(), ["pull 2 r.io/b:1"]);
    play.join(1, 1);
    play.join(1, 2);
    play.gone("w");
    play.gone("b");
    assert_eq!(play.plan(), ["cancel 1"], "it waits for the other one now");
}
