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
    /// Its way back to the current revision has come to nothing before its node began. It counts as updated
    /// as long as pods are to go back, and otherwise as one that has no revision that anybody knows.
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
        let goes_back = input.settings.partition_rollback && live.current.name != live.update.name;
        let is_lost = match in_place {
            Some(known) if known.revision == live.current.name => input.agents.is_lost(known),
            Some(known) if known.is_pending() => false,
            // It was given labels and annotations, and its node was told nothing.
            _ => pod.ahead() == Some(live.current.hash()),
        };
        let lost = goes_back && labelled && is_lost;
        let updated = lost || input.agents.is_updated(pod, in_place, &live.update.name, labelled);
        Self {
            pod,
            updated,
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
