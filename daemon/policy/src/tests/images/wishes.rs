//! Wishes come, change and go.

use super::play::{A, NOTHING, Play, always, by, id, pulled, reference, secs, settled, wish};
use crate::{Credentials, ImageEvent, Wish, WishPhase, WishSource};

#[test]
fn an_image_that_is_there_is_not_pulled() {
    let mut play = Play::new();
    play.see(wish("w", A));
    assert_eq!(play.stands("w"), (WishPhase::Waiting, 0, String::new()));
    assert_eq!(play.plan(), ["look r.io/a:1"]);
    assert_eq!(play.plan(), NOTHING, "given out once");
    play.pass(secs(1));
    play.found(A);
    let report = play.report("w");
    assert_eq!((report.phase, report.attempts, report.percent()), (WishPhase::Succeeded, 0, 100));
    assert_eq!((report.started, report.ended), (Some(play.now), Some(play.now)));
    assert_eq!(report.image_id, Some(pulled(A).id));
    assert_eq!(play.plan(), NOTHING);
    assert_eq!(play.images.next_deadline(), None);
}

#[test]
fn an_image_that_is_not_there_is_pulled() {
    let mut play = Play::new();
    play.miss(wish("w", A));
    let begun = play.now;
    assert_eq!(play.plan(), ["pull 1 r.io/a:1"]);
    assert_eq!(play.plan(), NOTHING, "given out once");
    assert_eq!(play.stands("w"), (WishPhase::Pulling, 1, String::new()));
    play.pass(secs(5));
    play.pulled(1);
    let report = play.report("w");
    assert_eq!((report.phase, report.attempts), (WishPhase::Succeeded, 1));
    assert_eq!((report.started, report.ended), (Some(begun), Some(play.now)));
    assert_eq!(report.image_id, Some(pulled(A).id));
    assert_eq!(play.images.size().pulling, 0);
}

#[test]
fn one_that_is_always_pulled_is_not_looked_for() {
    let mut play = Play::new();
    play.see(always("w", A));
    assert_eq!(play.plan(), ["pull 1 r.io/a:1"]);
}

#[test]
fn what_was_settled_is_reported_and_not_carried_out() {
    for (succeeded, phase) in [(true, WishPhase::Succeeded), (false, WishPhase::Failed)] {
        let mut play = Play::new();
        play.see(Wish { settled: settled(succeeded), pin: Some(secs(60)), ..always("w", A) });
        assert_eq!(play.plan(), NOTHING);
        let report = play.report("w");
        assert_eq!(report.phase, phase);
        assert_eq!(report.image_id.is_some(), succeeded);
        assert_eq!(report.message.is_empty(), succeeded);
        assert_eq!((report.started, report.ended, report.attempts), (None, None, 0));
    }
}

#[test]
fn a_change_starts_anew_or_does_not() {
    let sealed = || Credentials::Sealed(["s".into()].into());
    let label = || [("k".to_owned(), "v".to_owned())].into();
    let base = || always("w", A);
    // What is changed, whether that starts a pull of a wish that has succeeded.
    let table: [(&str, Wish, bool); 12] = [
        ("nothing", base(), false),
        ("version", Wish { version: 2, ..base() }, true),
        ("image", Wish { image: reference("r.io/a:2"), ..base() }, true),
        ("credentials", Wish { credentials: sealed(), ..base() }, true),
        ("labels", Wish { labels: label(), ..base() }, true),
        ("annotations", Wish { annotations: label(), ..base() }, true),
        ("timeout", Wish { timeout: secs(1), ..base() }, false),
        ("retries", Wish { retries: 9, ..base() }, false),
        ("deadline", Wish { deadline: Some(secs(1)), ..base() }, false),
        ("pin", Wish { pin: Some(secs(1)), ..base() }, false),
        ("settled", Wish { settled: settled(false), ..base() }, false),
        ("settled, in another version", Wish { version: 2, settled: settled(true), ..base() }, false),
    ];
    for (what, changed, anew) in table {
        let mut play = Play::new();
        play.see(base());
        play.plan();
        play.pulled(1);
        play.see(changed.clone());
        assert_eq!(play.plan().len(), usize::from(anew), "{what}");
        let report = play.report("w");
        assert_eq!(report.version, changed.version, "{what}");
        assert_eq!(report.phase == WishPhase::Pulling, anew, "{what}");
    }
    let mut play = Play::new();
    play.see(base());
    play.plan();
    play.pulled(1);
    play.see(wish("w", A));
    assert_eq!(play.plan(), ["look r.io/a:1"], "no more always");
}

