//! Pulls the kubelet has the runtime do: never counted, never delayed, only waited for.

use super::play::{A, NOTHING, Play, always, sealed, wish};
use crate::WishPhase;

fn waits() -> (WishPhase, u32, String) {
    (WishPhase::Pulling, 0, "the kubelet is pulling it".to_owned())
}

#[test]
fn a_wish_waits_for_the_kubelet_and_looks_again() {
    for wish in [wish("w", A), sealed(wish("w", A))] {
        for comes in [true, false] {
            let mut play = Play::new();
            play.kubelet_pulls(1, A);
            play.miss(wish.clone());
            assert_eq!(play.plan(), NOTHING);
            assert_eq!(play.stands("w"), waits());
            assert_eq!(play.images.size().kubelet_pulls, 1);
            play.kubelet_ends(1);
            assert_eq!(play.plan(), ["look r.io/a:1"]);
            if comes {
                play.found(A);
                assert_eq!(play.plan(), NOTHING);
                assert_eq!(play.stands("w"), (WishPhase::Succeeded, 0, String::new()));
            } else {
                play.absent(A);
                assert_eq!(play.plan(), ["pull 1 r.io/a:1"]);
            }
        }
    }
}

#[test]
fn another_spelling_waits_for_the_kubelet_as_well() {
    let mut play = Play::new();
    play.kubelet_pulls(1, "docker.io/library/d:1");
    play.miss(wish("w", "d:1"));
    assert_eq!(play.plan(), NOTHING);
    assert_eq!(play.stands("w"), waits());
    play.see(wish("2", "docker.io/library/d:1"));
    assert_eq!(play.plan(), ["look docker.io/library/d:1"]);
    play.kubelet_ends(1);
    assert_eq!(play.plan(), ["look d:1"]);
    play.absent("docker.io/library/d:1");
    assert_eq!(play.plan(), ["look docker.io/library/d:1"], "the pull overtook it");
}

#[test]
fn one_that_is_always_pulled_waits_and_is_pulled() {
    let mut play = Play::new();
    play.kubelet_pulls(1, A);
    play.see(always("w", A));
    assert_eq!(play.plan(), NOTHING);
    assert_eq!(play.stands("w"), waits());
    play.kubelet_ends(1);
    assert_eq!(play.plan(), ["pull 1 r.io/a:1"]);
}

#[test]
fn the_last_of_them_is_waited_for() {
    let mut play = Play::new();
    play.kubelet_pulls(1, A);
    play.kubelet_pulls(2, A);
    play.kubelet_pulls(2, A);
    play.see(always("w", A));
    play.plan();
    play.kubelet_ends(1);
    assert_eq!(play.plan(), NOTHING);
    play.kubelet_ends(7);
    assert_eq!(play.plan(), NOTHING);
    play.kubelet_ends(2);
    assert_eq!(play.plan(), ["pull 1 r.io/a:1"]);
    assert_eq!(play.images.size().kubelet_pulls, 0);
}

#[test]
fn a_pull_of_ours_goes_on_beside_the_kubelets() {
    let mut play = Play::new();
    play.see(always("w", A));
    play.plan();
    play.kubelet_pulls(1, A);
    play.see(always("2", A));
    assert_eq!(play.plan(), NOTHING);
    assert_eq!(play.stands("2"), (WishPhase::Pulling, 1, String::new()), "ours is nearer");
    play.kubelet_ends(1);
    assert_eq!(play.plan(), NOTHING);
}

#[test]
fn another_attempt_waits_for_the_kubelet_too() {
    let mut play = Play::new();
    play.miss(wish("w", A));
    play.plan();
    play.refused(1);
    play.kubelet_pulls(1, A);
    play.plan();
    play.wait();
    assert_eq!(play.plan(), NOTHING);
    assert_eq!(play.stands("w"), (WishPhase::Pulling, 1, waits().2));
    play.kubelet_ends(1);
    assert_eq!(play.plan(), ["look r.io/a:1"]);
    play.absent(A);
    assert_eq!(play.plan(), ["pull 2 r.io/a:1"]);
}

#[test]
fn a_look_the_kubelets_pull_overtook_is_repeated() {
    let mut play = Play::new();
    play.kubelet_pulls(1, A);
    play.see(wish("w", A));
    assert_eq!(play.plan(), ["look r.io/a:1"]);
    play.kubelet_ends(1);
    play.absent(A);
    assert_eq!(play.plan(), ["look r.io/a:1"]);
}

#[test]
fn they_take_no_slot_and_no_repository() {
    let mut play = Play::limited(1, 1);
    play.kubelet_pulls(1, "r.io/a:2");
    play.kubelet_pulls(2, "r.io/b:1");
    play.see(always("w", A));
    assert_eq!(play.plan(), ["pull 1 r.io/a:1"]);
}

#[test]
fn a_look_that_failed_meanwhile_is_enough() {
    let mut play = Play::new();
    play.kubelet_pulls(1, A);
    play.see(wish("w", A));
    play.plan();
    play.kubelet_ends(1);
    play.look_fails(A, "away");
    play.plan();
    play.wait();
    assert_eq!(play.plan(), ["look r.io/a:1"]);
    play.absent(A);
    assert_eq!(play.plan(), ["pull 1 r.io/a:1"], "this look came after the kubelet's pull");
}
