//! How far the watches can be relied on. What is there is there; only that something is *not* there can be a mistake.

use std::time::{Duration, Instant};

use super::object::Kind;

/// A watch that broke is tried again, after pauses of up to 5 s (`crate::watch`): until then and a little longer, what it
/// does not show proves nothing.
const DOUBT: Duration = Duration::from_secs(10);

/// The three of them.
#[derive(Debug, Default)]
pub(super) struct Views {
    views: [View; 3],
    /// From when on all were complete.
    complete: Option<Instant>,
}

#[derive(Debug, Default)]
struct View {
    listed: bool,
    listing: bool,
    doubt: Option<Instant>,
    /// Counts the lists; an object that the newest has not shown is gone.
    list: u32,
}

impl Views {
    pub(super) fn begins(&mut self, kind: Kind, now: Instant) {
        let view = self.view(kind);
        view.listing = true;
        view.list = view.list.wrapping_add(1);
        view.doubt = Some(now + DOUBT);
    }

    pub(super) fn ends(&mut self, kind: Kind, now: Instant) {
        let view = self.view(kind);
        (view.listed, view.listing, view.doubt) = (true, false, None);
        if self.complete.is_none() && self.views.iter().all(|view| view.listed) {
            self.complete = Some(now);
        }
    }

    pub(super) fn broke(&mut self, kind: Kind, now: Instant) {
        self.view(kind).doubt = Some(now + DOUBT);
    }

    /// Since when decisions can be made; `None` while they can't. A list of requests comes in any order, so a request may
    /// be seen before the one it follows: nothing is decided before its end.
    pub(super) fn usable_since(&self) -> Option<Instant> {
        if self.views[Kind::Request as usize].listing { None } else { self.complete }
    }

    pub(super) fn doubt(&self, kind: Kind) -> Option<Instant> {
        self.views[kind as usize].doubt
    }

    pub(super) fn list(&self, kind: Kind) -> u32 {
        self.views[kind as usize].list
    }

    fn view(&mut self, kind: Kind) -> &mut View {
        &mut self.views[kind as usize]
    }
}
