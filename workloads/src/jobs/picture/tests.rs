use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use rstest::rstest;
use serde_json::{Value, json};

use super::{super::watches, *};

fn meta(version: u32, kind: &str) -> Value {
    json!({
        "namespace": "ns", "name": "p", "uid": "u", "resourceVersion": version.to_string(),
        "ownerReferences": [{
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": kind, "name": "x", "uid": "x", "controller": true,
        }],
    })
}

#[rstest]
#[case::another_version(|_: &mut Value| {}, false)]
#[case::an_address(|pod: &mut Value| pod["status"]["podIP"] = "10.0.0.1".into(), false)]
#[case::ended(|pod: &mut Value| pod["status"]["phase"] = "Succeeded".into(), true)]
#[case::bound(|pod: &mut Value| pod["spec"]["nodeName"] = "n".into(), true)]
#[case::it_goes(|pod: &mut Value| pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(), true)]
fn a_pod_that_changes_nothing_is_no_plan(#[case] change: fn(&mut Value), #[case] planned: bool) {
    let pod = |version, change: fn(&mut Value)| {
        let mut pod = json!({
            "metadata": meta(version, "BroadcastJob"), "spec": { "containers": [] },
            "status": { "phase": "Running" },
        });
        change(&mut pod);
        watches::pod(serde_json::from_value::<Pod>(pod).unwrap()).unwrap()
    };
    let mut pods = Owned::default();
    pods.take(Shown::Applied(pod(1, |_| {})));
    assert_eq!(pods.take(Shown::Applied(pod(2, change))) != Concerned::None, planned);
}

#[rstest]
#[case::a_pod_begins(json!({ "active": 1, "ready": 1 }), false)]
#[case::ended(json!({ "conditions": [{ "type": "Complete", "status": "True" }] }), true)]
fn a_job_that_goes_on_is_no_plan(#[case] status: Value, #[case] planned: bool) {
    let job = |version, status: &Value| {
        let job = json!({ "metadata": meta(version, "AdvancedCronJob"), "status": status });
        watches::job(serde_json::from_value::<Job>(job).unwrap()).unwrap()
    };
    let mut jobs = Owned::default();
    jobs.take(Shown::Applied(job(1, &json!({}))));
    assert_eq!(jobs.take(Shown::Applied(job(2, &status))) != Concerned::None, planned);
}

fn node(name: &str, labels: Value) -> Input {
    let room = json!({ "allocatable": { "cpu": "2", "pods": "110" } });
    let node = json!({ "metadata": { "name": name, "labels": labels }, "status": room });
    let view = NodeView::of(&serde_json::from_value(node).unwrap());
    Input::Node(Shown::Applied((name.to_owned(), view)))
}

/// A picture of a job on all nodes, one on nodes with a disk, one that has ended and one that makes no sense.
fn picture() -> Jobs {
    let zone = jiff::tz::TimeZone::UTC;
    let settings = Settings { broadcast_jobs: true, cron_jobs: false, by_scheduler: true, zone };
    let mut picture = Jobs::new(settings);
    let given = [
        ("all", "Never", json!({}), "running"),
        ("disk", "Never", json!({ "disk": "ssd" }), "running"),
        ("ended", "Never", json!({}), "completed"),
        ("faulty", "Always", json!({}), "running"),
    ];
    for (name, restart, selector, phase) in given {
        let spec = json!({ "restartPolicy": restart, "nodeSelector": selector, "containers": [] });
        let job = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "BroadcastJob",
            "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": "1" },
            "spec": { "template": { "spec": spec } }, "status": { "phase": phase },
        });
        let filed = Kind::Broadcast.read(serde_json::from_value(job).unwrap()).unwrap();
        picture.take(Input::Object(Kind::Broadcast, Shown::Applied(filed)));
    }
    picture
}

#[test]
fn a_node_concerns_the_jobs_that_it_changes_anything_for() {
    let some = |uids: &[&str]| Concerned::Some(uids.iter().map(|uid| (*uid).to_owned()).collect());
    let mut picture = picture();
    assert_eq!(picture.take(Input::Node(Shown::ListBegins)), Concerned::None);
    assert_eq!(
        picture.take(node("old", json!({ "disk": "ssd" }))),
        Concerned::None,
        "the end says it of all"
    );
    assert_eq!(picture.take(Input::Node(Shown::ListEnds)), some(&["all", "disk", "faulty"]));
    // A node comes, and gets its labels one after the other.
    assert_eq!(picture.take(node("new", json!({}))), some(&["all"]));
    assert_eq!(picture.take(node("new", json!({ "a": "b" }))), some(&[]));
    assert_eq!(picture.take(node("new", json!({ "a": "b", "disk": "ssd" }))), some(&["disk"]));
    assert_eq!(picture.take(node("new", json!({ "a": "c", "disk": "ssd" }))), some(&[]));
    assert_eq!(picture.take(node("new", json!({ "a": "c", "disk": "ssd" }))), Concerned::None);
    assert_eq!(picture.take(node("new", json!({ "a": "c" }))), some(&["disk"]));
    assert_eq!(picture.take(Input::Node(Shown::Gone("new".to_owned()))), some(&["all"]));
    // A list that does not show it says the same.
    picture.take(Input::Node(Shown::ListBegins));
    assert_eq!(picture.take(Input::Node(Shown::ListEnds)), some(&["all", "disk"]));
}

