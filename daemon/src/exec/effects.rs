//! Carries out effects: where each goes, and how it ended.

use berth_policy::{
    ContainerId, DirectStop, Effect, Event, Outcome, PodEffect, PodRef, RecreateMark, RequestEffect,
    RequestId, RuntimeEffect, SidecarMark, Source, StepOutcome, StoreEffect,
};
use berth_shim::Gate;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Executor, spans::span, to_its_end};
use crate::{
    agent::{Agent, fault::Point, metrics::RequestKind},
    base::causes::chain,
    exec::hook,
};

impl Executor {
    /// Begins an effect, so that the next plan does not owe it again, and gives its outcome back.
    pub(super) fn begin_effect(&self, effect: Effect, shutdown: &CancellationToken) {
        self.agent.observe(Event::EffectBegan(effect.clone()));
        let (this, shutdown) = (self.clone(), shutdown.clone());
        self.effects.spawn(async move {
            let span = span(&effect);
            let work = to_its_end(this.agent.metrics(), span.within(this.carry_out(&effect, &shutdown)));
            let carried_out = this.break_off.run_until_cancelled(work).await;
            if let Some(ended) = carried_out {
                let outcome = ended.unwrap_or(StepOutcome::Failed);
                if outcome == StepOutcome::Failed {
                    span.failed(|| "not done, tried again");
                }
                this.agent.observe(Event::EffectEnded(effect, outcome));
            }
        });
    }

    async fn carry_out(&self, effect: &Effect, shutdown: &CancellationToken) -> StepOutcome {
        match effect {
            Effect::Store(effect) => self.store(effect).await,
            Effect::Runtime(RuntimeEffect::RemoveContainers(containers)) => self.remove(containers).await,
            Effect::Runtime(RuntimeEffect::StopContainer(stop)) => self.stop(stop, shutdown).await,
            Effect::Request(source, request, effect) => {
                Point::Reporting.reached();
                let age = self.agent.read(|node, now| node.open_since(request, now));
                let outcome = self.change_request(*source, request, effect).await;
                if let (Some(age), RequestEffect::Report(report), StepOutcome::Done) = (age, effect, outcome)
                    && let Some(end) = report.outcome
                {
                    let complete = end == Outcome::Complete;
                    self.agent.metrics().request_ended(RequestKind::Recreate, complete, age);
                }
                Point::Reported.reached();
                outcome
            }
            Effect::Pod(pod, effect) => self.change_pod(pod, effect).await,
        }
    }

    async fn change_request(&self, source: Source, id: &RequestId, effect: &RequestEffect) -> StepOutcome {
        match (source, &self.requests) {
            (Source::File, _) => self.files.change(id, effect).await,
            (Source::Api, Some(requests)) => requests.change(id, effect).await,
            (Source::Api, None) => StepOutcome::Gone,
        }
    }

    async fn change_pod(&self, pod: &PodRef, effect: &PodEffect) -> StepOutcome {
        if let PodEffect::Tell(notice) = effect {
            info!(
                pod = %format_args!("{}/{}", pod.namespace, pod.name),
                reason = notice.reason,
                "{}", notice.note
            );
        }
        match &self.requests {
            Some(requests) => requests.change_pod(pod, effect).await,
            None => StepOutcome::Gone,
        }
    }

    async fn store(&self, effect: &StoreEffect) -> StepOutcome {
        match effect {
            StoreEffect::WriteMarks(marks) => self.write_marks(marks).await,
            StoreEffect::ForgetMarks(request) => {
                Point::Unmarking.reached();
                let outcome = done(self.agent.forget_marks(request.clone()).await);
                Point::Unmarked.reached();
                outcome
            }
            StoreEffect::MarkSidecars(marks) => done(mark_sidecars(&self.agent, marks).await),
            StoreEffect::ForgetSidecars(containers) => {
                done(self.agent.forget_sidecars(containers.clone()).await)
            }
        }
    }

