//! How a container was created: what its `CreateContainer` said, as the runtime keeps it.
//!
//! The CRI has no field for it. Runtimes put it into the verbose answer of `ContainerStatus`, as JSON of
//! their own: containerd the CRI's config, CRI-O the OCI spec made from it. No command is run in the
//! container for this, and it is there for containers that were created before the agent was.

use std::{collections::HashMap, time::Duration};

use berth_proto::cri;
use berth_shim::{convert::POD_UID_LABEL, exceptions::HASH_ANNOTATION};
use serde::Deserialize;

/// Values that a container was created with. Env may hold secrets: this is read, hashed, and dropped.
pub(crate) struct CreationRecord {
    /// The kubelet's hash of its definition; `None` for one the kubelet did not make.
    pub definition: Option<u32>,
    /// Its env, in order; `None` when the runtime does not tell.
    pub env: Option<Vec<(String, String)>>,
    /// When its process ended, since the epoch; `None` while it has not.
    pub finished: Option<Duration>,
    /// UID of its pod; `None` for one the kubelet did not make.
    pub pod: Option<String>,
}

/// containerd's.
#[derive(Deserialize)]
struct Containerd {
    config: Config,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    envs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct KeyValue {
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: String,
}

/// CRI-O's.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Crio {
    runtime_spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    process: Process,
}

#[derive(Deserialize)]
struct Process {
    #[serde(default)]
    env: Vec<String>,
}

impl CreationRecord {
    /// Record of a container that is not there any more: nothing is known of it.
    pub(crate) fn unknown() -> Self {
        Self { definition: None, env: None, finished: None, pod: None }
    }

    pub(super) fn read(status: cri::ContainerStatus, info: &HashMap<String, String>) -> Self {
        let definition = status.annotations.get(HASH_ANNOTATION);
        Self {
            definition: definition.and_then(|hash| u32::from_str_radix(hash, 16).ok()),
            env: info.get("info").and_then(|text| env(text)),
            finished: u64::try_from(status.finished_at).ok().filter(|at| *at > 0).map(Duration::from_nanos),
            pod: status.labels.get(POD_UID_LABEL).cloned(),
        }
    }
}

fn env(text: &str) -> Option<Vec<(String, String)>> {
    if let Ok(Containerd { config }) = serde_json::from_str(text) {
        return Some(config.envs.into_iter().map(|entry| (entry.key, entry.value)).collect());
    }
    let Crio { runtime_spec } = serde_json::from_str(text).ok()?;
    let split = |entry: String| match entry.split_once('=') {
        Some((key, value)) => (key.to_owned(), value.to_owned()),
        None => (entry, String::new()),
    };
    Some(runtime_spec.process.env.into_iter().map(split).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn env_as_the_runtimes_tell_it() {
        let pairs = |list: &[(&str, &str)]| -> Option<Vec<(String, String)>> {
            Some(list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
        };
        let table = [
            (
                r#"{"config":{"envs":[{"key":"A","value":"a\nb "},{"key":"E"}]}}"#,
                pairs(&[("A", "a\nb "), ("E", "")]),
            ),
            (r#"{"config":{}}"#, pairs(&[])),
            (r#"{"runtimeSpec":{"process":{"env":["A=a=b","N"]}}}"#, pairs(&[("A", "a=b"), ("N", "")])),
            (r#"{"pid":1}"#, None),
            ("no JSON", None),
        ];
        for (text, expect) in table {
            assert_eq!(env(text), expect, "{text}");
        }
    }

    #[test]
    fn definition_and_end() {
        let annotations = [(HASH_ANNOTATION.to_owned(), "8e45cbd0".to_owned())].into();
        let labels = [(POD_UID_LABEL.to_owned(), "u".to_owned())].into();
        let status = cri::ContainerStatus { annotations, labels, finished_at: 5, ..Default::default() };
        let made = CreationRecord::read(status, &HashMap::new());
        assert_eq!((made.definition, made.finished), (Some(0x8e45_cbd0), Some(Duration::from_nanos(5))));
        assert!(made.env.is_none());
        assert_eq!(made.pod.as_deref(), Some("u"));
    }
}
