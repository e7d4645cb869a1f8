//! The workloads that own entries of this node's `NodePodUpdate`, each read by its name when a new entry
//! names it: an entry is carried out only if the template of its workload asks for it. The kinds differ by
//! their names alone: each has a pod template at the same place.
//!
//! berth-workloads writes the entries, and whoever steals its credential can. The template is its author's;
//! the agent reads it itself, and gives what it names to pods of this workload alone (the policy looks at the
//! controller of the pod). Of a CloneSet whose partition keeps pods from the template, what earlier templates
//! had counts, too, as far as admission has noted it on the set ([`template_history`]). The word on an entry
//! stands as long as the entry does.
//!
//! [`template_history`]: berth_proto::template_history

use std::sync::{Mutex, MutexGuard, PoisonError};

use berth_policy::in_place_update::{Failure, FailureReason};
use berth_proto::{
    crd::DesiredPod,
    template_history::{Part, TEMPLATE_HISTORY},
};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Map, Value};
use tracing::warn;

use super::{
    round_robin::RoundRobin,
    words::{REFUSALS, Words},
};
use crate::{
    base::causes::chain,
    cluster::client::{CallError, Connection},
};

/// Kinds of the owners: name, version, resource.
const KINDS: [(&str, &str, &str); 3] = [
    ("CloneSet", "v1alpha1", "clonesets"),
    ("DaemonSet", "v1alpha1", "daemonsets"),
    ("StatefulSet", "v1beta1", "statefulsets"),
];
/// Group of these kinds. Kubernetes has kinds of the same names in another one.
const GROUP: &str = "apps.kruise.io";
/// Label of a pod that says which revision it has.
pub(super) const REVISION_LABEL: &str = "controller-revision-hash";
/// Label of a CloneSet's pod: the hash of that revision alone, the end of its name.
const TEMPLATE_HASH_LABEL: &str = "pod-template-hash";
/// How many workloads are read in one go.
const READ: usize = 64;

/// The words on entries.
#[derive(Debug, Default)]
pub(super) struct Workloads(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    words: Words<Unasked>,
    turns: RoundRobin,
    refusals: u32,
}

type Word = Result<(), Unasked>;

/// Reason why an entry is not carried out. `Display` names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unasked {
    /// There is no such workload.
    #[error("there is no {0}")]
    Absent(String),
    /// Another one has the name.
    #[error("{0} is not the one of this entry: it was made anew")]
    Other(String),
    /// The agent may not read it.
    #[error("the agent may not read {0}, which have to ask for it: kubectl apply -k deploy/rbac")]
    Forbidden(&'static str),
    /// The workload does not name the image.
    #[error("the template of {set} does not name image {image} for container {container}")]
    Image {
        /// Kind, namespace and name of the workload.
        set: String,
        /// Name of the container.
        container: String,
        /// The image.
        image: String,
    },
    /// A swap of twins, which only a SidecarSet has.
    #[error("{set} asks for no swaps, and this entry has one of {name}")]
    Swap {
        /// Kind, namespace and name of the workload.
        set: String,
        /// Name of the sidecar.
        name: String,
    },
    /// A label or an annotation that the workload does not give pods.
    #[error("the template of {set} does not give pods {key} with this value")]
    Metadata {
        /// Kind, namespace and name of the workload.
        set: String,
        /// Key of the label or annotation.
        key: String,
    },
}

impl From<Unasked> for Failure {
    /// A workload that asks for something else is told from a request that no agent could carry out: its next
    /// entry is on its way, and no pod is to be made anew for the one that came too late.
    fn from(why: Unasked) -> Self {
        let reason = match why {
            Unasked::Absent(_) | Unasked::Other(_) | Unasked::Image { .. } | Unasked::Metadata { .. } => {
                FailureReason::NotAskedFor
            }
            Unasked::Swap { .. } | Unasked::Forbidden(_) => FailureReason::InvalidRequest,
        };
        Self { reason, message: why.to_string() }
    }
}

impl Workloads {
    /// The word on an entry; `None` before its workload was read.
    pub(super) fn word(&self, entry: &DesiredPod) -> Option<Word> {
        if owner(entry).is_none() {
            return Some(Ok(()));
        }
        self.state().words.on(entry)
    }

    /// Reads the workloads of these entries, and says its word on them. Those whose workload could not be
    /// read, and those that are too many for one go, stay without.
    pub(super) async fn judge(&self, connection: &Connection, entries: &[DesiredPod]) {
        let owners = entries.iter().filter_map(owner).map(|of| (of.to_string(), of));
        let due = self.state().turns.next(owners, READ);
        for (full_name, of) in due {
            self.state().turns.tried(&full_name);
            let Owner { kind, namespace, name } = of;
            let resource = resource(kind);
            let ask = async |client| {
                Api::<DynamicObject>::namespaced_with(client, namespace, &resource).get_opt(name).await
            };
            let read = match connection.ask(ask).await {
                Ok(Some(set)) => Ok(set),
                Ok(None) => Err(Unasked::Absent(full_name)),
                // One that comes up refuses, too, for a moment.
                Err(CallError::Refused { code: 403, .. }) if self.is_refused_again() => {
                    Err(Unasked::Forbidden(kind.2))
                }
                Err(error) => {
                    warn!(workload = %of, error = %chain(&error), "Workload not read, trying again");
                    continue;
                }
            };
            let mut state = self.state();
            if !matches!(read, Err(Unasked::Forbidden(_))) {
                state.refusals = 0;
            }
            for entry in entries.iter().filter(|entry| owner(entry) == Some(of)) {
                let word = read.as_ref().map_err(Clone::clone).and_then(|set| asks_for(set, entry));
                state.words.say(entry, word);
            }
        }
    }

