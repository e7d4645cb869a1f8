//! ControllerRevisions as lists and watches bring them.
//!
//! They come of all owners: the StatefulSets and DaemonSets of Kubernetes have ten each, as large as their
//! templates, and JSON of many small maps takes up to a hundred times its text in memory. Of one that another
//! kind decides on the data are skipped by the parser, and never kept.

use std::{borrow::Cow, fmt};

use berth_base::{
    metadata::{Metadata, ReadAnnotations},
    sent::{Received, Sent, full_name},
};
use berth_proto::nested::{self, Reading};
use k8s_openapi::{
    NamespaceResourceScope, api::apps::v1::ControllerRevision, apimachinery::pkg::runtime::RawExtension,
};
use kube::{Resource, api::ObjectMeta};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value};

use crate::object::is_of_group;

/// A ControllerRevision, without its data where another kind decides on it.
#[derive(Clone, Debug)]
pub(crate) struct SentRevision(Sent<ControllerRevision>);

/// No annotation of one is read.
struct Annotations;

impl ReadAnnotations for Annotations {
    const KEYS: &'static [&'static str] = &[];
}

/// Fields of a ControllerRevision.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    Metadata,
    Data,
    Revision,
    #[serde(other)]
    Other,
}

/// Data as deep as any object is read.
struct Data(Reading);

struct Read;

impl Resource for SentRevision {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        ControllerRevision::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        ControllerRevision::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        ControllerRevision::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        ControllerRevision::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

impl Received for SentRevision {
    type Object = ControllerRevision;

    fn read(self) -> Result<ControllerRevision, String> {
        self.0.read()
    }

    fn fault(&self) -> Option<&str> {
        self.0.fault()
    }
}

impl<'de> Deserialize<'de> for SentRevision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Read)
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        nested::read_part(deserializer).map(Self)
    }
}

impl<'de> Visitor<'de> for Read {
    type Value = SentRevision;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a ControllerRevision")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<SentRevision, M::Error> {
        let (mut meta, mut data, mut revision) = (None::<ObjectMeta>, None, None);
        while let Some(field) = map.next_key()? {
            match field {
                Field::Metadata => meta = Some(map.next_value::<Metadata<Annotations>>()?.into()),
                // The API server sends metadata first; of any other order the data go when those are known.
                Field::Data if meta.as_ref().is_none_or(counts) => {
                    data = map.next_value::<Option<Data>>()?.map(|Data(data)| data);
                }
                Field::Revision => revision = map.next_value()?,
                Field::Data | Field::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let metadata = meta.unwrap_or_default();
        let data = data.filter(|_| counts(&metadata));
        Ok(SentRevision(read(metadata, data, revision.unwrap_or_default())))
    }
}

/// Takes in the parts of a revision. One that is too deep is set aside.
fn read(metadata: ObjectMeta, data: Option<Reading>, revision: i64) -> Sent<ControllerRevision> {
    let (mut object, mut is_cut) = (Map::new(), false);
    if let Some(data) = data {
        is_cut = data.is_cut;
        object.insert("data".to_owned(), data.value);
    }
    let mut object = Reading { value: Value::Object(object), is_cut };
    match nested::check(&object) {
        Ok(()) => {
            let data = object.value.get_mut("data").map(|data| RawExtension(data.take()));
            Sent::Read(ControllerRevision { metadata, data, revision })
        }
        Err(fault) => {
            let fault = format!("{}: {fault}", full_name(&metadata));
            Sent::Aside(Box::new(metadata), fault)
        }
    }
}

/// Tells whether a kind of OpenKruise decides on it, or nobody owns it: a set may adopt it.
fn counts(meta: &ObjectMeta) -> bool {
    meta.owner_references.as_ref().is_none_or(Vec::is_empty) || is_of_group(meta)
}

#[cfg(test)]
mod tests {
    use berth_workloads_policy::revision::Revision;
    use kube::{api::WatchEvent, core::ObjectList};
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::{
        served::nested,
        watch::{Revisions, Watched},
    };

