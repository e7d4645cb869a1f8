//! Facts about updates, from the sources of requests, the pod watch, the node, and the answers to actions.

use std::collections::{BTreeMap, BTreeSet};

use super::view::{CreatedWith, NodeView, PodView, UpdatePermission};
use crate::{
    event::StepOutcome,
    in_place_update::{Failure, UpdateReport, UpdateRequest, UpdateSource},
    instances::Moment,
    model::{ContainerId, PodUid, RequestId},
};

/// A fact. See [`super::Updates::apply`].
#[derive(Clone, Debug)]
pub enum UpdateEvent {
    /// A source shows this request, new or changed.
    RequestSeen(Box<StoredRequest>),
    /// The source does not show this request any more.
    RequestGone(RequestId),
    /// A source was listed anew: these and no others of its kind.
    RequestsListed(UpdateSource, Vec<StoredRequest>),
    /// Whether the agent may write to pods.
    PermissionKnown(UpdatePermission),

    /// The pod watch shows this.
    PodShown(Box<PodView>),
    /// The pod watch does not show this pod any more.
    PodGone(PodUid),
    /// It was listed anew, without these.
    PodsListed(BTreeSet<PodUid>),
    /// It was lost; until it is listed anew the kubelet's may be, too.
    WatchLost,
    /// The node knows this of a pod now.
    NodeSeen(PodUid, Box<NodeView>),

    /// The answer to [`super::UpdateAction::Fetch`].
    Fetched(PodUid, Fetched),
    /// The answer to [`super::UpdateAction::Inspect`]; `None`: the runtime gave none.
    Inspected(PodUid, Option<BTreeMap<ContainerId, CreatedWith>>),
    /// The answer to [`super::UpdateAction::Clear`].
    Cleared {
        /// The pod.
        pod: PodUid,
        /// Instances that could not be removed.
        failed: BTreeSet<ContainerId>,
        /// When the others were.
        moment: Moment,
    },
    /// The answer to [`super::UpdateAction::Stop`]: all of them were stopped, or not.
    Stopped(PodUid, bool),
    /// The answer to [`super::UpdateAction::Write`].
    Written(PodUid, WriteOutcome),
    /// The answer to [`super::UpdateAction::Report`].
    Reported(RequestId, Box<UpdateReport>, StepOutcome),
    /// The answer to [`super::UpdateAction::Delete`].
    Deleted(RequestId, StepOutcome),
    /// The answer to [`super::UpdateAction::Tell`], whether or not it could be told.
    Told,
    /// The executor of actions was lost, and all that was under way with it.
    ExecutorLost,
}

/// A request in the state in which its source shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRequest {
    /// The request.
    pub request: UpdateRequest,
    /// Flaw of the request: it only fails.
    pub flaw: Option<Failure>,
    /// Which state of its object this is; grows.
    pub version: u64,
}

/// Answer of the API server to a question about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// It is this.
    Found(Box<PodView>),
    /// It is not there any more.
    Gone,
    /// There was no answer.
    Failed,
}

/// Answer of the API server to a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// Written; the pod is this now.
    Done(Box<PodView>),
    /// Somebody else was faster, or the pod has gone.
    Outdated,
    /// It was not allowed.
    Refused {
        /// In the API server's words.
        why: String,
        /// It is refused however often it is tried. Otherwise the API server may only be coming up.
        for_good: bool,
    },
    /// It is not let for now, as by a budget that lets no more pods be unavailable, or too much is asked.
    Held {
        /// In the API server's words.
        why: String,
    },
    /// Not written, for another reason.
    Failed,
}
