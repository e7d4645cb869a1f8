//! Entries of owners, as somebody may write them.

use std::time::Instant;

use berth_policy::in_place_update::{
    Failure, StoredRequest, UpdateAction, UpdateEvent, UpdateOwner, UpdatePermission, UpdateReport,
    UpdateSource, Updates,
};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::{TimeVal, TimeValLike},
};
use serde_json::{Value, json};

use super::*;
use crate::update::{keys::LONGEST_ANNOTATIONS, state};

fn entry(change: Value) -> DesiredPod {
    let mut entry = json!({
        "uid": "p", "namespace": "shop", "name": "web", "owner": "SidecarSet/mesh", "ownerUid": "u",
        "revision": "mesh-2", "containers": [{ "name": "mesh", "image": "mesh:2" }],
    });
    for (key, value) in change.as_object().unwrap() {
        entry[key] = value.clone();
    }
    serde_json::from_value(entry).unwrap()
}

fn converted(entry: &DesiredPod) -> (UpdateRequest, Result<(), Flaw>) {
    desired(entry, UpdateReport::default(), None, Instant::now(), &Clock::read())
}

/// Clients compare the record with the label, which may be the hash of the revision alone.
#[test]
fn the_record_says_the_revision_as_the_label_does() {
    for (labels, recorded) in [
        (json!({ "controller-revision-hash": "5d4b" }), "5d4b"),
        (json!({ "controller-revision-hash": "log-5d4b" }), "log-5d4b"),
        (json!({ "tier": "2" }), "log-5d4b"),
    ] {
        let change = json!({ "owner": "DaemonSet/log", "revision": "log-5d4b", "labels": labels });
        let (request, sound) = converted(&entry(change));
        assert_eq!((sound, request.revision.as_str()), (Ok(()), recorded), "{labels}");
        assert_eq!(request.id.as_str(), "p/DaemonSet/log@log-5d4b#0", "{labels}");
    }
}

/// Rows: owner of an entry, UID of the controller that its pod is to have, and the set that it is to name.
#[test]
fn an_entry_is_for_pods_of_its_owner() {
    for (owner, controller, set) in
        [("DaemonSet/log", Some("u"), None), ("SidecarSet/mesh", None, Some("mesh")), ("", None, None)]
    {
        let (request, sound) = converted(&entry(json!({ "owner": owner })));
        assert_eq!(sound, Ok(()), "{owner}");
        let of = (request.controller.as_deref(), request.injected_by.as_deref());
        assert_eq!(of, (controller, set), "{owner}");
    }
}

