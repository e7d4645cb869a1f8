//! Controller of WorkloadSpreads: costs of deletion, pods that were there before, and pods that move on.
//!
//! ```text
//!  WorkloadSpreads ──▶ one watch of pods for each of their namespaces ──▶ plan (berth-spread) ──▶ writes
//! ```
//!
//! Where there are many of these namespaces one watch is for the pods of all (`wide`).
//!
//! The subset of a new pod and the status are the manager's. Here two annotations of pods are written, and
//! pods are deleted that find no node in a subset which takes no more. A write that was not seen yet is
//! decided once more, and changes nothing: so nothing is remembered of writes.
//!
//! A pod that is there already gets its annotation, and nothing of the patch of its subset.

mod controller;
mod fit;
#[cfg(test)]
mod tests;
mod view;
mod wide;
mod work;

use berth_base::sent::Sent;
use berth_proto::crd::WorkloadSpread;
use tokio::{sync::mpsc, task::JoinSet};

use self::{
    controller::{Controller, Input},
    view::SpreadView,
};
use crate::{
    event_loop::{Connections, Listed},
    watch::{relay, shown},
    write::Writer,
};

/// Inputs that wait for the controller. Past them the watches wait, and with them the API server.
const INPUTS: usize = 1024;
/// The kind, as it is listed.
pub(crate) const SPREADS: &str = "workloadspreads";

/// Kinds that are to be listed before anything is decided.
pub(crate) fn listed(on: bool) -> Listed {
    if on { vec![(SPREADS, false)] } else { Vec::new() }
}

/// Starts the controller and its watch.
pub(crate) fn start(connections: Connections, tasks: &mut JoinSet<()>) {
    let (sender, inputs) = mpsc::channel(INPUTS);
    let Writer { client, metrics, .. } = connections.writer.clone();
    let given = sender.clone();
    tasks.spawn(async move {
        let api = kube::Api::<Sent<WorkloadSpread>>::all(client);
        let input = |event: Option<_>| Some(Input::Spread(shown(event?, SpreadView::of)));
        relay(api, Default::default(), SPREADS, input, given, &metrics).await;
    });
    tasks.spawn(Controller::new(connections, sender, inputs).run());
}
