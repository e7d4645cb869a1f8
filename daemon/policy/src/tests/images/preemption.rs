//! Slots that are held for long: nobody waits for ever behind pulls that do not come to an end.

use std::time::Duration;

use super::play::{NOTHING, Play, always, by, secs};
use crate::{
    PullFailure, Wish, WishPhase,
    WishSource::{self, Admin, Api, File, Update},
};

const TURN: Duration = secs(15 * 60);

fn endless(source: WishSource, image: &str) -> Wish {
    by(source, Wish { timeout: Duration::MAX, ..always(image, image) })
}

/// Pulls of these images run and never end.
fn stuck(limits: (usize, usize), source: WishSource, images: &[&str]) -> Play {
    let mut play = Play::limited(limits.0, limits.1);
    for image in images {
        play.see(endless(source, image));
    }
    assert_eq!(play.plan().len(), images.len());
    play
}

#[test]
fn a_pull_makes_way_after_its_turn() {
    let full = ["r.io/a:1", "q.io/a:1", "p.io/a:1"];
    // Limits, who holds the slots, how long they have run, who comes, what is due then.
    type Row<'a> = ((usize, usize), WishSource, Duration, (WishSource, &'a str), &'a [&'a str]);
    let nearly = TURN - secs(1);
    let table: [Row<'_>; 10] = [
        ((3, 2), Api, nearly, (Api, "o.io/new:1"), &NOTHING),
        // The longest running one; of those that run as long, the last one.
        ((3, 2), Api, TURN, (Api, "o.io/new:1"), &["cancel 3"]),
        ((3, 2), Api, TURN, (File, "o.io/new:1"), &["cancel 3"]),
        // One that is in the way: of the registry where that is full, of the repository in any case.
        ((3, 1), Api, TURN, (Api, "q.io/new:1"), &["cancel 2"]),
        ((9, 9), Api, TURN, (Api, "r.io/a:2"), &["cancel 1"]),
        ((9, 9), Api, nearly, (Update, "r.io/a:2"), &NOTHING),
        // Who waits does not wait for those that nobody waits for.
        ((3, 2), Api, secs(0), (Update, "o.io/new:1"), &["pull 4 o.io/new:1"]),
        ((3, 1), File, secs(0), (Admin, "r.io/new:1"), &["pull 4 r.io/new:1"]),
        // But the slot more is only one.
        ((3, 2), Update, nearly, (Update, "o.io/new:1"), &NOTHING),
        ((3, 2), Update, TURN, (Api, "o.io/new:1"), &["cancel 3"]),
    ];
    for (limits, holder, ran, (source, image), due) in table {
        let row = format!("{limits:?} {holder:?} {ran:?} {source:?} {image}");
        let mut play = stuck(limits, holder, &full);
        play.pass(ran);
        assert_eq!(play.plan(), NOTHING, "nobody waits: {row}");
        play.see(endless(source, image));
        assert_eq!(play.plan(), due, "{row}");
        assert_eq!(play.plan(), NOTHING, "{row}");
        if due.is_empty() {
            // It is asked in time.
            assert_eq!(play.wait(), TURN - ran, "{row}");
            assert_eq!(play.plan().len(), 1, "{row}");
        }
    }
}

#[test]
fn what_made_way_comes_again_and_has_not_failed() {
    let mut play = stuck((1, 1), Api, &["r.io/a:1"]);
    play.see(always("new", "q.io/new:1"));
    assert_eq!(play.plan(), NOTHING);
    assert_eq!(play.wait(), TURN);
    assert_eq!(play.plan(), ["cancel 1"]);
    let stands = (WishPhase::Waiting, 0, "made way for other pulls after 900 s".to_owned());
    assert_eq!(play.stands("r.io/a:1"), stands);
    // A slot is free once the pull has ended.
    assert_eq!(play.plan(), NOTHING);
    play.fails(1, PullFailure::Cancelled);
    assert_eq!(play.stands("r.io/a:1"), stands);
    assert_eq!(play.plan(), ["pull 2 q.io/new:1"]);
    play.pulled(2);
    assert_eq!(play.plan(), ["pull 3 r.io/a:1"]);
    play.pulled(3);
    assert_eq!(play.stands("r.io/a:1").0, WishPhase::Succeeded);
}

#[test]
fn turns_grow_so_that_what_begins_at_zero_gets_there() {
    let mut play = stuck((1, 1), Api, &["r.io/a:1"]);
    let mut turns = Vec::new();
    let mut pull = 1;
    for other in 0..5 {
        let image = format!("q.io/{other}:1");
        play.see(always(&image, &image));
        assert_eq!(play.plan(), NOTHING);
        turns.push(play.wait().as_secs() / 60);
        assert_eq!(play.plan(), [format!("cancel {pull}")]);
        play.fails(pull, PullFailure::Cancelled);
        assert_eq!(play.plan(), [format!("pull {} {image}", pull + 1)]);
        play.pulled(pull + 1);
        pull += 2;
        assert_eq!(play.plan(), [format!("pull {pull} r.io/a:1")]);
    }
    assert_eq!(turns, [15, 30, 60, 60, 60]);
}

#[test]
fn slots_are_shared_by_time() {
    // Three that never end, two slots: each has had as much as the others, within a turn or two.
    let images = ["r.io/a:1", "q.io/a:1", "p.io/a:1"];
    let mut play = Play::limited(2, 2);
    for image in images {
        play.see(endless(Api, image));
    }
    let mut had = [Duration::ZERO; 3];
    let mut running: Vec<&str> = Vec::new();
    let mut ended = 0;
    while play.now < play.start + secs(24 * 3600) {
        for step in play.plan() {
            if let Some(pull) = step.strip_prefix("cancel ") {
                play.fails(pull.parse().unwrap(), PullFailure::Cancelled);
                let order = play.orders.iter().find(|order| order.pull.0.to_string() == pull).unwrap();
                running.retain(|image| **image != *order.image.given);
                ended += 1;
            }
        }
        for step in play.plan() {
            let (_, image) = step.rsplit_once(' ').unwrap();
            running.push(*images.iter().find(|known| **known == image).unwrap());
        }
        let waited = play.wait();
        for image in &running {
            had[images.iter().position(|known| known == image).unwrap()] += waited;
        }
    }
    let (least, most) = (had.iter().min().unwrap(), had.iter().max().unwrap());
    assert!(*most - *least <= secs(2 * 3600), "{had:?}");
    assert!(ended > 10, "{ended}");
}

#[test]
fn who_had_a_slot_for_long_goes_last_even_if_somebody_waits() {
    let mut play = stuck((1, 1), Update, &["r.io/a:1"]);
    play.see(always("new", "q.io/new:1"));
    play.pass(secs(5));
    play.plan();
    play.pass(TURN);
    play.fails(1, PullFailure::TimedOut(Duration::MAX));
    assert_eq!(play.plan(), ["pull 2 q.io/new:1"]);
    // The slot more is not another one's.
    play.pass(secs(60));
    assert_eq!(play.plan(), ["pull 3 r.io/a:1"]);
}
