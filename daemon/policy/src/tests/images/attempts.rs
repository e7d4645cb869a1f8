//! Attempts that fail, how they are spread, and when it is enough.

use std::{collections::BTreeSet, time::Duration};

use super::play::{A, NOTHING, Play, always, secs, wish};
use crate::{ImageLimits, PullFailure, Wish, WishPhase};

const PAST: &str = "pulling exceeds the activeDeadlineSeconds";
const LET_GO: &str = "let go r.io/a:1";

#[test]
fn failures_count_or_do_not() {
    let text = || "full".to_owned();
    let again = |message: &str| (WishPhase::Waiting, 1, format!("attempt 1 of 4 failed: {message}"));
    let table = [
        (PullFailure::Refused(text()), again("full")),
        (PullFailure::NoRoom(text()), again("full")),
        (PullFailure::TimedOut(secs(600)), again("no image within 600 s")),
        (PullFailure::TimedOut(secs(599)), (WishPhase::Waiting, 0, "no image within 599 s".to_owned())),
        (PullFailure::Away(text()), (WishPhase::Waiting, 0, text())),
        (PullFailure::Impossible(text()), (WishPhase::Failed, 1, text())),
        (PullFailure::Cancelled, (WishPhase::Waiting, 0, "the pull was cancelled".to_owned())),
    ];
    for (failure, stands) in table {
        let mut play = Play::new();
        play.see(always("w", A));
        play.plan();
        play.fails(1, failure.clone());
        assert_eq!(play.stands("w"), stands, "{failure:?}");
        assert_eq!(play.report("w").started.is_some(), failure != PullFailure::Cancelled, "{failure:?}");
        let owed = Vec::from_iter((stands.0 == WishPhase::Failed).then_some(LET_GO));
        assert_eq!(play.plan(), owed, "{failure:?}");
        if stands.0 == WishPhase::Failed {
            assert_eq!(play.report("w").ended, Some(play.now));
            assert_eq!(play.images.next_deadline(), None);
        } else {
            play.wait();
            assert_eq!(play.plan(), ["pull 2 r.io/a:1"], "{failure:?}");
        }
    }
}

#[test]
fn it_is_tried_as_often_as_wished() {
    let mut play = Play::new();
    play.see(Wish { retries: 2, ..always("w", A) });
    let begun = play.now;
    for attempt in 1..=3 {
        assert_eq!(play.plan(), [format!("pull {attempt} r.io/a:1")]);
        let before = if attempt == 1 {
            String::new()
        } else {
            format!("attempt {} of 3 failed: no such tag", attempt - 1)
        };
        assert_eq!(play.stands("w"), (WishPhase::Pulling, attempt, before));
        play.refused(attempt.into());
        if attempt < 3 {
            play.wait();
        }
    }
    assert_eq!(play.stands("w"), (WishPhase::Failed, 3, "no such tag".to_owned()));
    assert_eq!(play.report("w").started, Some(begun));
    assert_eq!(play.plan(), [LET_GO]);
    assert_eq!(play.images.next_deadline(), None);
}

#[test]
fn pauses_are_doubled_and_spread() {
    let pauses = |seed: u64, key: &str| -> Vec<Duration> {
        let mut play = Play::on(ImageLimits { parallel: 1, per_registry: 1, seed });
        play.see(Wish { retries: 8, ..always(key, A) });
        (1..=8)
            .map(|attempt| {
                assert_eq!(play.plan().len(), 1);
                play.refused(attempt);
                play.plan();
                play.wait()
            })
            .collect()
    };
    let one = pauses(0, "one");
    for (pause, plain) in one.iter().zip([1, 2, 4, 8, 16, 30, 30, 30]) {
        let plain = secs(plain);
        assert!((plain..=plain + plain / 5).contains(pause), "{pause:?} {plain:?}");
    }
    assert_eq!(one, pauses(0, "one"), "the same each time");
    let wishes: BTreeSet<Duration> = (0..20).map(|key| pauses(0, &key.to_string())[0]).collect();
    assert!(wishes.len() > 10, "{wishes:?}");
    let nodes: BTreeSet<Duration> = (0..20).map(|seed| pauses(seed, "one")[0]).collect();
    assert!(nodes.len() > 10, "{nodes:?}");
}

