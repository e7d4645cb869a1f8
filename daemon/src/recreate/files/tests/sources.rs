//! A request is told alike by all three sources: the status of an object, the status beside a file, the admin
//! socket.

use berth_policy::{FailureReason, RecreateReport};
use berth_proto::{
    admin,
    crd::{ContainerRecreateRequestStatus, RecreatePhase},
};
use serde_json::{Value, json};

use super::{World, record::Record};
use crate::{
    base::clock::Clock,
    cluster::object::Object,
    recreate::{
        api::shown,
        codec::{self, Row, answer},
    },
};

/// Phases that a status can have, also where they make no sense.
const PHASES: [RecreatePhase; 5] = [
    RecreatePhase::Pending,
    RecreatePhase::Recreating,
    RecreatePhase::Completed,
    RecreatePhase::Succeeded,
    RecreatePhase::Failed,
];

/// A status as somebody wrote it, and the words that everybody is to read in it.
struct Case {
    status: Value,
    phase: &'static str,
    container: &'static str,
    outcome: (&'static str, &'static str),
}

fn case(phase: Option<RecreatePhase>, container: RecreatePhase, end: Option<(&str, &str)>) -> Case {
    let mut status = json!({
        "podUID": "u-1", "message": "why",
        "containerStatusContexts": [{ "name": "app", "containerID": "fake://c-1", "restartCount": 3 }],
        "containerRecreateStates": [{ "name": "app", "phase": container, "message": "how", "isKilled": true }],
        "conditions": [{
            "type": "PreRecreateGrace", "status": "True", "reason": "PreRecreateGrace", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:05Z",
        }],
    });
    if let Some(phase) = phase {
        status["phase"] = json!(phase);
    }
    if let Some((kind, reason)) = end {
        status["completionTime"] = json!("2026-01-01T00:00:07Z");
        status["conditions"].as_array_mut().unwrap().push(json!({
            "type": kind, "status": "True", "reason": reason, "message": "why",
            "lastTransitionTime": "2026-01-01T00:00:07Z",
        }));
    }
    Case {
        status,
        // These two are for containers.
        phase: phase
            .filter(|phase| ![RecreatePhase::Succeeded, RecreatePhase::Failed].contains(phase))
            .map_or("", RecreatePhase::name),
        // And this one is not.
        container: if container == RecreatePhase::Completed { "Succeeded" } else { container.name() },
        outcome: match end {
            None => ("", ""),
            Some(("Complete", _)) => ("Complete", ""),
            Some((_, reason)) => ("Failed", FailureReason::named(reason).name()),
        },
    }
}

fn cases() -> Vec<Case> {
    let phases = PHASES.into_iter().map(Some).chain([None]);
    let mut cases: Vec<Case> =
        phases.flat_map(|phase| PHASES.map(|container| case(phase, container, None))).collect();
    let ends = FailureReason::ALL.iter().map(|reason| ("Failed", reason.name()));
    for end in ends.into_iter().chain([("Failed", "OfTomorrow"), ("Complete", "Succeeded")]) {
        cases.push(case(Some(RecreatePhase::Completed), RecreatePhase::Failed, Some(end)));
    }
    cases
}

/// The report that the policy gets of an object with this status.
fn of_api(status: &Value) -> RecreateReport {
    let object = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest",
        "metadata": {
            "namespace": "shop", "name": "again", "uid": "r-1", "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": { "podName": "web", "containers": [{ "name": "app" }] },
        "status": status,
    });
    let object: Object = Object::read(serde_json::from_value(object).unwrap()).unwrap();
    codec::request(shown(&object), &Clock::read()).unwrap().reported
}

/// The text of a status file that says this.
fn file(status: &Value) -> String {
    let mut file = status.clone();
    file["metadata"] =
        json!({ "namespace": "shop", "name": "again", "creationTimestamp": "2026-01-01T00:00:00.000000Z" });
    file["spec"] = json!({ "podName": "web", "containers": [{ "name": "app" }] });
    serde_saphyr::to_string(&file).unwrap()
}

fn words(told: &admin::RecreateState) -> (&str, &str, (&str, &str)) {
    (&told.phase, &told.containers[0].phase, (&told.outcome, &told.reason))
}

#[tokio::test]
async fn every_phase_and_reason_reads_the_same_from_all_sources() {
    let mut world = World::with_pod("c-1").await;
    let cases = cases();
    assert!(cases.len() > 40);
    for (number, case) in cases.iter().enumerate() {
        let path = world.path(&format!("{number:03}.yaml"));
        std::fs::write(&path, super::manifest("web", "")).unwrap();
        std::fs::write(world.path(&format!("{number:03}.yaml.status.yaml")), file(&case.status)).unwrap();
    }
    world.restart(Some("c-1")).await;
    let rows = world.life.files.list().await;
    assert_eq!(rows.len(), cases.len());
    for (row, case) in rows.into_iter().zip(&cases) {
        let status = &case.status;
        let of_api = of_api(status);
        let record = Record::parse(&file(status)).unwrap();
        let of_file = record.request(&world.path("web.yaml"), &Clock::read()).unwrap().unwrap().reported;
        assert_eq!(of_file, of_api, "{status}");
        assert_eq!(row.report, of_api, "{status}");

        let expected = (case.phase, case.container, case.outcome);
        let as_object = Row { containers: vec!["app".to_owned()], report: of_api.clone(), ..Row::default() };
        assert_eq!(words(&answer(as_object)), expected, "{status}");
        assert_eq!(words(&answer(row)), expected, "{status}");
    }
}

#[tokio::test]
async fn every_report_is_written_the_same_to_all_sources() {
    let nothing = ContainerRecreateRequestStatus::default();
    let now = "2026-01-01T00:01:00.25Z".parse().unwrap();
    for case in cases() {
        let report = of_api(&case.status);
        let object = serde_json::to_value(codec::status(&report, &nothing, now)).unwrap();
        let mut record = Record::new(now);
        record.report(&report, now);
        let text = record.text().unwrap();
        let file: ContainerRecreateRequestStatus = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(serde_json::to_value(&file).unwrap(), object, "{text}");
        let told = answer(Row { containers: vec!["app".to_owned()], report, ..Row::default() });
        let phase = |value: &Value| value["phase"].as_str().unwrap_or_default().to_owned();
        assert_eq!(told.phase, phase(&object));
        assert_eq!(told.containers[0].phase, phase(&object["containerRecreateStates"][0]));
        assert_eq!((&told.message, told.containers[0].killed), (&"why".to_owned(), true));
        let condition = &object["conditions"][0];
        let (outcome, reason) = (condition["type"].as_str().unwrap(), condition["reason"].as_str().unwrap());
        match told.outcome.as_str() {
            "" => assert_eq!(outcome, "PreRecreateGrace"),
            "Complete" => assert_eq!((outcome, reason), ("Complete", "Succeeded")),
            failed => assert_eq!((failed, told.reason.as_str()), (outcome, reason)),
        }
    }
}
