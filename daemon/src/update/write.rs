//! Writes to the pods of this node: one patch for each step, for exactly the version it was decided on.

use berth_policy::{
    PodRef,
    in_place_update::{CarriedOut, MetadataKey, PodPatch, UpdateOwner},
};
use berth_proto::shown_end::ShownEnd;
use berth_sidecarset::upgradable::{CONDITION, Upgradable};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde_json::{Map, Value, json};

use super::{snapshot::GATE, state};
use crate::{
    base::status::whole_second,
    cluster::{
        client::CallError,
        metrics::Write,
        node_pods::{NodePods, Part},
        v1 as core,
    },
    pods::{read, unready},
};

/// Why the gate is closed, as OpenKruise's tools know it.
const START: &str = "StartInPlaceUpdate";

/// By whom: another's is another's to open.
pub(super) const CLOSED_BY: &str = "the agent of the node updates the pod in place";

/// Writes to pods of this node.
#[derive(Debug)]
pub(super) struct Writer(pub(super) NodePods);

impl Writer {
    /// The pod as it is now; `None` when it is gone, or another one has its name.
    pub(super) async fn look(&self, pod: &PodRef) -> Result<Option<core::Pod>, CallError> {
        self.0.find(pod).await
    }

    /// The name of the node.
    pub(super) fn node(&self) -> &str {
        self.0.node()
    }

    /// Moves a batch.
    pub(super) async fn patch(&self, pod: &core::Pod, patch: &PodPatch) -> Result<core::Pod, CallError> {
        self.write(pod, Part::Pod, body(pod, patch), Write::Update).await
    }

    /// Closes the readiness gate.
    pub(super) async fn close(&self, pod: &core::Pod) -> Result<core::Pod, CallError> {
        self.write(pod, Part::Status, closing_body(pod, Timestamp::now()), Write::Unready).await
    }

    /// Opens the readiness gate, with a word on what has been carried out.
    pub(super) async fn open(
        &self,
        pod: &core::Pod,
        word: Option<&CarriedOut>,
    ) -> Result<core::Pod, CallError> {
        self.write(pod, Part::Status, opening_body(pod, word, Timestamp::now()), Write::Unready).await
    }

    /// Writes the condition that says whether SidecarSets can upgrade the pod.
    pub(super) async fn upgradable(
        &self,
        pod: &core::Pod,
        condition: &Upgradable,
    ) -> Result<core::Pod, CallError> {
        let now = whole_second(Timestamp::now());
        let before = read::condition(pod, CONDITION).filter(|before| before.status == condition.status);
        let condition = core::PodCondition {
            type_: CONDITION.to_owned(),
            status: condition.status.to_owned(),
            reason: Some(condition.reason.to_owned()),
            message: Some(condition.message.clone()),
            last_transition_time: before
                .and_then(|before| before.last_transition_time.clone())
                .or(Some(Time(now))),
            ..core::PodCondition::default()
        };
        let body = json!({ "metadata": named(pod), "status": { "conditions": [condition] } });
        self.write(pod, Part::Status, body, Write::Condition).await
    }

    /// Sets one annotation.
    pub(super) async fn annotate(
        &self,
        pod: &core::Pod,
        key: &str,
        value: &str,
    ) -> Result<core::Pod, CallError> {
        let mut metadata = named(pod);
        metadata.insert("annotations".to_owned(), json!({ key: value }));
        self.write(pod, Part::Pod, json!({ "metadata": metadata }), Write::Annotation).await
    }

    async fn write(
        &self,
        pod: &core::Pod,
        part: Part,
        body: Value,
        write: Write,
    ) -> Result<core::Pod, CallError> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        self.0.patch(namespace, name, part, body, write).await
    }
}

/// A write to another pod of that name, or to another version of it, is a conflict.
fn named(pod: &core::Pod) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert("uid".to_owned(), json!(pod.metadata.uid));
    metadata.insert("resourceVersion".to_owned(), json!(pod.metadata.resource_version));
    metadata
}

