//! A `NodeImage` read and answered, without a runtime or an API server.

use std::time::{Duration, Instant};

use berth_policy::{Bytes, Credentials, WishPhase, WishReport, WishSource};
use berth_proto::crd::{ImagePhase, LONGEST_MESSAGE, NodeImage, NodeImageStatus};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde_json::{Value, json};

use super::{
    status::{self, Told, status, without_progress},
    wishes::{NodeImageWishes, asked},
};
use crate::base::clock::Clock;

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn object(spec: Value, status: Value) -> NodeImage {
    serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "NodeImage",
        "metadata": { "name": "node" },
        "spec": spec,
        "status": status,
    }))
    .unwrap()
}

fn read(spec: Value, status: Value) -> NodeImageWishes {
    asked(&object(spec, status), WishSource::Api, "", Some(Duration::from_secs(60)))
}

#[test]
fn what_users_ask_for() {
    let spec = json!({ "images": { "host:5000/app": {
        "sandboxConfig": { "labels": { "a": "b" }, "annotations": { "c": "d" } },
        "tags": [
            { "tag": "v1", "version": 3, "imagePullPolicy": "Always",
              "pullPolicy": { "timeoutSeconds": 9, "backoffLimit": 0, "activeDeadlineSeconds": 20 } },
            { "tag": DIGEST },
        ],
    } } });
    let NodeImageWishes { wishes, faults } = read(spec, json!({}));
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(&*wishes[0].image.given, "host:5000/app:v1");
    assert_eq!((wishes[0].version, wishes[0].always, wishes[0].retries), (3, true, 0));
    assert_eq!((wishes[0].timeout.as_secs(), wishes[0].deadline), (9, Some(Duration::from_secs(20))));
    assert_eq!(wishes[0].labels["a"], "b");
    assert_eq!(&*wishes[1].image.given, format!("host:5000/app@{DIGEST}"));
    assert_eq!((wishes[1].timeout.as_secs(), wishes[1].retries, wishes[1].always), (600, 3, false));
    assert_eq!(wishes[1].annotations["c"], "d");
    assert_ne!(wishes[0].id, wishes[1].id);
}

#[test]
fn what_the_manager_asks_for_is_taken_as_it_is_given() {
    let given = format!("host:5000/app:v1@{DIGEST}");
    let wanted = json!({ "desiredImages": [
        { "uid": "u-1", "image": given, "version": 1, "sealedCredentials": ["AAAA", "BBBB"] },
        { "uid": "u-2", "image": "app" },
    ] });
    let NodeImageWishes { wishes, faults } = read(json!({}), wanted);
    assert!(faults.is_empty());
    assert_eq!((&*wishes[0].image.given, &*wishes[0].id.key), (given.as_str(), "u-1"));
    let Credentials::Sealed(sealed) = &wishes[0].credentials else { panic!("{:?}", wishes[0]) };
    assert_eq!(sealed.len(), 2);
    assert_eq!((&*wishes[1].image.given, &wishes[1].credentials), ("app", &Credentials::Node));
    assert_eq!((&*wishes[1].image.registry, &*wishes[1].image.repository), ("docker.io", "library/app"));
}

#[test]
fn what_cannot_be_done_is_named_and_the_rest_is_done() {
    let spec = json!({ "images": {
        "Upper/Case": { "tags": [{ "tag": "v1" }] },
        "app:v1": { "tags": [{ "tag": "v2" }] },
        "fine": { "tags": [{ "tag": "v1" }, { "tag": "no tag" }] },
    } });
    let NodeImageWishes { wishes, faults } =
        read(spec, json!({ "desiredImages": [{ "uid": "u", "image": "a b" }] }));
    assert_eq!(wishes.len(), 1);
    for part in
        ["spec.images[\"Upper/Case\"]", "\"app:v1\"", "\"no tag\"", "status.desiredImages[\"u\"].image"]
    {
        assert!(faults.iter().any(|fault| fault.contains(part)), "{part} is missing in {faults:?}");
    }
}

