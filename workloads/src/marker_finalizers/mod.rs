//! Finalizer of PodProbeMarkers, which OpenKruise's clients look for.
//!
//! ```text
//!  PodProbeMarkers (metadata) ──┐
//!  NodePodProbes ───────────────┴─▶ marker_finalizers::next ──▶ patch of metadata.finalizers
//! ```
//!
//! Each patch is of the version that it was decided on, so nothing is read before the first one of a term.
//! Without the option nothing is watched, and what is left from a time with it is taken off.

mod controller;
mod leftovers;
mod nodes;
mod view;

use berth_base::sent::Sent;
use berth_proto::crd::{NodePodProbe, Partly, PodProbeMarker};
use kube::{Api, api::Patch, core::PartialObjectMeta, runtime::watcher};
use serde_json::json;
use tokio::{sync::mpsc, task::JoinSet};

pub(crate) use self::leftovers::let_go;
use self::{
    controller::{Controller, Input},
    view::{MarkerView, probed},
};
use crate::{
    event_loop::{Connections, Listed},
    watch::{relay, shown},
    write::{CHANGED_BY_CLUSTER, Failure, Writer, params},
};

/// Inputs that wait for the controller. Past them the watches wait, and with them the API server.
const INPUTS: usize = 256;
/// NodePodProbes of a page: one has up to a megabyte.
const PAGE: u32 = 16;
/// The kinds, as they are listed.
const MARKERS: &str = "podprobemarkers";
const NODES: &str = "nodepodprobes";

/// Kinds that are to be listed before anything is decided.
pub(crate) fn listed(on: bool) -> Listed {
    if on { [MARKERS, NODES].map(|kind| (kind, false)).into() } else { Vec::new() }
}

/// Starts the controller and its watches.
pub(crate) fn start(connections: Connections, tasks: &mut JoinSet<()>) {
    let (sender, inputs) = mpsc::channel(INPUTS);
    let Writer { client, metrics, .. } = connections.writer.clone();
    let (of_markers, counts) = (sender.clone(), metrics.clone());
    let api: Api<Sent<PartialObjectMeta<PodProbeMarker>>> = Api::all(client.clone());
    tasks.spawn(async move {
        let view = |marker: PartialObjectMeta<PodProbeMarker>| MarkerView::of(marker.metadata);
        let input = |event: Option<_>| Some(Input::Marker(shown(event?, view)));
        relay(api, watcher::Config::default(), MARKERS, input, of_markers, &counts).await;
    });
    tasks.spawn(async move {
        let api = Api::<Sent<Partly<NodePodProbe>>>::all(client);
        let input = |event: Option<_>| Some(Input::Node(shown(event?, probed)));
        let config = watcher::Config::default().page_size(PAGE);
        relay(api, config, NODES, input, sender, &metrics).await;
    });
    tasks.spawn(Controller::new(connections, inputs).run());
}

/// Gives a marker these finalizers, if it is still as it was seen. One that the API server has just written
/// has them, or never will.
async fn write(
    writer: &Writer,
    marker: &MarkerView,
    finalizers: &[String],
) -> Result<Option<MarkerView>, Failure> {
    let api = Api::<PodProbeMarker>::namespaced(writer.client.clone(), &marker.namespace);
    let patch = json!({ "metadata": {
        "uid": marker.uid, "resourceVersion": marker.version, "finalizers": finalizers,
    } });
    let (params, patch) = (params::patch(), Patch::Merge(&patch));
    let written = writer.ask("patch", api.patch_metadata(&marker.name, &params, &patch)).await?;
    if written.metadata.finalizers.as_deref().unwrap_or_default() != finalizers {
        return Err(Failure::Refused(CHANGED_BY_CLUSTER.to_owned()));
    }
    Ok(MarkerView::of(written.metadata))
}