#[test]
fn a_runtime_that_is_away_is_asked_again() {
    let mut play = Play::new();
    play.see(wish("w", A));
    for _ in 0..6 {
        assert_eq!(play.plan(), ["look r.io/a:1"]);
        play.look_fails(A, "connection refused");
        assert_eq!(play.stands("w"), (WishPhase::Waiting, 0, "connection refused".to_owned()));
        assert_eq!(play.plan(), NOTHING);
        assert!(play.wait() >= secs(1));
    }
    assert_eq!(play.report("w").started, None);
    assert_eq!(play.plan(), ["look r.io/a:1"]);
    play.found(A);
    assert_eq!(play.stands("w"), (WishPhase::Succeeded, 0, String::new()));
}

#[test]
fn a_runtime_that_goes_away_counts_for_nobody() {
    let away = || PullFailure::Away("the runtime went away".to_owned());
    for looked_for in [true, false] {
        let mut play = Play::new();
        let wish = Wish { retries: 0, always: !looked_for, ..wish("w", A) };
        play.see(wish);
        let begun = play.now;
        let mut pauses = Vec::new();
        for pull in 1..=8 {
            if looked_for {
                assert_eq!(play.plan(), ["look r.io/a:1"]);
                play.absent(A);
            }
            let failed = play.now;
            if pull > 1 {
                assert_eq!(play.plan(), NOTHING, "not at once");
                play.wait();
                pauses.push(play.now - failed);
            }
            assert_eq!(play.plan(), [format!("pull {pull} r.io/a:1")]);
            assert_eq!(play.stands("w").1, 1);
            play.fails(pull, away());
            assert_eq!(play.stands("w"), (WishPhase::Waiting, 0, "the runtime went away".to_owned()));
            assert_eq!(play.report("w").started, Some(begun));
        }
        for (pause, plain) in pauses.iter().zip([1, 2, 4, 8, 16, 30, 30]) {
            let plain = secs(plain);
            assert!((plain..=plain + plain / 5).contains(pause), "{pause:?} {plain:?}");
        }
        if looked_for {
            assert_eq!(play.plan(), ["look r.io/a:1"]);
            play.found(A);
            assert_eq!(play.report("w").phase, WishPhase::Succeeded, "it had come");
        }
    }
    // The deadline goes on all the while.
    let mut play = Play::new();
    play.see(Wish { deadline: Some(secs(10)), ..always("w", A) });
    play.plan();
    play.pass(secs(10));
    play.fails(1, away());
    assert_eq!(play.stands("w"), (WishPhase::Failed, 1, PAST.to_owned()));
}

#[test]
fn room_is_given_time_to_come() {
    let mut play = Play::new();
    play.see(Wish { retries: 2, ..always("w", A) });
    for attempt in 1..=3 {
        assert_eq!(play.plan(), [format!("pull {attempt} r.io/a:1")]);
        play.fails(attempt, PullFailure::NoRoom("the disk is full".to_owned()));
        if attempt < 3 {
            let message = format!("attempt {attempt} of 3 failed: the disk is full");
            assert_eq!(play.stands("w").2, message);
            assert_eq!(play.plan(), NOTHING);
            assert!((secs(30)..=secs(36)).contains(&play.wait()));
        }
    }
    assert_eq!(play.stands("w"), (WishPhase::Failed, 3, "the disk is full".to_owned()));
}

#[test]
fn the_deadline_ends_an_attempt() {
    let mut play = Play::new();
    play.see(Wish { deadline: Some(secs(10)), ..always("w", A) });
    assert_eq!(play.plan(), ["pull 1 r.io/a:1"]);
    assert_eq!(play.orders[0].timeout, secs(10));
    assert_eq!(play.wait(), secs(10));
    assert_eq!(play.plan(), ["cancel 1"]);
    assert_eq!(play.stands("w"), (WishPhase::Failed, 1, PAST.to_owned()));
    assert_eq!(play.report("w").ended, Some(play.now));
    play.fails(1, PullFailure::Cancelled);
    assert_eq!(play.stands("w"), (WishPhase::Failed, 1, PAST.to_owned()));
    assert_eq!(play.plan(), [LET_GO]);
}

