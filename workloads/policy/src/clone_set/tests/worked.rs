//! The worked cases: the numbers are those that OpenKruise 1.4 calculates for the same pods.

use berth_proto::crd::CloneSet;
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    super::{
        Rules,
        member::Member,
        numbers::{Course, Numbers, numbers},
    },
    world::{NOW, World},
};
use crate::{revision::Live, selector::PARSED};

/// Numbers in the words of the cases: `up6 limit6`; what is 0 is left out.
fn calculated(world: &World) -> String {
    let set: &CloneSet = &world.set;
    let rules = Rules::of(set).unwrap();
    let live = Live { current: &world.revisions[0], update: &world.revisions[1] };
    let pods: Vec<_> = world.pods.iter().collect();
    let failures = Default::default();
    let input = super::super::Input {
        set,
        revisions: &world.revisions.iter().collect::<Vec<_>>(),
        pods: &pods,
        claims: &[],
        in_place: &world.in_place,
        nodes: &world.nodes,
        agents: world.agents(),
        ahead: crate::predownload::Ahead::default(),
        settings: world.settings,
        failures: &failures,
        put_off: &world.put_off,
        collisions: 0,
        seed: 0,
    };
    let members: Vec<_> = pods.iter().map(|pod| Member::of(pod, &rules, live, &input, NOW)).collect();
    let Numbers { up, up_old, limit, down, down_old, delete, update, surge, .. } =
        numbers(&rules, &members, Course { rolls_back: world.settings.partition_rollback, in_place: false });
    let parts = [
        ("up", up),
        ("upOld", up_old),
        ("limit", limit),
        ("down", down),
        ("downOld", down_old),
        ("del", delete),
        ("upd", update),
        ("surge", surge),
    ];
    let parts = parts.iter().filter(|(_, number)| *number != 0);
    parts.map(|(name, number)| format!("{name}{number}")).collect::<Vec<_>>().join(" ")
}

/// `replicas, partition, maxUnavailable, maxSurge`, each a number or a share.
fn spec(numbers: &str) -> Value {
    let value = |text: &str| text.parse::<i32>().map_or_else(|_| json!(text), |number| json!(number));
    let all: Vec<Value> = numbers.split(',').map(str::trim).map(value).collect();
    json!({
        "replicas": all[0],
        "updateStrategy": { "partition": all[1], "maxUnavailable": all[2], "maxSurge": all[3] },
    })
}

#[rstest]
#[case::n1("6,0,20%,0", "", "up6 limit6 upd-0", "create n x6")]
#[case::n3("6,0,20%,0", "9n", "down3 del5", "delete n x3")]
#[case::n4("6,0,1,0", "5n 4n!", "down3", "delete n! x3")]
#[case::n6("10,0,20%,0", "10o", "upd10", "delete o x2")]
#[case::n7("10,0,20%,0", "8o 2n!", "upd8", "")]
#[case::n8("10,0,25%,0", "10o", "upd10", "delete o x3")]
#[case::n9("10,0,25%,1", "10o", "up1 limit1 upd10 surge1", "create n")]
#[case::n10("4,95%,50%,0", "4o", "upd1", "delete o")]
#[case::n11("1,95%,1,0", "1o", "", "")]
#[case::n13("10,8,2,0", "4o 6n", "", "")]
#[case::n14("8,6,0,50%", "8o", "up2 limit2 upd2 surge2", "create n x2")]
#[case::n15("8,6,0,4", "8o 2n!", "down2 downOld2", "")]
#[case::n16("8,6,0,4", "8o 2n", "down2 downOld2 del2", "delete o x2")]
#[case::n17("6,0,0,2", "6o 2n", "upd4 surge2", "delete o x2")]
#[case::n18("6,0,0,2", "4o 2od 2n", "del2 upd4 surge2", "delete od x2")]
#[case::n19("6,0,0,2", "4o 2n", "up2 limit2 upd4 surge2", "create n x2")]
#[case::n20("5,0,1,0", "4n 1nd", "del1", "delete nd")]
#[case::n21("5,0,1,0", "3n 1n! 1nd", "", "")]
#[case::n22("5,0,1,0", "3n 1n! 1n!d", "", "delete n!d")]
#[case::n23("5,0,0,1", "4n 1nd", "up1 limit1 surge1", "create n")]
#[case::n24("5,0,0,1", "5n 1nd", "del1 surge1", "delete nd")]
#[case::n27("10,50%,2,0", "5o 3n", "up2 limit2", "create n x2")]
#[case::n28("6,3,2,0", "3o 5n", "down2 del4", "delete n x2")]
fn worked_cases(#[case] numbers: &str, #[case] pods: &str, #[case] calculates: &str, #[case] effect: &str) {
    let world = World::new(spec(numbers), pods);
    let calculates = calculates.replace(" upd-0", "");
    assert_eq!(calculated(&world), calculates, "{numbers} with {pods}");
    assert_eq!(world.effect(), effect, "{numbers} with {pods}");
}