/// Body of the write that moves a batch.
pub(super) fn body(pod: &core::Pod, patch: &PodPatch) -> Value {
    let (mut labels, mut annotations) = (Map::new(), Map::new());
    for (key, value) in &patch.metadata {
        match key {
            MetadataKey::Label(key) => labels.insert(key.clone(), json!(value)),
            MetadataKey::Annotation(key) => annotations.insert(key.clone(), json!(value)),
        };
    }
    if let Some(record) = patch.records.get(&UpdateOwner::Workload) {
        annotations.insert(state::ANNOTATION.to_owned(), json!(state::text(record)));
    }
    let there = pod.metadata.annotations.as_ref().and_then(|there| there.get(state::SIDECAR_SETS));
    if let Some(sets) = state::with_sets(there.map(String::as_str), &patch.records) {
        annotations.insert(state::SIDECAR_SETS.to_owned(), json!(sets));
    }
    let mut metadata = named(pod);
    metadata.insert("labels".to_owned(), Value::Object(labels));
    metadata.insert("annotations".to_owned(), Value::Object(annotations));
    let mut body = json!({ "metadata": metadata });
    if !patch.images.is_empty() {
        // In the order of the pod: a merge takes over that of the patch, and a pod's containers keep theirs.
        let place = |name: &str| {
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            containers.into_iter().position(|container| container.name == name)
        };
        let mut images: Vec<_> = patch.images.iter().collect();
        images.sort_by_key(|(name, _)| place(name.as_str()));
        let images =
            images.into_iter().map(|(name, image)| json!({ "name": name.as_str(), "image": &**image }));
        body["spec"] = json!({ "containers": images.collect::<Vec<_>>() });
    }
    body
}

/// Body of the write that closes the readiness gate.
pub(super) fn closing_body(pod: &core::Pod, now: Timestamp) -> Value {
    let now = whole_second(now);
    let mut conditions = vec![gate("False", START, CLOSED_BY, now)];
    conditions.extend(read::not_ready_by(pod, GATE, now));
    status_body(pod, &conditions)
}

/// Body of the write that opens it, with a word on what has been carried out.
pub(super) fn opening_body(pod: &core::Pod, word: Option<&CarriedOut>, now: Timestamp) -> Value {
    let now = whole_second(now);
    let message = word.and_then(message).unwrap_or_default();
    let mut conditions = vec![gate("True", "", &message, now)];
    // A new pod has both gates: one write opens them.
    conditions.extend(unready::opened(pod, now));
    status_body(pod, &conditions)
}

fn status_body(pod: &core::Pod, conditions: &[core::PodCondition]) -> Value {
    json!({ "metadata": named(pod), "status": { "conditions": conditions } })
}

/// Condition of the gate. It is merged into what is there: of a reason or message left out the old one would
/// stay.
fn gate(status: &str, reason: &str, message: &str, now: Timestamp) -> core::PodCondition {
    core::PodCondition {
        type_: GATE.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(Time(now)),
        ..core::PodCondition::default()
    }
}