#[test]
fn what_ended_before_is_not_begun_again() {
    let spec =
        |version: i64| json!({ "images": { "app": { "tags": [{ "tag": "v1", "version": version }] } } });
    let answered = |phase: &str| {
        json!({
            "imageStatuses": { "app": { "tags": [
                { "tag": "v1", "version": 2, "phase": phase, "imageID": "app@sha256:77" } ] } },
            "desiredImages": [{ "uid": "u", "image": "app", "version": 2 }],
            "pulls": [{ "uid": "u", "version": 2, "phase": phase, "imageID": "sha256:77", "message": "m" }],
        })
    };
    for wish in read(spec(2), answered("Succeeded")).wishes {
        let settled = wish.settled.unwrap();
        assert_eq!((settled.succeeded, settled.image_id.as_deref()), (true, Some("sha256:77")));
    }
    assert!(
        read(spec(2), answered("Failed")).wishes.iter().all(|wish| !wish.settled.clone().unwrap().succeeded)
    );
    assert!(read(spec(2), answered("Pulling")).wishes.iter().all(|wish| wish.settled.is_none()));
    assert!(read(spec(3), answered("Succeeded")).wishes[0].settled.is_none(), "asked for anew");
}

struct Scene {
    begun: Instant,
    clock: Clock,
}

impl Scene {
    fn new() -> Self {
        let begun = Instant::now();
        Self { begun, clock: Clock::new(begun, Timestamp::from_second(1_000_000).unwrap()) }
    }

    fn told(&self, reports: &[WishReport], faults: &[String], previous: &NodeImageStatus) -> NodeImageStatus {
        let told = Told { reports, prefix: "", faults, sealing_key: Some("key") };
        status(&told, previous, &self.clock, Time(Timestamp::from_second(1_000_100).unwrap()))
    }
}

fn reports(scene: &Scene, phases: [WishPhase; 3]) -> Vec<WishReport> {
    let wanted = json!({ "desiredImages": [
        { "uid": "a", "image": "app:v1", "version": 1 },
        { "uid": "b", "image": "app:v1", "version": 1 },
    ] });
    let asked = read(json!({ "images": { "app": { "tags": [{ "tag": "v2" }] } } }), wanted);
    reports_of(scene, asked, phases)
}

fn reports_of<const N: usize>(
    scene: &Scene,
    asked: NodeImageWishes,
    phases: [WishPhase; N],
) -> Vec<WishReport> {
    let report = |(wish, phase): (berth_policy::Wish, WishPhase)| WishReport {
        id: wish.id,
        image: wish.image,
        version: wish.version,
        phase,
        bytes: (phase == WishPhase::Pulling).then_some(Bytes { done: 999, total: 1000 }),
        attempts: 1,
        started: Some(scene.begun + Duration::from_millis(1500)),
        ended: (phase == WishPhase::Succeeded).then(|| scene.begun + Duration::from_secs(3)),
        image_id: (phase == WishPhase::Succeeded).then(|| "sha256:77".to_owned()),
        message: String::new(),
    };
    asked.wishes.into_iter().zip(phases).map(report).collect()
}

#[test]
fn each_wish_has_its_answer_and_each_image_one() {
    let scene = Scene::new();
    let all = reports(&scene, [WishPhase::Failed, WishPhase::Succeeded, WishPhase::Pulling]);
    let status = scene.told(&all, &[], &NodeImageStatus::default());
    let phases: Vec<_> =
        status.pulls.iter().map(|pull| (pull.uid.as_str(), pull.phase, pull.progress)).collect();
    assert_eq!(phases, [("a", ImagePhase::Succeeded, Some(100)), ("b", ImagePhase::Pulling, Some(99))]);
    let tags = &status.image_statuses["app"].tags;
    let told: Vec<_> = tags.iter().map(|tag| (tag.tag.as_str(), tag.phase)).collect();
    assert_eq!(
        told,
        [("v2", ImagePhase::Failed), ("v1", ImagePhase::Pulling)],
        "the one that is not there yet"
    );
    assert_eq!((status.desired, status.failed, status.pulling), (Some(2), Some(1), Some(1)));
    assert_eq!((status.succeeded, status.waiting), (Some(0), Some(0)));
    assert_eq!(status.sealing_key.as_deref(), Some("key"));
    assert_eq!(status.pulls[0].start_time.as_ref().unwrap().0, Timestamp::from_second(1_000_001).unwrap());
    assert_eq!(
        status.pulls[0].completion_time.as_ref().unwrap().0,
        Timestamp::from_second(1_000_003).unwrap()
    );
}

