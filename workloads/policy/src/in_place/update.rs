//! Update of one pod in place, the same for all kinds of sets: whether it can be, and the writes that it
//! takes.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Change, Changes, InPlacePhase, InPlaceState, change_of, first_entry};
use crate::{
    action::{Action, InPlaceUpdate},
    agents::Agents,
    names::{IN_PLACE_STATE_ANNOTATION, METADATA_OF_ANNOTATION, REVISION_LABEL},
    plan::{Cause, Plan},
    pod::PodView,
    revision::{Revision, short},
    time::whole_second,
};

/// Update of a pod to a revision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Update<'a> {
    pub(crate) pod: &'a PodView,
    /// Its last update in place.
    pub(crate) known: Option<&'a InPlaceState>,
    /// Revision that it gets.
    pub(crate) target: &'a Revision,
    /// Generation of the set.
    pub(crate) generation: Option<i64>,
    pub(crate) now: Timestamp,
}

/// Labels by which the kind of a set tells revisions apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own<'a> {
    /// Value of the one that says the revision.
    pub(crate) revision: &'a str,
    /// The others, which come with it.
    pub(crate) others: &'a [(&'a str, &'a str)],
    /// The node may set the others, too, along with the images.
    pub(crate) by_node: bool,
}

impl<'a> Own<'a> {
    fn all(self) -> Vec<(&'a str, &'a str)> {
        [(REVISION_LABEL, self.revision)].into_iter().chain(self.others.iter().copied()).collect()
    }

    /// Labels that the node sets.
    fn of_node(self) -> Vec<(&'a str, &'a str)> {
        if self.by_node { self.all() } else { vec![(REVISION_LABEL, self.revision)] }
    }
}

/// Why a pod is not updated in place now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// It cannot be; a new pod can have the revision.
    NewPod(String),
    /// It has no node, so no container runs that a new pod would end: its claims are for that one.
    Unscheduled,
    /// It was asked for already, and the pod stays: a new one would fare no better.
    Stays(String),
}

impl From<String> for Obstacle {
    fn from(why: String) -> Self {
        Self::NewPod(why)
    }
}

impl Obstacle {
    /// Says why, of a pod that is to stay.
    pub(crate) fn waits(self, pod: &PodView) -> String {
        let why = match self {
            Self::NewPod(why) | Self::Stays(why) => why,
            Self::Unscheduled => "it has no node".to_owned(),
        };
        format!("pod {} cannot be updated in place: {why}", pod.name)
    }
}

