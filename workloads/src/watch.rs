//! The watches: what the API server shows, in the words of the picture. Conversion only.

use std::pin::pin;

use berth_base::line_pace::SharedPace;
use berth_base::outage::{Outage, is_too_old};
use berth_base::sent::{Received, Sent};
use berth_proto::crd::{ImagePullJob, NodePodUpdate, Partly};
use berth_workloads_policy::{
    clone_set::ClaimView, hash::is_suffix, plan::NodeView, pod::PodView, predownload::PullJobView,
    revision::Revision,
};
use futures::StreamExt;
use k8s_openapi::api::{
    apps::v1::ControllerRevision,
    core::v1::{Node, PersistentVolumeClaim},
};
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, ObjectMeta},
    runtime::watcher::{self, Event},
};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::{
    kinds::{Kind, Set, is_decided, is_number, is_numbered},
    lane,
    metrics::Metrics,
    node_updates::NodeUpdates,
    object::Filed,
    revisions::SentRevision,
    trimmed::{TrimmedClaim, TrimmedPod, owners_fit},
};

/// How long one watch request lasts. A connection that died without a word is noticed 5 s after it.
const WATCH_SECONDS: u32 = 60;
/// Objects of one answer. It is in memory as a whole: of 1.4 MB each, and 8 MiB when it is read.
pub(crate) const PAGE: u32 = 16;
/// The same of objects of which little is read, as of pods, claims and Jobs, and of nodes: there are
/// thousands, and no author of a namespace makes a node large. A NodePodUpdate has what authors want for
/// their pods.
const SMALL: u32 = 100;

/// Event of the objects of a kind.
#[derive(Debug)]
pub(crate) enum Shown<T> {
    /// All of them follow.
    ListBegins,
    /// One is as given.
    Applied(T),
    /// One is gone, or none that counts.
    Gone(String),
    /// The list has ended.
    ListEnds,
}

impl<T> Shown<T> {
    /// The same of what is made of the object.
    pub(crate) fn map<U>(self, make: impl FnOnce(T) -> U) -> Shown<U> {
        match self {
            Self::ListBegins => Shown::ListBegins,
            Self::Applied(object) => Shown::Applied(make(object)),
            Self::Gone(uid) => Shown::Gone(uid),
            Self::ListEnds => Shown::ListEnds,
        }
    }
}

/// Event of any kind.
#[derive(Debug)]
pub(crate) enum Input {
    Set(&'static Kind, Shown<Filed<Set>>),
    Pod(Shown<PodView>),
    Claim(Shown<ClaimView>),
    Revision(Shown<Revision>),
    PullJob(Shown<PullJobView>),
    /// With its UID.
    Node(Shown<(String, NodeView)>),
    NodeUpdates(Shown<NodeUpdates>),
    /// The watch of those is broken.
    NodeUpdatesLost,
}

impl Input {
    /// Tells whether a list is complete with it.
    pub(crate) fn is_end(&self) -> bool {
        matches!(
            self,
            Self::Set(_, Shown::ListEnds)
                | Self::Pod(Shown::ListEnds)
                | Self::Claim(Shown::ListEnds)
                | Self::Revision(Shown::ListEnds)
                | Self::PullJob(Shown::ListEnds)
                | Self::Node(Shown::ListEnds)
                | Self::NodeUpdates(Shown::ListEnds)
        )
    }
}

/// A type that is watched.
pub(crate) trait Watched: Send + 'static {
    /// The kind, as its API has it.
    type Object: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static;
    /// An object, as lists and watches bring it.
    type Sent: Received<Object = Self::Object> + Resource<DynamicType = ()>;
    /// Its reduction.
    type View;
    /// Its plural name.
    const NAME: &'static str;

    /// Reduces an object; `None`: it is none that counts.
    fn view(object: Self::Object) -> Option<Self::View>;

    fn input(shown: Shown<Self::View>) -> Input;

    /// Input when the watch is broken, if anybody minds.
    fn lost() -> Option<Input> {
        None
    }
}

pub(crate) struct Pods;
pub(crate) struct Claims;
pub(crate) struct Revisions;
pub(crate) struct PullJobs;
pub(crate) struct Nodes;
pub(crate) struct NodePodUpdates;

impl Watched for Pods {
    type Object = TrimmedPod;
    type Sent = TrimmedPod;
    type View = PodView;
    const NAME: &'static str = "pods";

    fn view(TrimmedPod(object): TrimmedPod) -> Option<PodView> {
        let meta = &object.metadata;
        (is_decided(meta) || may_be_named(meta, |rest| is_number(rest) || is_suffix(rest)))
            .then(|| PodView::of(&object))
    }