    /// Text of a revision with these owners. Its data have a number that no parser takes which makes values
    /// of them.
    fn text(owners: &Value, data: &str) -> String {
        let meta = json!({
            "namespace": "ns", "name": "db-1", "uid": "u", "resourceVersion": "7", "ownerReferences": owners,
            "labels": { "app": "db" }, "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{ "manager": "m", "fieldsV1": { "f:data": nested(500) } }],
        });
        format!(r#"{{"metadata":{meta},"data":{data},"revision":3}}"#)
    }

    fn owner(api_version: &str, kind: &str, controller: bool) -> Value {
        json!({ "apiVersion": api_version, "kind": kind, "name": "db", "uid": "o", "controller": controller })
    }

    #[rstest]
    #[case::of_kubernetes(json!([owner("apps/v1", "StatefulSet", true)]), false)]
    #[case::of_a_kind_of_that_name(json!([owner("apps.kruise.io.example.com/v1", "CloneSet", true)]), false)]
    #[case::of_no_controller(json!([owner("apps.kruise.io/v1alpha1", "CloneSet", false)]), false)]
    #[case::of_a_set(json!([owner("apps.kruise.io/v1beta1", "StatefulSet", true)]), true)]
    #[case::of_nobody(json!([]), true)]
    #[case::of_nobody_at_all(Value::Null, true)]
    fn data_are_parsed_of_those_that_count_alone(#[case] owners: Value, #[case] counts: bool) {
        let endless = text(&owners, r#"{"spec":{"template":{"a":1e999}}}"#);
        assert_eq!(serde_json::from_str::<SentRevision>(&endless).is_err(), counts, "passed over");
        let sent: SentRevision =
            serde_json::from_str(&text(&owners, r#"{"spec":{"template":{"a":[{"b":1}]}}}"#)).unwrap();
        assert_eq!((sent.meta().uid.as_deref(), sent.fault()), (Some("u"), None));
        let object = sent.read().unwrap();
        let data = object.data.as_ref().map(|data| data.0.clone());
        assert_eq!(data, counts.then(|| json!({ "spec": { "template": { "a": [{ "b": 1 }] } } })));
        let view = Revisions::view(object);
        assert_eq!(view.as_ref().map(|view| view.number), counts.then_some(3));
        // In another order of the fields too.
        let turned = r#"{"data":{"spec":{"template":{}}},"metadata":"#.to_owned()
            + &json!({ "ownerReferences": owners }).to_string()
            + "}";
        let turned: SentRevision = serde_json::from_str(&turned).unwrap();
        assert_eq!(turned.read().unwrap().data.is_some(), counts);
    }

    /// All that is read of a revision is there, as the type of the API has it.
    #[test]
    fn a_revision_is_as_it_was_sent() {
        let owners = json!([owner("apps.kruise.io/v1alpha1", "CloneSet", true)]);
        let text = text(&owners, r#"{"spec":{"template":{"$patch":"replace","spec":{"x":1}}}}"#);
        let whole: Sent<ControllerRevision> = serde_json::from_str(&text).unwrap();
        let sent: SentRevision = serde_json::from_str(&text).unwrap();
        let (whole, sent) = (whole.read().unwrap(), sent.read().unwrap());
        assert!(Revision::of(&sent).is_some() && Revision::of(&sent) == Revision::of(&whole));
        assert_eq!(sent, whole);
    }

    /// One of them holds none of the others up, in a list and in an event.
    #[test]
    fn one_that_is_too_deep_is_set_aside() {
        let deep = json!({ "spec": { "template": nested(200) } }).to_string();
        let own = text(&json!([owner("apps.kruise.io/v1alpha1", "CloneSet", true)]), &deep);
        let other = text(&json!([owner("apps/v1", "DaemonSet", true)]), &deep);
        let list = format!(r#"{{"metadata":{{"resourceVersion":"7"}},"items":[{own},{other}]}}"#);
        let list: ObjectList<SentRevision> = serde_json::from_str(&list).unwrap();
        let faults: Vec<Option<&str>> = list.items.iter().map(Received::fault).collect();
        assert_eq!(faults, [Some("ns/db-1: data.spec is nested deeper than 110 levels"), None]);
        let event = format!(r#"{{"type":"ADDED","object":{own}}}"#);
        let event: WatchEvent<SentRevision> = serde_json::from_str(&event).unwrap();
        assert!(matches!(event, WatchEvent::Added(sent) if sent.fault().is_some()));
    }
}
