//! ControllerRevisions of SidecarSets, where OpenKruise's clients look for them.
//!
//! The manager records revisions in the status of a SidecarSet, for it writes nothing else. What is filed
//! here says the same once more: it is decided in `berth-sidecarset`, from the status and from what is there.
//! The namespace has to be there; until it is, nothing is filed.

mod controller;
mod view;
mod write;

use berth_base::sent::Sent;
use berth_sidecarset::{FiledRevision, SET_LABEL};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    runtime::watcher,
};
use tokio::{sync::mpsc, task::JoinSet};

use self::{
    controller::{Controller, Input},
    view::{CopyView, SetView},
};
use crate::{
    event_loop::{Connections, Listed},
    watch::{relay, shown},
    write::Writer,
};

/// Inputs that wait for the controller. Past them the watches wait, and with them the API server.
const INPUTS: usize = 256;
/// Objects of a page: a status has up to half a megabyte.
const PAGE: u32 = 32;
/// The kinds, as they are listed.
const KINDS: [&str; 2] = ["sidecarsets", "controllerrevisions of sidecarsets"];

/// Kinds that are to be listed before anything is decided.
pub(crate) fn listed(on: bool) -> Listed {
    if on { KINDS.map(|kind| (kind, false)).to_vec() } else { Vec::new() }
}

/// Starts the controller and its watches. The ControllerRevisions are in this namespace.
pub(crate) fn start(namespace: String, connections: Connections, tasks: &mut JoinSet<()>) {
    let (sender, inputs) = mpsc::channel(INPUTS);
    let Writer { client, metrics, .. } = connections.writer.clone();
    let (of_sets, own, copies) = (metrics.clone(), sender.clone(), client.clone());
    tasks.spawn(async move {
        let api = Api::<Sent<DynamicObject>>::all_with(
            client,
            &ApiResource::erase::<berth_proto::crd::SidecarSet>(&()),
        );
        let input = |event: Option<_>| Some(Input::Set(shown(event?, |object| SetView::read(&object))));
        let config = watcher::Config::default().page_size(PAGE);
        relay(api, config, KINDS[0], input, own, &of_sets).await;
    });
    let in_it = namespace.clone();
    tasks.spawn(async move {
        let api = Api::<Sent<ControllerRevision>>::namespaced(copies, &in_it);
        let view = |object: ControllerRevision| FiledRevision::of(&object).map(CopyView);
        let input = |event: Option<_>| Some(Input::Copy(shown(event?, view)));
        let config = watcher::Config::default().labels(SET_LABEL).page_size(PAGE);
        relay(api, config, KINDS[1], input, sender, &metrics).await;
    });
    tasks.spawn(Controller::new(namespace, connections, inputs).run());
}
