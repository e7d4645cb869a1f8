//! Writes that a plan asks for, as values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Node of a pod that is for one node, and waits for the scheduler to see to it.
const TIED_TO: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0\
                       /matchFields/0";

/// An object that is written, as it was seen: one that has changed since refuses the write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Which one of that name.
    pub uid: String,
    /// The version that the write was decided on.
    pub version: String,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Makes a revision.
    CreateRevision(Value),
    /// Makes an old revision the newest one.
    RaiseRevision(Target, i64),
    /// Says on a revision whether its images are pulled ahead, by a JSON merge patch of its labels.
    MarkRevision(Target, Value),
    /// Deletes a revision that nothing needs.
    DeleteRevision(Target),
    /// Makes a claim; one that is there already is as good.
    CreateClaim(Value),
    /// Deletes a claim.
    DeleteClaim(Target),
    /// Changes metadata of a claim by a JSON merge patch.
    PatchClaim(Target, Value),
    /// Makes a pod, after its claims.
    CreatePod(Value),
    /// Deletes a pod.
    DeletePod(Target),
    /// Changes metadata of a pod by a JSON merge patch.
    PatchPod(Target, Value),
    /// Makes the set the owner that decides on a pod, by a JSON merge patch, if the set is still there.
    AdoptPod(Target, Value),
    /// The same of a revision.
    AdoptRevision(Target, Value),
    /// Changes conditions of a pod by a strategic merge patch of its status.
    PatchPodStatus(Target, Value),
    /// Tells the node of a pod to update it in place.
    UpdateInPlace(InPlaceUpdate),
    /// Takes that back, or forgets that it is over.
    ForgetInPlace {
        /// Node of the pod.
        node: String,
        /// UID of the pod.
        uid: String,
    },
    /// Makes an ImagePullJob, which pulls an image ahead of an update.
    CreatePullJob(Value),
    /// Deletes one that nothing needs.
    DeletePullJob(Target),
    /// Takes names out of `podsToDelete`; these stay.
    KeepPodsToDelete(Vec<String>),
}

impl Action {
    /// Tells whether there are more pods or fewer of them after it.
    pub fn is_about_number(&self) -> bool {
        matches!(self, Self::CreatePod(_) | Self::DeletePod(_))
    }

    /// UID of the one pod that it is about, if that is there already and the set's.
    pub fn pod(&self) -> Option<&str> {
        match self {
            Self::PatchPod(target, _) | Self::PatchPodStatus(target, _) | Self::DeletePod(target) => {
                Some(&target.uid)
            }
            Self::UpdateInPlace(update) => Some(&update.uid),
            Self::ForgetInPlace { uid, .. } => Some(uid),
            _ => None,
        }
    }

    /// Node whose entries it changes.
    pub fn entry_node(&self) -> Option<&str> {
        match self {
            Self::UpdateInPlace(update) => Some(&update.node),
            Self::ForgetInPlace { node, .. } => Some(node),
            _ => None,
        }
    }

    /// Tells whether it is about one of these pods.
    pub(crate) fn is_about(&self, pods: &BTreeSet<String>) -> bool {
        self.pod().is_some_and(|uid| pods.contains(uid))
    }

    /// Key of what it is about, the same in a later plan: the UID of a pod or of a claim that is there; of a
    /// new pod its node, or its name where that has a number and comes again, of a new claim its name. Any
    /// other name is new each time.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::PatchClaim(target, _) | Self::DeleteClaim(target) => Some(&target.uid),
            Self::CreateClaim(object) => object["metadata"]["name"].as_str(),
            Self::CreatePod(object) => {
                if let Some(field) = object.pointer(TIED_TO).filter(|field| field["key"] == "metadata.name") {
                    return field.pointer("/values/0").and_then(Value::as_str);
                }
                let name = object["metadata"]["name"].as_str()?;
                let (_, end) = name.rsplit_once('-')?;
                let is_number = !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
                is_number.then_some(name)
            }
            other => other.pod(),
        }
    }
}

/// An update of a pod that its node is to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPlaceUpdate {
    /// Node of the pod.
    pub node: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod.
    pub uid: String,
    /// Name of the revision that it gets.
    pub revision: String,
    /// Number of the try.
    pub attempt: i32,
    /// Generation of the set by which it was decided.
    pub generation: Option<i64>,
    /// New images, by container.
    pub images: BTreeMap<String, String>,
    /// Labels to set.
    pub labels: BTreeMap<String, String>,
    /// Annotations to set.
    pub annotations: BTreeMap<String, String>,
    /// Seconds out of service before the first change.
    pub grace_seconds: Option<i32>,
}

/// News to tell of an object, as an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// It is bad news.
    pub warning: bool,
    /// For programs.
    pub reason: &'static str,
    /// For people.
    pub text: String,
}