#[test]
fn an_echo_of_the_report_changes_nothing() {
    let mut play = Play::new();
    play.see(always("w", A));
    play.plan();
    for echo in [settled(true), settled(false), None] {
        let before = play.report("w");
        play.see(Wish { settled: echo, ..always("w", A) });
        assert_eq!(play.report("w"), before, "while it goes on");
        assert_eq!(play.plan(), NOTHING);
    }
    play.pulled(1);
    for echo in [settled(true), settled(false), None] {
        let before = play.report("w");
        play.see(Wish { settled: echo, ..always("w", A) });
        assert_eq!(play.report("w"), before, "after its end");
        assert_eq!(play.plan(), NOTHING);
    }
    // The result that stands beside the changed wish is that of the old one.
    play.see(Wish { settled: settled(true), image: reference("r.io/a:2"), ..always("w", A) });
    assert_eq!(play.plan(), ["pull 2 r.io/a:2"]);
}

#[test]
fn other_limits_start_an_open_wish_anew() {
    let mut play = Play::new();
    play.see(always("w", A));
    play.plan();
    play.refused(1);
    assert_eq!(play.plan(), NOTHING);
    play.see(Wish { retries: 1, ..always("w", A) });
    assert_eq!(play.stands("w"), (WishPhase::Waiting, 0, "other pulls go first".to_owned()));
    assert_eq!(play.plan(), ["pull 2 r.io/a:1"]);
}

#[test]
fn a_new_version_keeps_the_pull_that_goes_on() {
    for asked in [wish("w", A), always("w", A)] {
        let mut play = Play::new();
        play.see(always("w", A));
        play.plan();
        play.refused(1);
        play.wait();
        assert_eq!(play.plan(), ["pull 2 r.io/a:1"]);
        play.pass(secs(3));
        play.see(Wish { version: 2, ..asked });
        assert_eq!(play.plan(), NOTHING);
        assert_eq!(play.stands("w"), (WishPhase::Pulling, 1, String::new()));
        assert_eq!(play.report("w").started, Some(play.now));
        play.pulled(2);
        assert_eq!((play.report("w").phase, play.report("w").version), (WishPhase::Succeeded, 2));
    }
}

#[test]
fn a_new_version_of_what_is_always_pulled_asks_anew() {
    let newer = |wish: Wish| Wish { version: 2, ..wish };
    let longer = Wish { timeout: secs(900), ..always("w", A) };
    // What it is changed to, whether the runtime has been asked, whether the pull goes on.
    let table = [
        (newer(always("w", A)), false, true),
        (newer(always("w", A)), true, false),
        (newer(wish("w", A)), true, true),
        (longer, true, true),
    ];
    for (changed, asked, goes_on) in table {
        let mut play = Play::new();
        play.see(always("w", A));
        play.plan();
        if asked {
            play.asks(1, 5);
        }
        play.see(changed.clone());
        if goes_on {
            assert_eq!(play.plan(), NOTHING, "{changed:?}");
            play.pulled(1);
        } else {
            assert_eq!(play.plan(), ["cancel 1"], "{changed:?}");
            play.fails(1, crate::PullFailure::Cancelled);
            assert_eq!(play.plan(), ["pull 2 r.io/a:1"], "{changed:?}");
            play.pulled(2);
        }
        assert_eq!(play.report("w").phase, WishPhase::Succeeded, "{changed:?}");
    }
}

