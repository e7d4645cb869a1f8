//! Objects that controllers decide on, of any kind: how they are read, named and kept.

use std::sync::Arc;

use berth_base::sent::full_name;
use berth_proto::{
    nested::{self, shallow},
    size,
};
use berth_workloads_policy::store::{Stored, version};
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{
    Resource,
    api::{DynamicObject, ObjectMeta},
};
use serde::de::DeserializeOwned;

/// Levels of an object that is decided on: some less than of any other one, for what is made of its template
/// is nested deeper.
const LEVELS: usize = 100;

/// An object that a controller decides on.
pub(crate) trait Object {
    fn meta(&self) -> &ObjectMeta;

    /// Names it in an Event.
    fn reference(&self) -> ObjectReference;

    fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.meta().namespace.as_deref().unwrap_or_default()
    }

    /// Kind, namespace and name, for the log.
    fn title(&self) -> String {
        format!("{} {}", self.reference().kind.unwrap_or_default(), full_name(self.meta()))
    }

    fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }
}

impl<K: Resource<DynamicType = ()>> Object for Arc<K> {
    fn meta(&self) -> &ObjectMeta {
        Resource::meta(&**self)
    }

    fn reference(&self) -> ObjectReference {
        let resource_version = Resource::meta(&**self).resource_version.clone();
        ObjectReference { resource_version, ..self.object_ref(&()) }
    }
}

/// An object, for the store.
#[derive(Clone, Debug)]
pub(crate) struct Filed<T> {
    uid: String,
    version: u64,
    /// Bytes that it takes in memory, about, where somebody counts them.
    pub(crate) bytes: usize,
    /// Nothing is known of it but what tells it from others and says how far it is: there is no room.
    pub(crate) is_bare: bool,
    pub(crate) object: T,
}

impl<T: Object> Filed<T> {
    pub(crate) fn new(object: T) -> Self {
        let (uid, version) = (object.uid().to_owned(), version(version_of(&object)));
        Self { uid, version, bytes: 0, is_bare: false, object }
    }

    /// The same, with the bytes that it takes.
    pub(crate) fn weighing(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }
}

/// An object that can be kept with less of it.
pub(crate) trait Bare {
    /// The same without its spec.
    fn bare(&self) -> Self;
}

impl<T: Bare> Filed<T> {
    /// The same with less of it. It is older than any other version.
    pub(crate) fn bare(self) -> Self {
        Self { version: 0, bytes: 0, is_bare: true, object: self.object.bare(), uid: self.uid }
    }
}

impl<K: Resource<DynamicType = ()> + DeserializeOwned> Filed<Arc<K>> {
    /// Reads an object as it was shown.
    pub(crate) fn read(object: DynamicObject) -> Result<Self, String> {
        let bytes = memory(&object);
        Ok(Self::new(Arc::new(read(object)?)).weighing(bytes))
    }
}

impl<T> Stored for Filed<T> {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> u64 {
        self.version
    }
}

/// Version of an object on which a plan ended in a panic. Another one would, so it is left alone until it
/// changes.
#[derive(Debug, Default)]
pub(crate) struct Aside(Option<String>);

impl Aside {
    /// Sets an object aside as it is now.
    pub(crate) fn set(&mut self, object: &impl Object) {
        self.0 = Some(version_of(object).to_owned());
    }

    /// Tells whether an object is set aside as it is now.
    pub(crate) fn has(&mut self, object: &impl Object) -> bool {
        if self.0.as_deref() != Some(version_of(object)) {
            self.0 = None;
        }
        self.0.is_some()
    }
}

fn version_of(object: &impl Object) -> &str {
    object.meta().resource_version.as_deref().unwrap_or_default()
}

/// Reads an object as it was shown; an error names it. One that is too deep is set aside: nobody could read
/// the revisions that are made of its template.
pub(crate) fn read<K: DeserializeOwned>(object: DynamicObject) -> Result<K, String> {
    let name = full_name(&object.metadata);
    let read = serde_json::to_value(object).map_err(|error| error.to_string()).and_then(|object| {
        shallow(&object, LEVELS)?;
        serde_json::from_value(object).map_err(|error| error.to_string())
    });
    read.map_err(|error| format!("{name}: {error}"))
}

/// Bytes that an object takes in memory, about.
pub(crate) fn memory(object: &DynamicObject) -> usize {
    nested::memory(&object.data).saturating_add(size::memory(&object.metadata))
}

/// Tells whether an object of this kind of OpenKruise decides on the given one. Kubernetes has kinds of the
/// same names in another group.
pub(crate) fn is_of(kind: &str, meta: &ObjectMeta) -> bool {
    controllers(meta).any(|owner| owner.kind == kind)
}

/// Tells whether an object of any kind of OpenKruise decides on the given one.
pub(crate) fn is_of_group(meta: &ObjectMeta) -> bool {
    controllers(meta).next().is_some()
}

/// Owners of that group that decide.
fn controllers(meta: &ObjectMeta) -> impl Iterator<Item = &OwnerReference> {
    let decides = |owner: &&OwnerReference| {
        owner.controller == Some(true) && owner.api_version.starts_with("apps.kruise.io/")
    };
    meta.owner_references.iter().flatten().filter(decides)
}

#[cfg(test)]
mod tests {
    use berth_base::sent::{Received, Sent};
    use berth_proto::crd::CloneSet;
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::*;
    use crate::served::nested;

    #[test]
    fn an_object_is_set_aside_until_it_changes() {
        let at = |version: &str| {
            let mut node = Node::default();
            node.metadata.resource_version = Some(version.to_owned());
            Arc::new(node)
        };
        let mut aside = Aside::default();
        assert!(!aside.has(&at("1")));
        aside.set(&at("1"));
        assert!(aside.has(&at("1")) && aside.has(&at("1")));
        assert!(!aside.has(&at("2")) && !aside.has(&at("1")));
    }

    #[test]
    fn only_what_an_object_of_the_kind_decides_on_counts() {
        let meta = |api_version: &str, kind: &str, controller: bool| -> ObjectMeta {
            let owner = json!({
                "apiVersion": api_version, "kind": kind, "name": "a", "uid": "u", "controller": controller,
            });
            serde_json::from_value(json!({ "ownerReferences": [owner] })).unwrap()
        };
        let (kruise, kind) = ("apps.kruise.io/v1alpha1", "UnitedDeployment");
        assert!(is_of(kind, &meta(kruise, kind, true)));
        for (api_version, other, controller) in
            [(kruise, kind, false), ("example.com/v1", kind, true), (kruise, "CloneSet", true)]
        {
            assert!(
                !is_of(kind, &meta(api_version, other, controller)),
                "{api_version} {other} {controller}"
            );
        }
        assert!(!is_of(kind, &ObjectMeta::default()));
    }

    /// A revision of a template is nested deeper than its object.
    #[test]
    fn an_object_that_is_decided_on_leaves_room_for_its_revisions() {
        let of = |levels: usize| {
            let object = json!({
                "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": { "name": "a" },
                "spec": { "selector": {}, "template": { "spec": nested(levels) } },
            });
            let object: Sent<DynamicObject> = serde_json::from_str(&object.to_string()).unwrap();
            read::<CloneSet>(object.read().unwrap()).map(drop)
        };
        assert_eq!(of(97), Ok(()));
        assert_eq!(of(98), Err("a: spec.template is nested deeper than 100 levels".to_owned()));
    }
}
