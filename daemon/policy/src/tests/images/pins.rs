//! Images that are kept from the kubelet's image collection, and how long.

use std::{sync::Arc, time::Instant};

use super::play::{A, NOTHING, Play, always, secs, settled, wish};
use crate::{ImageEvent, Wish};

const PIN: &str = "pin r.io/a:1 60";
const UNPIN: &str = "unpin r.io/a:1";

impl Play {
    fn pin_done(&mut self) {
        self.apply(ImageEvent::PinDone(A.into()));
    }

    fn pin_failed(&mut self) {
        self.apply(ImageEvent::PinFailed(A.into()));
    }

    fn uses(&mut self, image: &str) {
        self.apply(ImageEvent::ImageUsed(image.into()));
    }

    fn lists(&mut self, pins: &[(&str, Instant)]) {
        let pins = pins.iter().map(|(image, end)| (Arc::from(*image), *end)).collect();
        self.apply(ImageEvent::PinsListed(pins));
    }
}

/// It is on the node and is to be kept for a minute.
fn pinned() -> Play {
    let mut play = Play::new();
    play.see(Wish { pin: Some(secs(60)), ..wish("w", A) });
    play.plan();
    play.found(A);
    assert_eq!(play.plan(), [PIN]);
    assert_eq!(play.plan(), NOTHING, "not before its answer");
    play.pin_done();
    assert_eq!(play.plan(), NOTHING);
    play
}

#[test]
fn a_pulled_image_is_kept_until_the_end() {
    let mut play = Play::new();
    play.see(Wish { pin: Some(secs(60)), ..always("w", A) });
    play.plan();
    assert_eq!(play.images.size().pins, 0);
    play.pulled(1);
    assert_eq!(play.plan(), [PIN]);
    play.pin_done();
    play.gone("w");
    assert_eq!(play.plan(), NOTHING, "the job is deleted, what it pulled is kept");
    assert_eq!(play.wait(), secs(60));
    assert_eq!(play.plan(), [UNPIN]);
    assert_eq!(play.plan(), NOTHING, "not before its answer");
    play.pin_done();
    assert_eq!(play.images.size().pins, 0);
    assert_eq!(play.images.next_deadline(), None);
}

#[test]
fn a_container_made_of_it_ends_the_pin() {
    for (image, ends) in [(A, true), ("id of r.io/a:1", true), ("r.io/a:2", false), ("remembered", false)] {
        let mut play = pinned();
        play.uses(image);
        assert_eq!(!play.plan().is_empty(), ends, "{image}");
    }
}

#[test]
fn use_before_the_answer_counts() {
    let mut play = Play::new();
    play.see(Wish { pin: Some(secs(60)), ..always("w", A) });
    play.plan();
    play.pulled(1);
    assert_eq!(play.plan(), [PIN]);
    play.uses(A);
    assert_eq!(play.plan(), NOTHING);
    play.pin_done();
    assert_eq!(play.plan(), [UNPIN]);
    play.pin_done();
    assert_eq!(play.images.size().pins, 0);
}

#[test]
fn the_longer_pin_wins() {
    for (longer, steps) in [(secs(30), &[][..]), (secs(60), &[]), (secs(90), &["pin r.io/a:1 90"])] {
        let mut play = pinned();
        play.see(Wish { pin: Some(longer), ..wish("2", A) });
        assert_eq!(play.plan(), ["look r.io/a:1"]);
        play.found(A);
        assert_eq!(play.plan(), steps, "{longer:?}");
    }
}

#[test]
fn a_used_image_that_is_wished_again_is_pinned_again() {
    let mut play = pinned();
    play.uses(A);
    assert_eq!(play.plan(), [UNPIN]);
    play.see(Wish { pin: Some(secs(30)), ..always("2", A) });
    assert_eq!(play.plan(), ["pull 1 r.io/a:1"]);
    play.pulled(1);
    assert_eq!(play.plan(), NOTHING, "one thing at a time");
    play.pin_done();
    assert_eq!(play.plan(), ["pin r.io/a:1 30"]);
    play.pin_done();
    assert_eq!(play.wait(), secs(30));
    assert_eq!(play.plan(), [UNPIN]);
}

#[test]
fn a_pin_that_fails_is_tried_again_until_its_end() {
    let mut play = Play::new();
    play.see(Wish { pin: Some(secs(60)), ..always("w", A) });
    play.plan();
    play.pulled(1);
    let mut tries = 0;
    while play.images.size().pins > 0 {
        for step in play.plan() {
            assert_eq!(step, PIN);
            tries += 1;
            play.pin_failed();
        }
        if play.images.size().pins > 0 {
            play.plan();
            play.wait();
        }
    }
    assert!((5..=7).contains(&tries), "{tries}");
    assert_eq!(play.images.next_deadline(), None);
}

#[test]
fn an_unpin_that_fails_is_tried_until_it_works() {
    let mut play = pinned();
    play.uses(A);
    for _ in 0..8 {
        assert_eq!(play.plan(), [UNPIN]);
        play.pin_failed();
        assert_eq!(play.plan(), NOTHING);
        play.wait();
    }
    assert_eq!(play.plan(), [UNPIN]);
    play.pin_done();
    assert_eq!(play.images.size().pins, 0);
}

#[test]
fn whether_a_failed_unpin_did_anything_is_not_guessed() {
    let mut play = pinned();
    play.uses(A);
    play.plan();
    play.pin_failed();
    // The same end as before: it may still be there, or not.
    play.see(Wish { pin: Some(secs(60)), ..always("2", A) });
    play.plan();
    play.pulled(1);
    assert_eq!(play.plan(), [PIN]);
}

