//! Wishes come, change, go, and are fulfilled.

use std::{collections::BTreeSet, time::Instant};

use super::{
    Images,
    event::PulledImage,
    pulls::Pull,
    wanted::{Change, State, Wanted},
    wish::{Wish, WishId, WishSource},
};
use crate::time::later;

impl Images {
    pub(super) fn wish_seen(&mut self, wish: Wish, now: Instant) {
        let Some(known) = self.wishes.get_mut(&wish.id) else {
            self.arrivals += 1;
            self.wishes.insert(wish.id.clone(), Wanted::new(wish, self.arrivals));
            return;
        };
        match known.change(&wish) {
            Change::Nothing => known.wish.pin = wish.pin,
            // Not a reason to do again what is done, or to try again what was given up.
            Change::Limits if !known.is_open() => known.wish = wish,
            // The same, only for longer or shorter: no reason to ask the runtime again.
            Change::Limits => self.start_anew(wish, |_| true, now),
            Change::What if wish.always => self.start_anew(wish, Pull::is_fresh, now),
            Change::What => self.start_anew(wish, |_| true, now),
        }
    }

    pub(super) fn wishes_listed(&mut self, source: WishSource, listed: Vec<Wish>, now: Instant) {
        let listed: Vec<_> = listed.into_iter().filter(|wish| wish.id.source == source).collect();
        let ids: BTreeSet<WishId> = listed.iter().map(|wish| wish.id.clone()).collect();
        self.wishes.retain(|id, _| id.source != source || ids.contains(id));
        let set_aside = std::mem::take(&mut self.set_aside);
        for wish in listed {
            let id = wish.id.clone();
            set_aside.evaluate(|| id.clone(), now, || self.wish_seen(wish, now));
        }
        self.set_aside = set_aside;
    }

    /// Fulfils these wishes, as far as they are open.
    pub(super) fn succeed(&mut self, which: impl Fn(&Wanted) -> bool, found: &PulledImage, now: Instant) {
        for wanted in self.wishes.values_mut().filter(|wanted| wanted.is_open() && which(wanted)) {
            wanted.succeed(found, now);
            if let Some(pin) = wanted.wish.pin {
                self.pins.want(wanted.record(), &found.id, later(now, pin));
            }
        }
    }

    /// Takes the wish for another one. A pull that goes on for it and is what the new one needs is not begun
    /// again.
    fn start_anew(&mut self, mut wish: Wish, serves: impl Fn(&Pull) -> bool, now: Instant) {
        let old = self.wishes.remove(&wish.id);
        if old.as_ref().is_some_and(|old| old.wish.version == wish.version) {
            // It tells how the old one ended.
            wish.settled = None;
        }
        self.arrivals += 1;
        let mut new = Wanted::new(wish, self.arrivals);
        if let Some(old) = old
            && let State::Pulling(pull) = old.state
            && new.is_open()
            && old.shares(new.given(), &new.wish.credentials)
            && self.pulls.get(&pull).is_some_and(serves)
        {
            new.begin(pull, now);
        }
        self.wishes.insert(new.wish.id.clone(), new);
    }
}