#[test]
fn n2_pods_that_are_unavailable_hold_up_new_ones() {
    let mut spec = spec("6,0,20%,0");
    spec["scaleStrategy"] = json!({ "maxUnavailable": 2 });
    let world = World::new(spec, "2n 3n!");
    assert_eq!(calculated(&world), "up1");
    assert_eq!(world.effect(), "ScaleUpLimited");
}

/// In OpenKruise the creation that is held up stops the deletion.
#[test]
fn a_creation_that_is_held_up_stops_no_deletion() {
    let mut spec = spec("6,0,1,0");
    spec["scaleStrategy"] = json!({ "maxUnavailable": 1 });
    let world = World::new(spec, "3n 1n! 1n!d");
    assert_eq!(calculated(&world), "up1");
    assert_eq!(world.effect(), "delete n!d, ScaleUpLimited");
}

/// OpenKruise waits here until the pods are available, however long that is.
#[test]
fn n5_pods_that_are_not_available_yet_hold_up_no_scale_in() {
    let mut spec = spec("3,0,1,0");
    spec["minReadySeconds"] = json!(99_999);
    let world = World::new(spec, "5nr");
    assert_eq!(calculated(&world), "down2");
    assert_eq!(world.effect(), "delete n x2");
}

#[test]
fn n12_a_raised_partition_brings_pods_back_where_that_is_chosen() {
    let mut world = World::new(spec("10,8,2,0"), "4o 6n");
    world.settings.partition_rollback = true;
    assert_eq!(calculated(&world), "upd-4");
    assert_eq!(world.effect(), "delete n x2");
    // In place too, where nothing is noted of earlier templates.
    let strategy = world.set.spec.update_strategy.as_mut().unwrap();
    strategy.type_ = Some("InPlaceIfPossible".to_owned());
    assert_eq!(world.effect(), "delete n x2");
    world.pods.retain(|pod| pod.name != "p4" && pod.name != "p5");
    assert_eq!(world.effect(), "create o x2");
}

