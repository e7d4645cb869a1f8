//! Decides the next change of the socket names from what each name shows. Pure.

use std::time::{Duration, Instant};

/// Nobody answering for longer than this is a berthd that is gone.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// A shim to which no berthd has been connected for longer than this is one whose DaemonSet is gone: new pods
/// wait for it all that time. A rolling update pulls an image meanwhile.
pub(super) const FORSAKEN: Duration = Duration::from_secs(300);

/// State of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// It is not there.
    Nothing,
    /// Berthd's socket, and it answers.
    Ours,
    /// Somebody else's socket that answers: the runtime's.
    Runtime,
    /// A socket at which nobody listens.
    Dead,
    /// No socket. It is left alone.
    Other,
}

/// States of the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) front: Shown,
    pub(super) aside: Shown,
    pub(super) next: Shown,
}

impl View {
    /// Tells whether nobody answers at `front`, although the runtime is there.
    pub(super) fn is_deserted(self) -> bool {
        let answers = matches!(self.front, Shown::Ours | Shown::Runtime | Shown::Other);
        !answers && (self.aside == Shown::Runtime || self.next == Shown::Runtime)
    }
}

/// One change of the file system, or the end of the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is as it should be.
    Stay,
    /// Nothing can be done now; the runtime is down, or about to bind its path.
    Await,
    /// A name is taken by something that is no socket.
    Refuse,
    /// `next` is the runtime's: it becomes `aside`.
    Adopt,
    /// `next` is of no use.
    Tidy,
    /// Berthd's socket gets the name `front`, which is free.
    Fill,
    /// Berthd's socket and what is at `front` change places.
    Swap,
    /// The runtime's socket, from `aside`, gets the name `front` as well.
    Return,
    /// Berthd's socket loses the name `front`, and there is no runtime to have it.
    Clear,
}

impl Step {
    /// Tells whether there is nothing more to do.
    pub(super) fn ends(self) -> bool {
        matches!(self, Self::Stay | Self::Await | Self::Refuse)
    }
}

/// Berthd is to be at `front`, and the runtime at `aside`.
///
/// Where no runtime answers `front` is left alone: a runtime that starts removes what is at its path and
/// binds it, and would fail if somebody were faster in between.
pub(super) fn to_take(view: View) -> Step {
    if let Some(step) = first(view) {
        return step;
    }
    match (view.front, view.aside) {
        (Shown::Ours, _) => Step::Stay,
        (Shown::Runtime, _) | (Shown::Dead, Shown::Runtime) => Step::Swap,
        (Shown::Nothing, Shown::Runtime) => Step::Fill,
        (Shown::Dead | Shown::Nothing, _) => Step::Await,
        (Shown::Other, _) => Step::Refuse,
    }
}

/// Berthd leaves on purpose. A runtime that is down gets its dead socket back: that is how it left it.
pub(super) fn to_leave(view: View) -> Step {
    if let Some(step) = first(view) {
        return step;
    }
    match (view.front, view.aside) {
        (Shown::Ours, Shown::Runtime | Shown::Dead) => Step::Return,
        (Shown::Ours, _) => Step::Clear,
        _ => Step::Stay,
    }
}

/// Gives the step by which the runtime's socket is at `front` again, where nobody answered for too long.
pub(super) fn to_restore(view: View) -> Step {
    if let Some(step) = first(view) {
        return step;
    }
    match (view.front, view.aside) {
        (Shown::Dead | Shown::Nothing, Shown::Runtime) => Step::Return,
        _ => Step::Stay,
    }
}

/// Gives the step for the remains of an interrupted change, which come first. `next` is never older than
/// `aside`.
fn first(view: View) -> Option<Step> {
    match (view.next, view.aside) {
        (Shown::Other, _) | (_, Shown::Other) => Some(Step::Refuse),
        (Shown::Runtime, _) => Some(Step::Adopt),
        (Shown::Ours | Shown::Dead, _) => Some(Step::Tidy),
        (Shown::Nothing, _) => None,
    }
}

/// The guardian's patience.
#[derive(Debug, Default)]
pub(super) struct Vigil {
    /// Since when nobody answers at `front` although the runtime is there.
    gone: Option<Instant>,
    /// Since when berthd's own name is missing.
    left: Option<Instant>,
    /// Since when the shim in the place has no berthd.
    forsaken: Option<Instant>,
}

/// Circumstances that the guardian sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// [`View::is_deserted`].
    pub(super) deserted: bool,
    /// Berthd's own name is there.
    pub(super) own: bool,
    /// A shim answers and has no berthd.
    pub(super) forsaken: bool,
    /// Somebody wishes the place to be the runtime's.
    pub(super) bypassed: bool,
    /// A shim that was told to end has open calls.
    pub(super) draining: bool,
}

/// Verdict of the guardian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing, for now.
    Watch,
    /// It puts the runtime's socket back.
    Restore,
    /// It gives the place back, as berthd does that leaves, and ends the shim with its last call.
    Leave,
    /// It ends: the place was left on purpose.
    End,
}

impl Vigil {
    /// Judges the state at this moment.
    pub(super) fn see(&mut self, seen: Seen, now: Instant) -> Verdict {
        let lasts = |since: &mut Option<Instant>, holds: bool, patience: Duration| {
            *since = if holds { since.or(Some(now)) } else { None };
            since.is_some_and(|since| now.saturating_duration_since(since) > patience)
        };
        let gone = lasts(&mut self.gone, seen.deserted, PATIENCE);
        let left = lasts(&mut self.left, !seen.own, PATIENCE);
        let forsaken = lasts(&mut self.forsaken, seen.own && seen.forsaken, FORSAKEN);
        match (gone, left) {
            (true, _) => Verdict::Restore,
            // A berthd may come meanwhile, and take this guardian for its own.
            (false, true) if seen.draining => Verdict::Watch,
            (false, true) if self.gone.is_none() => Verdict::End,
            (false, _) if forsaken || seen.own && seen.bypassed => Verdict::Leave,
            (false, _) => Verdict::Watch,
        }
    }
}
