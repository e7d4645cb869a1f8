//! Report that the status of a request is to give now.

use crate::{
    node::Node,
    recreate::{
        ContainerPhase, ContainerProgress, RecreateReport, RequestPhase,
        requests::LOOKED_AT,
        state::{Drain, Request},
    },
};

impl Node {
    /// `None` as long as there is nothing to say.
    pub(super) fn report_of(&self, request: &Request) -> Option<RecreateReport> {
        let unready = matches!(request.unready, Drain::Since(_)) || request.reported.unready;
        let containers: Vec<ContainerProgress> = self
            .container_order(request)
            .into_iter()
            .filter_map(|name| {
                let progress = request.progress.get(&name)?;
                Some(ContainerProgress {
                    phase: progress.phase,
                    message: progress.message.clone(),
                    killed: progress.killed,
                    name,
                })
            })
            .collect();
        if let Some(end) = &request.end {
            // One that ended before it was seen here stays as it was written.
            if request.reported.phase == Some(RequestPhase::Completed) {
                return None;
            }
            return Some(RecreateReport {
                phase: Some(RequestPhase::Completed),
                message: end.message.clone(),
                containers,
                outcome: end.outcome,
                unready,
            });
        }
        let waits = containers.iter().all(|container| container.phase == ContainerPhase::Pending);
        let crowded = !self.recreates.requests.is_in_hand(request);
        let is_behind = || {
            request.progress.iter().any(|(name, progress)| {
                self.goes_first(request, name).is_some() || self.is_claimed(request, &progress.target)
            })
        };
        let queued = waits && (crowded || is_behind());
        let phase = if queued { RequestPhase::Pending } else { RequestPhase::Recreating };
        let message = match crowded {
            // No number of those before it: what does not change is written once.
            true => format!("waits for its turn: more than {LOOKED_AT} requests for this pod are open"),
            false => String::new(),
        };
        Some(RecreateReport { phase: Some(phase), message, containers, outcome: None, unready })
    }
}