/// The way back may have pods beyond the wanted number: they are no pods of an update, and stay.
#[test]
fn a_pod_that_is_made_on_the_way_back_stays() {
    let mut spec = spec("4,3,0,1");
    spec["updateStrategy"]["type"] = json!("InPlaceIfPossible");
    let mut world = World::new(spec, "2o 2n");
    world.settings.partition_rollback = true;
    let plan = world.plan();
    let [crate::action::Action::CreatePod(pod)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    assert_eq!(pod["metadata"]["labels"][crate::names::REVISION_LABEL], "shop-old");
    assert!(pod["metadata"]["labels"].get(crate::names::SURGE_LABEL).is_none(), "{pod}");
}

/// The status says so, and how it goes on; what changes metadata alone needs no agent.
#[test]
fn a_raised_partition_brings_back_in_place_what_needs_no_agent() {
    let mut spec = spec("10,8,2,0");
    spec["updateStrategy"]["type"] = json!("InPlaceOnly");
    let mut world = World::new(spec, "4o 6n");
    world.settings.partition_rollback = true;
    assert_eq!(world.effect(), "");
    let condition = world.plan().status.unwrap().conditions.remove(0);
    assert_eq!(condition.type_, "FailedUpdate");
    let message = condition.message.unwrap();
    assert!(message.contains("goes back to revision shop-old") && message.contains("delete it"), "{message}");
    world.revisions[0].template = world.revisions[1].template.clone();
    world.revisions[0].template["metadata"]["labels"]["tier"] = json!("1");
    world.updating_nodes.clear();
    let plan = world.plan();
    let [crate::action::Action::PatchPod(_, patch), crate::action::Action::PatchPod(..)] =
        plan.actions.as_slice()
    else {
        panic!("{plan:?}")
    };
    assert_eq!(patch["metadata"]["labels"]["tier"], "1");
}

fn held(mut spec: Value) -> Value {
    spec["lifecycle"] = json!({ "preDelete": { "labelsHandler": { "hook": "true" } } });
    spec
}

#[test]
fn n25_a_pod_that_is_held_is_not_replaced() {
    let world = World::new(held(spec("5,0,1,0")), "4n 1ndP");
    assert_eq!((calculated(&world).as_str(), world.effect().as_str()), ("", ""));
}

#[test]
fn n26_unless_the_set_does_not_count_it() {
    let mut world = World::new(held(spec("5,0,1,0")), "4n 1ndP");
    let label = (crate::names::EXCLUDE_PREPARING_DELETE_LABEL.to_owned(), "true".to_owned());
    world.set.metadata.labels = Some([label].into());
    assert_eq!(calculated(&world), "up1 limit1");
    assert_eq!(world.effect(), "create n");
    // Or the installation does not, of any set.
    world.set.metadata.labels = None;
    assert_eq!(world.effect(), "");
    world.settings.excludes_preparing = true;
    assert_eq!(world.effect(), "create n");
}

/// OpenKruise 1.4 makes pods beyond the wanted number for an update that rests.
#[test]
fn an_update_that_rests_makes_no_pods() {
    let mut spec = spec("8,6,0,4");
    spec["updateStrategy"]["paused"] = json!(true);
    assert_eq!(World::new(spec, "8o").effect(), "");
}

/// OpenKruise 1.4 forgets the partition here.
#[test]
fn few_pods_promote_no_revision() {
    let current = |pods| {
        let plan = World::new(spec("5,3,1,0"), pods).plan();
        plan.status.unwrap().current_revision.unwrap()
    };
    assert_eq!(current("1n"), "shop-old");
    assert_eq!(current(""), "shop-old");
    assert_eq!(current("5n"), "shop-new");
}

#[test]
fn the_status_counts() {
    let mut spec = spec("6,2,1,0");
    spec["minReadySeconds"] = json!(60);
    let plan = World::new(spec, "2o 1o! 1n 1nr 1n!").plan();
    let status = plan.status.unwrap();
    assert_eq!((status.replicas, status.ready_replicas, status.available_replicas), (6, 4, 3));
    assert_eq!((status.updated_replicas, status.updated_ready_replicas), (3, 2));
    assert_eq!(status.expected_updated_replicas, 4);
    assert_eq!(status.label_selector.as_deref(), Some("app=shop"));
    assert_eq!(status.update_revision.as_deref(), Some("shop-new"));
    // Not a moment later than the pod is available.
    assert_eq!(plan.again, Some(std::time::Duration::from_secs(60)));
}

/// Nothing is written that is on file.
#[test]
fn a_set_that_is_as_it_should_be_is_left_alone() {
    let mut world = World::new(spec("3,0,1,0"), "3n");
    world.set.status = world.plan().status;
    assert_eq!(world.plan(), super::super::Plan::default());
}

#[test]
fn a_spec_that_makes_no_sense_does_nothing_and_says_so() {
    for (change, says) in [
        (json!({ "updateStrategy": { "partition": "many" } }), "spec.updateStrategy.partition is many"),
        (json!({ "selector": {} }), "spec.selector selects all pods"),
        (json!({ "selector": { "matchLabels": { "app": "x" } } }), "spec.template.metadata.labels are not"),
        (json!({ "updateStrategy": { "type": "Recreate" } }), "spec.updateStrategy.type is \"Recreate\""),
    ] {
        let plan = World::new(change, "3o").plan();
        assert!(plan.actions.is_empty());
        let status = plan.status.unwrap();
        let message = status.conditions[0].message.clone().unwrap();
        assert!(message.starts_with(says), "{message}");
    }
}

#[test]
fn the_first_thing_is_a_revision() {
    let mut world = World::new(spec("2,0,1,0"), "");
    world.revisions.clear();
    assert_eq!(world.effect(), "revision");
    // The old template again: its revision is raised.
    let mut world = World::new(spec("2,0,1,0"), "2n");
    world.set.spec.template.0 = super::world::template("a:1");
    assert_eq!(world.effect(), "revision");
}

/// Numbers as an attacker would write them.
#[test]
fn no_number_is_too_large() {
    for pods in ["", "3o 2n! 1nd"] {
        let most = i32::MAX;
        let spec = json!({
            "replicas": most,
            "minReadySeconds": most,
            "revisionHistoryLimit": -5,
            "scaleStrategy": { "maxUnavailable": "2000000000%" },
            "updateStrategy": { "partition": most, "maxUnavailable": most, "maxSurge": "999999999%" },
        });
        let Err(_) = std::panic::catch_unwind(|| World::new(spec.clone(), pods).plan()) else { continue };
        panic!("{pods}");
    }
}

/// In OpenKruise both go at once, one more than may be out.
#[test]
fn a_pod_that_goes_and_does_not_serve_is_counted() {
    assert_eq!(World::new(spec("3,0,1,0"), "1n 1nd 1n!d").effect(), "delete n!d");
}

#[test]
fn a_pod_that_is_held_counts_against_the_update() {
    assert_eq!(World::new(held(spec("5,0,1,0")), "4o 1odP").effect(), "");
}

/// However many pods there are.
#[test]
fn selectors_are_parsed_once_for_all_pods() {
    let parsed = ["1o 1n", "100o 200n"].map(|pods| {
        let (world, before) = (World::new(spec("300,0,1,0"), pods), PARSED.get());
        world.plan();
        PARSED.get() - before
    });
    assert_eq!(parsed, [1, 1]);
}