    async fn stop(&self, stop: &DirectStop, shutdown: &CancellationToken) -> StepOutcome {
        if let Some(mark) = &stop.mark
            && !hook_begins(&self.agent, mark, || shutdown.is_cancelled()).await
        {
            return StepOutcome::Failed;
        }
        info!(container.id = %stop.container, hook = stop.hook.is_some(), "Container is stopped without the kubelet");
        let stopped = hook::stop_directly(&self.runtime, stop, shutdown).await;
        Point::DirectlyStopped.reached();
        match stopped {
            Ok(stopped) => {
                for notice in stopped.notices(stop) {
                    let (this, pod) = (self.clone(), stop.pod.clone());
                    // Nobody waits for an Event.
                    self.tasks.spawn(async move { this.change_pod(&pod, &PodEffect::Tell(notice)).await });
                }
                StepOutcome::Done
            }
            Err(error) => {
                warn!(container.id = %stop.container, error = %chain(&error), "Container not stopped");
                StepOutcome::Failed
            }
        }
    }

    async fn remove(&self, containers: &[ContainerId]) -> StepOutcome {
        Point::Removing.reached();
        let failed = self.agent.remove_exited(&self.runtime, containers.iter().cloned()).await;
        if !failed.is_empty() {
            return StepOutcome::Failed;
        }
        Point::Removed.reached();
        StepOutcome::Done
    }

    async fn write_marks(&self, marks: &[RecreateMark]) -> StepOutcome {
        Point::Marking.reached();
        let written = self.agent.write_marks(marks.to_vec()).await;
        Point::Marked.reached();
        if written {
            for mark in marks {
                info!(
                    container = %mark.name,
                    container.id = %mark.container,
                    request = %mark.request,
                    phase = ?mark.phase,
                    "Container is to be recreated"
                );
            }
        }
        done(written)
    }
}

async fn mark_sidecars(agent: &Agent, marks: &[SidecarMark]) -> bool {
    Point::Ending.reached();
    let written = agent.write_sidecars(marks.to_vec()).await;
    Point::Ended.reached();
    if written {
        for mark in marks {
            info!(
                container = %mark.name,
                container.id = %mark.container,
                pod.uid = %mark.pod,
                hook = mark.hooked,
                "Job sidecar is to end"
            );
        }
    }
    written
}

/// Writes down that a hook begins, so that nobody begins it again. False: it does not begin here. A process
/// that was told to end meanwhile leaves it to whoever comes next.
async fn hook_begins(agent: &Agent, mark: &SidecarMark, is_ending: impl Fn() -> bool) -> bool {
    if is_ending() || !mark_sidecars(agent, std::slice::from_ref(mark)).await {
        return false;
    }
    if is_ending() {
        let before = SidecarMark { hooked: false, ..mark.clone() };
        if !agent.write_sidecars(vec![before]).await {
            warn!(container.id = %mark.container, "A preStop hook is not run, it is marked as begun");
        }
        return false;
    }
    agent.observe(Event::HookBegins(mark.container.clone()));
    true
}

fn done(done: bool) -> StepOutcome {
    if done { StepOutcome::Done } else { StepOutcome::Failed }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, sync::Arc};

    use prometheus_client::registry::Registry;

    use super::*;
    use crate::agent::{metrics::AgentMetrics, store::Store};

    /// Rows: after how many looks this process is told to end, whether the hook begins, and what the store
    /// says of it then.
    #[tokio::test]
    async fn a_hook_that_this_process_does_not_begin_is_the_next_ones() {
        for (looks, begins, stored) in [(0_u32, false, None), (1, false, Some(false)), (2, true, Some(true))]
        {
            let dir = tempfile::tempdir().unwrap();
            let store = Arc::new(Store::open(dir.path()).unwrap());
            let metrics = AgentMetrics::register(&mut Registry::default());
            let agent = Agent::new(berth_policy::Config::default(), store.clone(), metrics);
            let (pod, name, container) = ("u".into(), "s".into(), "s-0".into());
            let mark = SidecarMark { pod, name, container, hooked: true };
            let left = Cell::new(looks);
            let is_ending = || left.replace(left.get().saturating_sub(1)) == 0;
            assert_eq!(hook_begins(&agent, &mark, is_ending).await, begins, "{looks}");
            let marks = store.sidecars().unwrap();
            assert_eq!(marks.first().map(|mark| mark.hooked), stored, "{looks}");
        }
    }
}
