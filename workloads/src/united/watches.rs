//! The watches of UnitedDeployments: what the API server shows, in the words of the picture. Conversion only.
//!
//! Workloads, revisions and pods are asked for by their labels: the API server sends no others.

use berth_base::sent::Sent;
use berth_workloads_policy::{
    revision::Revision,
    united_deployment::{
        ChildView, KIND, KINDS, Kind, PodView, SUBSET_LABEL, SUBSET_REVISION_LABEL, UID_LABEL,
    },
};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::{Api, Client, api::DynamicObject, runtime::watcher};
use tokio::{sync::mpsc, task::JoinSet};

use super::object::{Filed, FiledPod, child, resource, united};
use crate::{
    metrics::Metrics,
    object::is_of,
    revisions::SentRevision,
    trimmed::TrimmedPod,
    watch::{Shown, relay, shown, understood},
};

/// Event of any kind.
#[derive(Debug)]
pub(super) enum Input {
    United(Shown<Filed>),
    Child(Kind, Shown<ChildView>),
    Revision(Shown<Revision>),
    Pod(Shown<FiledPod>),
}

impl Input {
    /// Tells whether a list is complete with it.
    pub(super) fn is_end(&self) -> bool {
        matches!(
            self,
            Self::United(Shown::ListEnds)
                | Self::Child(_, Shown::ListEnds)
                | Self::Revision(Shown::ListEnds)
                | Self::Pod(Shown::ListEnds)
        )
    }
}

type Given = (Client, mpsc::Sender<Input>, Metrics);

/// Starts the watches.
pub(super) fn start(
    client: &Client,
    inputs: &mpsc::Sender<Input>,
    metrics: &Metrics,
    tasks: &mut JoinSet<()>,
) {
    let given = || (client.clone(), inputs.clone(), metrics.clone());
    tasks.spawn(objects(given()));
    for kind in KINDS {
        tasks.spawn(children(kind, given()));
    }
    tasks.spawn(revisions(given()));
    tasks.spawn(pods(given()));
}

/// Name of a watch: two kinds have one plural.
pub(super) const fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::StatefulSet => "statefulsets of uniteddeployments",
        Kind::AdvancedStatefulSet => "advanced statefulsets of uniteddeployments",
        Kind::CloneSet => "clonesets of uniteddeployments",
        Kind::Deployment => "deployments of uniteddeployments",
    }
}

async fn objects((client, inputs, metrics): Given) {
    let api = Api::<Sent<DynamicObject>>::all_with(client, &united());
    let view = |object| understood(KIND, Filed::read(object), &metrics);
    let config = watcher::Config::default();
    let input = |event: Option<_>| Some(Input::United(shown(event?, view)));
    relay(api, config, "uniteddeployments", input, inputs, &metrics).await;
}

async fn children(kind: Kind, (client, inputs, metrics): Given) {
    let api = Api::<Sent<DynamicObject>>::all_with(client, &resource(kind));
    let config = watcher::Config::default().labels(SUBSET_LABEL);
    let input = |event: Option<_>| Some(Input::Child(kind, shown(event?, |object| child(kind, &object))));
    relay(api, config, name(kind), input, inputs, &metrics).await;
}

async fn revisions((client, inputs, metrics): Given) {
    let config = watcher::Config::default().labels(UID_LABEL);
    let input = |event: Option<_>| Some(Input::Revision(shown(event?, |object| revision(&object))));
    let name = "controllerrevisions of uniteddeployments";
    relay(Api::<SentRevision>::all(client), config, name, input, inputs, &metrics).await;
}

async fn pods((client, inputs, metrics): Given) {
    let config = watcher::Config::default().labels(&format!("{SUBSET_LABEL},{SUBSET_REVISION_LABEL}"));
    let view = |TrimmedPod(pod)| Some(FiledPod::new(PodView::of(&pod)));
    let input = |event: Option<_>| Some(Input::Pod(shown(event?, view)));
    let name = "pods of uniteddeployments";
    relay(Api::<TrimmedPod>::all(client), config, name, input, inputs, &metrics).await;
}

/// Reduces a revision of a UnitedDeployment.
pub(super) fn revision(object: &ControllerRevision) -> Option<Revision> {
    if is_of(KIND, &object.metadata) { Revision::of(object) } else { None }
}
