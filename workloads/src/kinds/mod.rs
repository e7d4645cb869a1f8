//! Kinds of workloads. What they have in common works for all of them; what each adds is in a file of its
//! own, and its line in [`KINDS`] is all that the rest knows of it.

mod clone_set;
mod daemon_set;
mod stateful_set;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
};

use berth_base::{ownership::SharedKind, sent::full_name};
use berth_workloads_policy::{
    adopt::Unadopted,
    agents::Agents,
    clone_set::{ClaimView, Settings},
    daemon_set::{Held, Rests},
    in_place::InPlaceState,
    plan::{self, Failures, NodeView, Nodes},
    pod::PodView,
    predownload::{Ahead, PullJobView},
    revision::Revision,
};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::object::{self, Filed, Object, is_of};

/// All kinds. A new one is a file and a line here.
pub(crate) const KINDS: [&Kind; 3] = [&clone_set::KIND, &daemon_set::KIND, &stateful_set::KIND];

/// Group of all of them. Kubernetes has kinds of the same names in another one.
const GROUP: &str = "apps.kruise.io";

/// Plan for an object of any kind.
pub(crate) type Plan = plan::Plan<Value>;
/// An object of any kind.
pub(crate) type Set = Arc<dyn Workload>;

/// A kind of workloads.
pub(crate) struct Kind {
    /// As objects name it.
    pub(crate) name: &'static str,
    /// Which one of those that OpenKruise has as well.
    pub(crate) shared: SharedKind,
    /// Version of the group.
    version: &'static str,
    /// Name of the resource.
    pub(crate) plural: &'static str,
    /// Ability of an agent that checks entries of the kind.
    pub(crate) feature: &'static str,
    /// Reads an object as it was shown.
    read: fn(DynamicObject) -> Result<Set, String>,
}

/// Object of a kind: what a kind adds.
pub(crate) trait Workload: Debug + Send + Sync {
    fn kind(&self) -> &'static Kind;

    fn meta(&self) -> &ObjectMeta;

    fn selector(&self) -> &LabelSelector;

    fn template(&self) -> &Map<String, Value>;

    /// Templates of claims that belong to it by their names, not by their owner.
    fn named_claims(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Tells whether it adopts pods and revisions of its name that nothing decides on.
    fn adopts(&self) -> bool {
        false
    }

    /// Tells whether a change of a node changes anything for it.
    fn minds(&self, _before: Option<&NodeView>, _after: Option<&NodeView>) -> bool {
        false
    }

    /// Decides on the next writes.
    fn plan(&self, known: &Known<'_>, now: Timestamp) -> Plan;
}

/// All that is known of an object beside itself.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) revisions: &'a [&'a Revision],
    pub(crate) pods: &'a [&'a PodView],
    pub(crate) claims: &'a [&'a ClaimView],
    /// Updates in place of its pods, by UID.
    pub(crate) in_place: &'a BTreeMap<String, InPlaceState>,
    pub(crate) nodes: &'a Nodes,
    /// Agents of the nodes, as they are for its kind.
    pub(crate) agents: Agents<'a>,
    /// ImagePullJobs that it owns.
    pub(crate) pull_jobs: &'a [&'a PullJobView],
    pub(crate) given: Given<'a>,
}

/// Rest that a plan depends on, beside the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a> {
    pub(crate) settings: Settings,
    pub(crate) failures: &'a Failures,
    /// Nodes on which its pods end again and again, or names of pods that do.
    pub(crate) rests: &'a Rests,
    /// Revisions of its nodes that keep what they have.
    pub(crate) held: &'a Held,
    pub(crate) collisions: i32,
    /// An ImagePullJob could not be made a moment ago.
    pub(crate) predownload_rests: bool,
    pub(crate) unadopted: &'a Unadopted,
    /// Pods and claims that could not be written to, and nodes and names of new pods that could not be made.
    pub(crate) put_off: &'a BTreeSet<String>,
    pub(crate) seed: u64,
}

impl<'a> Known<'a> {
    /// Pulls ahead of its updates.
    fn ahead(&self, on: bool) -> Ahead<'a> {
        Ahead { on, rests: self.given.predownload_rests, jobs: self.pull_jobs }
    }
}

impl Kind {
    /// Group and version, as objects name them.
    pub(crate) fn api_version(&self) -> String {
        format!("{GROUP}/{}", self.version)
    }

