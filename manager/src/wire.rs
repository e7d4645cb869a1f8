//! The watched kinds as the API server sends them, reduced while they are read.
//!
//! A pod is some kilobytes of JSON of which a hundred bytes count here, and a list brings thousands at once:
//! what is not named below is skipped by the parser and never kept. Nodes are asked for as metadata only.

mod annotations;
mod budgets;
mod images;
mod pod_states;
mod pods;
mod probes;
mod requests;
mod sidecars;
mod sidecarsets;
mod spreads;

use std::{borrow::Cow, fmt::Debug, marker::PhantomData};

use berth_base::{line_pace::SharedPace, metadata::Metadata, ownership::SharedKind};
use berth_proto::{
    nested::{self, Reading},
    quoting::unquoted,
};
use k8s_openapi::{
    ClusterResourceScope,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::Resource;
use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::IgnoredAny};
use serde_json::Value;
use tracing::warn;

use self::annotations::Annotations;
pub use self::{
    budgets::Budgets,
    images::{Jobs, NodeImages},
    pod_states::{AdvancedSets, PodStates, StatefulSets},
    pods::Pods,
    probes::{Markers, NodeProbes},
    requests::{Requests, Updates},
    sidecarsets::{Namespaces, NodeUpdates, SidecarSets},
    spreads::Spreads,
};
use crate::{
    size,
    store::{CustomSeen, Kind, NodeSeen, Object, Owner, POD_UID, Weight},
};

/// A kind that can be watched trimmed.
pub trait Watchable: Clone + Debug + Send + Sync + 'static {
    /// Which one.
    const KIND: Kind;
    /// Which one of those that OpenKruise has as well it is, or goes with.
    const SHARED: Option<SharedKind> = None;
    /// Its API group, empty for the core.
    const GROUP: &str;
    /// Its version.
    const VERSION: &str;
    /// Its name, as in `kind:`.
    const NAME: &str;
    /// Its plural name.
    const PLURAL: &str = Self::KIND.name();
    /// Only metadata are read, so only metadata are asked for.
    const METADATA_ONLY: bool;
    /// Objects may be as large as their authors like, so few of them come at once.
    const IS_LARGE: bool = false;
    /// With namespaces or without.
    type Scope;
    /// Part of `spec` that is read.
    type Spec: DeserializeOwned;
    /// Part of `status` that is read.
    type Status: DeserializeOwned;

    /// The object for the index.
    fn object(meta: &ObjectMeta, spec: Option<Self::Spec>, status: Option<Self::Status>) -> Object;
}

/// An object of a watched kind.
#[derive(Clone, Debug)]
pub struct Watched<W> {
    meta: ObjectMeta,
    object: Object,
    kind: PhantomData<W>,
}

impl<W> Watched<W> {
    /// Returns the object that the index is told of.
    pub fn into_object(self) -> Object {
        self.object
    }
}

impl<W: Watchable> Resource for Watched<W> {
    type DynamicType = ();
    type Scope = W::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        W::NAME.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        W::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        W::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        W::PLURAL.into()
    }

    fn metadata_api() -> bool {
        W::METADATA_ONLY
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

impl<'de, W: Watchable> Deserialize<'de> for Watched<W> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Envelope { metadata, spec, status } = Envelope::<W::Spec, W::Status>::deserialize(deserializer)?;
        let mut meta = ObjectMeta::from(metadata);
        let object = W::object(&meta, spec, status);
        // The object has what counts of these: a page of objects with very many labels is as any other then.
        (meta.labels, meta.annotations) = (None, None);
        (meta.owner_references, meta.finalizers) = (None, None);
        Ok(Self { meta, object, kind: PhantomData })
    }
}

/// Spec or status of a custom kind. What is nested too deep, or makes no sense, is set aside by itself: a
/// definition from before the bounds lets in more, and some kinds have parts of free form.
#[derive(Clone, Debug, Default)]
pub struct FreeForm(Reading);

impl<'de> Deserialize<'de> for FreeForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        nested::read_part(deserializer).map(Self)
    }
}

impl FreeForm {
    /// Types a spec, if it is none that is deeper or larger than anybody means.
    fn spec<T: DeserializeOwned>(self) -> Result<T, String> {
        // A beginning of it is larger than a spec may be.
        let Self(Reading { value, .. }) = self;
        nested::shallow(&value, nested::PART_LEVELS)?;
        let bytes = size::bytes(&value);
        if bytes > MOST_SPEC {
            return Err(format!("it has {bytes} bytes, and at most {MOST_SPEC} are read; make it smaller"));
        }
        nested::fits(&value, MOST_SPEC_MEMORY)?;
        read(value)
    }

