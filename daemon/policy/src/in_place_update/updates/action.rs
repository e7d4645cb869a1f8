//! Actions that are due about updates. Each is given out once, and answered by the event it names, if it
//! names one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    creation_env::CreationEnv,
    in_place_update::{PodPatch, UpdateReport, UpdateRequest},
    model::{ContainerId, ContainerName, PodRef, PodUid, RequestId},
    recreate::RecreateRequest,
    step::Notice,
};

/// Effect that is wanted of an update. Who carries it out decides nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateAction {
    /// Ask the API server for this pod. Answered by `Fetched`.
    Fetch(PodRef),
    /// Ask the runtime how these instances were created. Answered by `Inspected`.
    Inspect {
        /// The pod.
        pod: PodUid,
        /// Instances to ask about.
        instances: Vec<InstanceQuestion>,
    },
    /// Have this image brought to the node for this pod, and kept there. No answer:
    /// [`super::NodeView::images`] shows it.
    WantImage {
        /// The pod.
        pod: PodUid,
        /// The image.
        image: Arc<str>,
        /// The kubelet is to try where it cannot be brought: that need not be tried for long here.
        leaves_pull: bool,
    },
    /// Nobody wants it for this pod any more. No answer.
    LetImageGo(PodUid, Arc<str>),
    /// Remove these exited instances. Answered by `Cleared`.
    Clear(PodUid, BTreeSet<ContainerId>),
    /// Stop these instances upstream, so that their hooks end. Answered by `Stopped`.
    Stop(PodUid, BTreeSet<ContainerId>),
    /// From now on create the containers of this pod with these env values. No answer; before any action that
    /// follows.
    SetEnv(PodUid, CreationEnv),
    /// Write to exactly this version of the pod. Answered by `Written`.
    Write {
        /// The pod.
        pod: PodRef,
        /// The version that it was decided on.
        version: u64,
        /// Content of the write.
        write: PodWrite,
    },
    /// Restart a container by the agent's own marks. No answer: the instances show it.
    Restart(Box<RecreateRequest>),
    /// A restart is not wanted any more, or is over. No answer.
    DropRestart(RequestId),
    /// All requests are known: these restarts are wanted and no others of an earlier process. No answer.
    AllKnown(Vec<RecreateRequest>),
    /// Write this status of the request. Answered by `Reported`.
    Report(Box<UpdateRequest>, Box<UpdateReport>),
    /// Count this request as ended well: the pod showed it, and it was taken away before that was written. No
    /// answer.
    Ended(Box<UpdateRequest>),
    /// Delete the request: it ended long enough ago. Answered by `Deleted`.
    Delete(Box<UpdateRequest>),
    /// Tell the users of this pod. Answered by `Told`.
    Tell(PodRef, Notice),
}

/// An instance to be asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceQuestion {
    /// Whose instance it is.
    pub container: ContainerName,
    /// The instance.
    pub instance: ContainerId,
    /// It has exited.
    pub exited: bool,
}

/// One write to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodWrite {
    /// Set the condition `InPlaceUpdateReady` False.
    Close,
    /// Set the condition `InPlaceUpdateReady` True, and say what has been carried out by then.
    Open(Option<CarriedOut>),
    /// Move a batch.
    Patch(Box<PodPatch>),
}

/// Agent's part of an update, which it has done: the rest is the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedOut {
    /// Revision that the pod has now.
    pub revision: String,
    /// Number of the try.
    pub attempt: i32,
    /// Restarts of each container of the pod with which it runs what is wanted.
    pub restarts: BTreeMap<ContainerName, u32>,
}
