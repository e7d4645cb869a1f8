//! The env of a container on its way to the runtime, where the kubelet read it from an older version of the
//! pod.
//!
//! A pod worker of the kubelet that waits for the next list of containers goes on with the pod as it was when
//! it began to wait. A container that it starts then has values from before, and nothing in the container's
//! definition tells. So what the agent knows to be newer takes the place of the old value, and every other
//! byte stays as it came.

use bytes::{Bytes, BytesMut};

use crate::wire::{LENGTH_DELIMITED, Malformed, field, put_field, replace_each};

/// `CreateContainerRequest.config`, `ContainerConfig.envs`, and both fields of `KeyValue`.
const CONFIG: u64 = 2;
const ENVS: u64 = 6;
const KEY: u64 = 1;
const VALUE: u64 = 2;

/// A `CreateContainerRequest` with these values in place of others of the same name. `None`: it has them
/// already, or has no such variables.
pub(crate) fn set_env(message: &[u8], values: &[(String, String)]) -> Result<Option<Bytes>, Malformed> {
    replace_each(message, CONFIG, |config| replace_each(config, ENVS, |entry| replaced(entry, values)))
}

/// The entry with another value.
fn replaced(entry: &[u8], values: &[(String, String)]) -> Result<Option<Bytes>, Malformed> {
    let (mut key, mut value): (&[u8], &[u8]) = (&[], &[]);
    let mut at = 0;
    while at < entry.len() {
        let field = field(entry, at)?;
        if field.wire_type == LENGTH_DELIMITED {
            let content = &entry[field.content(entry)?];
            match field.number {
                KEY => key = content,
                VALUE => value = content,
                _ => {}
            }
        }
        at = field.value.end;
    }
    let wanted = values.iter().find(|(name, _)| name.as_bytes() == key).map(|(_, value)| value.as_bytes());
    let Some(wanted) = wanted.filter(|wanted| *wanted != value) else { return Ok(None) };
    let mut edited = BytesMut::from(entry);
    // Of several occurrences the last one counts.
    put_field(&mut edited, VALUE, wanted);
    Ok(Some(edited.freeze()))
}

#[cfg(test)]
#[path = "tests/env.rs"]
mod tests;
