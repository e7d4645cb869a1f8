//! The annotation `apps.kruise.io/inplace-update-state`, in the schema OpenKruise's users and tools know.

use std::collections::BTreeMap;

use berth_policy::{
    ContainerName,
    in_place_update::{Batch, Metadata, MetadataKey, Record},
};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Where it stands.
pub(super) const ANNOTATION: &str = "apps.kruise.io/inplace-update-state";

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct State {
    revision: String,
    #[serde(default)]
    update_timestamp: Option<Timestamp>,
    #[serde(default)]
    last_container_statuses: BTreeMap<String, LastStatus>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    update_env_from_metadata: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    update_images: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    next_container_images: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    next_container_ref_metadata: BTreeMap<String, ObjectMeta>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pre_check_before_next: Option<PreCheck>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    container_batches_record: Vec<BatchRecord>,
}

#[derive(Default, Deserialize, Serialize)]
struct LastStatus {
    #[serde(rename = "imageID", default)]
    image_id: String,
}

#[derive(Default, Deserialize, Serialize)]
struct ObjectMeta {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct PreCheck {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    containers_required_ready: Vec<String>,
}

#[derive(Deserialize, Serialize)]
struct BatchRecord {
    timestamp: Timestamp,
    #[serde(default)]
    containers: Vec<String>,
}

/// Reads it; `None` for what nobody could have written.
pub(super) fn read(text: &str) -> Option<Record> {
    let state: State = serde_json::from_str(text).ok()?;
    let metadata = |meta: ObjectMeta| -> Metadata {
        let labels = meta.labels.into_iter().map(|(key, value)| (MetadataKey::Label(key), value));
        let annotations =
            meta.annotations.into_iter().map(|(key, value)| (MetadataKey::Annotation(key), value));
        labels.chain(annotations).collect()
    };
    let name = |name: String| ContainerName::from(name);
    Some(Record {
        revision: state.revision,
        update_timestamp: state.update_timestamp.map_or(0, |time| time.as_second()),
        last_container_statuses: state
            .last_container_statuses
            .into_iter()
            .map(|(container, status)| (name(container), status.image_id))
            .collect(),
        update_env_from_metadata: state.update_env_from_metadata,
        update_images: state.update_images,
        next_container_images: state
            .next_container_images
            .into_iter()
            .map(|(container, image)| (name(container), image.into()))
            .collect(),
        next_container_ref_metadata: state
            .next_container_ref_metadata
            .into_iter()
            .map(|(container, meta)| (name(container), metadata(meta)))
            .collect(),
        containers_required_ready: state
            .pre_check_before_next
            .unwrap_or_default()
            .containers_required_ready
            .into_iter()
            .map(name)
            .collect(),
        container_batches_record: state
            .container_batches_record
            .into_iter()
            .map(|batch| Batch {
                timestamp: batch.timestamp.as_second(),
                containers: batch.containers.into_iter().map(name).collect(),
            })
            .collect(),
    })
}

/// Writes it. Times are whole seconds in UTC, as everywhere in the API.
pub(super) fn text(record: &Record) -> String {
    let time = |second: i64| Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH);
    let names = |names: &std::collections::BTreeSet<ContainerName>| -> Vec<String> {
        names.iter().map(|name| name.as_str().to_owned()).collect()
    };
    let state = State {
        revision: record.revision.clone(),
        update_timestamp: Some(time(record.update_timestamp)),
        last_container_statuses: record
            .last_container_statuses
            .iter()
            .map(|(name, image_id)| (name.as_str().to_owned(), LastStatus { image_id: image_id.clone() }))
            .collect(),
        update_env_from_metadata: record.update_env_from_metadata,
        update_images: record.update_images,
        next_container_images: record
            .next_container_images
            .iter()
            .map(|(name, image)| (name.as_str().to_owned(), image.to_string()))
            .collect(),
        next_container_ref_metadata: record
            .next_container_ref_metadata
            .iter()
            .map(|(name, metadata)| (name.as_str().to_owned(), object_meta(metadata)))
            .collect(),
        pre_check_before_next: (!record.containers_required_ready.is_empty())
            .then(|| PreCheck { containers_required_ready: names(&record.containers_required_ready) }),
        container_batches_record: record
            .container_batches_record
            .iter()
            .map(|batch| BatchRecord {
                timestamp: time(batch.timestamp),
                containers: names(&batch.containers),
            })
            .collect(),
    };
    // Texts, numbers and times: nothing of it can fail.
    serde_json::to_string(&state).unwrap_or_default()
}

fn object_meta(metadata: &Metadata) -> ObjectMeta {
    let mut meta = ObjectMeta::default();
    for (key, value) in metadata {
        match key {
            MetadataKey::Label(key) => meta.labels.insert(key.clone(), value.clone()),
            MetadataKey::Annotation(key) => meta.annotations.insert(key.clone(), value.clone()),
        };
    }
    meta
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the middle of two batches: the sidecar goes, main waits for it.
    const FIRST: &str = r#"{"revision":"web-76c5d8","updateTimestamp":"2022-03-22T09:06:55Z","lastContainerStatuses":{"sidecar":{"imageID":"docker-pullable://busybox@sha256:a9286d"}},"updateEnvFromMetadata":true,"nextContainerImages":{"main":"nginx:mainline"},"nextContainerRefMetadata":{"main":{"annotations":{"app-config":"two"}}},"preCheckBeforeNext":{"containersRequiredReady":["sidecar"]},"containerBatchesRecord":[{"timestamp":"2022-03-22T09:06:55Z","containers":["sidecar"]}]}"#;

    #[test]
    fn reads_what_it_writes() {
        let record = read(FIRST).unwrap();
        assert_eq!(text(&record), FIRST);
        assert_eq!(record.containers_required_ready.len(), 1);
        assert!(record.next_container_images.contains_key(&ContainerName::from("main")));
    }

    #[test]
    fn nothing_waits() {
        let record = Record { revision: "r".to_owned(), update_images: true, ..Record::default() };
        assert_eq!(
            text(&record),
            r#"{"revision":"r","updateTimestamp":"1970-01-01T00:00:00Z","lastContainerStatuses":{},"updateImages":true}"#
        );
        assert_eq!(read("{}"), None);
        assert_eq!(read("no JSON"), None);
    }
}