#[test]
fn pins_of_an_earlier_process_are_carried_on() {
    let mut play = Play::new();
    let (start, end) = (play.now, play.now + secs(60));
    play.lists(&[(A, end), ("r.io/b:1", start)]);
    assert_eq!(play.plan(), ["unpin r.io/b:1"], "its time was up");
    play.apply(ImageEvent::PinDone("r.io/b:1".into()));
    assert_eq!(play.images.size().pins, 1);
    play.lists(&[(A, end)]);
    assert_eq!(play.plan(), NOTHING, "listed twice");
    assert_eq!(play.wait(), secs(60));
    assert_eq!(play.plan(), [UNPIN]);
}

#[test]
fn a_listed_pin_knows_its_image_by_the_wish_that_remembers_it() {
    for (image, ends) in [("remembered", true), ("another", false)] {
        let mut play = Play::new();
        play.see(Wish { settled: settled(true), pin: Some(secs(99)), ..wish("w", A) });
        assert_eq!(play.plan(), NOTHING, "what was settled is not pinned anew");
        play.lists(&[(A, play.now + secs(60))]);
        play.uses(image);
        assert_eq!(play.plan().len(), usize::from(ends), "{image}");
    }
}

#[test]
fn a_listed_pin_that_could_not_be_prolonged_is_taken_away() {
    let mut play = Play::new();
    play.see(Wish { pin: Some(secs(60)), ..always("w", A) });
    play.plan();
    play.pulled(1);
    assert_eq!(play.plan(), [PIN]);
    play.pin_failed();
    play.lists(&[(A, play.now + secs(5))]);
    play.pass(secs(60));
    assert_eq!(play.plan(), [UNPIN]);
}

#[test]
fn answers_nobody_asked_for_change_nothing() {
    let mut play = pinned();
    play.pin_failed();
    play.pin_done();
    play.apply(ImageEvent::PinDone("r.io/b:1".into()));
    play.uses("r.io/b:1");
    assert_eq!(play.plan(), NOTHING);
    assert_eq!(play.images.size().pins, 1);
}

#[test]
fn the_pin_of_an_open_wish_may_change() {
    let mut play = Play::new();
    play.see(always("w", A));
    play.plan();
    play.see(Wish { pin: Some(secs(60)), ..always("w", A) });
    assert_eq!(play.plan(), NOTHING);
    play.pulled(1);
    assert_eq!(play.plan(), [PIN]);
}

/// containerd writes its record of an image anew at each pull, without the label that kept it.
#[test]
fn a_pull_of_it_makes_it_owed_again() {
    let mut play = pinned();
    play.see(Wish { version: 1, ..always("again", A) });
    play.plan();
    play.pulled(1);
    assert_eq!(play.plan(), [PIN]);
    play.pin_done();
    assert_eq!(play.plan(), NOTHING);

    play.kubelet_pulls(1, A);
    play.kubelet_ends(1);
    assert_eq!(play.plan(), [PIN], "by the kubelet as well");
    play.kubelet_pulls(2, A);
    play.kubelet_ends(2);
    play.pin_done();
    assert_eq!(play.plan(), [PIN], "which of them came first is not known");
    play.pin_done();
    assert_eq!(play.plan(), NOTHING);
}

#[test]
fn a_pin_is_known_by_its_record() {
    let mut play = Play::new();
    for image in ["d:1", "docker.io/library/d:1"] {
        play.see(Wish { pin: Some(secs(60)), ..wish(image, image) });
    }
    assert_eq!(play.plan(), ["look d:1", "look docker.io/library/d:1"]);
    play.found("d:1");
    play.found("docker.io/library/d:1");
    assert_eq!(play.plan(), ["pin docker.io/library/d:1 60"], "one for both");
    play.apply(ImageEvent::PinDone("docker.io/library/d:1".into()));
    play.uses("docker.io/library/d:1");
    assert_eq!(play.plan(), ["unpin docker.io/library/d:1"]);
}

#[test]
fn a_pull_rewrites_what_is_pinned_of_its_repository() {
    let table = [
        ("r.io/a:1", "r.io/a:1", true),
        ("r.io/a@sha256:1", "r.io/a:1", true),
        ("r.io/a:1", "r.io/a@sha256:1", true),
        ("r.io/a:1", "r.io/a:2@sha256:1", true),
        ("r.io/a:1", "r.io/ab:1", false),
        ("r.io/a/b:1", "r.io/a:1", false),
        ("r.io/a:1", "q.io/a:1", false),
        ("r.io:5000/a:1", "r.io:5000/a@sha256:1", true),
        ("r.io:5000/a:1", "r.io:5000/b:1", false),
    ];
    for (kept, pulled, rewritten) in table {
        for by_kubelet in [true, false] {
            let mut play = Play::new();
            play.see(Wish { pin: Some(secs(60)), ..wish("w", kept) });
            play.plan();
            play.found(kept);
            play.plan();
            play.apply(ImageEvent::PinDone(kept.into()));
            if by_kubelet {
                play.kubelet_pulls(1, pulled);
                play.kubelet_ends(1);
            } else {
                play.see(always("2", pulled));
                play.plan();
                play.pulled(1);
            }
            let owed = format!("pin {kept} 60");
            assert_eq!(play.plan(), Vec::from_iter(rewritten.then_some(owed)), "{kept} {pulled}");
        }
    }
}
