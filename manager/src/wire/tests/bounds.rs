//! Specs and statuses that are larger or deeper than is read.

use berth_sidecarset::names::INJECTED_LIST;
use serde_json::json;

use crate::wire::*;

/// Let in by a definition without bounds: it is refused in words, and nothing of it is kept.
#[test]
fn a_spec_that_is_too_large_is_not_read() {
    let job = |bytes: usize| {
        let value = json!({
            "metadata": { "name": "j", "namespace": "shop" },
            "spec": { "image": "a", "completionPolicy": {}, "sandboxConfig": { "annotations": { "a": "x".repeat(bytes) } } },
        });
        let watched: Watched<Jobs> = serde_json::from_value(value).unwrap();
        let Object::ImagePullJob(job) = watched.into_object() else { panic!("a job") };
        job.spec
    };
    assert!(job(MOST_SPEC - 1024).is_ok());
    let error = job(MOST_SPEC).unwrap_err();
    assert!(error.contains("524288") && error.contains("smaller"), "{error}");
}

/// Text says little of what maps take: some 90 times as much.
#[test]
fn a_spec_that_takes_too_much_memory_is_not_read() {
    let spread = |maps: usize| {
        let patch = json!({ "metadata": { "a": vec![json!({ "a": 1 }); maps] } });
        let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
        let spec = json!({ "targetRef": target, "subsets": [{ "name": "a", "patch": patch }] });
        let value = json!({ "metadata": { "name": "s", "namespace": "shop" }, "spec": spec });
        let watched: Watched<Spreads> = serde_json::from_value(value).unwrap();
        let Object::Spread(spread) = watched.into_object() else { panic!("a spread") };
        spread.spec
    };
    assert!(spread(1_000).is_ok());
    let error = spread(10_000).unwrap_err();
    assert!(error.contains("fewer lists and maps"), "{error}");
}

/// Containers that nobody has checked yet, as many as an API server sends. Each status is looked up: to walk
/// through all of them for each container would take minutes.
#[test]
fn statuses_of_a_large_pod_are_looked_up() {
    let all = |one: fn(usize) -> Value| (0..40_000).map(one).collect::<Vec<_>>();
    let containers = all(|at| json!({ "name": format!("c{at}"), "image": "i" }));
    let statuses =
        all(|at| json!({ "name": format!("c{at}"), "containerID": format!("r://{at}"), "restartCount": at }));
    let value = json!({
        "metadata": { "name": "p", "namespace": "shop", "annotations": { INJECTED_LIST: "s" } },
        "spec": { "containers": containers },
        "status": { "phase": "Running", "containerStatuses": statuses },
    });
    let watched: Watched<Pods> = serde_json::from_value(value).unwrap();
    let Object::Pod(pod) = watched.into_object() else { panic!("a pod") };
    let last = pod.containers.last().unwrap();
    assert_eq!((last.id.as_deref(), last.restarts), (Some("r://39999"), 39_999));
    assert!(pod.sidecars.unwrap().unsettled.is_empty());
}

/// Later versions of some kinds keep more in the status than their definition knows, so it may be anything.
/// A list with such an object is read like any other.
#[test]
fn a_status_of_any_form_hides_no_object() {
    fn fault<W: Watchable>(text: &str) -> Option<String> {
        let watched: Watched<W> = serde_json::from_str(text).unwrap();
        match watched.into_object() {
            Object::Request(seen) => seen.status.err(),
            Object::Update(seen) => seen.status.err(),
            Object::ImagePullJob(seen) => seen.status.err(),
            Object::PodProbeMarker(seen) => seen.status.err(),
            Object::SidecarSet(seen) => seen.status.err(),
            Object::Budget(seen) => seen.status.err(),
            Object::Spread(seen) => seen.status.err(),
            Object::PodState(seen) => seen.status.err(),
            other => panic!("{other:?}"),
        }
    }
    let kinds: [fn(&str) -> Option<String>; 8] = [
        fault::<Requests>,
        fault::<Updates>,
        fault::<Jobs>,
        fault::<Markers>,
        fault::<SidecarSets>,
        fault::<Budgets>,
        fault::<Spreads>,
        fault::<PodStates>,
    ];
    let deep = |levels: usize| (0..levels).fold(Value::Null, |inner, _| json!([inner]));
    for (more, says) in [
        (json!("of a later version"), None),
        (deep(100), None),
        (deep(500), Some("more is nested deeper than")),
        (json!(vec![json!({ "a": 1 }); 20_000]), Some(nested::TOO_LARGE)),
    ] {
        let status = json!({ "observedGeneration": 1, "more": more });
        let object =
            json!({ "metadata": { "name": "a", "namespace": "shop" }, "spec": {}, "status": status });
        let text = object.to_string();
        for fault in kinds {
            let fault = fault(&text);
            assert_eq!(fault.is_some(), says.is_some(), "{fault:?}");
            assert!(says.is_none_or(|says| fault.is_some_and(|fault| fault.starts_with(says))));
        }
    }
}
