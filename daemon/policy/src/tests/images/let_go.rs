//! Leftovers of attempts are let go when nobody goes on from there.

use super::play::{A, NOTHING, Play, always, sealed, secs, wish};
use crate::{PullFailure, Wish};

const LET_GO: &str = "let go r.io/a:1";

/// An attempt has failed, and there is one more.
fn failed_once() -> Play {
    let mut play = Play::new();
    play.see(Wish { retries: 1, deadline: Some(secs(60)), ..always("w", A) });
    play.plan();
    play.refused(1);
    assert_eq!(play.plan(), NOTHING, "it is tried again");
    play
}

#[test]
fn the_last_failure_lets_go_once() {
    let mut play = failed_once();
    play.wait();
    assert_eq!(play.plan(), ["pull 2 r.io/a:1"]);
    play.refused(2);
    assert_eq!(play.plan(), [LET_GO]);
    assert_eq!(play.plan(), NOTHING);
    play.gone("w");
    assert_eq!(play.plan(), NOTHING, "it was let go before");
}

#[test]
fn whatever_ends_the_last_wish_lets_go() {
    let mut play = failed_once();
    play.gone("w");
    assert_eq!(play.plan(), [LET_GO]);
    let mut play = failed_once();
    play.see(always("w", "r.io/b:1"));
    assert_eq!(play.plan(), ["pull 2 r.io/b:1", LET_GO]);
    let mut play = failed_once();
    play.pass(secs(60));
    assert_eq!(play.plan(), [LET_GO], "its deadline");
    // The kubelet brought it.
    let mut play = Play::new();
    play.miss(wish("w", A));
    play.plan();
    play.refused(1);
    play.kubelet_pulls(1, A);
    play.kubelet_ends(1);
    assert_eq!(play.plan(), ["look r.io/a:1"]);
    play.found(A);
    assert_eq!(play.plan(), [LET_GO]);
}

#[test]
fn another_wish_goes_on_from_there() {
    let mut play = failed_once();
    play.see(sealed(wish("2", A)));
    play.gone("w");
    assert_eq!(play.plan(), ["look r.io/a:1"]);
    play.gone("2");
    assert_eq!(play.plan(), [LET_GO]);
}

#[test]
fn a_pull_that_was_told_to_end_is_waited_for() {
    let mut play = Play::new();
    play.see(always("w", A));
    play.plan();
    play.gone("w");
    assert_eq!(play.plan(), ["cancel 1"]);
    assert_eq!(play.plan(), NOTHING);
    play.fails(1, PullFailure::Cancelled);
    assert_eq!(play.plan(), [LET_GO]);
}

#[test]
fn a_pull_that_a_call_keeps_is_waited_for() {
    for succeeds in [true, false] {
        let mut play = Play::new();
        play.see(always("w", A));
        play.plan();
        play.join(1, 1);
        play.gone("w");
        assert_eq!(play.plan(), NOTHING);
        if succeeds {
            play.pulled(1);
            assert_eq!(play.plan(), NOTHING);
        } else {
            play.refused(1);
            assert_eq!(play.plan(), [LET_GO]);
        }
    }
}

#[test]
fn a_success_leaves_nothing_to_let_go() {
    let mut play = failed_once();
    play.wait();
    play.plan();
    play.pulled(2);
    play.gone("w");
    assert_eq!(play.plan(), NOTHING);
    // What was never tried neither.
    play.see(wish("w", A));
    play.plan();
    play.gone("w");
    assert_eq!(play.plan(), NOTHING);
}