impl Update<'_> {
    /// Finds the change that the pod can follow, or why it can follow none. `from`: the revision that it has;
    /// `kind`: of the set.
    pub(crate) fn possible(
        &self,
        revisions: (&[&Revision], &Changes),
        from: Option<&Revision>,
        agents: &Agents<'_>,
        kind: &str,
    ) -> Result<Change, Obstacle> {
        let from =
            from.ok_or_else(|| format!("its revision {:?} is not on file", self.pod.label(REVISION_LABEL)))?;
        let change = change_of(revisions, from, self.pod, self.known, self.target)
            .ok_or_else(|| "more than images, labels and annotations has changed".to_owned())?;
        if change.is_metadata_alone(&self.target.template) {
            return Ok(change);
        }
        if self.pod.node.is_empty() {
            return Err(Obstacle::Unscheduled);
        }
        agents.updates(&self.pod.node, kind)?;
        let failed = |why: &str| format!("its node could not do it: {why}");
        let tried = self.known.filter(|known| known.revision == self.target.name && !self.is_later(known));
        match tried.map(|known| &known.phase) {
            Some(InPlacePhase::Failed(why)) => Err(Obstacle::NewPod(failed(why))),
            Some(InPlacePhase::GivenUp(why)) => Err(Obstacle::Stays(failed(why))),
            // The watch of nodes may be ahead of that of sets: what the set asks for now is on its way, and a
            // new pod would be one too many.
            Some(InPlacePhase::NotAskedFor { why, .. })
                if self.known.is_some_and(|known| known.asked_again_in(self.now).is_some()) =>
            {
                Err(Obstacle::Stays(why.clone()))
            }
            _ => Ok(change),
        }
    }

    /// Tells whether the set has changed since a try. Its template may have gone away and come back, with
    /// nobody looking but the node, which refused what the template did not name at that moment: without
    /// another try `InPlaceOnly` would wait for good. Each change of the set gives one more.
    fn is_later(&self, known: &InPlaceState) -> bool {
        known.generation.zip(self.generation).is_some_and(|(then, now)| then < now)
    }

    /// Carries the change out: by one write where it is metadata alone, and by the node of the pod otherwise.
    /// `entering` is metadata of the state that the pod enters.
    pub(crate) fn carry_out<S>(
        &self,
        change: &Change,
        labels: Own<'_>,
        entering: Option<&Map<String, Value>>,
        grace_seconds: Option<i32>,
        plan: &mut Plan<S>,
    ) {
        let actions = &mut plan.actions;
        if change.is_metadata_alone(&self.target.template) {
            plan.causes.insert(self.pod.uid.clone(), Cause::InPlace);
            return self.patch_alone(change, labels, entering, actions);
        }
        self.give_metadata(change, entering, actions);
        let own = labels.of_node().into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        actions.push(Action::UpdateInPlace(InPlaceUpdate {
            node: self.pod.node.clone(),
            name: self.pod.name.clone(),
            uid: self.pod.uid.clone(),
            revision: self.target.name.clone(),
            attempt: self.known.map_or(0, |known| known.attempt.saturating_add(1)),
            generation: self.generation,
            images: change.images.clone(),
            labels: change.labels.clone().into_iter().chain(own).collect(),
            annotations: change.annotations.clone(),
            grace_seconds,
        }));
    }

    /// Gives the pod a revision that differs in metadata alone: one write, and nothing for its node to do.
    /// An update that was told of before is forgotten first, or it would be taken for the newest word.
    fn patch_alone(
        &self,
        change: &Change,
        labels: Own<'_>,
        entering: Option<&Map<String, Value>>,
        actions: &mut Vec<Action>,
    ) {
        let forget = |known: &InPlaceState| Action::ForgetInPlace {
            node: known.node.clone(),
            uid: self.pod.uid.clone(),
        };
        actions.extend(self.known.map(forget));
        let mut patch = change.metadata_with(&labels.all());
        // Where the gate is shut, an update by a request goes on, and the record is that one's.
        if self.pod.gate != Some(false) {
            patch["metadata"]["annotations"][IN_PLACE_STATE_ANNOTATION] = self.record(labels.revision).into();
        }
        let ended = self.pod.without_grace();
        let more = ended.iter().filter_map(|ended| ended.get("metadata")?.as_object()).chain(entering);
        more.for_each(|more| add(&mut patch["metadata"], more));
        actions.push(Action::PatchPod(self.pod.target(), patch));
    }

    /// Record of an update that nothing is to be restarted for, as the agent writes one of each other update.
    fn record(&self, revision: &str) -> String {
        let record = json!({
            "revision": revision,
            "updateTimestamp": whole_second(self.now).to_string(),
            "lastContainerStatuses": {},
        });
        record.to_string()
    }

    /// Gives the pod its labels and annotations before its node is told. These come before all entries, since
    /// entries that follow each other are one write for each node. They say whose they are: should the entry
    /// never be written, and the template go back, they go back too.
    fn give_metadata(
        &self,
        change: &Change,
        entering: Option<&Map<String, Value>>,
        actions: &mut Vec<Action>,
    ) {
        let (pod, target) = (self.pod, short(&self.target.name));
        let given = pod.ahead().map(|given| given == target);
        let metadata = change.beside(pod, given == Some(true)).metadata();
        let is_given = metadata.is_some() || given == Some(false);
        if !is_given && entering.is_none() {
            return;
        }
        let mut metadata = Value::Object(metadata.unwrap_or_default());
        if is_given {
            let revisions = format!("{}/{target}", short(pod.label(REVISION_LABEL)));
            metadata["annotations"][METADATA_OF_ANNOTATION] = revisions.into();
        }
        entering.into_iter().for_each(|state| add(&mut metadata, state));
        let patch = Action::PatchPod(pod.target(), json!({ "metadata": metadata }));
        actions.insert(first_entry(actions), patch);
    }
}

/// Adds labels and annotations to those of a patch.
fn add(metadata: &mut Value, more: &Map<String, Value>) {
    for (part, entries) in more {
        for (key, value) in entries.as_object().into_iter().flatten() {
            metadata[part][key] = value.clone();
        }
    }
}
