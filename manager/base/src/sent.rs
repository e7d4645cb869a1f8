//! Objects as lists and watches bring them: each is read by itself, and one that is nested too deep or makes
//! no sense is set aside. Its metadata are there, and it holds none of the others up.

use std::{borrow::Cow, fmt};

use berth_proto::nested;
use kube::{Resource, api::ObjectMeta};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};

/// An object of a list or a watch.
pub trait Received: Resource + Clone + fmt::Debug + DeserializeOwned + Send + 'static {
    /// Its kind, as the API has it.
    type Object;
    /// Tells whether what is read of one is small, whatever its author writes. Of others each may take
    /// [`nested::MOST_MEMORY`], and they come in small pages.
    const IS_SMALL: bool = false;

    /// The object.
    ///
    /// # Errors
    /// The message names the object, and says why it is set aside.
    fn read(self) -> Result<Self::Object, String>;

    /// The reason why it is set aside.
    fn fault(&self) -> Option<&str> {
        None
    }
}

/// An object of a kind, or the metadata of one that nobody can read.
#[derive(Clone, Debug)]
pub enum Sent<K> {
    /// It was read.
    Read(K),
    /// Metadata, and why it is set aside.
    Aside(Box<ObjectMeta>, String),
}

impl<K> Received for Sent<K>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
{
    type Object = K;

    fn read(self) -> Result<K, String> {
        match self {
            Self::Read(object) => Ok(object),
            Self::Aside(_, fault) => Err(fault),
        }
    }

    fn fault(&self) -> Option<&str> {
        match self {
            Self::Read(_) => None,
            Self::Aside(_, fault) => Some(fault),
        }
    }
}

impl<K: Resource> Resource for Sent<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Read(object) => object.meta(),
            Self::Aside(meta, _) => meta,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Read(object) => object.meta_mut(),
            Self::Aside(meta, _) => meta,
        }
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Sent<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = nested::read(deserializer)?;
        let meta = object.value.get("metadata").map(ObjectMeta::deserialize);
        let meta = meta.and_then(Result::ok).unwrap_or_default();
        let read = nested::check(&object)
            .and_then(|()| serde_json::from_value(object.value).map_err(|error| error.to_string()));
        Ok(match read {
            Ok(object) => Self::Read(object),
            Err(fault) => {
                let fault = format!("{}: {fault}", full_name(&meta));
                Self::Aside(Box::new(meta), fault)
            }
        })
    }
}

/// Namespace and name of an object, as a person looks for it; the name alone of one of the whole cluster.
pub fn full_name(meta: &ObjectMeta) -> String {
    let name = meta.name.as_deref().unwrap_or_default();
    meta.namespace.as_deref().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
    use kube::{
        api::{DynamicObject, WatchEvent},
        core::{ObjectList, PartialObjectMeta},
    };
    use serde_json::{Value, json};

    use super::*;

    /// Lists in lists.
    fn nested(levels: usize) -> Value {
        (0..levels).fold(Value::Null, |inner, _| json!([inner]))
    }

    fn sent<K: DeserializeOwned>(object: &Value) -> Sent<K> {
        serde_json::from_str(&object.to_string()).unwrap()
    }

    #[test]
    fn an_object_that_is_too_deep_says_where() {
        // Levels of lists below a field of the part.
        let of = |part: &str, levels: usize| json!({ "metadata": { "name": "a", "uid": "u" }, part: { "field": nested(levels) } });
        let table = [
            (of("data", 108), Ok(())),
            (of("data", 109), Err("a: data.field is nested deeper than 110 levels".to_owned())),
            (of("spec", 500), Err("a: spec.field is nested deeper than 110 levels".to_owned())),
            (
                json!({ "metadata": { "name": "b" }, "x": nested(200) }),
                Err("b: x is nested deeper than 110 levels".to_owned()),
            ),
        ];
        for (object, expected) in table {
            let sent: Sent<DynamicObject> = sent(&object);
            assert_eq!(sent.meta().name.as_deref(), object["metadata"]["name"].as_str());
            assert_eq!(sent.fault().map(str::to_owned), expected.clone().err());
            assert_eq!(sent.read().map(drop), expected);
        }
    }

    #[test]
    fn no_depth_is_too_much() {
        let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
        let text = format!(r#"{{"metadata":{{"name":"a"}},"spec":{open}{close},"status":{{}}}}"#);
        let sent: Sent<DynamicObject> = serde_json::from_str(&text).unwrap();
        assert_eq!(sent.fault(), Some("a: spec is nested deeper than 110 levels"));
    }

    /// Without name and version a watch would begin anew with each event of it, and say nobody's name.
    #[test]
    fn an_object_with_too_many_labels_says_its_name_and_version() {
        let labels: Value = (0..70_000).map(|at| (format!("{at:05}"), json!("x"))).collect();
        let text = format!(
            r#"{{"metadata":{{"labels":{labels},"name":"a","namespace":"n","resourceVersion":"7","uid":"u"}}}}"#
        );
        let sent: Sent<ConfigMap> = serde_json::from_str(&text).unwrap();
        let fault = sent.fault().unwrap();
        assert!(fault.starts_with(&format!("n/a: {}", nested::TOO_LARGE)), "{fault}");
        let ObjectMeta { name, namespace, resource_version, uid, .. } = sent.meta();
        let identity = [name, namespace, resource_version, uid].map(Option::as_deref);
        assert_eq!(identity, ["a", "n", "7", "u"].map(Some));
    }

    #[test]
    fn managed_fields_are_passed_over_however_deep() {
        let object = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "namespace": "ns", "name": "a", "uid": "u", "labels": { "b": "c" }, "generation": 3,
                "managedFields": [{ "manager": "m", "fieldsV1": { "f:spec": nested(500) } }],
            },
            "spec": { "volumeName": "v" },
        });
        let claim = sent::<PersistentVolumeClaim>(&object).read().unwrap();
        assert_eq!((claim.metadata.managed_fields, claim.metadata.generation), (None, Some(3)));
        assert_eq!(claim.spec.unwrap().volume_name.as_deref(), Some("v"));
        let meta = sent::<PartialObjectMeta<ConfigMap>>(&object).read().unwrap();
        assert_eq!(meta.metadata.labels.unwrap()["b"], "c");
    }

    /// The client library's types read a page and an event so.
    #[test]
    fn an_object_that_is_too_deep_is_read_in_a_list_and_in_an_event() {
        let object =
            |name: &str, levels| json!({ "metadata": { "name": name }, "spec": { "a": nested(levels) } });
        let list = json!({
            "apiVersion": "v1", "kind": "List", "metadata": { "resourceVersion": "7" },
            "items": [object("a", 108), object("b", 500), object("c", 1)],
        });
        let list: ObjectList<Sent<DynamicObject>> = serde_json::from_str(&list.to_string()).unwrap();
        let read: Vec<bool> = list.items.iter().map(|sent| sent.fault().is_none()).collect();
        assert_eq!((read, list.metadata.resource_version.as_deref()), (vec![true, false, true], Some("7")));
        let event = format!(r#"{{"type":"MODIFIED","object":{}}}"#, object("b", 500));
        let event: WatchEvent<Sent<DynamicObject>> = serde_json::from_str(&event).unwrap();
        assert!(matches!(event, WatchEvent::Modified(sent) if sent.fault().is_some()));
    }
}
