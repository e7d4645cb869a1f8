//! Metadata of objects, reduced while they are read. The rest, managed fields above all, is often the larger
//! half of an object: the parser passes it over, and it is never kept.

use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

/// Annotations that a program reads. Others are often kilobytes, what `kubectl apply` remembers above all.
pub trait ReadAnnotations {
    /// Their keys.
    const KEYS: &'static [&'static str];
}

/// Metadata with the annotations of `A`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "A: ReadAnnotations")]
pub struct Metadata<A> {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<Annotations<A>>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

struct Annotations<A>(BTreeMap<String, String>, PhantomData<A>);

struct Known<A>(PhantomData<A>);

impl<A> From<Metadata<A>> for ObjectMeta {
    fn from(read: Metadata<A>) -> Self {
        Self {
            name: read.name,
            namespace: read.namespace,
            uid: read.uid,
            resource_version: read.resource_version,
            generation: read.generation,
            creation_timestamp: read.creation_timestamp,
            deletion_timestamp: read.deletion_timestamp,
            deletion_grace_period_seconds: read.deletion_grace_period_seconds,
            labels: read.labels,
            annotations: read.annotations.map(|kept| kept.0).filter(|kept| !kept.is_empty()),
            finalizers: read.finalizers,
            owner_references: read.owner_references,
            ..Self::default()
        }
    }
}

impl<'de, A: ReadAnnotations> Deserialize<'de> for Annotations<A> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Known(PhantomData))
    }
}

impl<'de, A: ReadAnnotations> Visitor<'de> for Known<A> {
    type Value = Annotations<A>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("annotations")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Annotations(BTreeMap::new(), PhantomData))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut kept = BTreeMap::new();
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            if A::KEYS.contains(&&*key) {
                kept.insert(key.into_owned(), map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Annotations(kept, PhantomData))
    }
}
