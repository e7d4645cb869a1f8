//! Controller of the PersistentPodStates that annotations of StatefulSets ask for.
//!
//! ```text
//!  StatefulSets of both groups (metadata) ──┐
//!  PersistentPodStates ─────────────────────┴─▶ plan (berth-pod-state) ──▶ create, update, delete
//! ```
//!
//! Records in them, and how pods come back, are the manager's. A write that was not seen yet is
//! decided once more, and fails or changes nothing: so nothing is remembered of writes.

mod controller;
mod view;
mod work;

use berth_base::sent::Sent;
use berth_proto::crd::{AdvancedStatefulSet, PersistentPodState};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::{Api, core::PartialObjectMeta, runtime::watcher};
use tokio::{sync::mpsc, task::JoinSet};

use self::{
    controller::{Controller, Input},
    view::{SetView, known},
};
use crate::{
    event_loop::{Connections, Listed},
    watch::{relay, shown},
    write::Writer,
};

/// Inputs that wait for the controller. Past them the watches wait, and with them the API server.
const INPUTS: usize = 1024;
/// The kinds, as they are listed.
pub(crate) const SETS: &str = "statefulsets.apps";
pub(crate) const ADVANCED: &str = "statefulsets.apps.kruise.io";
pub(crate) const STATES: &str = "persistentpodstates";

/// Kinds that are to be listed before anything is decided.
pub(crate) fn listed(on: bool) -> Listed {
    if on { [SETS, ADVANCED, STATES].map(|kind| (kind, false)).into() } else { Vec::new() }
}

/// Starts the controller and its watches.
pub(crate) fn start(connections: Connections, tasks: &mut JoinSet<()>) {
    let (sender, inputs) = mpsc::channel(INPUTS);
    let Writer { client, metrics, .. } = connections.writer.clone();
    let (of_sets, counts) = (sender.clone(), metrics.clone());
    let api: Api<Sent<PartialObjectMeta<StatefulSet>>> = Api::all(client.clone());
    tasks.spawn(async move {
        let view = |set: PartialObjectMeta<StatefulSet>| SetView::of(set.metadata, "apps/v1");
        let input = |event: Option<_>| Some(Input::Set(SETS, shown(event?, view)));
        relay(api, watcher::Config::default(), SETS, input, of_sets, &counts).await;
    });
    let (of_sets, counts) = (sender.clone(), metrics.clone());
    let api: Api<Sent<PartialObjectMeta<AdvancedStatefulSet>>> = Api::all(client.clone());
    tasks.spawn(async move {
        let view =
            |set: PartialObjectMeta<AdvancedStatefulSet>| SetView::of(set.metadata, "apps.kruise.io/v1beta1");
        let input = |event: Option<_>| Some(Input::Set(ADVANCED, shown(event?, view)));
        relay(api, watcher::Config::default(), ADVANCED, input, of_sets, &counts).await;
    });
    tasks.spawn(async move {
        let api = Api::<Sent<PersistentPodState>>::all(client);
        let input = |event: Option<_>| Some(Input::State(shown(event?, known)));
        relay(api, watcher::Config::default(), STATES, input, sender, &metrics).await;
    });
    tasks.spawn(Controller::new(connections, inputs).run());
}
