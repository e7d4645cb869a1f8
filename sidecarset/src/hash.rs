//! The hashes of a set, equal to the bit to OpenKruise's: pods that it injected stay upgradable.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{
    fault::Fault,
    golang,
    json::{Object, text},
};

/// Letters of a hash: no vowels, so no words, and nothing that looks like another letter.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Both hashes of a set's sidecars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashes {
    /// Hash of all of it.
    pub hash: String,
    /// Hash of all but the images: only what has the same one can be upgraded in place.
    pub without_image: String,
}

/// Text of letters that may stand in names, as many as the given one has bytes.
pub(crate) fn safe(text: &str) -> String {
    text.bytes().map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()])).collect()
}

/// Hashes of the sidecars of a spec that has its defaults.
pub(crate) fn hashes(spec: &Object) -> Result<Hashes, Fault> {
    let blank = |list: Option<&Value>| {
        let mut list = list.cloned();
        for sidecar in
            list.iter_mut().filter_map(Value::as_array_mut).flatten().filter_map(Value::as_object_mut)
        {
            sidecar.remove("image");
        }
        list
    };
    let (containers, inits) = (spec.get("containers"), spec.get("initContainers"));
    Ok(Hashes {
        hash: hash(containers, inits)?,
        without_image: hash(blank(containers).as_ref(), blank(inits).as_ref())?,
    })
}

fn hash(containers: Option<&Value>, inits: Option<&Value>) -> Result<String, Fault> {
    let mut text = format!("{{\"containers\":{}", golang::sidecars(containers, "spec.containers")?);
    // Encoded in any case: that checks the types.
    let encoded = golang::sidecars(inits, "spec.initContainers")?;
    let native = inits
        .and_then(Value::as_array)
        .is_some_and(|list| list.iter().filter_map(Value::as_object).any(is_native));
    if native {
        text.push_str(",\"initContainers\":");
        text.push_str(&encoded);
    }
    text.push('}');
    let mut hex = String::new();
    for byte in Sha256::digest(text.as_bytes()) {
        // Writing to a text does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    Ok(safe(&hex))
}

/// Tells whether an init container goes on running beside the others.
pub(crate) fn is_native(container: &Object) -> bool {
    text(container, "restartPolicy") == "Always"
}
