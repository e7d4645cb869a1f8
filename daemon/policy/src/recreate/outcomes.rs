//! What the end of a step changes.

use std::time::Instant;

use crate::{
    event::StepOutcome,
    model::{ContainerId, ContainerState, RequestId},
    node::Node,
    recreate::state::Drain,
    step::Step,
};

impl Node {
    /// It did not fail.
    pub(crate) fn step_ended(&mut self, step: Step, outcome: StepOutcome, now: Instant) {
        match step {
            Step::RemoveContainers(containers) => {
                containers.iter().for_each(|container| self.forget_container(container));
            }
            Step::WriteMarks(marks) => {
                for mark in marks {
                    // The request may have ended or gone while its marks were written.
                    let open = self.recreates.requests.get(&mark.request);
                    if let Some(request) = open.filter(|request| request.end.is_none()) {
                        // An earlier nudge was for others.
                        self.recreates.nudged.remove(&request.asked.pod);
                        self.recreates.place(mark, None, false, now);
                    } else {
                        self.recreates.unmarked.insert(mark.request);
                    }
                }
            }
            Step::ForgetMarks(request) => {
                self.recreates.forgotten(&request);
            }
            Step::StopContainer(stop) => {
                self.container_stopped(&stop.container);
                if outcome == StepOutcome::Gone {
                    self.forget_container(&stop.container);
                }
            }
            Step::Report(_, id, report) => match outcome {
                StepOutcome::Gone => self.recreates.gone(&id),
                StepOutcome::Done | StepOutcome::Failed => {
                    self.recreates.requests.change(&id, |request| request.reported = report);
                }
            },
            Step::HoldUnready(_, key) => {
                let waiting = self.recreates.requests.holding();
                let waiting =
                    waiting.filter(|request| request.asked.key == key && request.unready == Drain::Wanted);
                let waiting: Vec<RequestId> = waiting.map(|request| request.asked.id.clone()).collect();
                for id in waiting {
                    self.recreates.requests.change(&id, |request| request.unready = Drain::Since(now));
                }
            }
            Step::ReleaseUnready(..) | Step::OpenGate(_) => {
                // Until the pod view shows it.
                self.steps_in_flight.rest(&step, now);
            }
            Step::DeleteRequest(_, id) => self.recreates.gone(&id),
            Step::MarkSidecars(_)
            | Step::ForgetSidecars(_)
            | Step::Tell(..)
            | Step::InspectSandbox(_)
            | Step::PollKubelet
            | Step::ForgetLatches(_)
            | Step::Probe(_) => {}
        }
    }

    /// The requests as their sources showed them.
    #[cfg(test)]
    pub(crate) fn asked_requests(&self) -> Vec<crate::RecreateRequest> {
        self.recreates.requests.values().map(|request| request.asked.clone()).collect()
    }

    /// An instance that did exit, as far as is known.
    pub(crate) fn has_exited(&self, container: &ContainerId) -> bool {
        self.instance(container)
            .is_none_or(|instance| matches!(instance.container.state, ContainerState::Exited { .. }))
    }
}
