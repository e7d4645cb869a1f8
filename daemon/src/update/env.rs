//! Environment that a container takes from its pod's labels and annotations, and the hashes by which it is
//! compared.
//!
//! Values are hashed as soon as they are read: env may hold secrets, and none of it is kept, logged or
//! written anywhere. The formulas that are published (`apps.kruise.io/runtime-containers-meta`) are the
//! kubelet's and OpenKruise's; what is compared here uses all 64 bits.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
    hash::{DefaultHasher, Hash, Hasher},
};

use berth_policy::in_place_update::{EnvHash, Metadata, MetadataKey};
use serde::Serialize;

use crate::cluster::v1 as core;

/// Set by OpenKruise's hot upgrade of sidecars, which restarts for them itself.
const IGNORED: [&str; 2] = ["SIDECARSET_VERSION", "SIDECARSET_VERSION_ALT"];

/// The env variables of a container that come from metadata, by name. Of several definitions of one name the
/// last counts, as in the process.
pub(super) fn references(container: &core::Container) -> BTreeMap<String, MetadataKey> {
    let mut references = BTreeMap::new();
    for env in container.env.iter().flatten() {
        let path = env.value_from.as_ref().and_then(|source| source.field_ref.as_ref());
        match path.and_then(|field| key(&field.field_path)) {
            Some(key) => references.insert(env.name.clone(), key),
            None => references.remove(&env.name),
        };
    }
    references.retain(|name, _| !IGNORED.contains(&name.as_str()));
    references
}

/// The kubelet puts the value of this variable into another one, or into the command.
pub(super) fn is_expanded(container: &core::Container, name: &str) -> bool {
    let reference = format!("$({name})");
    let values = container.env.iter().flatten().filter_map(|env| env.value.as_ref());
    let words = container.command.iter().flatten().chain(container.args.iter().flatten());
    values.chain(words).any(|text| text.contains(&reference))
}

/// `metadata.labels['k']` and `metadata.annotations['k']`.
fn key(path: &str) -> Option<MetadataKey> {
    let inner = |prefix: &str| path.strip_prefix(prefix)?.strip_suffix("']").map(str::to_owned);
    inner("metadata.labels['")
        .map(MetadataKey::Label)
        .or_else(|| inner("metadata.annotations['").map(MetadataKey::Annotation))
}

/// The values the variables would have in a container created now.
pub(super) fn expected<'a>(
    references: &'a BTreeMap<String, MetadataKey>,
    metadata: &'a Metadata,
) -> Values<'a> {
    let value = |key: &MetadataKey| metadata.get(key).map(String::as_str).unwrap_or_default();
    Values(references.iter().map(|(name, key)| (name.as_str(), value(key))).collect())
}

/// The values they have in a container with this env; of several of one name the last counts.
pub(super) fn actual<'a>(
    references: &'a BTreeMap<String, MetadataKey>,
    env: &'a [(String, String)],
) -> Values<'a> {
    let env: HashMap<&str, &str> = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let value = |name: &str| env.get(name).copied().unwrap_or_default();
    Values(references.keys().map(|name| (name.as_str(), value(name))).collect())
}

/// Variables and their values, by name, where they are: many may read one long value.
pub(super) struct Values<'a>(BTreeMap<&'a str, &'a str>);

/// Kubernetes' `EnvVar`, as Go prints it.
#[derive(Serialize)]
struct Variable<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    value: &'a str,
}

impl Values<'_> {
    /// Hash for comparison in this process.
    pub(super) fn hash(&self) -> EnvHash {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        EnvHash(hasher.finish())
    }

    /// `extractedEnvFromMetadataHash`, as OpenKruise's daemon computes it.
    pub(super) fn published(&self) -> u64 {
        if self.0.is_empty() {
            return fnv_of_go_bytes(b"null").into();
        }
        let list: Vec<Variable<'_>> = self.0.iter().map(|(name, value)| Variable { name, value }).collect();
        fnv_of_go_bytes(go_json(&list).as_bytes()).into()
    }
}

/// `io.kubernetes.container.hash` of a container with this name and image: `HashContainer` of kubelet 1.31
/// and later.
pub(super) fn definition(name: &str, image: &str) -> u32 {
    #[derive(Serialize)]
    struct Definition<'a> {
        image: &'a str,
        name: &'a str,
    }
    fnv_of_go_bytes(go_json(&Definition { image, name }).as_bytes())
}

/// Go's `encoding/json` writes these five escaped, and serde does not.
fn go_json(value: &impl Serialize) -> String {
    // Texts in a list or a struct: nothing of it can fail.
    let text = serde_json::to_string(value).unwrap_or_default();
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a String cannot fail.
                let _ = write!(escaped, "\\u{:04x}", u32::from(char));
            }
            char => escaped.push(char),
        }
    }
    escaped
}

/// 32-bit FNV-1a of `([]uint8)[1 2 3]`, which is what `DeepHashObject` feeds the hasher for bytes.
fn fnv_of_go_bytes(bytes: &[u8]) -> u32 {
    const OFFSET: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    let mut text = String::from("([]uint8)[");
    for (place, byte) in bytes.iter().enumerate() {
        let blank = if place == 0 { "" } else { " " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{blank}{byte}");
    }
    text.push(']');
    text.bytes().fold(OFFSET, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values<'a>(list: &[(&'a str, &'a str)]) -> Values<'a> {
        Values(list.iter().copied().collect())
    }

    #[test]
    fn the_hashes_of_kubelet_and_openkruise() {
        assert_eq!(format!("{:x}", definition("test_container", "foo/image:v1")), "8e45cbd0");
        assert_eq!(values(&[]).published(), 86_995_377);
        assert_eq!(values(&[("APP_CONFIG", "v1")]).published(), 4_274_367_333);
    }

    #[test]
    fn what_go_escapes() {
        assert_eq!(go_json(&"a<b>&\u{2028}\"é"), r#""a\u003cb\u003e\u0026\u2028\"é""#);
    }

    #[test]
    fn references_of_a_container() {
        let container: core::Container = serde_saphyr::from_str(
            "
name: main
env:
- {name: A, valueFrom: {fieldRef: {fieldPath: \"metadata.annotations['a/b']\"}}}
- {name: L, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['l']\"}}}
- {name: N, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: SIDECARSET_VERSION, valueFrom: {fieldRef: {fieldPath: \"metadata.annotations['v']\"}}}
- {name: TWICE, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['t']\"}}}
- {name: TWICE, value: plain}
",
        )
        .unwrap();
        let expect = [
            ("A".to_owned(), MetadataKey::Annotation("a/b".to_owned())),
            ("L".to_owned(), MetadataKey::Label("l".to_owned())),
        ];
        assert_eq!(references(&container), expect.into());
    }

    #[test]
    fn values_are_compared_as_they_are() {
        let references: BTreeMap<_, _> = [("A".to_owned(), MetadataKey::Label("l".to_owned()))].into();
        let metadata = |value: &str| [(MetadataKey::Label("l".to_owned()), value.to_owned())].into();
        let env = |value: &str| [("A".to_owned(), "old".to_owned()), ("A".to_owned(), value.to_owned())];
        for value in ["", " two  blanks ", "line\nline\n", "a=b", "übergröße 漢字", "\t"] {
            let expected = expected(&references, &metadata(value)).hash();
            assert_eq!(expected, actual(&references, &env(value)).hash(), "{value:?}");
            assert_ne!(expected, actual(&references, &env("other")).hash(), "{value:?}");
        }
        let absent = expected(&references, &Metadata::new()).hash();
        assert_eq!(absent, actual(&references, &[]).hash());
    }
}