#[test]
fn an_entry_of_a_set() {
    let merged = json!({ "kruise.io/sidecarset-hash": r#"{"mesh":{"hash":"h"}}"# });
    let change = json!({ "service": "Keep", "attempt": 3, "mergeAnnotations": merged, "defaultAnnotations": { "d": "1" } });
    let (request, sound) = converted(&entry(change));
    assert_eq!(sound, Ok(()));
    assert_eq!(request.id.as_str(), "p/SidecarSet/mesh@mesh-2#3");
    assert_eq!((&request.owner, request.keeps_service), (&UpdateOwner::SidecarSet("mesh".to_owned()), true));
    assert_eq!((request.merges.len(), request.defaults["d"].as_str()), (1, "1"));
    let (plain, sound) = converted(&entry(json!({ "owner": "" })));
    assert_eq!((sound, plain.id.as_str()), (Ok(()), "p/@mesh-2#0"));
    assert_eq!((plain.owner, plain.keeps_service), (UpdateOwner::Workload, false));
    assert!(!request.leaves_pull);
    assert!(converted(&entry(json!({ "pull": "BestEffort" }))).0.leaves_pull);
}

#[test]
fn a_swap_always_has_a_way_back() {
    let swap = json!([{ "name": "hot", "image": "hot:2", "emptyImage": "empty:1", "version": 7, "migrationSeconds": 9 }]);
    let (request, sound) = converted(&entry(json!({ "containers": [], "swaps": swap })));
    assert_eq!(sound, Ok(()));
    let wanted = &request.swaps["hot"];
    let images = (wanted.image.as_deref(), &*wanted.empty_image);
    assert_eq!((images, wanted.version), ((Some("hot:2"), "empty:1"), 7));
    assert_eq!(wanted.limit, Duration::from_secs(9));
    assert!(request.rollback_on_failure);
    // Its time to take over comes on top of what any way there and back has.
    let most = DEFAULT_DEADLINE + Duration::from_secs(9);
    assert_eq!(request.deadline.map(|deadline| deadline.duration_since(request.created)), Some(most));
    assert_eq!(request.rollback_limit, most);
}

/// The pure policy spells them itself.
#[test]
fn the_names_of_twins_are_those_of_injection() {
    use berth_policy::in_place_update::{WORKING, other_version_key, version_key};
    use berth_sidecarset::names;
    assert_eq!(WORKING, names::WORKING);
    for (own, theirs) in berth_policy::in_place_update::twins("mesh").iter().zip(names::twins("mesh")) {
        assert_eq!(own.as_str(), theirs);
        assert_eq!(version_key(own), names::version_key(&theirs));
        assert_eq!(other_version_key(own), names::other_version_key(&theirs));
    }
}

#[test]
fn what_is_wrong_with_an_entry_is_said() {
    let swap = |name: &str, image: &str, more: Value| {
        let mut swap = json!({ "name": name, "image": image, "emptyImage": "empty:1" });
        for (key, value) in more.as_object().unwrap() {
            swap[key] = value.clone();
        }
        json!({ "swaps": [swap] })
    };
    let twice = |name: &str| json!({ "name": name, "image": "hot:2", "emptyImage": "empty:1" });
    let table = [
        (swap("hot", "empty:1", json!({})), "swaps[hot].image: it is the empty image"),
        (swap("hot", "No Image", json!({})), "swaps[hot].image: "),
        (swap("hot", "hot:2", json!({ "emptyImage": "" })), "swaps[hot].emptyImage: "),
        (swap("hot", "hot:2", json!({ "version": -1 })), "swaps[hot].version: -1 is below 0"),
        (swap("hot", "hot:2", json!({ "migrationSeconds": 0 })), "migrationSeconds"),
        (swap("hot", "hot:2", json!({ "migrationSeconds": i32::MAX })), "migrationSeconds"),
        (json!({ "swaps": [twice("hot"), twice("hot")] }), "hot"),
        (
            json!({ "swaps": [twice("hot")], "containers": [{ "name": "hot-2", "image": "x:1" }] }),
            "swaps[hot].name: container hot-2 is one of its twins",
        ),
        (json!({ "owner": "Deployment/web" }), "owner \"Deployment/web\" is none"),
        (json!({ "owner": "CloneSet/" }), "CloneSet/<name>"),
        (json!({ "owner": "Deployment/web" }), "or StatefulSet/<name>"),
        (json!({ "owner": "SidecarSet/" }), "give SidecarSet/<name>"),
        (json!({ "owner": "SidecarSet/a b" }), "give SidecarSet/<name>"),
        (json!({ "mergeAnnotations": { "k": "no JSON" } }), "mergeAnnotations[k] is no JSON object"),
        (json!({ "mergeAnnotations": { "k": "7" } }), "mergeAnnotations[k] is no JSON object"),
        (json!({ "mergeAnnotations": { "a b": "{}" } }), "metadata.annotations[a b]"),
        (json!({ "defaultAnnotations": { "a b": "" } }), "metadata.annotations[a b]"),
        (
            json!({ "annotations": { "k": "" }, "defaultAnnotations": { "k": "" } }),
            "annotation k is in two of",
        ),
        (
            json!({ "mergeAnnotations": { state::SIDECAR_SETS: "{}" } }),
            "where the progress of updates is kept",
        ),
        (
            json!({ "defaultAnnotations": { state::ANNOTATION: "{}" } }),
            "where the progress of updates is kept",
        ),
        (json!({ "defaultAnnotations": { "k": "x".repeat(LONGEST_ANNOTATIONS) } }), "a pod has at most"),
        (json!({ "containers": [], "mergeAnnotations": {} }), "neither containers nor metadata"),
    ];
    for (change, part) in table {
        let flaw = converted(&entry(change.clone())).1.map_err(|flaw| flaw.to_string());
        let text = change.to_string();
        assert!(flaw.as_ref().is_err_and(|flaw| flaw.contains(part)), "{text:.80} {flaw:?}");
    }
}

/// CPU that this thread has used, whatever else runs on the machine.
fn cpu_time() -> Duration {
    let used = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
    let of = |time: TimeVal| Duration::from_micros(time.num_microseconds().unsigned_abs());
    of(used.user_time()) + of(used.system_time())
}

/// Ten thousand entries of one pod, each of another owner, with patches of any kind: nothing panics, only
/// some are looked at, and the entry of another pod is taken up with the first plan.
#[test]
fn ten_thousand_hostile_entries_hold_nobody_up() {
    let deep = "{\"a\":".repeat(10_000);
    let wide: BTreeMap<String, String> =
        (0..256).map(|key| (format!("k{key}"), "{\"a\":null}".to_owned())).collect();
    let (begin, began) = (Instant::now(), cpu_time());
    let clock = Clock::read();
    let stored = |entry: &DesiredPod| {
        let (request, sound) = desired(entry, UpdateReport::default(), None, begin, &clock);
        StoredRequest { request, flaw: sound.err().map(Failure::from), version: 1 }
    };
    let crowd = (0..10_000).map(|number| {
        let patches = match number % 4 {
            0 => json!({ "k": deep }),
            1 => json!(wide),
            2 => json!({ "k": "\u{0}" }),
            _ => json!({ "k": format!("{{\"s{number}\":{number}}}") }),
        };
        stored(&entry(json!({ "owner": format!("SidecarSet/s{number}"), "mergeAnnotations": patches })))
    });
    let other = stored(&entry(json!({ "uid": "other" })));
    let entries: Vec<StoredRequest> = crowd.chain([other]).collect();
    assert_eq!(entries.iter().filter(|entry| entry.flaw.is_some()).count(), 5_000);
    let mut updates = Updates::new(berth_policy::Path::Inline);
    let now = crate::agent::now();
    for event in [
        UpdateEvent::PermissionKnown(UpdatePermission::Given),
        UpdateEvent::RequestsListed(UpdateSource::NodePodUpdate, entries),
    ] {
        updates.apply(event, now);
    }
    let actions = updates.plan(now, Duration::from_secs(1));
    let fetched = |uid: &str| {
        actions.iter().any(|action| matches!(action, UpdateAction::Fetch(pod) if pod.uid.as_str() == uid))
    };
    assert!(fetched("other") && fetched("p"));
    assert_eq!(updates.panics(), 0);
    // Of a debug build; a plan that grew with the square would take minutes.
    let took = cpu_time() - began;
    assert!(took < Duration::from_secs(60), "{took:?}");
}