#[test]
fn another_image_ends_the_pull_of_the_old_one() {
    let mut play = Play::new();
    play.see(always("w", A));
    play.plan();
    play.see(always("w", "r.io/b:1"));
    assert_eq!(play.plan(), ["cancel 1", "pull 2 r.io/b:1"]);
    play.fails(1, crate::PullFailure::Cancelled);
    assert_eq!(play.stands("w"), (WishPhase::Pulling, 1, String::new()));
}

#[test]
fn a_list_replaces_the_wishes_of_its_source_only() {
    let mut play = Play::new();
    play.see(always("gone", A));
    play.see(always("kept", "r.io/b:1"));
    play.see(by(WishSource::File, always("file", "r.io/c:1")));
    play.plan();
    let kept = play.report("kept");
    let listed = vec![
        always("kept", "r.io/b:1"),
        always("new", "r.io/d:1"),
        by(WishSource::Admin, always("stray", "r.io/e:1")),
    ];
    play.apply(ImageEvent::WishesListed(WishSource::Api, listed));
    assert_eq!(play.plan(), ["cancel 1", "pull 4 r.io/d:1"]);
    assert_eq!(play.report("kept"), kept);
    let ids: Vec<String> = play.images.reports().iter().map(|report| report.id.to_string()).collect();
    assert_eq!(ids, ["api:kept", "api:new", "file:file"]);
}

#[test]
fn a_wish_that_goes_ends_its_pull_once() {
    let mut play = Play::limited(1, 1);
    play.see(always("w", A));
    play.see(always("next", "r.io/b:1"));
    assert_eq!(play.plan(), ["pull 1 r.io/a:1"]);
    play.gone("w");
    assert_eq!(play.images.report(&id("w")), None);
    assert_eq!(play.plan(), ["cancel 1"], "the slot is not free yet");
    assert_eq!(play.plan(), NOTHING, "given out once");
    play.fails(1, crate::PullFailure::Cancelled);
    assert_eq!(play.plan(), ["pull 2 r.io/b:1", "let go r.io/a:1"]);
}

#[test]
fn a_wish_that_comes_back_before_the_next_plan_keeps_its_pull() {
    let mut play = Play::new();
    play.see(always("w", A));
    play.plan();
    play.gone("w");
    play.see(always("w", A));
    assert_eq!(play.plan(), NOTHING);
    // Later it is too late: what was told to end is not counted on.
    play.gone("w");
    assert_eq!(play.plan(), ["cancel 1"]);
    play.see(always("w", A));
    assert_eq!(play.plan(), NOTHING);
    play.fails(1, crate::PullFailure::Cancelled);
    assert_eq!(play.plan(), ["pull 2 r.io/a:1"]);
    assert_eq!(play.stands("w"), (WishPhase::Pulling, 1, String::new()));
}

#[test]
fn what_was_not_handed_out_is_dropped() {
    let mut play = Play::new();
    play.see(always("w", A));
    play.gone("w");
    assert_eq!(play.plan(), NOTHING);
    play.see(wish("w", A));
    play.plan();
    play.gone("w");
    play.absent(A);
    assert_eq!(play.plan(), NOTHING);
    play.see(wish("w", A));
    assert_eq!(play.plan(), ["look r.io/a:1"], "the old answer is not kept");
}

#[test]
fn a_version_that_was_settled_elsewhere_ends_the_pull() {
    let mut play = Play::new();
    play.see(always("w", A));
    play.plan();
    play.see(Wish { version: 2, settled: settled(true), ..always("w", A) });
    assert_eq!(play.plan(), ["cancel 1"]);
    assert_eq!(play.stands("w"), (WishPhase::Succeeded, 0, String::new()));
}
