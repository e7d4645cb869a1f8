//! The kubelet's list of pods, of which each pod is read by itself.
//!
//! Anybody who may write a pod can nest its managed fields deeper than the parser goes, and nobody checks
//! that they are UTF-8: that keeps no other pod from being read. And a pod takes many times its text when it
//! is read: before the next one is read, no more of it is left than the policy needs.

use berth_policy::{Pod, PodRef};
use serde::Deserialize;
use serde_json::value::RawValue;
use tracing::debug;

use super::{convert, read};
use crate::cluster::{raw::Raw, v1 as core};

/// A `PodList`, its pods as they are written; the kubelet writes `null` when it has none.
#[derive(Deserialize)]
struct PodList<'a> {
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

/// The pods of a list.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) pods: Vec<Pod>,
    /// Names of the others, which cannot be read.
    pub(super) unread: Vec<PodRef>,
}

/// Reads a list.
///
/// # Errors
/// The text is no list.
pub(super) fn listed(text: &[u8]) -> serde_json::Result<Listed> {
    let text = String::from_utf8_lossy(text);
    let list: PodList<'_> = serde_json::from_str(&text)?;
    let mut listed = Listed::default();
    for text in list.items.unwrap_or_default() {
        match pod(text.get())? {
            Ok(pod) => listed.pods.extend(convert::pod(pod)),
            Err(unread) => listed.unread.push(unread),
        }
    }
    Ok(listed)
}

/// Reads one pod; the error names it.
fn pod(text: &str) -> serde_json::Result<Result<core::Pod, PodRef>> {
    // Mostly. A tree of values has a bound on its memory, which this has not.
    if let Ok(pod) = serde_json::from_str::<core::Pod>(text)
        && read::too_wide(&pod).is_none()
    {
        return Ok(Ok(pod));
    }
    // Without what is nested too deep.
    let raw: Raw = serde_json::from_str(text)?;
    Ok(read::pod(raw).map_err(|(unread, why)| {
        let PodRef { uid, namespace, name } = &unread;
        debug!(namespace, name, pod.uid = %uid, error = %why, "Pod of the kubelet cannot be read");
        unread
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_pod_is_read_by_itself() {
        let meta = |name: &str| json!({ "name": name, "namespace": "n", "uid": name });
        let containers = vec![json!({}); 1001];
        let wide = json!({ "metadata": meta("wide"), "spec": { "containers": containers } });
        // It takes more memory as a tree of values than an object may.
        let env = vec![json!({ "name": "A" }); 20_000];
        let large = json!({ "metadata": meta("large"), "spec": { "containers": [{ "env": env }] } });
        let wrong = json!({ "metadata": meta("wrong"), "spec": "hunter2" });
        let plain = json!({ "metadata": meta("plain"), "spec": { "containers": [{ "name": "c" }] } });
        let deep = format!(
            r#"{{"metadata":{{"managedFields":[{{"fieldsV1":{}"~"{}}}],"uid":"deep","name":"deep"}}}}"#,
            "[".repeat(500),
            "]".repeat(500)
        );
        let text = format!(r#"{{"kind":"PodList","items":[{deep},{wide},{large},{wrong},{plain}]}}"#);
        // A byte that begins no character.
        let text: Vec<u8> = text.bytes().map(|byte| if byte == b'~' { 0xff } else { byte }).collect();
        let Listed { pods, unread } = listed(&text).unwrap();
        let names: Vec<&str> = pods.iter().map(|pod| pod.pod.name.as_str()).collect();
        assert_eq!(names, ["deep", "large", "plain"]);
        let unread: Vec<&str> = unread.iter().map(|pod| pod.uid.as_str()).collect();
        assert_eq!(unread, ["wide", "wrong"]);
    }

    #[test]
    fn a_list_of_none_and_what_is_no_list() {
        for (text, is_list) in
            [(r#"{"items":null}"#, true), ("{}", true), (r#"{"items":{}}"#, false), ("", false)]
        {
            let listed = listed(text.as_bytes());
            assert_eq!(listed.is_ok(), is_list, "{text}");
            assert!(listed.unwrap_or_default().pods.is_empty());
        }
    }
}
