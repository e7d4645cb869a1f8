//! Reports on entries of the node's object. All answers of the node are in one object, which is dear to
//! write, so reports that come together are written together.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Arc, OnceLock, PoisonError},
    time::Duration,
};

use berth_policy::{
    RequestId, StepOutcome,
    in_place_update::{UpdateReport, UpdateRequest},
};
use berth_proto::crd::DesiredPod;
use k8s_openapi::jiff::Timestamp;
use tracing::warn;

use super::{super::report, NodeUpdates, Object, desired_key, id, named, room::Room};

/// The first entry that begins waits so long for others: each write has the answers of all pods of the node.
const GATHERED: Duration = Duration::from_millis(100);

/// A report that waits for a write. All that wait are written together.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    id: RequestId,
    report: UpdateReport,
    outcome: Arc<OnceLock<StepOutcome>>,
}

impl NodeUpdates {
    /// Says how far the update of one pod is. Reports that come while another one is written are written
    /// together after it.
    pub(in crate::update) async fn report(
        &self,
        request: &UpdateRequest,
        report: &UpdateReport,
    ) -> StepOutcome {
        let outcome = Arc::new(OnceLock::new());
        let own = Waiting { id: request.id.clone(), report: report.clone(), outcome: outcome.clone() };
        self.waiting().push(own);
        if request.reported.phase.is_none() && report.outcome.is_none() {
            self.gather(&request.id).await;
        } else {
            // Ends of several pods are told in one moment: all are here before the first is written.
            tokio::task::yield_now().await;
        }
        let mut object = self.object.lock().await;
        if outcome.get().is_none() {
            let all = mem::take(&mut *self.waiting());
            self.report_all(object.as_mut(), all).await;
        }
        // Whoever was to write it was stopped: it is reported again.
        outcome.get().copied().unwrap_or(StepOutcome::Failed)
    }

    /// Waits for other entries that begin in the same moment, if some have not begun.
    async fn gather(&self, own: &RequestId) {
        let others_begin = self.object.lock().await.as_ref().is_some_and(|known| {
            let unsaid = |entry: &&DesiredPod| !known.pods.contains_key(&desired_key(entry));
            known.status.desired_pods.iter().filter(unsaid).any(|entry| id(entry) != *own)
        });
        if others_begin {
            tokio::time::sleep(GATHERED).await;
        }
    }

    async fn report_all(&self, object: Option<&mut Object>, all: Vec<Waiting>) {
        let said = |waiting: &Waiting, outcome| {
            waiting.outcome.get_or_init(|| outcome);
        };
        let Some(known) = object else {
            return all.iter().for_each(|waiting| said(waiting, StepOutcome::Gone));
        };
        let ids: BTreeSet<&RequestId> = all.iter().map(|waiting| &waiting.id).collect();
        let entries = known.status.desired_pods.iter().map(|desired| (id(desired), desired));
        let entries: BTreeMap<RequestId, DesiredPod> =
            entries.filter(|(id, _)| ids.contains(id)).map(|(id, desired)| (id, desired.clone())).collect();
        let mut written = Vec::new();
        let mut room = Room::of(&known.status.desired_pods, known.aside_weight, known.pods.values());
        for waiting in &all {
            let Some(desired) = entries.get(&waiting.id) else {
                said(waiting, StepOutcome::Gone);
                continue;
            };
            let key = desired_key(desired);
            let entry = report::pod(desired, &waiting.report, known.pods.get(&key), Timestamp::now());
            if !room.take(known.pods.get(&key), &entry) {
                warn!(
                    node = self.node,
                    entry = named(desired),
                    "No room for an answer in the NodePodUpdate, it waits until others have ended"
                );
                said(waiting, StepOutcome::Failed);
                continue;
            }
            let before = known.pods.insert(key.clone(), entry);
            written.push((waiting, key, before));
        }
        if written.is_empty() {
            return;
        }
        let outcome = self.answer(known).await;
        for (waiting, key, before) in written.into_iter().rev() {
            if outcome != StepOutcome::Done {
                // Not said, so it is not known to whoever takes over.
                match before {
                    Some(before) => known.pods.insert(key, before),
                    None => known.pods.remove(&key),
                };
            }
            said(waiting, outcome);
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
