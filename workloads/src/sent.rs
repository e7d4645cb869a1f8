//! Objects as lists and watches bring them.
//!
//! A list is read as one text, and the parser refuses a text that is nested deeper than 127 levels. Whoever
//! may write an object with a template can nest it so deep; then no page with it can be read, and the watch
//! of all objects of the kind begins anew for ever. So each object is read by itself, only so deep, and one
//! that makes no sense is set aside: its metadata are there, and it holds none of the others up.
//!
//! Managed fields are as deep as the object, anybody may write deeper ones, and nobody here reads them: they
//! are passed over.

use std::{borrow::Cow, fmt};

use kube::{Resource, api::ObjectMeta};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

/// Levels of any object that are read: the parser's, without those of a list and of a watch.
const LEVELS: usize = 110;

/// An object of a list or a watch.
pub(crate) trait Received: Resource + Clone + fmt::Debug + DeserializeOwned + Send + 'static {
    /// Its kind, as the API has it.
    type Object;

    /// The object; an error names it, and says why it is set aside.
    fn read(self) -> Result<Self::Object, String>;

    /// The reason why it is set aside.
    fn fault(&self) -> Option<&str> {
        None
    }
}

/// An object of a kind, or the metadata of one that nobody can read.
#[derive(Clone, Debug)]
pub(crate) enum Sent<K> {
    Read(K),
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
        let object = Part { levels: LEVELS, of: Of::Object }.deserialize(deserializer)?;
        let meta = object.get("metadata").map(ObjectMeta::deserialize);
        let meta = meta.and_then(Result::ok).unwrap_or_default();
        let read = shallow(&object, LEVELS)
            .and_then(|()| serde_json::from_value(object).map_err(|error| error.to_string()));
        Ok(match read {
            Ok(object) => Self::Read(object),
            Err(fault) => {
                let fault = format!("{}: {fault}", meta.name.as_deref().unwrap_or_default());
                Self::Aside(Box::new(meta), fault)
            }
        })
    }
}

/// Checks that an object is nested at most so many levels deep; an error names its field that is not.
pub(crate) fn shallow(object: &Value, levels: usize) -> Result<(), String> {
    let deeper = |value, above| {
        let below = levels.saturating_sub(above);
        fields(value).find(move |(_, value)| is_deeper(value, below))
    };
    let Some((part, value)) = deeper(object, 1) else { return Ok(()) };
    let field = deeper(value, 2).map(|(field, _)| format!(".{field}")).unwrap_or_default();
    Err(format!("{part}{field} is nested deeper than {levels} levels"))
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let below = levels.saturating_sub(1);
    match value {
        Value::Array(all) => levels == 0 || all.iter().any(|value| is_deeper(value, below)),
        Value::Object(all) => levels == 0 || all.values().any(|value| is_deeper(value, below)),
        _ => false,
    }
}

/// Part of an object that is read so many levels deep. A map or list below them is there, and empty.
#[derive(Clone, Copy)]
struct Part {
    levels: usize,
    of: Of,
}

#[derive(Clone, Copy)]
enum Of {
    Object,
    Metadata,
    Rest,
}

impl Part {
    /// The part below it; `None`: it is passed over.
    fn below(self, key: &str) -> Option<Self> {
        let of = match (self.of, key) {
            (Of::Metadata, "managedFields") => return None,
            (Of::Object, "metadata") => Of::Metadata,
            _ => Of::Rest,
        };
        Some(Self { levels: self.levels.saturating_sub(1), of })
    }
}

impl<'de> DeserializeSeed<'de> for Part {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        if self.levels == 0 {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(all.into());
        }
        let below = Self { levels: self.levels.saturating_sub(1), of: Of::Rest };
        while let Some(value) = seq.next_element_seed(below)? {
            all.push(value);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            match self.below(&key).filter(|_| self.levels > 0) {
                Some(below) => drop(all.insert(key, map.next_value_seed(below)?)),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(all.into())
    }
}

#[cfg(test)]
mod tests {
    use berth_proto::crd::CloneSet;
    use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
    use kube::{
        api::{DynamicObject, WatchEvent},
        core::{ObjectList, PartialObjectMeta},
    };
    use serde_json::json;

    use super::*;
    use crate::{object, served::nested};

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

    /// What is made of a template is nested deeper than its object.
    #[test]
    fn an_object_that_is_decided_on_leaves_room_for_its_revisions() {
        let of = |levels: usize| {
            let object = json!({
                "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": { "name": "a" },
                "spec": { "selector": {}, "template": { "spec": nested(levels) } },
            });
            object::read::<CloneSet>(sent::<DynamicObject>(&object).read().unwrap()).map(drop)
        };
        assert_eq!(of(97), Ok(()));
        assert_eq!(of(98), Err("a: spec.template is nested deeper than 100 levels".to_owned()));
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

    /// What the types of the client library make of a page and of an event.
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
