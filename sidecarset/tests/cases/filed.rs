//! ControllerRevisions beside the status of a set.

use std::collections::BTreeSet;

use berth_sidecarset::{
    Edit, FiledRevision, FiledSet, Hashes, Refile, RefileError, Revisions, SET_LABEL, fields_of, is_filed,
    names::{CUSTOM_VERSION, HASH, HASH_WITHOUT_IMAGE},
    refile,
};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use rstest::rstest;
use serde_json::{Value, json};

type Files = Vec<FiledRevision>;

/// A set that had these images, one after the other, with custom versions that count from 0.
fn set(images: &[&str]) -> FiledSet {
    let mut revisions = Revisions::default();
    let hashes = Hashes { hash: "h".into(), without_image: "w".into() };
    for (at, image) in images.iter().enumerate() {
        let spec = json!({ "containers": [{ "name": "log", "image": image }], "volumes": [{ "name": "v" }] });
        let (fields, version) = (fields_of(spec.as_object().unwrap()), at.to_string());
        let edit = Edit { set: "logs", fields: &fields, hashes: &hashes, custom_version: Some(&version) };
        revisions.register(&edit, Timestamp::UNIX_EPOCH);
    }
    let recorded = revisions.write(&BTreeSet::new()).unwrap();
    FiledSet {
        name: "logs".to_owned(),
        uid: "u".to_owned(),
        labels: [("team", "a"), (CUSTOM_VERSION, "of the set")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        revisions: recorded.revisions,
        history: recorded.history,
    }
}

/// ControllerRevisions as the API server keeps them.
fn filed(writes: Vec<Refile>) -> Vec<FiledRevision> {
    let mut filed = Vec::new();
    for write in writes {
        let Refile::Make(mut object) = write else { panic!("{write:?}") };
        object["metadata"]["uid"] = format!("uid of {}", object["metadata"]["name"]).into();
        let object: ControllerRevision = serde_json::from_value(object).unwrap();
        filed.push(FiledRevision::of(&object).unwrap());
    }
    filed
}

fn refs(filed: &[FiledRevision]) -> Vec<&FiledRevision> {
    filed.iter().collect()
}

#[test]
fn each_revision_is_filed_with_its_contents() {
    let set = set(&["log:1", "log:2"]);
    let writes = refile(&set, &[]).unwrap();
    let [Refile::Make(first), Refile::Make(second)] = &writes[..] else { panic!("{writes:?}") };
    assert_eq!((&first["revision"], &second["revision"]), (&json!(1), &json!(2)));
    assert_eq!(first["metadata"]["name"], set.revisions[0].name);
    assert_eq!(first["metadata"]["labels"], json!({ "team": "a", CUSTOM_VERSION: "0", SET_LABEL: "logs" }));
    let annotations = &first["metadata"]["annotations"];
    assert_eq!(annotations[HASH].as_str(), set.revisions[0].hash.as_deref());
    assert_eq!(annotations[HASH_WITHOUT_IMAGE].as_str(), set.revisions[0].hash_without_image.as_deref());
    let spec = &first["data"]["spec"];
    assert_eq!(spec["containers"][0]["image"], "log:1");
    // OpenKruise has all five members, and replaces what was there.
    for member in ["initContainers", "imagePullSecrets", "patchPodMetadata"] {
        assert_eq!(spec.get(member), Some(&Value::Null), "{member}");
    }
    assert_eq!(spec["$patch"], "replace");
    assert_eq!(refile(&set, &refs(&filed(writes))).unwrap(), [], "once is enough");
}

#[test]
fn a_revision_that_came_back_is_renumbered_and_a_lost_one_goes() {
    let there = filed(refile(&set(&["log:1", "log:2", "log:3"]), &[]).unwrap());
    // The first one again, and the second one truncated.
    let mut later = set(&["log:1", "log:2", "log:3", "log:1"]);
    later.revisions.retain(|one| one.revision != 2);
    let writes = refile(&later, &refs(&there)).unwrap();
    let [Refile::Change(changed, patch), Refile::Delete(gone)] = &writes[..] else { panic!("{writes:?}") };
    assert_eq!((changed.number, &patch["revision"]), (1, &json!(4)));
    assert_eq!(patch["metadata"]["labels"], json!({ CUSTOM_VERSION: "3" }));
    assert_eq!(gone.number, 2);
}

#[test]
fn what_cannot_be_filed_is_said() {
    let long = FiledSet { name: "n".repeat(64), ..set(&["log:1"]) };
    assert_eq!(refile(&long, &[]), Err(RefileError::LongName));
    let broken = FiledSet { history: "no history".to_owned(), ..set(&["log:1"]) };
    assert!(matches!(refile(&broken, &[]), Err(RefileError::History(_))));
    // A revision that has lost its contents holds none of the others up.
    let mut set = set(&["log:1", "log:2"]);
    set.revisions[0].name = "logs-lost".to_owned();
    assert_eq!(refile(&set, &[]).unwrap().len(), 1);
}

#[test]
fn many_are_filed_in_parts() {
    let images: Vec<String> = (0..100).map(|at| format!("log:{at}")).collect();
    let set = set(&images.iter().map(String::as_str).collect::<Vec<_>>());
    let mut there = filed(refile(&set, &[]).unwrap());
    assert_eq!(there.len(), 64);
    there.extend(filed(refile(&set, &refs(&there)).unwrap()));
    assert_eq!((there.len(), refile(&set, &refs(&there)).unwrap().len()), (100, 0));
}

#[test]
fn a_revision_of_somebody_else_is_none() {
    let object = |kind: &str, controller: bool| -> ControllerRevision {
        serde_json::from_value(json!({
            "metadata": { "name": "r", "uid": "1", "ownerReferences": [
                { "apiVersion": "apps.kruise.io/v1alpha1", "kind": kind, "name": "logs", "uid": "u", "controller": controller },
            ] },
            "revision": 1,
        }))
        .unwrap()
    };
    assert!(FiledRevision::of(&object("SidecarSet", true)).is_some());
    assert!(FiledRevision::of(&object("SidecarSet", false)).is_none());
    assert!(FiledRevision::of(&object("CloneSet", true)).is_none());
}

/// Rows: what somebody did to the ControllerRevisions of a set, and whether they are as they should.
#[rstest]
#[case::nothing(|_: &mut Files| {}, true)]
#[case::one_is_missing(|there: &mut Files| drop(there.pop()), false)]
#[case::one_too_many(|there: &mut Files| there.push(FiledRevision { name: "logs-old".to_owned(), ..there[0].clone() }), false)]
#[case::another_one(|there: &mut Files| there[0].name = "logs-old".to_owned(), false)]
#[case::an_old_number(|there: &mut Files| there[0].number = 9, false)]
#[case::no_version(|there: &mut Files| there[1].custom_version = None, false)]
#[case::another_order(|there: &mut Files| there.reverse(), true)]
fn what_is_filed(#[case] deed: fn(&mut Files), #[case] expect: bool) {
    let set = set(&["log:1", "log:2", "log:3"]);
    let mut there = filed(refile(&set, &[]).unwrap());
    deed(&mut there);
    assert_eq!(is_filed(&set.name, &set.revisions, &refs(&there)), expect);
    // Nothing is written then, and only then.
    assert_eq!(refile(&set, &refs(&there)).unwrap().is_empty(), expect);
    assert!(is_filed(&"n".repeat(64), &set.revisions, &refs(&there)), "it cannot be filed");
    assert!(is_filed(&set.name, &[], &[]), "there is nothing to file");
}
