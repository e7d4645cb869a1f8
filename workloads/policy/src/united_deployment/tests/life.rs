//! A UnitedDeployment from its first workload on.

use rstest::rstest;
use serde_json::{Value, json};

use super::{
    super::{Action, KINDS, Kind, UID_LABEL},
    world::{UID, World, named, spec, template},
};
use crate::{names::HASH_LABEL, template::same};

fn kinds_of(actions: &[Action]) -> Vec<&'static str> {
    let name = |action: &Action| match action {
        Action::CreateRevision(..) => "create revision",
        Action::RaiseRevision(..) => "raise revision",
        Action::DeleteRevision(_) => "delete revision",
        Action::Create(..) => "create",
        Action::Update(..) => "update",
        Action::Delete(..) => "delete",
        Action::DeletePod(_) => "delete pod",
    };
    actions.iter().map(name).collect()
}

fn condition(world: &World, type_: &str) -> Option<(String, String)> {
    let conditions = &world.united.status.as_ref().unwrap().conditions;
    let one = conditions.iter().find(|one| one.type_ == type_)?;
    Some((one.status.clone(), one.message.clone().unwrap_or_default()))
}

fn holds(world: &World, type_: &str) -> bool {
    condition(world, type_).is_some_and(|(status, _)| status == "True")
}

#[test]
fn a_workload_is_made_for_each_subset_once() {
    for kind in KINDS {
        let mut world = World::new(spec(kind, 5, &named(&["a", "b", "c"])));
        let first = world.plan();
        assert_eq!(kinds_of(&first.actions), ["create revision"], "{kind:?}");
        assert!(first.status.is_none());
        world.carry_out(&first);
        let second = world.plan();
        assert_eq!(kinds_of(&second.actions), ["create"; 3], "{kind:?}");
        world.carry_out(&second);
        assert!(!holds(&world, "SubsetProvisioned"));
        world.settle();
        assert_eq!(world.numbers(), "a1/0 b2/0 c2/0", "{kind:?}");
        assert!(holds(&world, "SubsetProvisioned") && holds(&world, "SubsetUpdated"), "{kind:?}");
        assert_eq!(condition(&world, "SubsetFailure"), None);
        let status = world.united.status.as_ref().unwrap();
        assert_eq!(json!(status.subset_replicas), json!({ "a": 1, "b": 2, "c": 2 }));
        assert_eq!(status.label_selector.as_deref(), Some("app=shop"));
        assert_eq!(status.observed_generation, Some(1));
    }
}

