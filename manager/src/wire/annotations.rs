//! Annotations that are read. Others are often kilobytes, what `kubectl apply` remembers above all; they are
//! passed over by the parser.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use berth_sidecarset::names;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

/// Images that the containers had before an upgrade; a JSON object by set.
pub(super) const STATE: &str = "kruise.io/sidecarset-inplace-update-state";

/// Images that the containers had before an update in place; a JSON object.
pub(super) const UPDATE_STATE: &str = "apps.kruise.io/inplace-update-state";

/// Keys that are kept.
const KEYS: [&str; 14] = [
    names::HASH,
    names::HASH_WITHOUT_IMAGE,
    names::INJECTED_LIST,
    names::WORKING,
    names::CANARY,
    names::CANARY_BASE,
    names::MIGRATION_SECONDS,
    names::MIRROR,
    names::REFRESH_METADATA,
    STATE,
    UPDATE_STATE,
    crate::budgets::OPERATIONS,
    crate::budgets::TOTAL,
    berth_spread::MATCHED,
];

/// Annotations of an object, those with a known key.
#[derive(Debug, Default)]
pub(super) struct Annotations(pub(super) BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Known)
    }
}

struct Known;

impl<'de> Visitor<'de> for Known {
    type Value = Annotations;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("annotations")
    }

    fn visit_unit<E>(self) -> Result<Annotations, E> {
        Ok(Annotations::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Annotations, A::Error> {
        let mut kept = BTreeMap::new();
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            if KEYS.contains(&&*key) {
                kept.insert(key.into_owned(), map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Annotations(kept))
    }
}
