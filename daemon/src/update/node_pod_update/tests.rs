//! Tests of what is asked of owners, and of answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
};

use berth_policy::in_place_update::UpdateReport;
use berth_proto::crd::{NodePodUpdateStatus, UpdatePhase};

use super::*;
use crate::cluster::fake::{Answer, FakeApi, Question};

/// After a restart nothing is remembered but what the object says.
#[test]
fn what_is_done_needs_no_word_of_its_owner() {
    let entry = |revision: &str| DesiredPod {
        uid: "p".to_owned(),
        owner: "SidecarSet/s".to_owned(),
        revision: revision.to_owned(),
        ..DesiredPod::default()
    };
    let answer = |(phase, revision): (UpdatePhase, &str)| {
        let answer = report::pod(&entry(revision), &UpdateReport::default(), None, Timestamp::UNIX_EPOCH);
        (desired_key(&entry(revision)), UpdatedPod { phase, ..answer })
    };
    let table = [
        (None, false),
        (Some((UpdatePhase::Updating, "r")), false),
        (Some((UpdatePhase::Succeeded, "r")), true),
        (Some((UpdatePhase::Succeeded, "q")), false),
        // One that was refused has failed.
        (Some((UpdatePhase::Failed, "r")), false),
    ];
    for (answered, done) in table {
        let object = Object {
            uid: String::new(),
            version: 1,
            status: NodePodUpdateStatus::default(),
            aside: BTreeMap::new(),
            aside_weight: 0,
            pods: answered.map(answer).into_iter().collect(),
            unread: BTreeSet::new(),
            renewed: None,
            left: None,
            begun: BTreeMap::new(),
        };
        assert_eq!(object.is_done(&entry("r")), done, "{answered:?}");
    }
}

/// Each answer is one; without anything to answer one is due all the same.
#[test]
fn a_sign_of_life_is_due_every_two_minutes() {
    let object = |renewed| Object {
        uid: String::new(),
        version: 1,
        status: NodePodUpdateStatus::default(),
        aside: BTreeMap::new(),
        aside_weight: 0,
        pods: BTreeMap::new(),
        unread: BTreeSet::new(),
        renewed,
        left: None,
        begun: BTreeMap::new(),
    };
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    assert!(object(None).is_to_renew(start), "after a restart");
    assert!(!object(Some(start)).is_to_renew(after(119)));
    assert!(object(Some(start)).is_to_renew(after(120)));
    // Another clock of the machine was behind.
    assert!(!object(Some(after(5))).is_to_renew(start));
}

fn desired(owner: &str, revision: &str, goes_back: bool) -> DesiredPod {
    DesiredPod {
        uid: "p".to_owned(),
        owner: owner.to_owned(),
        revision: revision.to_owned(),
        rollback_on_failure: goes_back,
        ..DesiredPod::default()
    }
}

fn answer(owner: &str, revision: &str, phase: UpdatePhase) -> UpdatedPod {
    let desired = desired(owner, revision, false);
    UpdatedPod { phase, ..report::pod(&desired, &UpdateReport::default(), None, Timestamp::UNIX_EPOCH) }
}

fn shown(entries: &[DesiredPod], answers: &[UpdatedPod]) -> NodePodUpdate {
    let mut object = NodePodUpdate::new("n", Default::default());
    (object.metadata.uid, object.metadata.resource_version) = (Some("u".to_owned()), Some("1".to_owned()));
    object.status = Some(NodePodUpdateStatus {
        desired_pods: entries.to_vec(),
        pods: answers.to_vec(),
        ..NodePodUpdateStatus::default()
    });
    object
}

/// Rows: owner and revision that are asked for, whether it goes back, the answer that stands; whether it
/// waits, and whether the answer stays in what is to be said.
#[test]
fn an_entry_begins_when_no_answer_to_another_one_stands() {
    let (shop, mesh) = ("CloneSet/shop", "SidecarSet/mesh");
    let table = [
        (shop, "new", false, None, false, 0),
        (shop, "new", false, Some("new"), false, 1),
        (shop, "new", false, Some("old"), true, 0),
        // Those that report what was before begin with a report, which replaces the answer.
        (shop, "new", true, Some("old"), false, 1),
        (mesh, "new", false, Some("old"), false, 1),
    ];
    for (owner, revision, goes_back, said, waits, stays) in table {
        let entry = desired(owner, revision, goes_back);
        let said = said.map(|revision| answer(owner, revision, UpdatePhase::Succeeded));
        let object = Object::shown(None, shown(std::slice::from_ref(&entry), said.as_slice()));
        assert_eq!(object.entries().next().is_none(), waits, "{owner} {goes_back} {said:?}");
        assert_eq!(object.pods.len(), stays, "{owner} {goes_back} {said:?}");
        let renewed = Object { renewed: Some(Instant::now()), ..object };
        assert_eq!(renewed.has_said(Instant::now()), !waits, "what is in the way goes at once");
    }
}

