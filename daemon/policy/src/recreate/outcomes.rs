//! Changes at the end of an effect.

use std::time::Instant;

use crate::{
    event::StepOutcome,
    model::{ContainerId, ContainerState, RequestId},
    node::Node,
    recreate::state::Drain,
    step::{Effect, PodEffect, RequestEffect, RuntimeEffect, StoreEffect},
};

impl Node {
    /// Takes the end of an effect that did not fail.
    pub(crate) fn effect_ended(&mut self, effect: Effect, outcome: StepOutcome, now: Instant) {
        match effect {
            Effect::Store(effect) => self.store_effect_ended(effect, now),
            Effect::Runtime(RuntimeEffect::RemoveContainers(containers)) => {
                containers.iter().for_each(|container| self.forget_container(container));
            }
            Effect::Runtime(RuntimeEffect::StopContainer(stop)) => {
                self.container_stopped(&stop.container);
                if outcome == StepOutcome::Gone {
                    self.forget_container(&stop.container);
                }
            }
            Effect::Request(_, id, RequestEffect::Report(report)) => match outcome {
                StepOutcome::Gone => self.recreates.gone(&id),
                StepOutcome::Done | StepOutcome::Failed => {
                    self.recreates.requests.change(&id, |request| request.reported = report);
                }
            },
            Effect::Request(_, id, RequestEffect::Delete) => self.recreates.gone(&id),
            Effect::Pod(_, PodEffect::HoldUnready(key)) => self.unready_held(&key, now),
            Effect::Pod(_, PodEffect::ReleaseUnready(_) | PodEffect::OpenGate) => {
                // Until the pod view shows it.
                self.effects_in_flight.rest(&effect, now);
            }
            Effect::Pod(pod, PodEffect::Tell(notice)) => {
                let told = (pod, notice);
                self.notices.retain(|owed| *owed != told);
            }
        }
    }

    fn store_effect_ended(&mut self, effect: StoreEffect, now: Instant) {
        match effect {
            StoreEffect::WriteMarks(marks) => {
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
            StoreEffect::ForgetMarks(request) => self.recreates.forgotten(&request),
            StoreEffect::MarkSidecars(marks) => self.sidecars_marked(&marks, now),
            StoreEffect::ForgetSidecars(containers) => self.sidecars.forgotten(&containers),
        }
    }

    /// The pod is held not Ready for the request with this key.
    fn unready_held(&mut self, key: &str, now: Instant) {
        let waiting = self.recreates.requests.holding();
        let waiting = waiting.filter(|request| request.asked.key == key && request.unready == Drain::Wanted);
        let waiting: Vec<RequestId> = waiting.map(|request| request.asked.id.clone()).collect();
        for id in waiting {
            self.recreates.requests.change(&id, |request| request.unready = Drain::Since(now));
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
