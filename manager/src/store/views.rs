//! How far the watches can be relied on. What is there is there; only that something is *not* there can be a
//! mistake.

use std::time::{Duration, Instant};

use crate::time::later;

use super::object::Kind;

/// A watch that broke is tried again, after pauses of up to 5 s (`crate::watch`): until then and a little
/// longer, what it does not show proves nothing; and of a list that comes in until it has ended, which may be
/// a minute where there are many pods.
const DOUBT: Duration = Duration::from_secs(10);

/// How far an index can rely on each.
#[derive(Debug, Default)]
pub(crate) struct Views {
    views: [View; Kind::ALL.len()],
}

#[derive(Debug, Default)]
struct View {
    /// Since when it has been complete once.
    listed: Option<Instant>,
    listing: bool,
    /// When the list that comes in began.
    begun: Option<Instant>,
    /// When the newest list that has ended began.
    as_of: Option<Instant>,
    doubt: Option<Instant>,
    /// Until when changes may have gone unseen, at the last interruption of the watch.
    blind: Option<Instant>,
    /// Counts the lists; an object that the newest has not shown is gone.
    list: u32,
}

impl Views {
    pub(crate) fn begins(&mut self, kind: Kind, now: Instant) {
        let view = self.view(kind);
        (view.listing, view.begun) = (true, Some(now));
        view.list = view.list.wrapping_add(1);
        view.doubt = Some(later(now, DOUBT));
    }

    pub(crate) fn ends(&mut self, kind: Kind, now: Instant) {
        let view = self.view(kind);
        (view.listing, view.doubt, view.blind) = (false, None, Some(now));
        view.as_of = view.begun.take().or(view.as_of);
        view.listed.get_or_insert(now);
    }

    pub(crate) fn broke(&mut self, kind: Kind, now: Instant) {
        let view = self.view(kind);
        view.doubt = Some(later(now, DOUBT));
        view.blind = view.doubt;
    }

    /// Since when each of these kinds has been listed once; `None` before.
    pub(crate) fn complete_since(&self, kinds: &[Kind]) -> Option<Instant> {
        let listed = kinds.iter().map(|kind| self.views[*kind as usize].listed);
        listed.reduce(|one, other| Some(one?.max(other?))).flatten()
    }

    /// Tells whether whoever leads since then may decide by these kinds: each has been listed, and this one
    /// since. Whoever led before may have acted on newer ones.
    pub(crate) fn may_decide(&self, leads: Option<Instant>, kinds: &[Kind], listed_since: Kind) -> bool {
        let as_of = self.views[listed_since as usize].as_of;
        self.complete_since(kinds).is_some() && leads.zip(as_of).is_some_and(|(leads, as_of)| as_of >= leads)
    }

    /// Tells whether a list of this kind is coming in.
    pub(crate) fn is_listing(&self, kind: Kind) -> bool {
        self.views[kind as usize].listing
    }

    /// Time until which it proves nothing that something of this kind is not shown. While a list comes in it
    /// is always a while from now: whoever waits looks again then.
    pub(crate) fn doubt(&self, kind: Kind, now: Instant) -> Option<Instant> {
        let View { listing, doubt, .. } = self.views[kind as usize];
        if listing { Some(later(now, DOUBT)) } else { doubt }
    }

    /// Time until which changes of this kind may have gone unseen: that none came before then proves nothing.
    pub(crate) fn blind_until(&self, kind: Kind) -> Option<Instant> {
        self.views[kind as usize].blind
    }

    pub(crate) fn list(&self, kind: Kind) -> u32 {
        self.views[kind as usize].list
    }

    fn view(&mut self, kind: Kind) -> &mut View {
        &mut self.views[kind as usize]
    }
}
