//! How far the watches can be relied on. What is there is there; only that something is *not* there can be a mistake.

use std::time::{Duration, Instant};

use super::object::Kind;

/// A watch that broke is tried again, after pauses of up to 5 s (`crate::watch`): until then and a little longer, what it
/// does not show proves nothing.
const DOUBT: Duration = Duration::from_secs(10);

/// Those that an index decides by.
#[derive(Debug)]
pub(crate) struct Views {
    of: &'static [Kind],
    views: [View; Kind::ALL.len()],
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
    /// The kinds without which nothing is decided.
    pub(crate) fn of(kinds: &'static [Kind]) -> Self {
        Self { of: kinds, views: Default::default(), complete: None }
    }

    pub(crate) fn begins(&mut self, kind: Kind, now: Instant) {
        let view = self.view(kind);
        view.listing = true;
        view.list = view.list.wrapping_add(1);
        view.doubt = Some(now + DOUBT);
    }

    pub(crate) fn ends(&mut self, kind: Kind, now: Instant) {
        let view = self.view(kind);
        (view.listed, view.listing, view.doubt) = (true, false, None);
        if self.complete.is_none() && self.of.iter().all(|kind| self.views[*kind as usize].listed) {
            self.complete = Some(now);
        }
    }

    pub(crate) fn broke(&mut self, kind: Kind, now: Instant) {
        self.view(kind).doubt = Some(now + DOUBT);
    }

    /// Since when every kind has been listed once; `None` before.
    pub(crate) fn complete_since(&self) -> Option<Instant> {
        self.complete
    }

    /// Whether a list of this kind is coming in.
    pub(crate) fn is_listing(&self, kind: Kind) -> bool {
        self.views[kind as usize].listing
    }

    pub(crate) fn doubt(&self, kind: Kind) -> Option<Instant> {
        self.views[kind as usize].doubt
    }

    pub(crate) fn list(&self, kind: Kind) -> u32 {
        self.views[kind as usize].list
    }

    fn view(&mut self, kind: Kind) -> &mut View {
        &mut self.views[kind as usize]
    }
}