/// The word as the condition has it.
fn message(word: &CarriedOut) -> Option<String> {
    let restarts = word.restarts.iter().map(|(name, restarts)| (name.as_str().to_owned(), *restarts));
    let CarriedOut { revision, attempt, .. } = word;
    ShownEnd { revision: revision.clone(), attempt: *attempt, restarts: restarts.collect() }.message()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use berth_policy::in_place_update::Record;

    use super::*;

    fn pod() -> core::Pod {
        serde_saphyr::from_str(
            "
metadata: {name: web, namespace: shop, uid: u, resourceVersion: '7'}
spec: {containers: [{name: main, image: 'a:1'}]}
status: {conditions: [{type: ContainersReady, status: 'True'}, {type: Ready, status: 'True'}]}
",
        )
        .unwrap()
    }

    #[test]
    fn a_patch_names_what_it_was_decided_on() {
        let record = Record { revision: "r".to_owned(), ..Record::default() };
        let patch = PodPatch {
            images: [("main".into(), "a:2".into())].into(),
            metadata: [
                (MetadataKey::Label("l".to_owned()), "1".to_owned()),
                (MetadataKey::Annotation("a".to_owned()), "two\nlines".to_owned()),
            ]
            .into(),
            record: Record::default(),
            stage: None,
            resets: Vec::new(),
            records: [(UpdateOwner::Workload, record.clone())].into(),
        };
        let body = body(&pod(), &patch);
        assert_eq!(body["metadata"]["resourceVersion"], "7");
        assert_eq!(body["metadata"]["uid"], "u");
        assert_eq!(body["metadata"]["labels"], json!({"l": "1"}));
        assert_eq!(body["metadata"]["annotations"]["a"], "two\nlines");
        assert!(body["metadata"]["annotations"][state::ANNOTATION].as_str().unwrap().contains("\"r\""));
        assert_eq!(body["spec"]["containers"], json!([{"name": "main", "image": "a:2"}]));
        assert!(body["metadata"]["annotations"].get(state::SIDECAR_SETS).is_none());
        let set = [(UpdateOwner::SidecarSet("mesh".to_owned()), record)].into();
        let of_set = super::body(&pod(), &PodPatch { records: set, ..patch.clone() });
        let annotations = &of_set["metadata"]["annotations"];
        assert!(annotations[state::SIDECAR_SETS].as_str().unwrap().starts_with(r#"{"mesh":{"#));
        assert!(annotations.get(state::ANNOTATION).is_none(), "a workload's record is not touched");
        let nothing = PodPatch { images: BTreeMap::new(), ..patch };
        assert!(super::body(&pod(), &nothing)["spec"].is_null());
    }

    #[test]
    fn images_stand_in_the_order_of_the_pod() {
        let names = ["main", "log", "aux"];
        let containers: Vec<_> = names.iter().map(|name| json!({ "name": name, "image": "a:1" })).collect();
        let pod = json!({ "metadata": { "name": "web" }, "spec": { "containers": containers } });
        let patch = PodPatch {
            images: ["aux", "log", "main"].map(|name| (name.into(), "a:2".into())).into(),
            metadata: BTreeMap::new(),
            record: Record::default(),
            stage: None,
            resets: Vec::new(),
            records: BTreeMap::new(),
        };
        let body = body(&serde_json::from_value(pod).unwrap(), &patch);
        let written = body["spec"]["containers"].as_array().unwrap().iter();
        assert_eq!(written.map(|container| container["name"].as_str().unwrap()).collect::<Vec<_>>(), names);
    }

    /// Message by which the owner of the entry goes.
    #[test]
    fn a_gate_that_is_opened_says_what_was_carried_out() {
        let restarts = [("main".into(), 3)].into();
        let word = CarriedOut { revision: "shop-5d4".to_owned(), attempt: 1, restarts };
        let said = |body: &Value| {
            body["status"]["conditions"][0]["message"].as_str().map(str::to_owned).expect("a message")
        };
        let message = said(&opening_body(&pod(), Some(&word), Timestamp::UNIX_EPOCH));
        let restarts = [("main".to_owned(), 3)].into();
        let end = ShownEnd { revision: "shop-5d4".to_owned(), attempt: 1, restarts };
        assert_eq!(ShownEnd::read(&message), Some(end));
        // What was said before is not left standing.
        assert_eq!(said(&opening_body(&pod(), None, Timestamp::UNIX_EPOCH)), "");
        assert_eq!(said(&closing_body(&pod(), Timestamp::UNIX_EPOCH)), CLOSED_BY);
    }

    #[test]
    fn a_closed_gate_says_so_at_once() {
        let of = |pod: &core::Pod, open| {
            let body = match open {
                true => opening_body(pod, None, Timestamp::UNIX_EPOCH),
                false => closing_body(pod, Timestamp::UNIX_EPOCH),
            };
            let text = |one: &Value, member: &str| one[member].as_str().unwrap().to_owned();
            let conditions = body["status"]["conditions"].as_array().unwrap().iter();
            conditions.map(|one| (text(one, "type"), text(one, "status"))).collect::<Vec<_>>()
        };
        let pair = |name: &str, status: &str| (name.to_owned(), status.to_owned());
        assert_eq!(of(&pod(), false), [pair(GATE, "False"), pair("Ready", "False")]);
        assert_eq!(of(&pod(), true), [pair(GATE, "True")]);
        // The gate that workloads give their pods beside it is opened along, where nobody has written it.
        let (ready, both) = ("KruisePodReady", [GATE, "KruisePodReady"]);
        let gates: Vec<_> = both.iter().map(|gate| json!({ "conditionType": gate })).collect();
        for (written, expect) in
            [(None, vec![pair(GATE, "True"), pair(ready, "True")]), (Some("False"), vec![pair(GATE, "True")])]
        {
            let conditions: Vec<_> =
                written.iter().map(|status| json!({ "type": ready, "status": status })).collect();
            let pod = json!({
                "metadata": {}, "spec": { "containers": [], "readinessGates": gates }, "status": { "conditions": conditions },
            });
            assert_eq!(of(&serde_json::from_value(pod).unwrap(), true), expect, "{written:?}");
        }
    }
}
