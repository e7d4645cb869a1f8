//! Order of pulls: which wish has the next slot.

use super::play::{NOTHING, Play, always, by};
use crate::WishSource::{Admin, Api, File, Update};

#[test]
fn slots_are_bounded() {
    let (a, b, other) = ("r.io/a:1", "r.io/b:1", "q.io/a:1");
    // Limits, what is wished, what is pulled at once.
    type Row<'a> = ((usize, usize), &'a [&'a str], &'a [&'a str]);
    let table: [Row<'_>; 6] = [
        ((1, 1), &[a, other], &["pull 1 r.io/a:1"]),
        ((2, 1), &[a, b, other], &["pull 1 r.io/a:1", "pull 2 q.io/a:1"]),
        ((2, 2), &[a, b, other], &["pull 1 r.io/a:1", "pull 2 r.io/b:1"]),
        ((3, 2), &[a, b, "r.io/c:1", other], &["pull 1 r.io/a:1", "pull 2 r.io/b:1", "pull 3 q.io/a:1"]),
        // Two tags of one repository share their layers, and two digests do.
        ((9, 9), &[a, "r.io/a:2", b], &["pull 1 r.io/a:1", "pull 2 r.io/b:1"]),
        // The same name in another registry is another repository.
        ((9, 9), &[a, other], &["pull 1 r.io/a:1", "pull 2 q.io/a:1"]),
    ];
    for ((parallel, per_registry), wished, pulled) in table {
        let mut play = Play::limited(parallel, per_registry);
        for image in wished {
            play.see(always(image, image));
        }
        assert_eq!(play.plan(), pulled, "{parallel} {per_registry} {wished:?}");
        assert_eq!(play.plan(), NOTHING);
        // As one ends the next one begins, until all have been pulled.
        for next in 1..=wished.len() {
            play.pulled(next as u64);
            play.plan();
        }
        assert_eq!(play.orders.len(), wished.len(), "{wished:?}");
    }
}

#[test]
fn who_waits_goes_first_and_then_who_came_first() {
    let mut play = Play::limited(1, 1);
    play.see(by(File, always("1", "r.io/a:1")));
    assert_eq!(play.plan(), ["pull 1 r.io/a:1"]);
    let wishes = [(Api, "z:1"), (File, "y:1"), (Api, "x:1"), (Update, "w:1"), (Admin, "v:1")];
    for (source, image) in wishes {
        play.see(by(source, always(image, &format!("r.io/{image}"))));
    }
    let mut order = Vec::new();
    for pull in 1..=wishes.len() as u64 {
        play.pulled(pull);
        order.extend(play.plan());
    }
    let expected =
        ["pull 2 r.io/w:1", "pull 3 r.io/v:1", "pull 4 r.io/z:1", "pull 5 r.io/y:1", "pull 6 r.io/x:1"];
    assert_eq!(order, expected);
}

#[test]
fn a_changed_wish_queues_at_the_end() {
    let mut play = Play::limited(1, 1);
    play.see(always("0", "r.io/a:1"));
    play.plan();
    play.see(always("1", "r.io/b:1"));
    play.see(always("2", "r.io/c:1"));
    play.see(crate::Wish { version: 2, ..always("1", "r.io/b:1") });
    play.pulled(1);
    assert_eq!(play.plan(), ["pull 2 r.io/c:1"]);
}

#[test]
fn a_cancelled_pull_has_its_repository_until_it_ends() {
    let mut play = Play::new();
    play.see(always("1", "r.io/a:1"));
    play.plan();
    play.gone("1");
    play.see(always("2", "r.io/a:2"));
    assert_eq!(play.plan(), ["cancel 1"]);
    play.fails(1, crate::PullFailure::Cancelled);
    assert_eq!(play.plan(), ["pull 2 r.io/a:2", "let go r.io/a:1"]);
}
