//! The readiness gate of in-place updates where no update goes on that decides on it. A pod that has the gate
//! becomes Ready only when somebody opens it. One whose update was called off, as its request was deleted,
//! must not stay out of service.

use std::time::Duration;

use berth_policy::{
    PodUid,
    in_place_update::{UpdateSource, is_worked_on, may_open},
};
use tokio::time::sleep;
use tracing::{info, warn};

use super::{Parts, snapshot::GATE, write::CLOSED_BY};
use crate::{base::causes::chain, cluster::v1 as core, pods::read};

/// Pause between two writes on this node.
const WRITE_INTERVAL: Duration = Duration::from_millis(50);

/// The gate is not open, it is the agent's to open, and nothing speaks against it but an update that goes on.
pub(super) fn is_left_shut(pod: &core::Pod) -> bool {
    if !read::has_gate(pod, GATE)
        || read::is_mirror(&pod.metadata)
        || pod.metadata.deletion_timestamp.is_some()
    {
        return false;
    }
    let gate = read::condition(pod, GATE);
    let closed_here = gate.map(|gate| gate.status != "True" && gate.message.as_deref() == Some(CLOSED_BY));
    let ready = read::condition(pod, "ContainersReady").is_some_and(|ready| ready.status == "True");
    let observed = pod.status.as_ref().and_then(|status| status.observed_generation);
    may_open(closed_here, ready && is_worked_on(pod.metadata.generation, observed))
}

impl Parts {
    /// Opens what nobody else opens; for ever.
    pub(super) async fn keep_gates(&self) {
        let (queue, mut requests) = (&self.pods.shut, self.updates.changes());
        let mut last = PodUid::from("");
        let is_minded = |uid: &PodUid| self.updates.minds_gate(uid) || self.node_pod_update.is_aside(uid);
        let may = |uid: &PodUid| self.updates.has_heard(&UpdateSource::ALL) && !is_minded(uid);
        while let Some(taken) = queue.next(&last, &mut requests, may).await {
            last = taken.uid.clone();
            if self.open_gate(&taken.pod).await {
                taken.done();
            } else {
                taken.failed();
            }
            sleep(WRITE_INTERVAL).await;
        }
    }

    /// False: not opened, for a reason that may be over in a moment.
    async fn open_gate(&self, pod: &core::Pod) -> bool {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        match self.writer.open(pod, None).await {
            Ok(_) => info!(pod = name, "Readiness gate of updates opened"),
            // The watch shows what is there now.
            Err(error) if error.is_conflict() || error.is_gone() => {}
            Err(error) => {
                warn!(pod = name, error = %chain(&error), "Readiness gate of updates not opened");
                return false;
            }
        }
        true
    }
}
