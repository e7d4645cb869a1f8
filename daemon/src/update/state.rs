//! The annotations `apps.kruise.io/inplace-update-state` and `kruise.io/sidecarset-inplace-update-state`,
//! in the schema OpenKruise's users and tools know.

use std::collections::BTreeMap;

use berth_policy::{
    ContainerName,
    in_place_update::{Batch, Metadata, MetadataKey, Record, Records, UpdateOwner},
    time::seconds,
};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Annotation of a pod: how far its update by a workload is, and the images before it; JSON.
pub(super) const ANNOTATION: &str = "apps.kruise.io/inplace-update-state";
/// Annotation of a pod: how far its updates by SidecarSets are; a JSON object, by their names.
pub(super) const SIDECAR_SETS: &str = "kruise.io/sidecarset-inplace-update-state";

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
#[serde(rename_all = "camelCase")]
struct BatchRecord {
    timestamp: Timestamp,
    #[serde(default)]
    containers: Vec<String>,
    /// Time of a version that a swap starts; read by the agent alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    migration_seconds: Option<i32>,
}

/// Reads it; `None` for what nobody could have written.
pub(super) fn read(text: &str) -> Option<Record> {
    Some(record(serde_json::from_str(text).ok()?))
}

/// Reads the records of the SidecarSets; those that nobody could have written are left out.
pub(super) fn read_sets(text: &str) -> Records {
    let sets: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
    let read = |(name, state): (String, Value)| {
        Some((UpdateOwner::SidecarSet(name), record(serde_json::from_value(state).ok()?)))
    };
    sets.into_iter().filter_map(read).collect()
}

/// Writes the records of SidecarSets into what is there; those of others stay as they are.
pub(super) fn with_sets(there: Option<&str>, records: &Records) -> Option<String> {
    let mut sets: Map<String, Value> =
        there.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut any = false;
    for (owner, record) in records {
        if let UpdateOwner::SidecarSet(name) = owner {
            any = true;
            sets.insert(name.clone(), serde_json::to_value(state(record)).unwrap_or_default());
        }
    }
    any.then(|| Value::Object(sets).to_string())
}

fn record(state: State) -> Record {
    let metadata = |meta: ObjectMeta| -> Metadata {
        let labels = meta.labels.into_iter().map(|(key, value)| (MetadataKey::Label(key), value));
        let annotations =
            meta.annotations.into_iter().map(|(key, value)| (MetadataKey::Annotation(key), value));
        labels.chain(annotations).collect()
    };
    let name = |name: String| ContainerName::from(name);
    Record {
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
                migration: batch.migration_seconds.filter(|given| *given > 0).map(seconds),
            })
            .collect(),
    }
}

/// Writes it.
pub(super) fn text(record: &Record) -> String {
    // Texts, numbers and times: nothing of it can fail.
    serde_json::to_string(&state(record)).unwrap_or_default()
}

/// Times are whole seconds in UTC, as everywhere in the API.
fn state(record: &Record) -> State {
    let time = |second: i64| Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH);
    let names = |names: &std::collections::BTreeSet<ContainerName>| -> Vec<String> {
        names.iter().map(|name| name.as_str().to_owned()).collect()
    };
    State {
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
                migration_seconds: batch
                    .migration
                    .map(|given| i32::try_from(given.as_secs()).unwrap_or(i32::MAX)),
            })
            .collect(),
    }
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
    fn each_set_has_a_record_of_its_own() {
        let there = r#"{"log":{"revision":"old","updateTimestamp":"2022-03-22T09:06:55Z","lastContainerStatuses":{"log":{"imageID":"i"}}},"odd":7}"#;
        let read = read_sets(there);
        assert_eq!(read.keys().map(ToString::to_string).collect::<Vec<_>>(), ["SidecarSet log"]);
        let record = Record { revision: "mesh-2".to_owned(), ..Record::default() };
        let records: Records = [
            (UpdateOwner::Workload, Record::default()),
            (UpdateOwner::SidecarSet("mesh".to_owned()), record),
        ]
        .into();
        let text = with_sets(Some(there), &records).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["mesh"]["revision"], "mesh-2");
        assert_eq!((&value["log"]["revision"], &value["odd"]), (&"old".into(), &7.into()), "as it was");
        assert_eq!(read_sets(&text).len(), 2);
        assert!(with_sets(Some("no JSON"), &records).is_some(), "nobody could have written that");
        assert_eq!(with_sets(Some(there), &Records::new()), None);
        assert_eq!(read_sets("no JSON"), Records::new());
    }

    /// Records of other programs have no such time, and one that is none is left out.
    #[test]
    fn a_batch_says_how_long_its_version_has() {
        let batch = |given: &str| {
            let time = r#""timestamp":"2022-03-22T09:06:55Z","containers":["mesh-2"]"#;
            format!(r#"{{"revision":"r","containerBatchesRecord":[{{{time}{given}}}]}}"#)
        };
        for (given, seconds) in
            [("", None), (r#","migrationSeconds":9"#, Some(9)), (r#","migrationSeconds":0"#, None)]
        {
            let record = read(&batch(given)).unwrap();
            let read = record.container_batches_record[0].migration.map(|given| given.as_secs());
            assert_eq!(read, seconds, "{given}");
            assert_eq!(text(&record).contains("migrationSeconds"), seconds.is_some(), "{given}");
        }
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