    fn input(shown: Shown<PodView>) -> Input {
        Input::Pod(shown)
    }
}

impl Watched for Claims {
    type Object = PersistentVolumeClaim;
    type Sent = TrimmedClaim;
    type View = ClaimView;
    const NAME: &'static str = "persistentvolumeclaims";

    fn view(object: PersistentVolumeClaim) -> Option<ClaimView> {
        let meta = &object.metadata;
        // A set has claims by their names, whoever decides on them.
        let is_named = meta.name.as_deref().is_some_and(is_numbered);
        ((is_decided(meta) || is_named) && owners_fit(meta)).then(|| ClaimView::of(&object))
    }

    fn input(shown: Shown<ClaimView>) -> Input {
        Input::Claim(shown)
    }
}

impl Watched for Revisions {
    type Object = ControllerRevision;
    type Sent = SentRevision;
    type View = Revision;
    const NAME: &'static str = "controllerrevisions";

    fn view(object: ControllerRevision) -> Option<Revision> {
        // One that nobody owns may be adopted by the set that it is named after.
        let is_orphan = object.metadata.owner_references.as_ref().is_none_or(Vec::is_empty);
        if is_orphan || is_decided(&object.metadata) { Revision::of(&object) } else { None }
    }

    fn input(shown: Shown<Revision>) -> Input {
        Input::Revision(shown)
    }
}

impl Watched for PullJobs {
    type Object = ImagePullJob;
    type Sent = Sent<ImagePullJob>;
    type View = PullJobView;
    const NAME: &'static str = "imagepulljobs";

    fn view(object: ImagePullJob) -> Option<PullJobView> {
        is_decided(&object.metadata).then(|| PullJobView::of(&object.metadata))
    }

    fn input(shown: Shown<PullJobView>) -> Input {
        Input::PullJob(shown)
    }
}

impl Watched for Nodes {
    type Object = Node;
    type Sent = Sent<Node>;
    type View = (String, NodeView);
    const NAME: &'static str = "nodes";

    fn view(object: Node) -> Option<(String, NodeView)> {
        let meta = object.metadata;
        let taints = object.spec.and_then(|spec| spec.taints).unwrap_or_default();
        let taints = taints.into_iter().map(|taint| json!(taint)).collect();
        let node = NodeView { name: meta.name?, labels: meta.labels.unwrap_or_default(), taints };
        Some((meta.uid?, node))
    }

    fn input(shown: Shown<(String, NodeView)>) -> Input {
        Input::Node(shown)
    }
}

impl Watched for NodePodUpdates {
    type Object = Partly<NodePodUpdate>;
    type Sent = Sent<Partly<NodePodUpdate>>;
    type View = NodeUpdates;
    const NAME: &'static str = "nodepodupdates";

    fn view(object: Partly<NodePodUpdate>) -> Option<NodeUpdates> {
        tell_of_unreadable(&object);
        Some(NodeUpdates::of(object))
    }

    fn input(shown: Shown<NodeUpdates>) -> Input {
        Input::NodeUpdates(shown)
    }

    fn lost() -> Option<Input> {
        Some(Input::NodeUpdatesLost)
    }
}

/// Tells whether a pod may belong to a set by its name: nothing decides on it, and it ends as names of a
/// set's do.
fn may_be_named(meta: &ObjectMeta, ends: fn(&str) -> bool) -> bool {
    let has_controller = meta.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
    let end = meta.name.as_deref().and_then(|name| name.rsplit_once('-'));
    !has_controller && end.is_some_and(|(_, end)| ends(end))
}

/// Watches all objects of a type, for ever. Ends when nobody receives any more.
pub(crate) async fn follow<W: Watched>(client: Client, inputs: mpsc::Sender<Input>, metrics: Metrics) {
    let input = |event: Option<_>| match event {
        Some(event) => Some(W::input(shown(event, W::view))),
        None => W::lost(),
    };
    let all = watcher::Config::default();
    relay(Api::<W::Sent>::all(client), all, W::NAME, input, inputs, &metrics).await;
}

/// Watches all workloads of a kind, for ever. Ends when nobody receives any more.
pub(crate) async fn follow_sets(
    client: Client,
    kind: &'static Kind,
    inputs: mpsc::Sender<Input>,
    metrics: Metrics,
) {
    let api = Api::<Sent<DynamicObject>>::all_with(client, &kind.resource());
    let view = |object| understood(kind.name, kind.file(object), &metrics);
    let all = watcher::Config::default();
    let input = |event: Option<_>| Some(Input::Set(kind, shown(event?, view)));
    relay(api, all, kind.plural, input, inputs, &metrics).await;
}

