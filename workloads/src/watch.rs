//! The watches: what the API server shows, in the words of the picture. Conversion only.

use std::pin::pin;

use berth_base::outage::Outage;
use berth_proto::crd::{CloneSet, NodePodUpdate};
use berth_workloads_policy::{clone_set::ClaimView, pod::PodView, revision::Revision, selector::Labels};
use futures::StreamExt;
use k8s_openapi::api::{
    apps::v1::ControllerRevision,
    core::v1::{Node, PersistentVolumeClaim, Pod},
};
use kube::{
    Api, Client, Resource,
    api::ObjectMeta,
    core::PartialObjectMeta,
    runtime::watcher::{self, Event},
};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::{cluster::Set, mailbox::Mailbox, metrics::Metrics};

/// How long one watch request lasts. A connection that died without a word is noticed 5 s after it.
const WATCH_SECONDS: u32 = 60;

/// Event of the objects of a kind.
#[derive(Debug)]
pub(crate) enum Shown<T> {
    /// All of them follow.
    ListBegins,
    /// One is as given.
    Applied(T),
    /// One is gone, or none that counts.
    Gone(String),
    /// That were all.
    ListEnds,
}

/// A node.
#[derive(Clone, Debug)]
pub(crate) struct NodeView {
    pub(crate) uid: String,
    pub(crate) name: String,
    pub(crate) labels: Labels,
}

/// Event of any kind.
#[derive(Debug)]
pub(crate) enum Input {
    Set(Shown<Set>),
    Pod(Shown<PodView>),
    Claim(Shown<ClaimView>),
    Revision(Shown<Revision>),
    Node(Shown<NodeView>),
    Mailbox(Shown<Mailbox>),
}

/// A kind that is watched.
pub(crate) trait Watched: Send + 'static {
    /// The kind, as its API has it.
    type Object: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static;
    /// Its reduction.
    type View;
    /// Its plural name.
    const NAME: &'static str;

    /// Reduces an object; `None`: it is none that counts.
    fn view(object: Self::Object) -> Option<Self::View>;

    fn input(shown: Shown<Self::View>) -> Input;
}

/// Tells whether a CloneSet decides on the object.
fn is_of_a_set(meta: &ObjectMeta) -> bool {
    let mut owners = meta.owner_references.iter().flatten();
    owners
        .any(|owner| owner.controller == Some(true) && owner.kind == berth_workloads_policy::clone_set::KIND)
}

pub(crate) struct Sets;
pub(crate) struct Pods;
pub(crate) struct Claims;
pub(crate) struct Revisions;
pub(crate) struct Nodes;
pub(crate) struct Mailboxes;

impl Watched for Sets {
    type Object = CloneSet;
    type View = Set;
    const NAME: &'static str = "clonesets";

    fn view(object: CloneSet) -> Option<Set> {
        Some(Set::new(object))
    }

    fn input(shown: Shown<Set>) -> Input {
        Input::Set(shown)
    }
}

impl Watched for Pods {
    type Object = Pod;
    type View = PodView;
    const NAME: &'static str = "pods";

    fn view(object: Pod) -> Option<PodView> {
        is_of_a_set(&object.metadata).then(|| PodView::of(&object))
    }

    fn input(shown: Shown<PodView>) -> Input {
        Input::Pod(shown)
    }
}

impl Watched for Claims {
    type Object = PersistentVolumeClaim;
    type View = ClaimView;
    const NAME: &'static str = "persistentvolumeclaims";

    fn view(object: PersistentVolumeClaim) -> Option<ClaimView> {
        is_of_a_set(&object.metadata).then(|| ClaimView::of(&object))
    }

    fn input(shown: Shown<ClaimView>) -> Input {
        Input::Claim(shown)
    }
}

impl Watched for Revisions {
    type Object = ControllerRevision;
    type View = Revision;
    const NAME: &'static str = "controllerrevisions";

    fn view(object: ControllerRevision) -> Option<Revision> {
        if is_of_a_set(&object.metadata) { Revision::of(&object) } else { None }
    }

    fn input(shown: Shown<Revision>) -> Input {
        Input::Revision(shown)
    }
}

impl Watched for Nodes {
    type Object = PartialObjectMeta<Node>;
    type View = NodeView;
    const NAME: &'static str = "nodes";

    fn view(object: PartialObjectMeta<Node>) -> Option<NodeView> {
        let meta = object.metadata;
        Some(NodeView { uid: meta.uid?, name: meta.name?, labels: meta.labels.unwrap_or_default() })
    }

    fn input(shown: Shown<NodeView>) -> Input {
        Input::Node(shown)
    }
}

impl Watched for Mailboxes {
    type Object = NodePodUpdate;
    type View = Mailbox;
    const NAME: &'static str = "nodepodupdates";

    fn view(object: NodePodUpdate) -> Option<Mailbox> {
        Some(Mailbox::of(object))
    }

    fn input(shown: Shown<Mailbox>) -> Input {
        Input::Mailbox(shown)
    }
}

/// Watches all objects of a kind, for ever. Ends when nobody receives any more.
pub(crate) async fn follow<W: Watched>(client: Client, inputs: mpsc::Sender<Input>, metrics: Metrics) {
    let api: Api<W::Object> = Api::all(client);
    let config = watcher::Config::default().timeout(WATCH_SECONDS);
    let mut events = pin!(watcher::watcher(api, config));
    let mut outage = Outage::default();
    while let Some(event) = events.next().await {
        let shown = match event {
            Ok(event) => shown::<W>(event),
            Err(error) => {
                let failure = outage.fails(&error);
                if let Some(text) = &failure.news {
                    warn!(kind = W::NAME, error = text, "Watch lost, what it showed stays");
                }
                metrics.watch_failed(W::NAME);
                tokio::time::sleep(failure.pause).await;
                continue;
            }
        };
        // That a list begins is only an intention.
        if !matches!(shown, Shown::ListBegins) && outage.ends() {
            info!(kind = W::NAME, "Watch follows again");
        }
        if inputs.send(W::input(shown)).await.is_err() {
            return;
        }
    }
}

fn shown<W: Watched>(event: Event<W::Object>) -> Shown<W::View> {
    let key = |meta: &ObjectMeta| meta.uid.clone().unwrap_or_default();
    match event {
        Event::Init => Shown::ListBegins,
        Event::InitDone => Shown::ListEnds,
        Event::InitApply(object) | Event::Apply(object) => {
            let uid = key(object.meta());
            W::view(object).map_or(Shown::Gone(uid), Shown::Applied)
        }
        Event::Delete(object) => Shown::Gone(key(object.meta())),
    }
}
