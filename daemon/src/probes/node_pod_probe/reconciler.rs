//! Reconcile loop of the probes: carries out what is due. A loop that asks, and a task for each step.

use std::{pin::pin, sync::Arc};

use berth_policy::{
    About, Notice, PodUid, ProbeEvent, ProbeEventText, ProbeOutcome, ProbeRun, ProbeStep, RunId,
};
use tokio::task::JoinSet;
use tracing::{debug, error};

use super::{
    marks::Marker,
    object::Object,
    shared::{Plan, SharedProbes},
};
use crate::{agent::Agent, base::deadline, cluster::Cluster, probes::prober::Prober};

/// Executor of the steps.
#[derive(Debug)]
pub(super) struct Reconciler {
    pub(super) probes: Arc<SharedProbes>,
    pub(super) agent: Arc<Agent>,
    pub(super) prober: Prober,
    pub(super) marker: Marker,
    pub(super) object: Arc<Object>,
    pub(super) cluster: Cluster,
}

impl Reconciler {
    /// Runs for ever. Dropped, its runs and writes end with it.
    pub(super) async fn run(&self) {
        // Subscribed before the first question, so that no change in between is lost.
        let mut changes = self.probes.changes();
        let mut tasks = JoinSet::new();
        let mut backlog = None;
        loop {
            changes.mark_unchanged();
            let Plan { steps, deadline, backlog: now } = self.probes.plan();
            if now != backlog {
                backlog = now;
                self.agent.metrics().probes_behind(backlog);
                self.object.report_backlog(backlog);
            }
            for step in steps {
                self.begin(step, &mut tasks);
            }
            let mut reached = pin!(deadline::reached(deadline));
            loop {
                // Cancel-safe: a number, and tasks that have ended already.
                tokio::select! {
                    changed = changes.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    () = &mut reached => break,
                    // What a step has found is a change; its end alone is no reason to plan.
                    Some(ended) = tasks.join_next() => if let Err(error) = ended {
                        // The policy gives up on the step after a while.
                        error!(%error, "Step about a probe died");
                    },
                }
            }
        }
    }

    fn begin(&self, step: ProbeStep, tasks: &mut JoinSet<()>) {
        let probes = self.probes.clone();
        match step {
            ProbeStep::Run(id, run) => {
                tasks.spawn(probe(self.prober.clone(), self.agent.clone(), probes, id, run));
            }
            ProbeStep::Look(pod) => {
                let marker = self.marker.clone();
                tasks.spawn(async move {
                    let outcome = marker.look(&pod).await;
                    probes.apply(ProbeEvent::LookEnded(pod.uid, outcome));
                });
            }
            ProbeStep::Mark(marks) => {
                let (marker, agent) = (self.marker.clone(), self.agent.clone());
                tasks.spawn(async move {
                    // What a pod showed at its end it keeps.
                    let ending = agent.read(|node, _| node.is_ending(&node.local_uid(&marks.pod.uid)))
                        || (!probes.wants(&marks.pod.uid) && marker.is_ending(&marks.pod).await);
                    let outcome = if ending { ProbeOutcome::Gone } else { marker.mark(&marks).await };
                    probes.apply(ProbeEvent::MarkEnded(marks.pod.uid, outcome));
                });
            }
            ProbeStep::Report(reports) => {
                let object = self.object.clone();
                tasks.spawn(async move {
                    let outcome = object.report(&reports).await;
                    probes.apply(ProbeEvent::ReportEnded(outcome));
                });
            }
            ProbeStep::EmitEvent(event) => {
                let cluster = self.cluster.clone();
                tasks.spawn(async move { cluster.tell(&event.pod, &notice(&event)).await });
            }
        }
    }
}

async fn probe(prober: Prober, agent: Arc<Agent>, probes: Arc<SharedProbes>, id: RunId, run: ProbeRun) {
    let uid: PodUid = run.pod.uid.clone();
    let host_ip = agent.read(|node, _| node.ip(&node.local_uid(&uid)));
    let result = prober.run(&run, host_ip.as_deref()).await;
    debug!(container.id = %run.container, action = ?run.action, "Probe ran");
    probes.apply(ProbeEvent::RunEnded(id, result));
}

fn notice(event: &ProbeEventText) -> Notice {
    Notice {
        about: About::Pod,
        reason: event.reason.name(),
        warning: event.reason.is_warning(),
        note: event.message.clone(),
    }
}
