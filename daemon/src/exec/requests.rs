//! The steps about requests: where each goes, and how it ended.

use berth_policy::{ContainerId, Event, Mark, Origin, SidecarMark, Step, StepOutcome};
use berth_shim::Gate;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Executor;
use crate::{agent::fault::Point, base::causes::chain, exec::hook};

impl Executor {
    /// Begins a step about a request, so that the next plan does not owe it again, and gives its outcome back.
    pub(super) fn begin_about_request(&self, step: Step, shutdown: &CancellationToken) {
        self.agent.observe(Event::StepBegan(step.clone()));
        let (this, shutdown) = (self.clone(), shutdown.clone());
        self.effects.spawn(async move {
            let carried_out = this.break_off.run_until_cancelled(this.carry_out(&step, &shutdown)).await;
            if let Some(outcome) = carried_out {
                this.agent.observe(Event::StepEnded(step, outcome));
            }
        });
    }

    async fn carry_out(&self, step: &Step, shutdown: &CancellationToken) -> StepOutcome {
        match step {
            Step::RemoveContainers(containers) => self.remove(containers).await,
            Step::WriteMarks(marks) => self.write_marks(marks).await,
            Step::ForgetMarks(request) => {
                Point::Unmarking.reached();
                let outcome = done(self.agent.forget_marks(request.clone()).await);
                Point::Unmarked.reached();
                outcome
            }
            Step::MarkSidecars(marks) => self.mark_sidecars(marks).await,
            Step::ForgetSidecars(containers) => done(self.agent.forget_sidecars(containers.clone()).await),
            Step::Tell(pod, notice) => {
                info!(
                    pod = %format_args!("{}/{}", pod.namespace, pod.name),
                    reason = notice.reason,
                    "{}", notice.note
                );
                self.ask_cluster(step).await
            }
            Step::StopContainer(stop) => {
                info!(container.id = %stop.container, hook = stop.hook.is_some(), "Container is stopped without the kubelet");
                let stopped = hook::stop_directly(&self.runtime, stop, shutdown).await;
                Point::DirectlyStopped.reached();
                match stopped {
                    Ok(_) => StepOutcome::Done,
                    Err(error) => {
                        warn!(container.id = %stop.container, error = %chain(&error), "Container not stopped");
                        StepOutcome::Failed
                    }
                }
            }
            Step::Report(origin, ..) | Step::DeleteRequest(origin, _) => {
                Point::Reporting.reached();
                let outcome = match origin {
                    Origin::Api => self.ask_cluster(step).await,
                    Origin::File => self.files.carry_out(step).await,
                    // Whoever asked looks at the pod itself.
                    Origin::Update => StepOutcome::Done,
                };
                Point::Reported.reached();
                outcome
            }
            Step::HoldUnready(..) | Step::ReleaseUnready(..) | Step::OpenGate(_) => {
                self.ask_cluster(step).await
            }
            // Carried out where they come up.
            Step::InspectSandbox(_) | Step::PollKubelet | Step::ForgetLatches(_) | Step::Probe(_) => {
                StepOutcome::Done
            }
        }
    }

    async fn ask_cluster(&self, step: &Step) -> StepOutcome {
        match &self.requests {
            Some(requests) => requests.carry_out(step).await,
            None => StepOutcome::Gone,
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

    async fn write_marks(&self, marks: &[Mark]) -> StepOutcome {
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

impl Executor {
    async fn mark_sidecars(&self, marks: &[SidecarMark]) -> StepOutcome {
        Point::Ending.reached();
        let written = self.agent.write_sidecars(marks.to_vec()).await;
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
        done(written)
    }
}

fn done(done: bool) -> StepOutcome {
    if done { StepOutcome::Done } else { StepOutcome::Failed }
}