/// Shows that there is no workload of a kind, which is left to OpenKruise, and nothing ever after.
pub(crate) async fn leave_sets(kind: &'static Kind, inputs: mpsc::Sender<Input>) {
    info!(kind = kind.name, "Kind is left to OpenKruise");
    for shown in [Shown::ListBegins, Shown::ListEnds] {
        if inputs.send(Input::Set(kind, shown)).await.is_err() {
            return;
        }
    }
    inputs.closed().await;
}

/// Hands on what a watch shows, for ever; `None`: it is broken. Ends when nobody receives any more. An object
/// that nobody can read is set aside, and holds none of the others up.
pub(crate) async fn relay<K, I>(
    api: Api<K>,
    config: watcher::Config,
    name: &'static str,
    input: impl Fn(Option<Event<K>>) -> Option<I>,
    inputs: mpsc::Sender<I>,
    metrics: &Metrics,
) where
    K: Received,
{
    let most = if K::IS_SMALL || name == Nodes::NAME { SMALL } else { PAGE };
    let page = config.page_size.unwrap_or(most).min(most);
    let config = config.timeout(WATCH_SECONDS).page_size(page);
    let mut events = pin!(watcher::watcher(api.clone(), config.clone()));
    let (mut outage, mut list) = (Outage::default(), None);
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                drop(list.take());
                if is_too_old(&error) {
                    events.set(watcher::watcher(api.clone(), config.clone()));
                }
                let failure = outage.fails(&error);
                if let Some(text) = &failure.news {
                    warn!(kind = name, error = text, "Watch lost, what it showed stays");
                }
                metrics.watch_failed(name);
                if let Some(input) = input(None)
                    && inputs.send(input).await.is_err()
                {
                    return;
                }
                tokio::time::sleep(failure.pause).await;
                continue;
            }
        };
        // That a list begins is only an intention.
        if !matches!(event, Event::Init) && outage.ends() {
            info!(kind = name, "Watch follows again");
        }
        if matches!(event, Event::Init | Event::InitDone) {
            drop(list.take());
        }
        if matches!(event, Event::Init) {
            let places = if K::IS_SMALL { &lane::SMALL_LISTS } else { &lane::LISTS };
            list = places.acquire().await.ok();
        }
        if let Event::InitApply(object) | Event::Apply(object) = &event
            && let Some(fault) = object.fault()
        {
            is_aside(name, fault, metrics);
        }
        if let Some(input) = input(Some(event))
            && !lane::send(&inputs, input, K::IS_SMALL).await
        {
            return;
        }
    }
}

/// Object that was read. One that nobody can read is set aside, and holds none of the others up.
pub(crate) fn understood<T>(kind: &str, read: Result<T, String>, metrics: &Metrics) -> Option<T> {
    read.inspect_err(|error| is_aside(kind, error, metrics)).ok()
}

/// Pace of the lines about objects that are set aside: each version of one is, however often its author
/// writes it.
static ASIDE: SharedPace = SharedPace::new();

fn is_aside(kind: &str, error: &str, metrics: &Metrics) {
    if let Some(left_out) = ASIDE.take() {
        warn!(kind, error, left_out, "Object not understood, it is set aside");
    }
    metrics.set_aside();
}

/// Tells of entries of the object of a node that cannot be read. The others go on, and these stay.
fn tell_of_unreadable(node_updates: &Partly<NodePodUpdate>) {
    let Some(first) = node_updates.unreadable.first() else { return };
    if let Some(left_out) = ASIDE.take() {
        warn!(
            node = node_updates.object.metadata.name.as_deref(),
            entries = node_updates.unreadable.len(),
            first = first.told(),
            left_out,
            "Entries of a NodePodUpdate not understood, they stay: a newer program has written them, upgrade this one"
        );
    }
}

/// Reduces what a watch shows. An object that is set aside is none that counts.
pub(crate) fn shown<K: Received, V>(event: Event<K>, view: impl Fn(K::Object) -> Option<V>) -> Shown<V> {
    let key = |meta: &ObjectMeta| meta.uid.clone().unwrap_or_default();
    match event {
        Event::Init => Shown::ListBegins,
        Event::InitDone => Shown::ListEnds,
        Event::InitApply(object) | Event::Apply(object) => {
            let uid = key(object.meta());
            object.read().ok().and_then(view).map_or(Shown::Gone(uid), Shown::Applied)
        }
        Event::Delete(object) => Shown::Gone(key(object.meta())),
    }
}

#[cfg(test)]
mod tests;
