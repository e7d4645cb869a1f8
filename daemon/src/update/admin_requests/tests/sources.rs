//! A request to update is told alike by all sources: the status of an object, the file of `berthctl update`,
//! and the answer to an entry of a NodePodUpdate.

use std::fs;

use berth_policy::{
    StepOutcome,
    in_place_update::{FailureReason, UpdateOutcome, UpdateReport, UpdateRequest, UpdateSource},
};
use berth_proto::crd::{ContainerUpdateRequestStatus, DesiredPod, TwinSwapStep, UpdatePhase};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    base::clock::Clock,
    cluster::object::Object,
    update::{admin_requests::AdminRequests, report, requests, shared::SharedUpdates},
};

/// Phases that a status can have, also where they make no sense.
const PHASES: [UpdatePhase; 6] = [
    UpdatePhase::Pending,
    UpdatePhase::Updating,
    UpdatePhase::RollingBack,
    UpdatePhase::Completed,
    UpdatePhase::Succeeded,
    UpdatePhase::Failed,
];
/// Steps of a swap.
const STEPS: [TwinSwapStep; 5] = [
    TwinSwapStep::Pending,
    TwinSwapStep::Migrating,
    TwinSwapStep::Emptying,
    TwinSwapStep::Returning,
    TwinSwapStep::Done,
];

/// Phase of the request, phase of its container, and how it ended, with the reason.
type Words<'a> = (&'a str, &'a str, (&'a str, &'a str));

/// A status as somebody wrote it, and the words that everybody is to read in it.
struct Case {
    status: Value,
    words: Words<'static>,
}

/// `said`: the condition that is true, and its reason.
fn case(phase: Option<UpdatePhase>, container: UpdatePhase, said: Option<(&str, &str)>) -> Case {
    const TIME: &str = "2026-01-02T03:04:07Z";
    let swap = |step: TwinSwapStep| json!({ "name": format!("{step:?}"), "working": "app", "step": step, "since": TIME });
    let mut status = json!({
        "nodeName": "node", "podUID": "p-1", "message": "why",
        "containerUpdateStates": [{ "name": "app", "phase": container, "message": "how" }],
        "swaps": STEPS.map(swap),
        "previous": {
            "revision": "r", "containers": [{ "name": "app", "image": "app:1" }], "labels": { "a": "1" },
            "missingAnnotations": ["b"],
        },
        "conditions": [],
    });
    if let Some(phase) = phase {
        status["phase"] = json!(phase);
    }
    if let Some((kind, reason)) = said {
        let condition = json!({ "type": kind, "status": "True", "reason": reason, "message": "why",
            "lastTransitionTime": TIME });
        status["conditions"] = json!([condition]);
        if kind != "RollingBack" {
            status["completionTime"] = json!(TIME);
        }
    }
    let phase = match phase {
        Some(UpdatePhase::Pending) => "Pending",
        Some(UpdatePhase::Updating) => "Updating",
        Some(UpdatePhase::RollingBack) => "RollingBack",
        Some(UpdatePhase::Completed) => "Completed",
        // These two are for containers.
        Some(UpdatePhase::Succeeded | UpdatePhase::Failed) | None => "",
    };
    let container = match container {
        UpdatePhase::Pending => "Pending",
        UpdatePhase::Updating | UpdatePhase::RollingBack => "Updating",
        UpdatePhase::Succeeded | UpdatePhase::Completed => "Succeeded",
        UpdatePhase::Failed => "Failed",
    };
    let end = match said {
        None => ("", ""),
        Some(("Complete", _)) => ("Complete", ""),
        Some(("RollingBack", reason)) => ("", FailureReason::named(reason).name()),
        Some((_, reason)) => ("Failed", FailureReason::named(reason).name()),
    };
    Case { status, words: (phase, container, end) }
}

fn cases() -> Vec<Case> {
    let phases = PHASES.into_iter().map(Some).chain([None]);
    let mut cases: Vec<Case> =
        phases.flat_map(|phase| PHASES.map(|container| case(phase, container, None))).collect();
    let reasons = || FailureReason::ALL.iter().map(|reason| reason.name()).chain(["OfTomorrow"]);
    let (ended, goes_back) = (Some(UpdatePhase::Completed), Some(UpdatePhase::RollingBack));
    cases.extend(reasons().map(|reason| case(ended, UpdatePhase::Failed, Some(("Failed", reason)))));
    cases.extend(reasons().map(|reason| case(goes_back, UpdatePhase::Failed, Some(("RollingBack", reason)))));
    cases.push(case(ended, UpdatePhase::Succeeded, Some(("Complete", "Succeeded"))));
    cases
}

