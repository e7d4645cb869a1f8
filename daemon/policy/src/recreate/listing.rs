//! The requests as people see them.

use std::time::{Duration, Instant};

use crate::{
    model::{ContainerName, PodRef, RequestId},
    node::Node,
    recreate::{ContainerProgress, Origin, Outcome, RecreateReport, RequestPhase},
};

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestView {
    /// Identity.
    pub id: RequestId,
    /// `namespace/name`.
    pub key: String,
    /// Where it comes from.
    pub origin: Origin,
    /// Its pod, where the node still knows it.
    pub pod: Option<PodRef>,
    /// The containers it asks for, as listed.
    pub containers: Vec<ContainerName>,
    /// Where it stands.
    pub phase: RequestPhase,
    /// Where its containers stand.
    pub progress: Vec<ContainerProgress>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// For people.
    pub message: String,
    /// Since it was made.
    pub age: Duration,
}

impl Node {
    /// Age of a request whose source does not show an end yet; `None` for any other.
    pub fn open_since(&self, id: &RequestId, now: Instant) -> Option<Duration> {
        let request = self.recreates.requests.get(id)?;
        let open = request.reported.outcome.is_none();
        open.then(|| now.saturating_duration_since(request.asked.created))
    }

    /// All requests, first come first.
    pub fn requests(&self, now: Instant) -> Vec<RequestView> {
        let mut requests: Vec<_> = self.recreates.requests.values().collect();
        requests.sort_unstable_by_key(|request| request.arrival);
        requests
            .into_iter()
            .map(|request| {
                let asked = &request.asked;
                let report: RecreateReport =
                    self.report_of(request).unwrap_or_else(|| request.reported.clone());
                RequestView {
                    id: asked.id.clone(),
                    key: asked.key.clone(),
                    origin: asked.origin,
                    pod: self.pod_ref(request),
                    containers: asked.containers.iter().map(|target| target.name.clone()).collect(),
                    phase: report.phase.unwrap_or(RequestPhase::Pending),
                    progress: report.containers,
                    outcome: report.outcome,
                    message: report.message,
                    age: now.saturating_duration_since(asked.created),
                }
            })
            .collect()
    }
}