/// Rows: owner and phase of an answer whose entry was taken away, whether it may stand for a moment, and
/// until the next write.
#[test]
fn only_a_good_end_is_left_for_a_while() {
    let table = [
        ("CloneSet/shop", UpdatePhase::Succeeded, true, true),
        ("CloneSet/shop", UpdatePhase::Failed, false, false),
        ("CloneSet/shop", UpdatePhase::Updating, false, false),
        ("SidecarSet/mesh", UpdatePhase::Succeeded, true, false),
        ("SidecarSet/mesh", UpdatePhase::Failed, false, false),
        ("", UpdatePhase::Succeeded, false, false),
    ];
    for (owner, phase, shortly, long) in table {
        let now = Instant::now();
        let ahead = Object { renewed: Some(now), ..Object::shown(None, shown(&[], &[])) };
        let object = Object::shown(Some(ahead), shown(&[], &[answer(owner, "old", phase)]));
        assert_eq!(object.has_said(now), shortly, "{owner} {phase:?}");
        assert_eq!(object.left_for(now).is_some(), shortly && !long, "{owner} {phase:?}");
        let left = object.left_for(now).unwrap_or_default();
        assert_eq!(object.has_said(now + left + Duration::from_secs(1)), long, "{owner} {phase:?}");
        assert!(!object.has_said(now + RENEW_EVERY), "the next sign of life takes it along");
    }
}

fn raw(uid: &str, version: u64) -> serde_json::Value {
    json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate",
        "metadata": { "name": "node-a", "uid": uid, "resourceVersion": version.to_string() },
        "spec": {}, "status": {},
    })
}

/// The Node was registered anew while an answer was refused, and the object went with it.
#[tokio::test]
async fn an_object_that_takes_the_place_of_one_that_cannot_be_written_is_answered() {
    let (written, mut writes) = tokio::sync::mpsc::unbounded_channel();
    // After the first watch there is another object.
    let watched = AtomicBool::new(false);
    let api = FakeApi::new(move |question| match question {
        Question { watches: true, .. } if !watched.swap(true, Ordering::Relaxed) => {
            Answer::Events(vec![json!({ "type": "DELETED", "object": raw("old", 2) })])
        }
        Question { watches: true, .. } => Answer::Events(Vec::new()),
        Question { what, body, .. } if what.starts_with("PATCH") => {
            let uid = body["metadata"]["uid"].as_str().unwrap().to_owned();
            let answer = if uid == "new" { Answer::Object(raw("new", 4)) } else { Answer::Refused(409) };
            let _ = written.send(uid);
            answer
        }
        Question { what, .. } => {
            let object = if watched.load(Ordering::Relaxed) { raw("new", 3) } else { raw("old", 1) };
            if what.ends_with("/node-a") {
                return Answer::Object(object);
            }
            Answer::Object(json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdateList",
                "metadata": { "resourceVersion": "3" }, "items": [object],
            }))
        }
    });
    let api = api.await;
    let updates = NodeUpdates::new(api.connection.clone(), "node-a".to_owned());
    let shared = SharedUpdates::new(berth_policy::Path::Inline);
    let answered = async { while writes.recv().await.unwrap() != "new" {} };
    let sight = |_: &PodUid| Sighting::Gone;
    tokio::select! {
        () = updates.follow(&shared, &sight) => unreachable!("it follows for ever"),
        answered = tokio::time::timeout(Duration::from_secs(20), answered) => answered.expect("answered"),
    }
}

/// An entry that a newer program has written.
fn newer_entry() -> serde_json::Value {
    let (owner, pull) = ("SidecarSet/mesh", "Never");
    json!({ "uid": "p", "owner": owner, "namespace": "shop", "name": "web", "revision": "r", "pull": pull })
}

/// An object with that entry, and this answer.
fn newer(version: &str, said: &UpdatedPod) -> Partly<NodePodUpdate> {
    let object = json!({
        "metadata": { "name": "n", "uid": "u", "resourceVersion": version }, "spec": {},
        "status": { "desiredPods": [newer_entry()], "pods": [said] },
    });
    serde_json::from_value(object).unwrap()
}

/// An answer by which a swap was begun.
fn swapping() -> UpdatedPod {
    let images = [("mesh-1", "mesh:1"), ("mesh-2", "empty:1")];
    let images = images.map(|(name, image)| json!({ "name": name, "image": image }));
    let versions =
        json!({ "version.sidecarset.kruise.io/mesh-1": "1", "version.sidecarset.kruise.io/mesh-2": "0" });
    serde_json::from_value(json!({
        "uid": "p", "owner": "SidecarSet/mesh", "revision": "r", "phase": "Updating",
        "swaps": [{ "name": "mesh", "step": "Pending" }],
        "previous": { "containers": images, "annotations": versions },
    }))
    .unwrap()
}