/// Names of images that users ask for stay as they give them.
#[test]
fn the_image_of_a_job_has_the_name_that_openkruise_gives_it() {
    let scene = Scene::new();
    let name = "docker.io/library/app";
    let wanted = json!({ "desiredImages": [{ "uid": "a", "image": format!("{name}:v1") }] });
    let asked = read(json!({ "images": { name: { "tags": [{ "tag": "v2" }] } } }), wanted);
    let all = reports_of(&scene, asked, [WishPhase::Succeeded; 2]);
    let status = scene.told(&all, &[], &NodeImageStatus::default());
    let told = |name: &str| {
        let tag = &status.image_statuses[name].tags[0];
        (tag.tag.as_str(), tag.image_id.as_deref())
    };
    assert_eq!(told("app"), ("v1", Some("app@sha256:77")));
    assert_eq!(told(name), ("v2", Some("docker.io/library/app@sha256:77")));
    let settled: Vec<WishReport> =
        all.into_iter().map(|report| WishReport { started: None, ended: None, ..report }).collect();
    assert_eq!(scene.told(&settled, &[], &status), status, "nothing to write after a restart");
}

#[test]
fn a_copy_of_what_is_desired_asks_for_nothing() {
    let owner = |path: &str| json!([{ "kind": "ImagePullJob", "uid": "u", "fieldPath": path }]);
    let tags = json!([
        { "tag": "v1", "ownerReferences": owner("status.desiredImages") },
        { "tag": "v2", "ownerReferences": owner("") },
    ]);
    let NodeImageWishes { wishes, faults } =
        read(json!({ "images": { "app": { "tags": tags } } }), json!({}));
    assert!(faults.is_empty(), "{faults:?}");
    let given: Vec<&str> = wishes.iter().map(|wish| &*wish.image.given).collect();
    assert_eq!(given, ["app:v2"]);
}

#[test]
fn times_of_an_earlier_process_stay() {
    let scene = Scene::new();
    let all = reports(&scene, [WishPhase::Succeeded; 3]);
    let first = scene.told(&all, &[], &NodeImageStatus::default());
    let settled: Vec<WishReport> =
        all.into_iter().map(|report| WishReport { started: None, ended: None, ..report }).collect();
    assert_eq!(scene.told(&settled, &[], &first), first, "nothing to write after a restart");
    let anew: Vec<_> = settled.into_iter().map(|report| WishReport { version: 9, ..report }).collect();
    assert!(scene.told(&anew, &[], &first).pulls.iter().all(|pull| pull.start_time.is_none()));
}

#[test]
fn faults_are_a_condition_and_progress_is_not_news() {
    let scene = Scene::new();
    let none = NodeImageStatus::default();
    let faulty = scene.told(&[], &["spec.images[\"x\"]: bad".to_owned()], &none);
    let condition = &faulty.conditions[0];
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "InvalidSpec"));
    assert!(condition.message.contains("spec.images"));
    assert_eq!(scene.told(&[], &[], &faulty).conditions[0].status, "True");
    let many = vec!["spec.images: bad".to_owned(); 10_000];
    let longest = scene.told(&[], &many, &none).conditions[0].message.len();
    // One that is longer would have the whole status refused.
    assert!(longest <= LONGEST_MESSAGE && longest > LONGEST_MESSAGE - 4, "{longest}");

    let mut all = reports(&scene, [WishPhase::Pulling; 3]);
    let before = scene.told(&all, &[], &none);
    all[1].bytes = Some(Bytes { done: 10, total: 1000 });
    let after = scene.told(&all, &[], &before);
    assert_ne!(before, after);
    assert_eq!(without_progress(&before), without_progress(&after));
    all[1].phase = WishPhase::Succeeded;
    assert_ne!(without_progress(&scene.told(&all, &[], &after)), without_progress(&after));
}

/// Names are the same in a status and on the command line.
#[test]
fn phases_have_one_name() {
    for phase in [WishPhase::Waiting, WishPhase::Pulling, WishPhase::Succeeded, WishPhase::Failed] {
        assert_eq!(serde_json::to_value(status::phase(phase)).unwrap(), phase.name());
    }
}
