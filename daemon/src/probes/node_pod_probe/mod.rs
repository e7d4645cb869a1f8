//! Probes of one's own (`PodProbeMarker`): run on this node, their results written on the pods.
//!
//! ```text
//!   NodePodProbe ─── object ─┐
//!   PodProbeMarkers  markers ┼── approval ─┐                        ┌── crate::probes::prober: commands, and dials in the pod's network
//!   the pod watch ───────────┴─────────────┼── shared ─ reconciler ─┼── marks: conditions, labels and annotations of pods
//!   the runtime ──── instances ────────────┘  (Probes)              └── object, mirror: status, spec; Events
//! ```
//!
//! The `NodePodProbe` is not trusted. An entry is carried out only as long as a live PodProbeMarker of the
//! pod's namespace asks for exactly it (`verify`, `approval`). Those of the spec are carried out only where
//! the configuration accepts them.
//!
//! When a probe runs and what follows from it is decided by [`berth_policy::Probes`]; here facts are put into
//! its words and its steps are carried out. Nothing is kept but what the object and the pods show.

mod approval;
mod aside;
mod conditions;
mod convert;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod instances;
mod markers;
mod marks;
mod mirror;
mod object;
mod reconciler;
mod shared;
mod verify;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub(crate) use self::shared::SharedProbes;
use self::{instances::Instances, marks::Marker, object::Object, reconciler::Reconciler};
use crate::{agent::Agent, cluster::Cluster, probes::prober::Prober};

/// Probes what is asked of this node, until the shutdown.
pub(crate) async fn run(
    agent: Arc<Agent>,
    probes: Arc<SharedProbes>,
    cluster: Cluster,
    prober: Prober,
    shutdown: CancellationToken,
) {
    let object = Arc::new(Object::new(&cluster, probes.clone()));
    let driver = Reconciler {
        probes: probes.clone(),
        agent: agent.clone(),
        prober,
        marker: Marker { pods: cluster.pods(), probes: probes.clone() },
        object: object.clone(),
        cluster,
    };
    let instances = Instances { agent, probes };
    let all = async { tokio::join!(object.follow(), instances.follow(), driver.run()) };
    // Cancel-safe: what was not written is written by the next process, and a run that is cut off proves
    // nothing.
    shutdown.run_until_cancelled(all).await;
}
