//! Pods of a set, as the decisions see them.

use jiff::Timestamp;

use super::{Input, Rules};
use crate::{
    in_place::InPlaceState,
    lifecycle::{State, is_available, is_ready_anew},
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
    /// It says that it has the newest revision, and an update of it has come to nothing, or its node was told
    /// nothing: no revision that anybody knows. Where pods may go back it counts as updated as long as some
    /// are to, so that it is one of them, and otherwise as the others that are to be updated.
    pub(super) lost: bool,
    /// It says that it has the newest revision: its node has begun to give it that one at least.
    pub(super) labelled: bool,
    /// Somebody wants it deleted.
    pub(super) specified: bool,
    /// It serves.
    pub(super) ready: bool,
    /// It serves with the newest revision.
    pub(super) ready_anew: bool,
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
        // Its own name may have other segments, so what the entry says is a name and not a label.
        let labelled = live.update.is_of(pod.label(REVISION_LABEL)) && !pod.is_in_grace(in_place);
        let updated = input.agents.is_updated(pod, in_place, &live.update.name, labelled);
        let goes_back = input.settings.partition_rollback && live.current.name != live.update.name;
        let goes_on = in_place.is_some_and(InPlaceState::is_pending) && !input.agents.is_left(in_place);
        let lost = goes_back && labelled && !updated && !goes_on;
        Self {
            pod,
            updated: updated || lost,
            lost,
            labelled,
            specified: pod.labels.contains_key(SPECIFIED_DELETE_LABEL)
                || rules.pods_to_delete.contains(pod.name.as_str()),
            ready: pod.is_ready(),
            ready_anew: is_ready_anew(pod, in_place, updated),
            available: is_available(pod, in_place, rules.min_ready_seconds, now),
            state: State::of(pod),
            in_place,
        }
    }

    pub(super) fn is_preparing_delete(&self) -> bool {
        self.state == State::PreparingDelete
    }

    /// An update in place of it goes on.
    pub(super) fn is_being_updated(&self) -> bool {
        self.in_place.is_some_and(InPlaceState::is_pending)
    }
}