    /// Resource of the API.
    pub(crate) fn resource(&self) -> ApiResource {
        let kind = GroupVersionKind::gvk(GROUP, self.version, self.name);
        ApiResource::from_gvk_with_plural(&kind, self.plural)
    }

    /// Reads an object as it was shown.
    pub(crate) fn read(&self, object: DynamicObject) -> Result<Set, String> {
        (self.read)(object)
    }

    /// The same for the store, with the memory that it takes.
    pub(crate) fn file(&self, object: DynamicObject) -> Result<Filed<Set>, String> {
        let bytes = object::memory(&object);
        Ok(Filed::new(self.read(object)?).weighing(bytes))
    }
}

impl Debug for Kind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

impl Object for Set {
    fn meta(&self) -> &ObjectMeta {
        Workload::meta(&**self)
    }

    fn reference(&self) -> ObjectReference {
        let (kind, meta) = (self.kind(), Workload::meta(&**self));
        ObjectReference {
            api_version: Some(kind.api_version()),
            kind: Some(kind.name.to_owned()),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            ..ObjectReference::default()
        }
    }
}

impl dyn Workload + '_ {
    pub(crate) fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.meta().namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }

    /// Kind, namespace and name, for the log.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.kind().name, full_name(self.meta()))
    }

    /// Owner of its entries in the objects of nodes.
    pub(crate) fn entry_owner(&self) -> String {
        format!("{}/{}", self.kind().name, self.name())
    }

    /// Tells whether the claim belongs to it: by its name, whoever owns it, where it has templates of such
    /// claims, and by its owner otherwise.
    pub(crate) fn has_claim(&self, claim: &ClaimView) -> bool {
        let templates = self.named_claims();
        if templates.is_empty() {
            return claim.owner() == self.uid();
        }
        let of = |template: &&str| {
            let rest = claim.name.strip_prefix(*template)?.strip_prefix('-')?.strip_prefix(self.name())?;
            rest.strip_prefix('-').filter(|digits| is_number(digits))
        };
        claim.namespace == self.namespace() && templates.iter().any(|template| of(template).is_some())
    }
}

/// Reads an object of a kind.
fn read<W: Workload + DeserializeOwned + 'static>(object: DynamicObject) -> Result<Set, String> {
    object::read::<W>(object).map(|set| Arc::new(set) as Set)
}

/// Tells whether a workload of these kinds decides on the object.
pub(crate) fn is_decided(meta: &ObjectMeta) -> bool {
    KINDS.iter().any(|kind| is_of(kind.name, meta))
}

/// Tells whether an entry of a node's object is of one of these kinds.
pub(crate) fn is_entry(owner: &str) -> bool {
    owner.split_once('/').is_some_and(|(name, _)| KINDS.iter().any(|kind| kind.name == name))
}

/// Tells whether it is a number as pods and claims have it at the end of their names.
pub(crate) fn is_number(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Tells whether a name ends in such a number.
pub(crate) fn is_numbered(name: &str) -> bool {
    name.rsplit_once('-').is_some_and(|(_, digits)| is_number(digits))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_of_kubernetes_of_the_same_names_are_none_of_ours() {
        let meta = |api_version: &str, kind: &str, controller: bool| -> ObjectMeta {
            let owner = json!({
                "apiVersion": api_version, "kind": kind, "name": "a", "uid": "u", "controller": controller,
            });
            serde_json::from_value(json!({ "ownerReferences": [owner] })).unwrap()
        };
        for kind in KINDS {
            assert!(is_decided(&meta(&kind.api_version(), kind.name, true)), "{kind:?}");
            assert!(!is_decided(&meta(&kind.api_version(), kind.name, false)), "{kind:?}");
            assert!(!is_decided(&meta("apps/v1", kind.name, true)), "{kind:?}");
        }
        assert!(!is_decided(&meta("apps.kruise.io/v1alpha1", "UnitedDeployment", true)));
        assert!(is_entry("StatefulSet/db") && !is_entry("SidecarSet/mesh") && !is_entry(""));
    }

    #[test]
    fn an_object_that_cannot_be_read_says_which_and_why() {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "metadata": { "name": "db" },
            "spec": { "replicas": "three" },
        }))
        .unwrap();
        let error = stateful_set::KIND.read(object).unwrap_err();
        assert!(error.starts_with("db: ") && error.contains("three"), "{error}");
    }
}
