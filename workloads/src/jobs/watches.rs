//! The watches of jobs: what the API server shows, in the words of the picture. Conversion only.
//!
//! The watch of pods asks for those that have the label of BroadcastJobs: the API server sends no others.

use berth_base::sent::Sent;
use berth_workloads_policy::{
    broadcast_job::{self, NodeView, PodView},
    cron_job::{self, ChildView},
};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Node, Pod},
};
use kube::{Api, Client, api::DynamicObject, runtime::watcher};
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    Settings,
    object::{Filed, Kind},
};
use crate::{
    metrics::Metrics,
    object::is_of,
    trimmed::{TrimmedJob, TrimmedPod},
    watch::{Shown, relay, shown, understood},
};

/// Event of any kind.
#[derive(Debug)]
pub(super) enum Input {
    Object(Kind, Shown<Filed>),
    Pod(Shown<PodView>),
    Job(Shown<ChildView>),
    /// With its UID.
    Node(Shown<(String, NodeView)>),
}

impl Input {
    /// Tells whether a list is complete with it.
    pub(super) fn is_end(&self) -> bool {
        matches!(
            self,
            Self::Object(_, Shown::ListEnds)
                | Self::Pod(Shown::ListEnds)
                | Self::Job(Shown::ListEnds)
                | Self::Node(Shown::ListEnds)
        )
    }
}

/// Starts the watches of the controllers that run.
pub(super) fn start(
    settings: &Settings,
    client: &Client,
    inputs: &mpsc::Sender<Input>,
    metrics: &Metrics,
    tasks: &mut JoinSet<()>,
) {
    let given = || (client.clone(), inputs.clone(), metrics.clone());
    // AdvancedCronJobs make BroadcastJobs too.
    tasks.spawn(objects(Kind::Broadcast, given()));
    if settings.broadcast_jobs {
        tasks.spawn(pods(given()));
        tasks.spawn(nodes(given()));
    }
    if settings.cron_jobs {
        tasks.spawn(objects(Kind::Cron, given()));
        tasks.spawn(jobs(given()));
    }
}

type Given = (Client, mpsc::Sender<Input>, Metrics);

async fn objects(kind: Kind, (client, inputs, metrics): Given) {
    let api = Api::<Sent<DynamicObject>>::all_with(client, &kind.resource());
    let view = |object| understood(kind.name(), kind.read(object), &metrics);
    let config = watcher::Config::default();
    let input = |event: Option<_>| Some(Input::Object(kind, shown(event?, view)));
    relay(api, config, kind.plural(), input, inputs, &metrics).await;
}

async fn pods((client, inputs, metrics): Given) {
    let config = watcher::Config::default().labels(broadcast_job::UID_LABEL);
    let input = |event: Option<_>| Some(Input::Pod(shown(event?, trimmed_pod)));
    relay(Api::<TrimmedPod>::all(client), config, "pods", input, inputs, &metrics).await;
}

async fn jobs((client, inputs, metrics): Given) {
    let input = |event: Option<_>| Some(Input::Job(shown(event?, job)));
    relay(Api::<TrimmedJob>::all(client), watcher::Config::default(), "jobs", input, inputs, &metrics).await;
}

async fn nodes((client, inputs, metrics): Given) {
    let view = |node: Node| Some((node.metadata.uid.clone()?, NodeView::of(&node)));
    let input = |event: Option<_>| Some(Input::Node(shown(event?, view)));
    relay(Api::<Sent<Node>>::all(client), watcher::Config::default(), "nodes", input, inputs, &metrics).await;
}

/// Reduces a pod that a list or watch of many has brought.
pub(super) fn trimmed_pod(TrimmedPod(object): TrimmedPod) -> Option<PodView> {
    pod(object)
}

/// Reduces a pod of a BroadcastJob.
pub(super) fn pod(pod: Pod) -> Option<PodView> {
    is_of(broadcast_job::KIND, &pod.metadata).then(|| PodView::of(&pod))
}

/// Reduces a Job of an AdvancedCronJob.
pub(super) fn job(job: Job) -> Option<ChildView> {
    is_of(cron_job::KIND, &job.metadata).then(|| ChildView::of_job(&job))
}