    /// Forgets the words on entries that are not there any more.
    pub(super) fn keep(&self, entries: &[DesiredPod]) {
        self.state().words.keep(entries);
    }

    fn is_refused_again(&self) -> bool {
        let mut state = self.state();
        state.refusals = state.refusals.saturating_add(1);
        state.refusals >= REFUSALS
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Owner of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owner<'a> {
    kind: (&'static str, &'static str, &'static str),
    /// A workload's pods are in its own namespace.
    namespace: &'a str,
    name: &'a str,
}

impl std::fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.kind.0, self.namespace, self.name)
    }
}

/// Tells whether owners of this kind are workloads.
pub(super) fn is_kind(kind: &str) -> bool {
    KINDS.iter().any(|known| known.0 == kind)
}

/// UID of the workload that owns an entry.
pub(super) fn controller(entry: &DesiredPod) -> Option<&str> {
    owner(entry).map(|_| entry.owner_uid.as_str())
}

fn owner(entry: &DesiredPod) -> Option<Owner<'_>> {
    let (kind, name) = entry.owner.split_once('/')?;
    let kind = *KINDS.iter().find(|known| known.0 == kind)?;
    Some(Owner { kind, namespace: &entry.namespace, name })
}

fn resource((kind, version, plural): (&str, &str, &str)) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, version, kind), plural)
}

/// Checks that the template of the workload asks for all of this entry, or had it before where pods are kept
/// from it.
fn asks_for(set: &DynamicObject, entry: &DesiredPod) -> Word {
    let name = owner(entry).map(|owner| owner.to_string()).unwrap_or_default();
    if set.metadata.uid.as_ref() != Some(&entry.owner_uid) {
        return Err(Unasked::Other(name));
    }
    if let Some(swap) = entry.swaps.first() {
        return Err(Unasked::Swap { set: name, name: swap.name.clone() });
    }
    let none = Map::new();
    let template = set.data.get("spec").and_then(|spec| spec.get("template"));
    let template = template.and_then(Value::as_object).unwrap_or(&none);
    let history = if is_clone_set(entry) { history(set).unwrap_or_default() } else { "" };
    for container in &entry.containers {
        let had = Part::Image { container: &container.name, image: &container.image };
        if image(template, &container.name) != Some(&container.image) && !had.is_in(history) {
            let (container, image) = (container.name.clone(), container.image.clone());
            return Err(Unasked::Image { set: name, container, image });
        }
    }
    let given = |field: &str, key: &str, value: &str| {
        let all = template.get("metadata").and_then(|metadata| metadata.get(field));
        all.and_then(|all| all.get(key)).and_then(Value::as_str) == Some(value)
    };
    let is_own = |key: &str, value: &str| match key {
        REVISION_LABEL => true,
        TEMPLATE_HASH_LABEL => is_clone_set(entry) && entry.revision.rsplit('-').next() == Some(value),
        _ => false,
    };
    let label = entry.labels.iter().find(|(key, value)| {
        !is_own(key, value)
            && !given("labels", key, value)
            && !Part::Label { key: key.as_str(), value: value.as_str() }.is_in(history)
    });
    let annotation = entry.annotations.iter().find(|(key, value)| {
        !given("annotations", key, value)
            && !Part::Annotation { key: key.as_str(), value: value.as_str() }.is_in(history)
    });
    let others = entry.merge_annotations.iter().chain(&entry.default_annotations).next();
    match label.or(annotation).or(others) {
        Some((key, _)) => Err(Unasked::Metadata { set: name, key: key.clone() }),
        None => Ok(()),
    }
}

fn is_clone_set(entry: &DesiredPod) -> bool {
    owner(entry).is_some_and(|owner| owner.kind.0 == "CloneSet")
}

/// Parts of earlier templates that pods of the set may go back to, where its partition keeps any from the one
/// that it has: otherwise all are to have that one.
fn history(set: &DynamicObject) -> Option<&str> {
    let keeps = match set.data.get("spec")?.get("updateStrategy")?.get("partition")? {
        Value::Number(number) => number.as_i64().is_some_and(|number| number > 0),
        Value::String(share) => share.bytes().any(|digit| matches!(digit, b'1'..=b'9')),
        _ => false,
    };
    let noted = set.metadata.annotations.as_ref()?.get(TEMPLATE_HISTORY)?;
    keeps.then_some(noted.as_str())
}

/// Image of a container of a template.
fn image<'a>(template: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    let containers = template.get("spec")?.get("containers")?.as_array()?;
    let container = containers.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(name))?;
    container.get("image")?.as_str()
}

#[cfg(test)]
mod tests;