#[test]
fn the_deadline_is_for_all_attempts_together() {
    let mut play = Play::new();
    play.see(Wish { deadline: Some(secs(10)), timeout: secs(6), ..always("w", A) });
    play.plan();
    assert_eq!(play.orders[0].timeout, secs(6));
    play.pass(secs(6));
    play.fails(1, PullFailure::TimedOut(secs(6)));
    let pause = play.wait();
    play.plan();
    assert_eq!(play.orders[1].timeout, secs(4) - pause);
    // The executor is a moment quicker than this clock, or slower.
    for late in [false, true] {
        let mut play = Play::new();
        play.see(Wish { deadline: Some(secs(10)), ..always("w", A) });
        play.plan();
        play.pass(if late { secs(10) } else { Duration::from_millis(9_999) });
        play.fails(1, PullFailure::TimedOut(secs(10)));
        assert_eq!(play.report("w").phase == WishPhase::Failed, late);
        play.pass(secs(1));
        assert_eq!(play.plan(), [LET_GO]);
        assert_eq!(play.stands("w"), (WishPhase::Failed, u32::from(late), PAST.to_owned()));
    }
}

#[test]
fn a_limit_that_is_used_up_counts_for_those_who_set_it() {
    let mut play = Play::new();
    play.see(Wish { timeout: secs(10), retries: 2, ..always("short", A) });
    play.see(Wish { retries: 0, ..always("long", A) });
    let begun = play.now;
    for attempt in 1..=3 {
        assert_eq!(play.plan(), [format!("pull {attempt} r.io/a:1")]);
        assert_eq!(play.orders.last().unwrap().timeout, secs(10));
        assert_eq!(play.stands("long").1, 1);
        play.pass(secs(10));
        play.fails(attempt, PullFailure::TimedOut(secs(10)));
        assert_eq!(play.stands("long"), (WishPhase::Waiting, 0, "no image within 10 s".to_owned()));
        assert_eq!(play.report("long").started, Some(begun));
        assert_eq!(play.plan(), NOTHING);
        // Pauses are spread: whoever is due first takes the other one along.
        play.pass(secs(10));
    }
    assert_eq!(play.stands("short"), (WishPhase::Failed, 3, "no image within 10 s".to_owned()));
    assert_eq!(play.plan(), ["pull 4 r.io/a:1"]);
    assert_eq!(play.orders[3].timeout, secs(600), "by its own limit");
    play.pass(secs(600));
    play.fails(4, PullFailure::TimedOut(secs(600)));
    assert_eq!(play.stands("long"), (WishPhase::Failed, 1, "no image within 600 s".to_owned()));
}

#[test]
fn a_deadline_takes_the_pull_from_nobody_else() {
    let mut play = Play::new();
    play.see(Wish { deadline: Some(secs(10)), ..always("1", A) });
    play.see(always("2", A));
    play.plan();
    assert_eq!(play.orders[0].timeout, secs(600), "the other one has all the time it wants");
    play.wait();
    assert_eq!(play.plan(), NOTHING);
    assert_eq!(play.report("1").phase, WishPhase::Failed);
    play.pulled(1);
    assert_eq!(play.report("2").phase, WishPhase::Succeeded);
    assert_eq!(play.report("1").phase, WishPhase::Failed, "what has ended stays so");
}

#[test]
fn limits_of_any_size_are_taken() {
    let mut play = Play::new();
    let endless = Duration::MAX;
    play.see(Wish {
        deadline: Some(endless),
        timeout: endless,
        pin: Some(endless),
        retries: u32::MAX,
        ..always("w", A)
    });
    play.plan();
    play.refused(1);
    assert_eq!(play.stands("w").2, format!("attempt 1 of {} failed: no such tag", u32::MAX));
    play.wait();
    play.plan();
    play.pulled(2);
    assert_eq!(play.plan().len(), 1);
}