    /// Types a status, if it is as any object that is read: controllers write it, and it grows with the pods.
    fn status<T: DeserializeOwned>(self) -> Result<T, String> {
        nested::shallow(&self.0.value, nested::PART_LEVELS)?;
        self.0.whole()?;
        read(self.0.value)
    }
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: DeserializeOwned, T: DeserializeOwned"))]
struct Envelope<S, T> {
    metadata: Metadata<Annotations>,
    spec: Option<S>,
    status: Option<T>,
}

/// Nodes.
#[derive(Clone, Debug)]
pub struct Nodes;

impl Watchable for Nodes {
    const KIND: Kind = Kind::Node;
    const GROUP: &str = "";
    const VERSION: &str = "v1";
    const NAME: &str = "Node";
    const METADATA_ONLY: bool = true;
    type Scope = ClusterResourceScope;
    type Spec = IgnoredAny;
    type Status = IgnoredAny;

    fn object(meta: &ObjectMeta, _: Option<IgnoredAny>, _: Option<IgnoredAny>) -> Object {
        Object::Node(NodeSeen {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            labels: meta.labels.clone().unwrap_or_default(),
        })
    }
}

/// The largest spec that is looked at. A definition from before the bounds lets in more, and what is kept of
/// it is kept for as long as the object lives.
const MOST_SPEC: usize = 512 << 10;
/// The most memory that it may take.
const MOST_SPEC_MEMORY: usize = 4 << 20;
/// The longest name of an object, of its revision, or of a container.
const LONGEST_NAME: usize = 253;
/// The longest part by which an object names its owner: a group, a slash and a version.
const LONGEST_OWNED: usize = 317;
/// The most entries of a node's object that are looked at.
const MOST_ENTRIES: usize = 4096;

/// An object of a custom kind.
fn custom<S, T>(meta: &ObjectMeta, spec: Option<FreeForm>, status: Option<FreeForm>) -> CustomSeen<S, T>
where
    S: DeserializeOwned,
    T: DeserializeOwned + Default,
{
    let (spec, spec_weight) = weighed(spec.unwrap_or_default(), FreeForm::spec);
    let status = status.map(|status| weighed(status, FreeForm::status));
    let (status, status_weight) = status.unwrap_or_else(|| (Ok(T::default()), Weight::default()));
    CustomSeen {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        generation: meta.generation,
        created: meta.creation_timestamp.as_ref().map(|time| time.0),
        deleting: meta.deletion_timestamp.is_some(),
        annotations: meta.annotations.clone().unwrap_or_default(),
        pod_uid: meta.labels.as_ref().and_then(|labels| labels.get(POD_UID)).cloned(),
        spec,
        status,
        spec_weight,
        status_weight,
        is_aside: false,
    }
}

/// Reads a part of an object; with its size. Of one that cannot be read the reason is kept, and some reasons
/// quote it.
fn weighed<P>(
    part: FreeForm,
    read: impl FnOnce(FreeForm) -> Result<P, String>,
) -> (Result<P, String>, Weight) {
    let value = &part.0.value;
    let weight = Weight { memory: nested::memory(value), text: size::bytes(value) };
    let read = read(part);
    let weight = match &read {
        Ok(_) => weight,
        Err(reason) => Weight { memory: reason.len(), text: reason.len() },
    };
    (read, weight)
}

/// Controller of an object. Its parts have no bound of their own, and one with a part that is longer than any
/// name is none.
fn owner(meta: &ObjectMeta) -> Option<Owner> {
    let owner = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let OwnerReference { api_version, kind, name, uid, .. } = owner.clone();
    if [&api_version, &kind, &name, &uid].iter().any(|part| part.len() > LONGEST_OWNED) {
        return None;
    }
    Some(Owner { api_version, kind, name, uid })
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// Pace of the lines about entries of objects of nodes that make no sense: each version of one has them.
static ASIDE: SharedPace = SharedPace::new();

/// Keeps the values of a list that make sense here.
fn readable<T: DeserializeOwned>(meta: &ObjectMeta, list: &str, values: Option<Vec<Value>>) -> Vec<T> {
    parted(meta, list, values).0
}

/// Parts the values of a list that make sense here from those that do not, and tells of these.
fn parted<T: DeserializeOwned>(
    meta: &ObjectMeta,
    list: &str,
    values: Option<Vec<Value>>,
) -> (Vec<T>, Vec<Value>) {
    let (mut readable, mut others) = (Vec::new(), Vec::new());
    for value in values.unwrap_or_default().into_iter().take(MOST_ENTRIES) {
        let error = match T::deserialize(&value) {
            Ok(one) => {
                readable.push(one);
                continue;
            }
            Err(error) => unquoted(&error.to_string()),
        };
        if let Some(left_out) = ASIDE.take() {
            warn!(
                node = meta.name.as_deref(),
                list,
                error,
                left_out,
                "Entry of an object of a node not understood: a newer program has written it, upgrade this one"
            );
        }
        others.push(value);
    }
    (readable, others)
}

#[cfg(test)]
mod tests;