/// The object, as the API server and the file have it.
fn manifest(number: usize, status: &Value) -> Value {
    json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "ContainerUpdateRequest",
        "metadata": {
            "namespace": "shop", "name": format!("web-{number:03}"), "uid": format!("u-{number:03}"),
            "resourceVersion": "7", "creationTimestamp": "2026-01-02T03:04:05Z",
        },
        "spec": { "podName": "web", "containers": [{ "name": "app", "image": "app:2" }] },
        "status": status,
    })
}

/// The request that the policy gets of an object with this status.
fn of_api(number: usize, status: &Value, clock: &Clock) -> UpdateRequest {
    let object = Object::read(serde_json::from_value(manifest(number, status)).unwrap()).unwrap();
    requests::asked_by(&object, clock).0
}

fn words(report: &UpdateReport) -> Words<'static> {
    let end = match (report.outcome, &report.rolling_back) {
        (Some(UpdateOutcome::Complete), _) => ("Complete", ""),
        (Some(UpdateOutcome::Failed(reason)), _) => ("Failed", reason.name()),
        (None, Some((failure, _))) => ("", failure.reason.name()),
        (None, None) => ("", ""),
    };
    (report.phase.map_or("", |phase| phase.name()), report.containers[0].phase.name(), end)
}

/// The same without the times, which are those of the write.
fn timeless(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            for (field, value) in fields {
                *value = match field.as_str() {
                    "completionTime" | "lastTransitionTime" | "since" => json!("then"),
                    _ => timeless(value.take()),
                };
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|value| *value = timeless(value.take())),
        _ => {}
    }
    value
}

#[tokio::test]
async fn every_phase_and_reason_reads_the_same_from_all_sources() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("updates");
    fs::create_dir(&folder).unwrap();
    let cases = cases();
    assert!(cases.len() > 60, "{}", cases.len());
    for (number, case) in cases.iter().enumerate() {
        let text = manifest(number, &case.status).to_string();
        fs::write(folder.join(format!("web-{number:03}.json")), text).unwrap();
    }
    let (admin_requests, updates) = (AdminRequests::new(dir.path()), SharedUpdates::default());
    admin_requests.load(&updates).await;
    assert_eq!(updates.standing().len(), cases.len());
    let clock = admin_requests.kept().clock;
    for (number, Case { status, words: expected }) in cases.iter().enumerate() {
        let object = of_api(number, status, &clock);
        let file = updates.entry(&object.id).unwrap().request;
        assert_eq!(UpdateRequest { source: UpdateSource::Api, ..file }, object, "{status}");
        let reported = object.reported;
        assert_eq!(words(&reported), *expected, "{status}");

        // An entry has no phase for an end; of a pod that goes back its message is why.
        let entry = DesiredPod { rollback_on_failure: true, ..DesiredPod::default() };
        let told = report::pod(&entry, &reported, None, Timestamp::UNIX_EPOCH);
        let told = report::read_pod(&told, &clock);
        let (_, container, end) = words(&told);
        assert_eq!((container, end), (expected.1, expected.2), "{status}");
        assert_eq!((told.containers, told.swaps), (reported.containers, reported.swaps), "{status}");
        assert_eq!((told.previous, told.message), (reported.previous, reported.message), "{status}");
    }
}

#[tokio::test]
async fn every_report_is_written_the_same_to_all_sources() {
    let dir = tempfile::tempdir().unwrap();
    let (admin_requests, updates) = (AdminRequests::new(dir.path()), SharedUpdates::default());
    let (nothing, clock) = (ContainerUpdateRequestStatus::default(), Clock::read());
    for (number, case) in cases().iter().enumerate() {
        let reported = of_api(number, &case.status, &clock).reported;
        let status = report::status(&reported, &nothing, Timestamp::UNIX_EPOCH);
        assert_eq!(words(&report::read(&status, &clock)), case.words, "{status:?}");

        let bare = manifest(number, &json!({ "nodeName": "node", "podUID": "p-1" }));
        let taken = admin_requests.prepare(serde_json::from_value(bare).unwrap()).unwrap();
        let id = taken.id.clone();
        admin_requests.keep(taken, &updates).await.unwrap();
        assert_eq!(admin_requests.report(&id, &reported, &updates).await, StepOutcome::Done);
        let file = fs::read(dir.path().join(format!("updates/web-{number:03}.json"))).unwrap();
        let mut file: Value = serde_json::from_slice(&file).unwrap();
        let mut expected = serde_json::to_value(status).unwrap();
        (expected["nodeName"], expected["podUID"]) = (json!("node"), json!("p-1"));
        assert_eq!(timeless(file["status"].take()), timeless(expected), "{}", case.status);
    }
}