/// An answer to the plan of one object is news for others, and the watch, which comes later, shows none.
#[test]
fn an_answer_concerns_those_that_it_is_news_for() {
    let zone = jiff::tz::TimeZone::UTC;
    let settings = Settings { broadcast_jobs: true, cron_jobs: true, by_scheduler: true, zone };
    let mut picture = Jobs::new(settings);
    let run = |version: u32, status: &Value| {
        let job = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "BroadcastJob",
            "metadata": meta(version, "AdvancedCronJob"),
            "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [] } } },
            "status": status,
        });
        Kind::Broadcast.read(serde_json::from_value(job).unwrap()).unwrap()
    };
    let ended = json!({ "phase": "completed", "conditions": [{ "type": "Complete", "status": "True" }] });
    // Each row: whose plan it is, the answer, and those that it is news for; the owner's UID is `x`.
    let table = [
        ("made by the owner's plan", "x", run(1, &json!({})), vec!["x", "u"]),
        ("its own first status", "u", run(2, &json!({ "phase": "running" })), vec!["u"]),
        ("its own last status", "u", run(3, &ended), vec!["x", "u"]),
        ("an answer that comes late", "u", run(2, &json!({ "phase": "running" })), vec![]),
    ];
    for (case, of, filed, news) in table {
        assert_eq!(picture.wrote(of, Wrote::Object(Box::new(filed))), news, "{case}");
    }
    let shown = Input::Object(Kind::Broadcast, Shown::Applied(run(3, &ended)));
    assert_eq!(picture.take(shown), Concerned::None);
}

#[test]
fn what_names_an_owner_of_another_namespace_is_none_of_its() {
    let mut picture = picture();
    for namespace in ["ns", "evil"] {
        let named = |kind: &str| {
            let mut meta = meta(1, kind);
            meta["namespace"] = namespace.into();
            meta["uid"] = format!("of-{namespace}").into();
            meta["ownerReferences"][0]["uid"] = "all".into();
            meta
        };
        let pod = json!({ "metadata": named("BroadcastJob"), "spec": { "containers": [] } });
        let pod = watches::pod(serde_json::from_value::<Pod>(pod).unwrap()).unwrap();
        picture.take(Input::Pod(Shown::Applied(pod)));
        let job = json!({ "metadata": named("AdvancedCronJob") });
        let job = watches::job(serde_json::from_value::<Job>(job).unwrap()).unwrap();
        picture.take(Input::Job(Shown::Applied(job)));
    }
    let all = picture.object("all").unwrap();
    let pods: Vec<&str> = picture.pods_of(all).into_iter().map(|pod| pod.uid.as_str()).collect();
    let jobs: Vec<&str> = picture.children_of(all).into_iter().map(|job| job.uid.as_str()).collect();
    assert_eq!((pods, jobs), (vec!["of-ns"], vec!["of-ns"]));
}

/// Its AdvancedCronJob sees it as before, and begins no other one.
#[test]
fn a_job_for_which_there_is_no_room_is_there_and_rests() {
    let zone = jiff::tz::TimeZone::UTC;
    let settings = Settings { broadcast_jobs: true, cron_jobs: true, by_scheduler: true, zone };
    let mut picture = Jobs::new(settings);
    picture.room = Room::new(100_000);
    let job = |namespace: &str, name: &str, version: u32, bytes: usize| {
        let mut meta = meta(version, "AdvancedCronJob");
        meta["namespace"] = namespace.into();
        meta["name"] = name.into();
        meta["uid"] = name.into();
        meta["labels"] = json!({ "a": "b" });
        meta["annotations"] = json!({ cron_job::SCHEDULED_AT: "2026-01-01T11:00:00Z", "large": "x" });
        let job = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "BroadcastJob", "metadata": meta,
            "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [] } } },
            "status": { "phase": "running" },
        });
        Kind::Broadcast.read(serde_json::from_value(job).unwrap()).unwrap().weighing(bytes)
    };
    let shown = |filed: Filed| Input::Object(Kind::Broadcast, Shown::Applied(filed));
    picture.take(shown(job("a", "small", 1, 10_000)));
    picture.take(shown(job("b", "one", 1, 60_000)));
    picture.take(shown(job("b", "two", 1, 61_000)));
    assert!(picture.object("small").is_some() && picture.object("one").is_some());
    assert!(picture.object("two").is_none() && picture.objects().count() == 2);
    let kept = picture.filed("two").unwrap();
    assert!(kept.object.meta().labels.is_none(), "little is kept of it");
    assert_eq!(child(kept).as_ref(), picture.broadcasts.get("two"), "as a reading shows it");
    let all = |picture: &Jobs| -> Vec<String> {
        picture.all_left_out().into_iter().filter_map(|object| object.name).collect()
    };
    assert_eq!(all(&picture), ["two"]);
    let left_out: Vec<_> = picture.left_out().into_iter().filter_map(|object| object.name).collect();
    assert_eq!(left_out, ["two"]);
    picture.take(shown(job("b", "two", 2, 62_000)));
    assert!(picture.left_out().is_empty(), "it is said once");
    assert_eq!(picture.broadcasts.get("two").unwrap().version, "2");
    assert!(picture.room.aside().contains("two"));
    // Another one goes: there is room again, and it is read before it is planned.
    let gone = Input::Object(Kind::Broadcast, Shown::Gone("one".to_owned()));
    let Concerned::Some(concerned) = picture.take(gone) else { panic!("somebody") };
    assert!(concerned.contains(&"two".to_owned()));
    assert!(picture.object("two").is_some() && picture.lacks("two") && !picture.lacks("small"));
    picture.wrote("two", Wrote::Object(Box::new(job("b", "two", 2, 62_000))));
    assert!(picture.object("two").is_some() && !picture.lacks("two"));
    assert!(picture.room.aside().is_empty() && all(&picture).is_empty());
}
