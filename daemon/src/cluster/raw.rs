//! Objects as the API server sends them, typed once they are here.
//!
//! The client and its watch are code that is made anew for each type they read, and a reader of a type for
//! each form that it may come in. So they read one type, a tree of plain values, and each object is typed
//! from that. One that is nested too deep, or is not as its kind should be, holds no other one up. Of one
//! that takes too much memory the metadata are kept and nothing else: a list may have many of them.

use std::borrow::Cow;

use berth_proto::{
    nested::{self, Reading},
    quoting::unquoted,
};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, ObjectMeta},
    core::DynamicResourceScope,
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error},
};
use serde_json::Value;

/// An object of any kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Raw {
    /// As much as the client asks for: its version.
    meta: ObjectMeta,
    object: Reading,
}

/// An object that is not as its kind should be. The message has no value of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Untyped(String);

impl Untyped {
    /// An object that is as its kind should be, and is not read for another reason.
    pub(crate) fn because(why: String) -> Self {
        Self(why)
    }
}

/// The objects of a kind, of the whole cluster.
pub(crate) fn all<K: Resource<DynamicType = ()>>(client: Client) -> Api<Raw> {
    Api::all_with(client, &ApiResource::erase::<K>(&()))
}

/// The objects of a kind in a namespace.
pub(crate) fn namespaced<K: Resource<DynamicType = ()>>(client: Client, namespace: &str) -> Api<Raw> {
    Api::namespaced_with(client, namespace, &ApiResource::erase::<K>(&()))
}

/// Types what was answered.
///
/// # Errors
/// It is no such object.
pub(crate) fn typed<K: DeserializeOwned>(object: Raw) -> kube::Result<K> {
    object.typed().map_err(|error| kube::Error::SerdeError(serde_json::Error::custom(error)))
}

impl Raw {
    /// Types the whole of it.
    pub(crate) fn typed<K: DeserializeOwned>(self) -> Result<K, Untyped> {
        nested::check(&self.object).map_err(Untyped)?;
        serde_json::from_value(self.object.value).map_err(|error| Untyped(unquoted(&error.to_string())))
    }

    /// Checks that its parts are whole.
    ///
    /// # Errors
    /// It takes too much memory or is nested too deep, so some of it is missing.
    pub(crate) fn whole(&self) -> Result<(), String> {
        nested::check(&self.object)
    }

    /// A text of its metadata; empty where there is none.
    pub(crate) fn of_metadata(&self, key: &str) -> &str {
        self.object.value["metadata"][key].as_str().unwrap_or_default()
    }

    /// A part of it, which is null where there is none.
    pub(crate) fn take(&mut self, part: &str) -> Value {
        self.object.value.get_mut(part).map(Value::take).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut object = nested::read(from)?;
        if let (true, Value::Object(parts)) = (object.is_cut, &mut object.value) {
            parts.retain(|part, _| part == "metadata");
        }
        let version = object.value.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        let resource_version = version.map(str::to_owned);
        Ok(Self { meta: ObjectMeta { resource_version, ..ObjectMeta::default() }, object })
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.object.value.serialize(to)
    }
}

impl Resource for Raw {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(kind: &ApiResource) -> Cow<'_, str> {
        kind.kind.as_str().into()
    }

    fn group(kind: &ApiResource) -> Cow<'_, str> {
        kind.group.as_str().into()
    }

    fn version(kind: &ApiResource) -> Cow<'_, str> {
        kind.version.as_str().into()
    }

    fn api_version(kind: &ApiResource) -> Cow<'_, str> {
        kind.api_version.as_str().into()
    }

    fn plural(kind: &ApiResource) -> Cow<'_, str> {
        kind.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    #[test]
    fn an_object_is_typed_and_one_that_is_wrong_is_told_without_its_values() {
        let read = |text: &str| serde_json::from_str::<Raw>(text).unwrap();
        let raw =
            read(r#"{"metadata": {"name": "web", "resourceVersion": "7"}, "spec": {"containers": []}}"#);
        assert_eq!(raw.meta().resource_version.as_deref(), Some("7"));
        let pod: Pod = raw.typed().unwrap();
        assert_eq!(pod.metadata.name.as_deref(), Some("web"));
        let error = read(r#"{"metadata": {"name": {"a": "hunter2"}}}"#).typed::<Pod>().unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
        let error = read(r#"{"spec": "hunter2"}"#).typed::<Pod>().unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    /// Managed fields may be nested by anybody who may write the object.
    #[test]
    fn an_object_that_is_nested_too_deep_is_untyped_alone() {
        let deep = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let text = format!(
            r#"[{{"metadata": {{"name": "a", "managedFields": [{{"fieldsV1": {}}}]}}}}, {{"spec": {{"a": {}}}}}, {{}}]"#,
            deep(500),
            deep(500)
        );
        let read: Vec<Raw> = serde_json::from_str(&text).unwrap();
        let typed: Vec<Result<Pod, _>> = read.into_iter().map(Raw::typed).collect();
        assert_eq!(typed[0].as_ref().unwrap().metadata.name.as_deref(), Some("a"));
        let error = typed[1].as_ref().unwrap_err().to_string();
        assert_eq!(error, "spec.a is nested deeper than 110 levels");
        assert!(typed[2].is_ok());
    }

    #[test]
    fn of_an_object_that_takes_too_much_memory_the_metadata_are_there() {
        let of = |env: usize| {
            let env = vec![r#"{"name":"A"}"#; env].join(",");
            let text = format!(r#"{{"kind":"Pod","metadata":{{"name":"web"}},"spec":{{"env":[{env}]}}}}"#);
            serde_json::from_str::<Raw>(&text).unwrap()
        };
        let (mut small, mut large) = (of(100), of(20_000));
        assert_eq!((small.of_metadata("name"), large.of_metadata("name")), ("web", "web"));
        assert_eq!(small.of_metadata("uid"), "");
        assert!(small.whole().is_ok() && large.whole().is_err());
        assert_eq!(small.take("spec")["env"].as_array().map(Vec::len), Some(100));
        assert_eq!(large.take("spec"), Value::Null);
        let error = large.typed::<Pod>().unwrap_err().to_string();
        assert!(error.contains("fewer lists and maps"), "{error}");
    }

    #[test]
    fn parts_of_an_object() {
        let mut raw: Raw = serde_json::from_str(r#"{"spec": {"a": 1}}"#).unwrap();
        assert_eq!(raw.take("spec"), serde_json::json!({ "a": 1 }));
        assert_eq!((raw.take("spec"), raw.take("status")), (Value::Null, Value::Null));
    }
}
