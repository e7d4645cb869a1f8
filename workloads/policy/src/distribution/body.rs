//! Content of a Secret or ConfigMap, as the API server keeps it, and its hash: two objects with the same one
//! say the same.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::Kind;
use crate::fault::Fault;

/// The most bytes of a Secret or ConfigMap, in Kubernetes and here.
const MOST_BYTES: usize = 1 << 20;
/// The longest key.
const LONGEST_KEY: usize = 253;
/// Type of a Secret that says none.
const OPAQUE: &str = "Opaque";
/// Types of Secrets that are credentials of the cluster itself: whoever makes one becomes somebody else.
const OF_THE_CLUSTER: [&str; 2] = ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"];

/// Types of Secrets, and keys without which there is none.
const NEEDED: [(&str, &[&str]); 4] = [
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
];

/// Hash of a content.
pub(super) type Hash = [u8; 32];

type Entries = BTreeMap<String, Vec<u8>>;

/// A content.
#[derive(Debug, Default)]
struct Body {
    text: Entries,
    binary: Entries,
    type_: String,
    immutable: bool,
}

impl Body {
    fn hash(&self) -> Hash {
        let mut hasher = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hasher.update((bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        };
        add(self.type_.as_bytes());
        add(&[u8::from(self.immutable)]);
        for entries in [&self.text, &self.binary] {
            add(&(entries.len() as u64).to_be_bytes());
            for (key, value) in entries {
                add(key.as_bytes());
                add(value);
            }
        }
        hasher.finalize().into()
    }

    fn size(&self) -> usize {
        let entries = self.text.iter().chain(&self.binary);
        entries.map(|(key, value)| key.len().saturating_add(value.len())).fold(0, usize::saturating_add)
    }
}

/// Hash of a Secret's content.
pub(super) fn of_secret(secret: &Secret) -> Hash {
    let data = secret.data.iter().flatten();
    Body {
        binary: data.map(|(key, value)| (key.clone(), value.0.clone())).collect(),
        type_: secret.type_.clone().unwrap_or_default(),
        immutable: secret.immutable.unwrap_or(false),
        ..Body::default()
    }
    .hash()
}

/// Hash of a ConfigMap's content.
pub(super) fn of_config_map(map: &ConfigMap) -> Hash {
    let (text, binary) = (map.data.iter().flatten(), map.binary_data.iter().flatten());
    Body {
        text: text.map(|(key, value)| (key.clone(), value.clone().into_bytes())).collect(),
        binary: binary.map(|(key, value)| (key.clone(), value.0.clone())).collect(),
        immutable: map.immutable.unwrap_or(false),
        ..Body::default()
    }
    .hash()
}

/// Hash of the content that the API server makes of a manifest, which is checked.
pub(super) fn of_manifest(kind: Kind, manifest: &Map<String, Value>) -> Result<Hash, Fault> {
    let immutable = match manifest.get("immutable") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(immutable)) => *immutable,
        Some(_) => return Err(fault("immutable", "is no boolean: give true or false, or leave it out")),
    };
    let mut body = Body { immutable, ..Body::default() };
    match kind {
        Kind::Secret => {
            body.binary = bytes(manifest, "data")?;
            // It wins over what has the same key in data.
            body.binary.extend(texts(manifest, "stringData")?);
            body.type_ = match manifest.get("type") {
                None | Some(Value::Null) => OPAQUE.to_owned(),
                Some(Value::String(given)) if given.is_empty() => OPAQUE.to_owned(),
                Some(Value::String(given)) => given.clone(),
                Some(_) => return Err(fault("type", "is no text: give the type of a Secret")),
            };
            if OF_THE_CLUSTER.contains(&body.type_.as_str()) {
                let why =
                    format!("is {}: such credentials are not distributed, give another type", body.type_);
                return Err(Fault::new("spec.resource.type", why));
            }
            let needed = NEEDED.iter().filter(|(of, _)| *of == body.type_).flat_map(|(_, keys)| *keys);
            if let Some(key) = needed.copied().find(|key| !body.binary.contains_key(*key)) {
                let why = format!("has no key {key:?}: give it, or another type than {}", body.type_);
                return Err(Fault::new("spec.resource.data", why));
            }
        }
        Kind::ConfigMap => {
            body.text = texts(manifest, "data")?;
            body.binary = bytes(manifest, "binaryData")?;
            if let Some(key) = body.binary.keys().find(|key| body.text.contains_key(*key)) {
                let why = format!("has key {key:?}, which data has too: give it once");
                return Err(Fault::new("spec.resource.binaryData", why));
            }
        }
    }
    let size = body.size();
    if size > MOST_BYTES {
        let why = format!("has {size} bytes: a Secret or ConfigMap has at most {MOST_BYTES}");
        return Err(Fault::new("spec.resource", why));
    }
    Ok(body.hash())
}

fn fault(field: &str, why: &str) -> Fault {
    Fault::new(format!("spec.resource.{field}"), why)
}

/// Entries of a map of texts.
fn texts(manifest: &Map<String, Value>, field: &str) -> Result<Entries, Fault> {
    entries(manifest, field, |value| value.as_str().map(|text| text.as_bytes().to_vec()), "text")
}

/// Entries of a map of bytes.
fn bytes(manifest: &Map<String, Value>, field: &str) -> Result<Entries, Fault> {
    let read = |value: &Value| {
        // The API server takes null for nothing.
        if value.is_null() {
            return Some(Vec::new());
        }
        serde_json::from_value::<ByteString>(value.clone()).ok().map(|bytes| bytes.0)
    };
    entries(manifest, field, read, "base64")
}

fn entries(
    manifest: &Map<String, Value>,
    field: &str,
    read: impl Fn(&Value) -> Option<Vec<u8>>,
    what: &str,
) -> Result<Entries, Fault> {
    let given = match manifest.get(field) {
        None | Some(Value::Null) => return Ok(Entries::new()),
        Some(Value::Object(given)) => given,
        Some(_) => return Err(fault(field, "is no map: give keys and values")),
    };
    let mut all = Entries::new();
    for (key, value) in given {
        if !is_key(key) {
            let key: String = key.chars().take(64).collect();
            let why = format!("has key {key:?}: give 1 to {LONGEST_KEY} letters, digits, '-', '_' and '.'");
            return Err(Fault::new(format!("spec.resource.{field}"), why));
        }
        let Some(bytes) = read(value) else {
            let why = format!("is no {what}: correct the value");
            return Err(Fault::new(format!("spec.resource.{field}[{key}]"), why));
        };
        all.insert(key.clone(), bytes);
    }
    Ok(all)
}

fn is_key(key: &str) -> bool {
    let of_key = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=LONGEST_KEY).contains(&key.len()) && key.bytes().all(of_key) && key != "." && !key.starts_with("..")
}
