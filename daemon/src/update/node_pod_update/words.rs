//! The object beside the policy's updates: words for pods, and what a simulation of an agent tells and asks.

use std::time::Instant;

use berth_policy::{
    StepOutcome,
    in_place_update::{Failure, StoredRequest, UpdateReport},
};
use berth_proto::crd::{DesiredPod, NodePodUpdate, SidecarSet, UpdatedPod};

use super::{
    super::{report, sidecar_sets},
    NodeUpdates, Pace, desired_key, entry, id,
};
use crate::{base::clock::Clock, cluster::client::CallError};

impl NodeUpdates {
    /// Entries with a word for a pod that are not answered.
    pub(in crate::update) async fn words(&self) -> Vec<DesiredPod> {
        let object = self.object.lock().await;
        let Some(known) = &*object else { return Vec::new() };
        let is_answered = |entry: &DesiredPod| {
            let answer = known.pods.get(&desired_key(entry));
            answer.is_some_and(|answer| report::answers(answer, entry) && report::is_end(answer))
        };
        let words = known.status.desired_pods.iter().filter(|entry| entry.upgradable.is_some());
        words.filter(|entry| !is_answered(entry)).cloned().collect()
    }

    /// Waits until there may be others.
    pub(in crate::update) async fn other_words(&self) {
        self.words.notified().await;
    }

    /// Answers a word; what is wrong with the entry itself comes before that. False: not written.
    pub(in crate::update) async fn answer_word(&self, desired: &DesiredPod, said: &UpdateReport) -> bool {
        self.report(&fresh(desired).request, said).await != StepOutcome::Failed
    }

    /// Returns the flaw of an entry itself.
    pub(in crate::update) fn flaw(&self, desired: &DesiredPod) -> Option<Failure> {
        fresh(desired).flaw
    }

    /// Reads the set of an entry.
    pub(in crate::update) async fn set(&self, desired: &DesiredPod) -> Result<Option<SidecarSet>, CallError> {
        match sidecar_sets::owner(desired) {
            Some(name) => sidecar_sets::read(&self.connection, name).await,
            None => Ok(None),
        }
    }

    /// Takes in the object as a watch shows it, and answers it, where there is no policy to tell of it.
    pub(in crate::update) async fn shown(&self, object: NodePodUpdate) {
        self.take(Some(object.into())).await;
        self.renew().await;
    }

    /// Reads the owners that were not read, and answers the object if there is something to say.
    pub(in crate::update) async fn renew(&self) {
        let unjudged = self.unjudged().await;
        if !unjudged.is_empty() {
            self.sets.judge(&self.connection, &unjudged).await;
        }
        // Nobody is there to bring twins to rest.
        if let Some(known) = self.object.lock().await.as_mut() {
            known.begun.clear();
            known.forget_rested(|_| false);
        }
        self.tidy(&mut Pace::default()).await;
    }

    /// The word of its owner on an entry; `None` before that was read.
    pub(in crate::update) fn word(&self, entry: &DesiredPod) -> Option<Result<(), Failure>> {
        self.sets.word(entry)
    }

    /// Tells whether the entry is still there.
    pub(in crate::update) async fn asks(&self, entry: &DesiredPod) -> bool {
        let object = self.object.lock().await;
        let mut asked = object.iter().flat_map(|known| &known.status.desired_pods);
        asked.any(|asked| id(asked) == id(entry))
    }

    /// The answer to this entry.
    pub(in crate::update) async fn answered(&self, entry: &DesiredPod) -> Option<UpdatedPod> {
        let object = self.object.lock().await;
        let answered = object.as_ref()?.pods.get(&desired_key(entry))?;
        report::answers(answered, entry).then(|| answered.clone())
    }
}

/// An entry of which nothing was reported yet.
fn fresh(desired: &DesiredPod) -> StoredRequest {
    entry(desired, None, 0, Instant::now(), &Clock::read())
}
