//! The agent of a node that exists on paper only, for benchmarks of a large cluster: what it reports and
//! what it writes to pods is decided, put together and written by the agent's own code. Only the runtime is
//! missing: a pod runs what its status says.

use std::{collections::BTreeMap, sync::Arc};

use berth_policy::{
    ContainerState, InstanceView, StepOutcome,
    in_place_update::{
        CarriedOut, ContainerView, Gate, GateView, ImageMatch, Instance, Leftovers, Life, Next, Observed,
        Presence, Sight, UpdateRequest, carried_out, is_news, plan,
    },
};
use berth_proto::crd::{DesiredPod, NodePodUpdate};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::{
    convert,
    node_pod_update::NodeUpdates,
    report, snapshot,
    write::{body, closing_body, opening_body},
};
use crate::{
    agent::now,
    base::clock::Clock,
    cluster::{client::Connection, v1 as core},
};

/// Reports that may follow each other before there is a step.
const REPORTS: usize = 4;

/// An agent without a runtime. It watches nothing: it is told.
#[derive(Debug)]
pub struct SimulatedAgent(NodeUpdates);

/// Images that containers run, by name.
type Images = BTreeMap<String, String>;

/// Next step of an agent towards an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum SimulatedStep {
    /// Patch the pod so, by a strategic merge.
    Patch(Value),
    /// Patch its status so.
    PatchStatus(Value),
    /// The kubelet is to come to it.
    Wait,
    /// The entry has ended, which was said.
    Ended,
    /// A report that comes first was not taken: ask again.
    Unsaid,
}

impl SimulatedAgent {
    /// An agent of the node of this name.
    pub fn new(connection: Connection, node: &str) -> Self {
        Self(NodeUpdates::new(connection, node.to_owned()))
    }

    /// Takes the object of its node as a watch shows it, reads the owners of new entries, and answers it: its
    /// abilities, a sign of life when one is due, and no word on entries that are gone.
    pub async fn take(&self, object: NodePodUpdate) {
        self.0.shown(object).await;
    }

    /// Gives a sign of life if one is due, and reads owners that could not be read.
    pub async fn renew(&self) {
        self.0.renew().await;
    }

    /// Reports what is to be reported of an entry, and returns the step that follows. The pod is as the API
    /// server shows it; its images are on the node.
    ///
    /// # Errors
    /// The pod is none.
    pub async fn next(&self, entry: &DesiredPod, pod: Value) -> Result<SimulatedStep, serde_json::Error> {
        let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
        let text = |status: &Value, member: &str| status[member].as_str().unwrap_or_default().to_owned();
        let runs: Images = statuses.map(|status| (text(status, "name"), text(status, "image"))).collect();
        let pod: core::Pod = serde_json::from_value(pod)?;
        for _ in 0..REPORTS {
            let clock = Clock::read();
            let reported = self.0.answered(entry).await;
            let reported = reported.map(|answer| report::read_pod(&answer, &clock)).unwrap_or_default();
            let (request, flaw) = convert::desired(entry, reported, None, now(), &clock);
            let sight = match (flaw, self.0.word(entry)) {
                (Ok(()), Some(Ok(()))) => Sight::Seen(Box::new(observed(&pod, &runs, &request))),
                (Err(flaw), _) => Sight::Forbidden(flaw.to_string()),
                (Ok(()), Some(Err(why))) => Sight::Forbidden(why.message),
                (Ok(()), None) if self.0.asks(entry).await => return Ok(SimulatedStep::Unsaid),
                // It was taken away: there is nothing to say any more.
                (Ok(()), None) => return Ok(SimulatedStep::Ended),
            };
            let planned = plan(std::slice::from_ref(&request), &sight, now());
            let mut ended = false;
            // Words for people wait, and this one is gone before they are due.
            for (_, report) in planned.reports.iter().filter(|(_, report)| is_news(&request, report)) {
                ended |= report.outcome.is_some();
                match self.0.report(&request, report).await {
                    StepOutcome::Done => {}
                    StepOutcome::Gone => return Ok(SimulatedStep::Ended),
                    _ => return Ok(SimulatedStep::Unsaid),
                }
            }
            let at = Timestamp::now();
            match planned.next {
                _ if ended => return Ok(SimulatedStep::Ended),
                Some(Next::Patch(patch)) => return Ok(SimulatedStep::Patch(body(&pod, &patch))),
                Some(Next::SetNotReady) => return Ok(SimulatedStep::PatchStatus(closing_body(&pod, at))),
                Some(Next::SetReady) => {
                    let word = word(&pod, &request);
                    return Ok(SimulatedStep::PatchStatus(opening_body(&pod, word.as_ref(), at)));
                }
                Some(_) => return Ok(SimulatedStep::Wait),
                None => {}
            }
        }
        Ok(SimulatedStep::Wait)
    }
}

/// Word on the pod when its gate is opened: its newest instances are those that their statuses tell of.
fn word(pod: &core::Pod, request: &UpdateRequest) -> Option<CarriedOut> {
    let view = snapshot::pod(pod);
    let instances = view.containers.iter().filter_map(|container| {
        let status = container.status.as_ref()?;
        let newest = InstanceView {
            id: status.id.clone()?,
            attempt: status.restarts,
            state: ContainerState::Running,
            stopping: false,
            hooked: false,
        };
        Some((container.name.clone(), newest))
    });
    let instances: BTreeMap<_, _> = instances.collect();
    carried_out(std::slice::from_ref(request), &view, &instances)
}

/// A pod whose containers run what their statuses say.
fn observed(pod: &core::Pod, runs: &Images, request: &UpdateRequest) -> Observed {
    let view = snapshot::pod(pod);
    let containers = view.containers.iter().map(|container| {
        let status = container.status.as_ref();
        let is_wanted = runs.get(container.name.as_str()).is_some_and(|image| **image == *container.image);
        ContainerView {
            name: container.name.clone(),
            image: container.image.clone(),
            priority: container.priority,
            reads: container.references.values().map(|reference| reference.key.clone()).collect(),
            env: container.env,
            instance: status.map(|status| Instance {
                id: status.id.clone().unwrap_or_else(|| "".into()),
                image: if is_wanted { ImageMatch::Wanted } else { ImageMatch::Other },
                image_id: status.image_id.clone(),
                env: Some(container.env),
                life: Life::Running { ready: status.ready },
                early_ready: false,
                hooked: false,
                in_hook: false,
                restarts: status.restarts,
            }),
            leftovers: Leftovers::None,
        }
    });
    let images: BTreeMap<Arc<str>, Presence> =
        request.images.values().map(|image| (image.clone(), Presence::Present)).collect();
    Observed {
        liveness: view.liveness,
        named: view.named.clone(),
        controller: view.controller.clone(),
        gate: match view.gate {
            GateView::Absent => Gate::Absent,
            GateView::Unwritten => Gate::Unwritten,
            GateView::Ready => Gate::Ready,
            GateView::NotReady { .. } => Gate::NotReady { since: now() },
        },
        containers: containers.collect(),
        record: None,
        records: view.records.clone(),
        is_record_old: false,
        kubelet_knows: true,
        kubelet_told: true,
        images,
        refused: None,
        held: None,
        wall: Timestamp::now().as_second(),
        before: None,
        metadata: view.metadata,
    }
}
