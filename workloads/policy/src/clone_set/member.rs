//! Pods of a set, as the decisions see them.

use jiff::Timestamp;

use super::{Input, Rules};
use crate::{
    in_place::{InPlacePhase, InPlaceState},
    lifecycle::State,
    names::{REVISION_LABEL, SPECIFIED_DELETE_LABEL},
    pod::PodView,
    revision::Live,
};

/// An active pod of the set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    pub(super) pod: &'a PodView,
    /// It has the newest revision, or is being brought to it.
    pub(super) updated: bool,
    /// Somebody wants it deleted.
    pub(super) specified: bool,
    /// It serves.
    pub(super) ready: bool,
    /// It serves for long enough, and nothing holds it.
    pub(super) available: bool,
    pub(super) state: State,
    /// Its update in place.
    pub(super) in_place: Option<&'a InPlaceState>,
}

impl<'a> Member<'a> {
    pub(super) fn of(
        pod: &'a PodView,
        rules: &Rules<'_>,
        live: Live<'_>,
        input: &Input<'a>,
        now: Timestamp,
    ) -> Self {
        let in_place = input.in_place.get(&pod.uid);
        let pending = in_place.filter(|known| known.phase == InPlacePhase::Pending);
        let state = State::of(pod);
        // Its own name may have other segments, so what the entry says is a name and not a label.
        let labelled = live.update.is_of(pod.label(REVISION_LABEL));
        let updated = input.agents.is_updated(in_place, &live.update.name, labelled);
        let free = pending.is_none() && state.serves();
        Self {
            pod,
            updated,
            specified: pod.labels.contains_key(SPECIFIED_DELETE_LABEL)
                || rules.pods_to_delete.contains(pod.name.as_str()),
            ready: pod.is_ready(),
            available: free && pod.is_ready_for(rules.min_ready_seconds, now),
            state,
            in_place,
        }
    }

    pub(super) fn is_preparing_delete(&self) -> bool {
        self.state == State::PreparingDelete
    }

    /// An update in place of it goes on.
    pub(super) fn is_being_updated(&self) -> bool {
        self.in_place.is_some_and(|known| known.phase == InPlacePhase::Pending)
    }
}