/// Rows: what was said of it, and whether this process has read the entry in its place before.
#[test]
fn an_entry_that_cannot_be_read_is_not_gone() {
    let mesh = "SidecarSet/mesh";
    let done = answer(mesh, "r", UpdatePhase::Succeeded);
    let at_work = answer(mesh, "r", UpdatePhase::Updating);
    let there = |_: &PodUid| {
        let (namespace, name) = ("shop".to_owned(), "web".to_owned());
        Sighting::There(berth_policy::PodRef { uid: "p".into(), namespace, name })
    };
    let clock = Clock::read();
    for said in [done, at_work, swapping()] {
        for was_read in [false, true] {
            let case = format!("{:?} {} {was_read}", said.phase, said.swaps.len());
            let read = shown(&[desired(mesh, "r", false)], std::slice::from_ref(&said));
            let ahead = was_read.then(|| Object::shown(None, read));
            let object = Object::shown(ahead, newer("2", &said));
            assert_eq!(object.aside.len(), 1, "{case}");
            assert_eq!(object.entries().count(), usize::from(was_read), "{case}: what was decided goes on");
            let mut object = Object { renewed: Some(Instant::now()), ..object };
            assert!(object.pods.len() == 1 && object.has_said(Instant::now()), "{case}: it stays answered");
            assert!(!object.has_rests() && object.take_begun(&there, &clock).is_empty(), "{case}");
            object.forget_rested(|_| true);
            assert_eq!(object.pods.len(), 1, "{case}");
            object.wrote(newer("3", &said), Instant::now());
            assert_eq!(object.entries().count(), usize::from(was_read), "{case}: after a write");
            // It is taken away. Of what was never read nobody else knows that it was begun.
            let mut gone = shown(&[], std::slice::from_ref(&said));
            gone.metadata.resource_version = Some("4".to_owned());
            let mut object = Object::shown(Some(object), gone);
            assert!(object.aside.is_empty() && object.entries().next().is_none(), "{case}");
            let rests = object.take_begun(&there, &clock).len();
            assert_eq!(rests, usize::from(!said.swaps.is_empty() && !was_read), "{case}");
        }
    }
}

/// The object says which, and the gate of its pod stays as it is.
#[tokio::test]
async fn an_entry_that_cannot_be_read_is_told_of() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let api = FakeApi::new(move |Question { what, body, .. }| {
        let mut status = json!({ "desiredPods": [newer_entry()] });
        if what.starts_with("PATCH") {
            let _ = tell.send(body["status"].clone());
            for (field, value) in body["status"].as_object().unwrap() {
                status[field] = value.clone();
            }
        }
        Answer::Object(json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate",
            "metadata": { "name": "node-a", "uid": "u", "resourceVersion": "7" }, "spec": {}, "status": status,
        }))
    });
    let api = api.await;
    let updates = NodeUpdates::new(api.connection.clone(), "node-a".to_owned());
    let said = answer("SidecarSet/mesh", "r", UpdatePhase::Updating);
    updates.take(Some(newer("7", &said))).await;
    assert!(updates.is_aside(&"p".into()) && !updates.is_aside(&"q".into()));
    updates.tidy(&mut Pace::default()).await;
    let written = told.try_recv().expect("it is said");
    assert_eq!(written["pods"][0]["uid"], "p", "its answer stays");
    let condition = &written["conditions"][0];
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    assert_eq!((text("type"), text("status")), ("Understood", "False"));
    let message = text("message");
    for part in ["desiredPods[p,SidecarSet/mesh]: ", "pull: unknown variant", "upgrade berthd"] {
        assert!(message.contains(part), "{message}");
    }
    updates.tidy(&mut Pace::default()).await;
    assert!(told.try_recv().is_err(), "once");
}

/// Each that cannot be read is small, and what stood in its place is not.
#[test]
fn what_stood_in_the_place_of_entries_has_room_together() {
    let mesh = "SidecarSet/mesh";
    let said = answer(mesh, "r", UpdatePhase::Updating);
    for (bytes, kept) in [(1 << 10, 1), (1 << 20, 0)] {
        let mut entry = desired(mesh, "r", false);
        entry.annotations.insert("note".to_owned(), "x".repeat(bytes));
        let mut object = Object::shown(None, shown(&[entry], std::slice::from_ref(&said)));
        for version in ["2", "3"] {
            object = Object::shown(Some(object), newer(version, &said));
            assert_eq!(object.status.desired_pods.len(), kept, "{bytes}, {version}");
            assert!(object.aside_weight > 80, "what is written of it");
        }
    }
}
