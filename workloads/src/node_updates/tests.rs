use berth_base::entry_room::MOST_BYTES;
use berth_proto::crd::CloneSet;

use super::*;

fn update(uid: &str) -> InPlaceUpdate {
    InPlaceUpdate {
        node: "n".to_owned(),
        name: format!("pod-{uid}"),
        uid: uid.to_owned(),
        revision: "shop-new".to_owned(),
        attempt: 0,
        generation: Some(4),
        images: [("main".to_owned(), "a:2".to_owned())].into(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        grace_seconds: Some(0),
    }
}

fn made(uid: &str) -> DesiredPod {
    let mut set = CloneSet::new("shop", Default::default());
    (set.metadata.namespace, set.metadata.uid) = (Some("ns".to_owned()), Some("set".to_owned()));
    entry(&update(uid), &set, Timestamp::UNIX_EPOCH)
}

/// A node_updates with an entry of `p`, one of a SidecarSet, and what the node says.
fn node_updates(phase: Option<&str>) -> NodeUpdates {
    let answer = json!({ "uid": "p", "owner": "CloneSet/shop", "revision": "shop-new", "phase": phase, "message": "no room" });
    let answers = phase.map(|_| answer).into_iter().collect::<Vec<_>>();
    // Its agent is one of before, which reports each end.
    let entry = DesiredPod { end: PodEnd::Reported, ..made("p") };
    let object = json!({
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "NodePodUpdate",
        "metadata": { "name": "n", "uid": "u", "resourceVersion": "7" },
        "spec": {},
        "status": {
            "features": ["owners/v1", "clonesets/v1"],
            "desiredPods": [entry, { "uid": "p", "owner": "SidecarSet/mesh", "namespace": "ns", "name": "pod-p", "revision": "r" }],
            "pods": answers,
        },
    });
    NodeUpdates::of(serde_json::from_value(object).unwrap())
}

#[test]
fn entries_of_others_are_theirs() {
    let node_updates = node_updates(None);
    assert_eq!(node_updates.checks, ["CloneSet"]);
    assert!(!node_updates.labels_hash && !node_updates.recalls, "an agent of before");
    let body = |change: Change| node_updates.changed(&[change]).body;
    assert_eq!(body(put("p")), None, "it is there");
    let anew = DesiredPod { owner_uid: "made-anew".to_owned(), ..made("p") };
    let anew = body(Change::Put(Box::new(anew))).unwrap();
    assert_eq!(anew["status"]["desiredPods"][0]["ownerUid"], "made-anew", "an earlier set asked for that");
    let with_q = body(put("q")).unwrap();
    assert_eq!(with_q["status"]["desiredPods"].as_array().unwrap().len(), 2);
    assert_eq!(with_q["metadata"]["resourceVersion"], "7");
    let without_p = body(take("p", "CloneSet/shop")).unwrap();
    assert_eq!(without_p["status"]["desiredPods"], json!([]));
    assert_eq!(body(take("q", "CloneSet/shop")), None);
    assert_eq!(body(take("p", "StatefulSet/shop")), None);
}

fn put(uid: &str) -> Change {
    Change::Put(Box::new(made(uid)))
}

fn take(uid: &str, owner: &str) -> Change {
    Change::Take { uid: uid.to_owned(), owner: owner.to_owned() }
}

#[test]
fn changes_of_a_node_are_one_write() {
    let node_updates = node_updates(None);
    let uids = |changes: &[Change]| {
        let body = node_updates.changed(changes).body?;
        let entries = body["status"]["desiredPods"].as_array()?.iter();
        Some(entries.map(|entry| entry["uid"].as_str().unwrap().to_owned()).collect::<Vec<_>>())
    };
    let set = "CloneSet/shop";
    assert_eq!(uids(&[take("p", set), put("q"), put("r")]).unwrap(), ["q", "r"]);
    assert_eq!(uids(&[put("p"), take("q", set)]), None, "as it is");
    // The same pod again: what comes last counts.
    assert_eq!(uids(&[take("p", set), put("p")]), None, "as it is");
    assert_eq!(uids(&[put("q"), take("q", set), take("p", set)]).unwrap(), [""; 0]);
    let mut next = made("p");
    next.attempt = 1;
    let body = node_updates.changed(&[Change::Put(Box::new(next))]).body.unwrap();
    assert_eq!(body["status"]["desiredPods"][0]["attempt"], 1);
}

/// Entry of a pod with an annotation of so many KiB.
fn large(uid: &str, attempt: i32, kib: usize) -> DesiredPod {
    let annotations = [("note".to_owned(), "x".repeat(kib << 10))].into();
    DesiredPod { attempt, annotations, ..made(uid) }
}

/// Rows: KiB of the entries that are there, what the node says of the first of them, the changes (pod,
/// try and KiB), the entries after them, and the pods that wait.
#[test]
fn what_has_no_room_waits() {
    type Entry = (&'static str, i32, usize);
    type Case =
        (&'static [Entry], &'static str, &'static [Entry], &'static [&'static str], &'static [&'static str]);
    let table: [Case; 8] = [
        (&[], "", &[("a", 0, 100), ("b", 0, 100)], &["a0", "b0"], &[]),
        (&[], "", &[("a", 0, 100), ("b", 0, 100), ("c", 0, 100)], &["a0", "b0"], &["pod-c"]),
        (&[("b", 0, 200)], "", &[("a", 0, 100), ("c", 0, 50)], &["b0", "c0"], &["pod-a"]),
        // Nothing to write.
        (&[("b", 0, 200)], "", &[("a", 0, 100)], &[], &["pod-a"]),
        (&[], "", &[("a", 0, 900), ("b", 0, 1)], &["b0"], &["pod-a"]),
        // Alone it has room, however large.
        (&[], "", &[("a", 0, 900)], &["a0"], &[]),
        // One that is at work stays until the next one fits; one that was not begun is taken back.
        (&[("a", 0, 100), ("b", 0, 100)], "Updating", &[("a", 1, 200)], &[], &["pod-a"]),
        (&[("a", 0, 100), ("b", 0, 100)], "Pending", &[("a", 1, 200)], &["b0"], &["pod-a"]),
    ];
    for (there, phase, changes, after, waiting) in table {
        let entries: Vec<_> = there.iter().map(|(uid, attempt, kib)| large(uid, *attempt, *kib)).collect();
        let answers = entries.iter().take(usize::from(!phase.is_empty())).map(|entry| {
            json!({ "uid": entry.uid, "owner": entry.owner, "revision": entry.revision, "phase": phase })
        });
        let answers: Vec<UpdatedPod> =
            answers.map(|answer| serde_json::from_value(answer).unwrap()).collect();
        let node_updates =
            NodeUpdates { entries: entries.into(), pods: answers.into(), ..node_updates(None) };
        let puts = changes.iter().map(|(uid, attempt, kib)| large(uid, *attempt, *kib));
        let puts: Vec<Change> = puts.map(|entry| Change::Put(Box::new(entry))).collect();
        let changed = node_updates.changed(&puts);
        let written = changed.body.iter().flat_map(|body| body["status"]["desiredPods"].as_array().unwrap());
        let written: Vec<_> = written
            .map(|entry| {
                let attempt = entry["attempt"].as_i64().unwrap_or(0);
                format!("{}{attempt}", entry["uid"].as_str().unwrap())
            })
            .collect();
        assert_eq!(
            (written, changed.waiting),
            (
                after.iter().map(|text| (*text).to_owned()).collect(),
                waiting.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(),
            ),
            "{changes:?}"
        );
    }
}

/// An agent of before would not say on the pod what its report leaves unsaid.
#[test]
fn only_an_agent_that_shows_ends_is_asked_to() {
    for (shows_ends, end) in [(true, json!("Shown")), (false, Value::Null)] {
        let node_updates = NodeUpdates { shows_ends, entries: Arc::default(), ..node_updates(None) };
        let body = node_updates.changed(&[put("q")]).body.unwrap();
        assert_eq!(body["status"]["desiredPods"][0]["end"], end);
    }
}

/// A pod whose image or container does not come up stays: it is not one that its node cannot update.
#[test]
fn a_pod_that_does_not_come_up_stays() {
    assert_eq!(made("p").pull, PodPull::BestEffort);
    for (reason, stays) in [
        (Some("ImageNotPulled"), true),
        (Some("CrashLoop"), true),
        (Some("DeadlineExceeded"), true),
        (Some("ContainerNotFound"), false),
        (Some("Refused"), false),
        (Some("LaterWord"), false),
        (None, false),
    ] {
        let mut node_updates = node_updates(Some("Failed"));
        Arc::get_mut(&mut node_updates.pods).unwrap()[0].reason = reason.map(str::to_owned);
        let phase = node_updates.states("set").next().unwrap().1.phase;
        let why = "no room".to_owned();
        let expected = if stays { InPlacePhase::GivenUp(why) } else { InPlacePhase::Failed(why) };
        assert_eq!(phase, expected, "{reason:?}");
    }
}

/// The set may have changed while the entry was on its way: that is told from what a node cannot do, by the
/// reason, or by the words of an agent of before.
#[test]
fn an_entry_that_came_too_late_is_told_from_one_that_cannot_be_done() {
    let template = "the template of CloneSet ns/shop does not name image a:2 for container main";
    let other = "CloneSet ns/shop is not the one of this entry: it was made anew";
    for (reason, why, is_late) in [
        ("NotAskedFor", "any words", true),
        ("InvalidRequest", template, true),
        ("InvalidRequest", "the template of CloneSet ns/shop does not give pods tier with this value", true),
        ("InvalidRequest", "there is no CloneSet ns/shop", true),
        ("InvalidRequest", other, true),
        ("InvalidRequest", "the agent may not read clonesets, which have to ask for it", false),
        ("InvalidRequest", "containers[main].image: no reference", false),
        ("Refused", template, false),
    ] {
        let mut node_updates = node_updates(Some("Failed"));
        let answer = &mut Arc::get_mut(&mut node_updates.pods).unwrap()[0];
        (answer.reason, answer.message) = (Some(reason.into()), Some(why.into()));
        let phase = node_updates.states("set").next().unwrap().1.phase;
        let late = InPlacePhase::NotAskedFor { why: why.to_owned(), since: Some(Timestamp::UNIX_EPOCH) };
        let expected = if is_late { late } else { InPlacePhase::Failed(why.to_owned()) };
        assert_eq!(phase, expected, "{reason}: {why}");
    }
}

#[test]
fn a_node_says_how_far_it_is() {
    let phase = |phase| node_updates(phase).states("set").next().unwrap().1.phase;
    assert_eq!(phase(None), InPlacePhase::Pending);
    assert_eq!(phase(Some("Updating")), InPlacePhase::Pending);
    assert_eq!(phase(Some("Succeeded")), InPlacePhase::Done);
    assert_eq!(phase(Some("Failed")), InPlacePhase::Failed("no room".to_owned()));
    assert_eq!(node_updates(None).states("another").count(), 0);
}

/// Entries of a newer program, one of a set, with this note, and one of others; an answer of a newer agent.
fn newer(note: &str) -> NodeUpdates {
    let mut entry = json!(made("p"));
    (entry["pull"], entry["annotations"]) = (json!("Never"), json!({ "note": note }));
    let mesh =
        json!({ "uid": "p", "owner": "SidecarSet/mesh", "namespace": "ns", "name": "pod-p", "revision": 7 });
    let object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate",
        "metadata": { "name": "n", "uid": "u", "resourceVersion": "7" }, "spec": {},
        "status": {
            "features": ["owners/v1", "clonesets/v1"],
            "desiredPods": [entry, mesh],
            "pods": [{ "uid": "p", "owner": "CloneSet/shop", "revision": "shop-new", "phase": "Paused" }],
        },
    });
    NodeUpdates::of(serde_json::from_value(object).unwrap())
}

/// Entries of a newer program make nobody's agent absent, and are written as they stand there.
#[test]
fn an_entry_that_cannot_be_read_stays() {
    let newer = newer("");
    assert!(newer.has_agent);
    assert_eq!(newer.checks, ["CloneSet"]);
    let states: Vec<_> = newer.states("set").map(|(uid, state)| (uid, state.revision, state.phase)).collect();
    assert_eq!(states, [("p".to_owned(), "shop-new".to_owned(), InPlacePhase::Pending)]);
    let entries = |changes: &[Change]| {
        let entries = newer.changed(changes).body?["status"]["desiredPods"].as_array()?.clone();
        Some(entries.iter().map(|one| (one["uid"].clone(), one["pull"].clone())).collect::<Vec<_>>())
    };
    assert_eq!(entries(&[put("p")]), None, "the same try is there");
    let (p, q) = ((json!("p"), json!("Never")), (json!("q"), json!("BestEffort")));
    assert_eq!(entries(&[put("q")]).unwrap(), [p, q], "it stays as it stood there");
    let mut next = made("p");
    next.attempt = 1;
    let next = entries(&[Change::Put(Box::new(next))]).unwrap();
    assert_eq!(next, [(json!("p"), json!("BestEffort"))], "something else is asked for in its place");
    assert!(entries(&[take("p", "CloneSet/shop")]).unwrap().is_empty());
    let leaving = newer.clone().without_those(|entry| entry.owner_uid == "set");
    let body = leaving.changed(&[put("q")]).body.unwrap();
    assert_eq!(body["status"]["desiredPods"].as_array().unwrap().len(), 1, "its set is gone");
}

/// Entry of which little is known, and much is written.
#[test]
fn an_entry_that_cannot_be_read_takes_the_room_that_it_has() {
    for (bytes, waiting) in [(0, 0), (MOST_BYTES, 1)] {
        assert_eq!(newer(&"x".repeat(bytes)).changed(&[put("q")]).waiting.len(), waiting, "{bytes}");
    }
}