/// Pods are counted that have the newest revision; the current one follows when all of them serve.
#[test]
fn the_status_counts_pods_of_the_newest_revision() {
    for kind in KINDS {
        let mut world = World::new(spec(kind, 5, &named(&["a", "b"])));
        world.settle();
        world.run(false);
        world.settle();
        let counts = |world: &World| {
            let status = world.united.status.as_ref().unwrap();
            (status.replicas, status.ready_replicas, status.updated_replicas, status.updated_ready_replicas)
        };
        assert_eq!(counts(&world), (5, 0, 5, 0), "{kind:?}");
        world.run(true);
        world.settle();
        assert_eq!(counts(&world), (5, 5, 5, 5), "{kind:?}");
        let first = world.united.status.as_ref().unwrap().current_revision.clone();
        world.edit(|spec| spec["template"] = template(kind, "a:2", &json!({})));
        world.settle();
        assert_eq!(counts(&world), (5, 5, 0, 0), "{kind:?}");
        let status = world.united.status.as_ref().unwrap();
        assert_eq!(status.current_revision, first);
        let updated = status.update_status.as_ref().unwrap().updated_revision.clone().unwrap();
        assert_ne!(updated, first);
        // A pod that goes is none, and so is one of somebody else with the same labels.
        world.run(true);
        world.pods[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        world.pods[1]["metadata"]["ownerReferences"][0]["uid"] = "x".into();
        world.pods[1]["metadata"]["ownerReferences"][0]["name"] = "others-abc".into();
        world.settle();
        assert_eq!(counts(&world), (5, 5, 3, 3), "{kind:?}");
        world.run(true);
        world.settle();
        assert_eq!(world.united.status.as_ref().unwrap().current_revision, updated, "{kind:?}");
    }
}

/// A client with types reads one that was made without these, and writes it back with another number of pods.
#[test]
fn what_a_typed_client_adds_updates_no_pod() {
    for kind in KINDS {
        let mut world = World::new(spec(kind, 3, &named(&["a", "b"])));
        world.settle();
        let pods = |world: &World| ["a", "b"].map(|subset| world.of(subset)["spec"]["template"].clone());
        let before = pods(&world);
        world.edit(|spec| {
            let template = &mut spec["template"][kind.member()];
            template["metadata"]["creationTimestamp"] = Value::Null;
            let more = [("scaleStrategy", json!({})), ("updateStrategy", json!({})), ("strategy", json!({}))];
            for (field, value) in more.into_iter().chain([("serviceName", json!(""))]) {
                template["spec"][field] = value;
            }
            template["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
            template["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
            spec["topology"]["subsets"][0]["nodeSelectorTerm"] = json!({});
            spec["replicas"] = json!(5);
        });
        world.settle();
        assert_eq!(world.revisions.len(), 1, "{kind:?}");
        for (before, after) in before.iter().zip(pods(&world)) {
            assert_eq!(before["metadata"]["labels"], after["metadata"]["labels"], "{kind:?}");
            assert!(same(before.as_object().unwrap(), after.as_object().unwrap()), "{kind:?}: {after}");
        }
    }
}

/// By the labels of the workloads, as OpenKruise's clients list them.
#[test]
fn a_revision_has_labels_and_annotations() {
    let mut world = World::new(spec(Kind::CloneSet, 2, &named(&["a", "b"])));
    world.united.metadata.annotations = Some([("note".to_owned(), "n".to_owned())].into());
    let plan = world.plan();
    let [Action::CreateRevision(object, _)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    let labels = &object["metadata"]["labels"];
    assert_eq!((labels["app"].as_str(), labels["team"].as_str()), (Some("shop"), Some("sales")));
    assert_eq!(labels[UID_LABEL], UID);
    assert_eq!(object["metadata"]["annotations"], json!({ "note": "n" }));
    // What tells revisions apart is not the template's to say.
    world.edit(|spec| {
        spec["template"]["cloneSetTemplate"]["metadata"]["labels"][UID_LABEL] = json!("x");
        spec["template"]["cloneSetTemplate"]["metadata"]["labels"][HASH_LABEL] = json!("x");
    });
    let plan = world.plan();
    let [Action::CreateRevision(object, _)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    let labels = &object["metadata"]["labels"];
    assert!(labels[UID_LABEL] == UID && labels[HASH_LABEL] != "x", "{labels}");
}

/// One that OpenKruise filed has no label of ours: its workloads name it. 1.4 does so by another label on
/// Advanced StatefulSets than 1.8.
#[rstest]
#[case(Kind::CloneSet, "")]
#[case(Kind::AdvancedStatefulSet, "apps.kruise.io/controller-revision-hash")]
#[case(Kind::AdvancedStatefulSet, "controller-revision-hash")]
fn revisions_that_workloads_have_are_looked_at_before_one_is_made(#[case] kind: Kind, #[case] without: &str) {
    let mut world = World::new(spec(kind, 2, &named(&["a", "b"])));
    world.settle();
    for (_, workload) in world.workloads.values_mut() {
        workload["metadata"]["labels"].as_object_mut().unwrap().remove(without);
    }
    let filed = world.revisions.remove(0);
    let plan = world.plan();
    let [Action::CreateRevision(_, names)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    assert_eq!(names, std::slice::from_ref(&filed.name));
    // It is on file, but of another template.
    world.revisions.push(filed);
    world.edit(|spec| spec["template"][kind.member()]["metadata"]["labels"]["team"] = json!("x"));
    let plan = world.plan();
    let [Action::CreateRevision(_, names)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn a_template_gets_its_old_revision_back_and_the_history_is_short() {
    let mut world = World::new(spec(Kind::Deployment, 2, &named(&["a"])));
    world.edit(|spec| spec["revisionHistoryLimit"] = 1.into());
    let mut names = Vec::new();
    for image in ["a:1", "a:2", "a:1", "a:3", "a:4"] {
        world.edit(|spec| spec["template"] = template(Kind::Deployment, image, &json!({})));
        world.settle();
        world.run(true);
        world.settle();
        let label = &world.of("a")["metadata"]["labels"]["apps.kruise.io/controller-revision-hash"];
        names.push(label.as_str().unwrap().to_owned());
    }
    assert_eq!(names[0], names[2]);
    let kept: Vec<&str> = world.revisions.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(kept, [&names[3], &names[4]], "the newest, and one before it");
}

/// Nothing is written where nothing is to be changed; OpenKruise writes a Deployment each time.
#[rstest]
#[case::replicas(json!("/spec/replicas"), json!(9))]
#[case::partition(json!("/spec/updateStrategy/rollingUpdate/partition"), json!(2))]
#[case::revision(json!("/metadata/labels/apps.kruise.io~1controller-revision-hash"), json!("x"))]
#[case::hash(json!("/metadata/annotations/berth.dev~1subset-hash"), json!("x"))]
fn what_others_changed_is_set_right(#[case] at: Value, #[case] value: Value) {
    let mut world = World::new(spec(Kind::StatefulSet, 4, &named(&["a", "b"])));
    world.settle();
    let before = world.of("a").clone();
    assert_eq!(world.plan().actions, []);
    let name = before["metadata"]["name"].as_str().unwrap().to_owned();
    let (_, object) = world.workloads.get_mut(&name).unwrap();
    *object.pointer_mut(at.as_str().unwrap()).unwrap() = value;
    assert_eq!(kinds_of(&world.plan().actions), ["update"]);
    world.settle();
    let after = world.of("a");
    assert_eq!(
        (&after["spec"], &after["metadata"]["labels"]),
        (&before["spec"], &before["metadata"]["labels"])
    );
}

#[test]
fn a_subset_that_is_gone_loses_its_workload_and_others_lose_nothing() {
    let mut world = World::new(spec(Kind::CloneSet, 4, &named(&["a", "b"])));
    world.settle();
    let b = world.of("b")["metadata"]["name"].as_str().unwrap().to_owned();
    // Labels as ours, and nobody who decides: OpenKruise adopts it, and deletes it with itself.
    let (kind, mut stranger) = world.workloads[&b].clone();
    stranger["metadata"]["name"] = "stranger".into();
    stranger["metadata"]["uid"] = "s".into();
    stranger["metadata"]["ownerReferences"] = json!([]);
    world.workloads.insert("stranger".to_owned(), (kind, stranger.clone()));
    world.edit(|spec| spec["topology"]["subsets"] = named(&["a", "c"]));
    world.settle();
    assert_eq!(world.deleted, [b]);
    assert_eq!(world.workloads["stranger"].1, stranger);
    assert_eq!(world.numbers(), "a2/0 c2/0");
    assert!(holds(&world, "SubsetProvisioned"));
}

#[test]
fn no_pods_keep_the_workloads() {
    let mut world = World::new(spec(Kind::Deployment, 4, &named(&["a", "b"])));
    world.settle();
    world.edit(|spec| spec["replicas"] = 0.into());
    world.settle();
    assert_eq!((world.numbers(), world.deleted.len()), ("a0/0 b0/0".to_owned(), 0));
    // Nor does a topology without subsets take them, as long as there are to be pods.
    world.edit(|spec| {
        spec["replicas"] = 4.into();
        spec["topology"] = json!({});
    });
    world.settle();
    assert_eq!(world.deleted.len(), 0);
    assert!(condition(&world, "SubsetFailure").unwrap().1.contains("have 0 replicas together"));
    world.edit(|spec| spec["replicas"] = 0.into());
    world.settle();
    assert_eq!(world.deleted.len(), 2);
}

/// The old kind goes when the new one is there, and not before.
#[test]
fn a_template_of_another_kind_takes_the_place_of_the_first() {
    let mut world = World::new(spec(Kind::Deployment, 4, &named(&["a", "b"])));
    world.settle();
    world.edit(|spec| spec["template"] = template(Kind::CloneSet, "a:1", &json!({})));
    let revision = world.plan();
    world.carry_out(&revision);
    let plan = world.plan();
    assert_eq!(kinds_of(&plan.actions), ["create", "create"]);
    // One of them is refused.
    world.write(&plan.actions[0]);
    assert_eq!(kinds_of(&world.plan().actions), ["create", "delete"]);
    world.settle();
    assert!(world.workloads.values().all(|(kind, _)| *kind == Kind::CloneSet));
    assert_eq!((world.numbers(), world.deleted.len()), ("a2/0 b2/0".to_owned(), 2));
}

#[test]
fn the_oldest_of_two_stays() {
    let mut world = World::new(spec(Kind::Deployment, 2, &named(&["a"])));
    world.settle();
    let (name, (kind, mut twin)) =
        world.workloads.iter().next().map(|(k, v)| (k.clone(), v.clone())).unwrap();
    twin["metadata"]["name"] = "twin".into();
    twin["metadata"]["uid"] = "t".into();
    twin["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    world.workloads.insert("twin".to_owned(), (kind, twin));
    world.settle();
    assert_eq!(world.deleted, ["twin"]);
    assert!(world.workloads.contains_key(&name));
}

/// Its pods are there as long as it is: a second one would double them.
#[test]
fn a_workload_that_goes_is_waited_for() {
    let mut world = World::new(spec(Kind::CloneSet, 2, &named(&["a"])));
    world.settle();
    let name = world.workloads.keys().next().unwrap().clone();
    let (_, object) = world.workloads.get_mut(&name).unwrap();
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    world.edit(|spec| spec["replicas"] = 3.into());
    world.settle();
    assert!(!holds(&world, "SubsetUpdated"));
    assert_eq!(world.workloads.len(), 1);
    world.workloads.clear();
    world.settle();
    assert!(!world.workloads.contains_key(&name), "another one, under another name");
    assert_eq!(world.numbers(), "a3/0");
}

/// A StatefulSet of Kubernetes does not replace a pod that never gets ready, above the partition neither.
#[test]
fn stuck_pods_of_a_stateful_set_are_deleted() {
    let mut all = spec(Kind::StatefulSet, 3, &named(&["a"]));
    all["updateStrategy"] = json!({ "manualUpdate": { "partitions": { "a": 1 } } });
    let mut world = World::new(all);
    world.settle();
    world.run(false);
    world.pods[2]["status"]["conditions"][0]["status"] = "True".into();
    let name = world.workloads.keys().next().unwrap().clone();
    world.settle();
    assert_eq!(world.deleted, Vec::<String>::new(), "they have the newest revision");
    world.edit(|spec| spec["template"] = template(Kind::StatefulSet, "a:2", &json!({})));
    let revision = world.plan();
    world.carry_out(&revision);
    let update = world.plan();
    assert_eq!(kinds_of(&update.actions), ["update"]);
    world.carry_out(&update);
    let (_, object) = world.workloads.get_mut(&name).unwrap();
    let observed = object["status"]["observedGeneration"].take();
    assert!(world.plan().actions.is_empty(), "its controller has not seen it yet");
    world.workloads.get_mut(&name).unwrap().1["status"]["observedGeneration"] = observed;
    world.settle();
    assert_eq!(world.deleted, [format!("{name}-1")], "0 is below the partition, 2 is ready");
}

#[test]
fn a_revision_that_cannot_be_made_is_said() {
    let mut world = World::new(spec(Kind::CloneSet, 5, &named(&["a"])));
    world.settle();
    world.run(true);
    world.settle();
    assert!(holds(&world, "SubsetUpdated"));
    world.edit(|spec| spec["template"] = template(Kind::CloneSet, "a:2", &json!({})));
    assert_eq!(world.plan().status, None, "nothing has failed");
    world.failure = Some("create revision shop-x: denied".to_owned());
    let plan = world.plan();
    assert_eq!(kinds_of(&plan.actions), ["create revision"]);
    world.united.status = plan.status;
    let status = world.united.status.as_ref().unwrap();
    assert_eq!((status.observed_generation, status.replicas, status.updated_replicas), (Some(2), 5, 0));
    assert!(holds(&world, "SubsetProvisioned") && !holds(&world, "SubsetUpdated"));
    let says = ("True".to_owned(), "create revision shop-x: denied".to_owned());
    assert_eq!(condition(&world, "SubsetFailure"), Some(says));
    assert_eq!(world.plan().status, None, "it is on file");
    world.settle();
    assert_eq!(condition(&world, "SubsetFailure"), None);
}

/// The failure of one subset is said as long as something is left to be done, and holds no other up.
#[test]
fn a_failure_is_told_while_it_lasts() {
    let mut world = World::new(spec(Kind::CloneSet, 3, &named(&["a", "b"])));
    world.settle();
    world.edit(|spec| spec["replicas"] = 4.into());
    world.failure = Some("update CloneSet shop-a-x: denied".to_owned());
    let status = world.plan().status.unwrap();
    world.united.status = Some(status);
    assert_eq!(condition(&world, "SubsetFailure").unwrap().1, "update CloneSet shop-a-x: denied");
    assert!(!holds(&world, "SubsetUpdated") && holds(&world, "SubsetProvisioned"));
    world.settle();
    assert_eq!(condition(&world, "SubsetFailure"), None);

    let bad =
        json!([{ "name": "a", "patch": { "spec": { "containers": [{ "image": "x" }] } } }, { "name": "b" }]);
    let mut world = World::new(spec(Kind::CloneSet, 3, &bad));
    for _ in 0..3 {
        let plan = world.plan();
        world.carry_out(&plan);
    }
    assert_eq!(world.numbers(), "b2/0", "the other one has its workload");
    let told = condition(&world, "SubsetFailure").unwrap().1;
    assert!(
        told.starts_with("spec.topology.subsets[\"a\"].patch.spec.containers[0] has no name: "),
        "{told}"
    );
    let plan = world.plan();
    assert!(plan.notes.is_empty() && plan.status.is_none() && plan.actions.is_empty(), "told once");
}

#[test]
fn one_that_goes_is_left_to_the_garbage_collector() {
    let mut world = World::new(spec(Kind::CloneSet, 3, &named(&["a"])));
    world.settle();
    let mut united = json!(world.united);
    united["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    united["spec"]["topology"] = json!({});
    world.united = serde_json::from_value(united).unwrap();
    assert_eq!(world.plan(), super::super::Plan::default());
    assert_eq!(UID, "united");
}

/// A plan is bounded, however large the template is.
#[test]
fn large_workloads_are_made_a_few_at_a_time() {
    let names: Vec<String> = (0..128).map(|at| format!("s{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut all = spec(Kind::CloneSet, 128, &named(&names));
    all["template"]["cloneSetTemplate"]["spec"]["large"] = "x".repeat(1 << 20).into();
    let mut world = World::new(all);
    let revision = world.plan();
    world.carry_out(&revision);
    let plan = world.plan();
    assert!((2..8).contains(&plan.actions.len()), "{}", plan.actions.len());
    assert_eq!(plan.again, Some(std::time::Duration::ZERO));
}

#[test]
fn subsets_with_bounds_are_filled_in_their_order() {
    let subsets = json!([
        { "name": "a", "minReplicas": 1, "maxReplicas": 2 },
        { "name": "b", "minReplicas": 1, "maxReplicas": 2 },
        { "name": "c", "minReplicas": 1 },
    ]);
    let mut world = World::new(spec(Kind::CloneSet, 3, &subsets));
    for (replicas, numbers) in [(3, "a1/0 b1/0 c1/0"), (7, "a2/0 b2/0 c3/0"), (1, "a1/0 b0/0 c0/0")] {
        world.edit(|spec| spec["replicas"] = replicas.into());
        world.settle();
        assert_eq!(world.numbers(), numbers);
    }
}
