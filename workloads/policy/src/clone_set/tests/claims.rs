//! Claims, and which pod gets which.

use serde_json::{Value, json};

use super::{super::ClaimView, world::World};
use crate::{
    action::Action,
    claim_change::ClaimAsks,
    names::{INSTANCE_LABEL, KEEP_CLAIMS_ANNOTATION},
    plan::Cause,
    pod::Phase,
};

fn spec(replicas: i32) -> Value {
    json!({
        "replicas": replicas,
        "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": { "aFieldOfLater": 1 } }],
    })
}

pub(super) fn claim(instance: &str) -> ClaimView {
    ClaimView {
        namespace: "ns".to_owned(),
        name: format!("data-shop-{instance}"),
        uid: format!("claim-{instance}"),
        version: "1".to_owned(),
        instance: instance.to_owned(),
        owners: Vec::new(),
        terminating: false,
        asks: Default::default(),
    }
}

/// Instance and name of each new pod.
fn made(world: &World) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let pods = world.plan().actions.into_iter().filter_map(|action| match action {
        Action::CreatePod(pod) => {
            let meta = &pod["metadata"];
            let volume = &pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"];
            let instance = text(&meta["labels"][INSTANCE_LABEL]);
            assert_eq!(text(volume), format!("data-shop-{instance}"));
            Some((instance, text(&meta["name"])))
        }
        _ => None,
    });
    pods.collect()
}

/// The program was killed before it took the name out, and the claim waits for another pod.
#[test]
fn a_new_pod_has_no_name_that_is_still_to_go() {
    let mut spec = spec(1);
    spec["scaleStrategy"] = json!({ "podsToDelete": ["shop-abcde"] });
    let mut world = World::new(spec, "");
    world.claims = vec![claim("abcde")];
    let all = made(&world);
    assert_eq!((all.len(), all[0].0.as_str()), (1, "abcde"));
    assert!(all[0].1 != "shop-abcde" && all[0].1.starts_with("shop-"), "{all:?}");
    world.set.spec.scale_strategy = None;
    assert_eq!(made(&world), [("abcde".to_owned(), "shop-abcde".to_owned())]);
}

#[test]
fn a_new_pod_has_claims_of_its_own_before_it() {
    let world = World::new(spec(1), "");
    let plan = world.plan();
    let [Action::CreateClaim(claim), Action::CreatePod(pod)] = plan.actions.as_slice() else {
        panic!("{plan:?}")
    };
    let instance = &pod["metadata"]["labels"][INSTANCE_LABEL];
    assert_eq!(&claim["metadata"]["labels"][INSTANCE_LABEL], instance);
    assert_eq!(claim["metadata"]["labels"]["app"], "shop");
    assert_eq!(claim["metadata"]["ownerReferences"][0]["kind"], "CloneSet");
    assert_eq!(claim["spec"]["aFieldOfLater"], 1);
    assert_eq!(pod["spec"]["aFieldOfLater"], json!([1]));
}

/// A pod that was deleted by somebody else leaves its claims to the next one.
#[test]
fn claims_are_used_again() {
    let mut world = World::new(spec(2), "1n");
    world.claims = vec![claim("p0"), claim("lost")];
    assert_eq!(made(&world), [("lost".to_owned(), "shop-lost".to_owned())]);
    assert!(!world.effect().contains("claim"), "it has all of them");
}

/// While they are mounted, the replacement waits and gets no others.
#[test]
fn claims_of_a_pod_that_is_going_are_waited_for() {
    let mut world = World::new(spec(2), "2n");
    world.claims = vec![claim("p0"), claim("p1")];
    world.pods[1].terminating = true;
    assert_eq!(world.effect(), "");
    world.pods.pop();
    assert_eq!(made(&world), [("p1".to_owned(), "shop-p1".to_owned())]);
}

/// In OpenKruise the object of an evicted pod keeps its name, and so its replacement from being made.
#[test]
fn a_pod_that_was_evicted_keeps_nobody_from_its_claims() {
    let mut world = World::new(spec(2), "2n");
    world.claims = vec![claim("p0"), claim("p1")];
    world.pods[1].phase = Phase::Ended;
    world.pods[1].name = "shop-p1".to_owned();
    let made = made(&world);
    assert_eq!(made[0].0, "p1");
    assert_ne!(made[0].1, "shop-p1");
}

#[test]
fn claims_go_with_a_pod_that_the_set_deletes() {
    let mut world = World::new(spec(1), "2n");
    world.claims = vec![claim("p0"), claim("p1")];
    assert_eq!(world.effect(), "delete n, delete claim");
}

/// Each row: an update by new pods, one that is named, and one that is too many.
#[test]
fn claims_of_a_pod_that_is_replaced_are_kept_where_that_is_chosen() {
    for (replicas, pods, keeps, effect) in [
        (2, "2o", false, "delete o, delete claim"),
        (2, "2o", true, "delete o"),
        (2, "1n 1nd", true, "delete nd"),
        (1, "2n", true, "delete n, delete claim"),
    ] {
        let mut spec = spec(replicas);
        spec["updateStrategy"] = json!({ "maxUnavailable": 1 });
        let mut world = World::new(spec, pods);
        world.claims = vec![claim("p0"), claim("p1")];
        if keeps {
            let annotation = (KEEP_CLAIMS_ANNOTATION.to_owned(), "true".to_owned());
            world.set.metadata.annotations = Some([annotation].into());
        }
        assert_eq!(world.effect(), effect, "{pods}");
    }
    let mut world = World::new(spec(2), "1n");
    world.claims = vec![claim("p0"), claim("kept")];
    assert_eq!(made(&world)[0].0, "kept", "the next pod has them");
}

/// No container of it runs that a new pod would end: no type waits for its node, and its claims are for the
/// new one.
#[test]
fn a_pod_without_a_node_is_made_anew_and_its_claims_stay() {
    for (type_, effect) in [
        ("InPlaceIfPossible", "delete o!"),
        ("InPlaceOnly", "delete o!"),
        ("ReCreate", "delete o!, delete claim"),
    ] {
        let mut spec = spec(3);
        spec["updateStrategy"] = json!({ "type": type_, "maxUnavailable": 1 });
        let mut world = World::new(spec, "2n 1o!");
        world.pods[2].node.clear();
        world.claims = ["p0", "p1", "p2"].map(claim).into();
        assert_eq!(world.effect(), effect, "{type_}");
        assert_eq!(world.plan().causes.into_values().collect::<Vec<_>>(), [Cause::Update], "{type_}");
    }
}

#[test]
fn claims_that_are_not_used_again_go_with_their_pod() {
    let mut spec = spec(1);
    spec["scaleStrategy"] = json!({ "disablePVCReuse": true });
    let mut world = World::new(spec, "2n");
    world.claims = vec![claim("p0"), claim("p1"), claim("lost")];
    world.pods[1].terminating = true;
    let plan = world.plan();
    let [Action::PatchClaim(held, patch), Action::DeleteClaim(lost)] = plan.actions.as_slice() else {
        panic!("{plan:?}")
    };
    assert_eq!((held.name.as_str(), lost.name.as_str()), ("data-shop-p1", "data-shop-lost"));
    assert_eq!(patch["metadata"]["ownerReferences"][0]["kind"], "Pod");
}

/// In OpenKruise it is silent: no pod is updated for it, and none has it.
#[test]
fn a_change_of_claim_templates_is_said() {
    let mut world = World::new(spec(2), "2n");
    for instance in ["p0", "p1"] {
        world.claims.push(claim(instance));
    }
    assert_eq!(world.effect(), "", "the claims are what the template says");
    let template = json!({ "metadata": { "name": "logs" } });
    world.set.spec.volume_claim_templates.push(serde_json::from_value(template).unwrap());
    let plan = world.plan();
    assert!(plan.actions.is_empty(), "a pod keeps its claims");
    assert_eq!((plan.notes[0].warning, plan.notes[0].reason), (true, "ClaimTemplatesChanged"));
    let status = plan.status.unwrap();
    let condition = status.conditions.iter().find(|one| one.type_ == "ClaimTemplatesChanged").unwrap();
    let message = condition.message.as_deref().unwrap();
    assert!(message.contains("2 claims") && message.contains("logs of pod p0"), "{message}");
    // Said once as an Event, and as a condition for as long as it is so.
    world.set.status = Some(status);
    assert_eq!(world.plan(), super::super::Plan::default());
    world.set.spec.volume_claim_templates.pop();
    assert!(world.plan().status.unwrap().conditions.is_empty());
}

/// Each row: whether pods are made anew for it, storage of the claims where the template asks for 2Gi, type,
/// whether claims are kept, and the effect on old pods.
#[test]
fn a_change_of_claim_templates_comes_with_an_update_where_that_is_chosen() {
    const TOLD: &str = "ClaimTemplatesChanged";
    let anew = format!("delete o, delete claim, {TOLD}");
    let in_place = format!("update o, {TOLD}");
    for (chosen, storage, type_, keeps, effect) in [
        (false, Some("1Gi"), "InPlaceIfPossible", false, in_place.as_str()),
        (true, Some("1Gi"), "InPlaceIfPossible", false, anew.as_str()),
        (true, Some("1Gi"), "InPlaceIfPossible", true, in_place.as_str()),
        (true, Some("1Gi"), "InPlaceOnly", false, TOLD),
        (true, Some("2Gi"), "InPlaceIfPossible", false, "update o"),
        (true, Some("2Gi"), "InPlaceOnly", false, "update o"),
        (true, None, "InPlaceIfPossible", false, "delete o, ClaimTemplatesChanged"),
    ] {
        let of_size = |size: &str| json!({ "resources": { "requests": { "storage": size } } });
        let mut spec = spec(2);
        spec["updateStrategy"] = json!({ "type": type_, "maxUnavailable": 1 });
        spec["volumeClaimTemplates"][0]["spec"] = of_size("2Gi");
        let mut world = World::new(spec, "2o");
        world.settings.recreate_on_claim_changes = chosen;
        if keeps {
            let annotation = (KEEP_CLAIMS_ANNOTATION.to_owned(), "true".to_owned());
            world.set.metadata.annotations = Some([annotation].into());
        }
        for instance in storage.iter().flat_map(|_| ["p0", "p1"]) {
            let object = json!({ "metadata": {}, "spec": of_size(storage.unwrap()) });
            let asks = ClaimAsks::of(&serde_json::from_value(object).unwrap());
            world.claims.push(ClaimView { asks, ..claim(instance) });
        }
        assert_eq!(world.effect(), effect, "{chosen} {storage:?} {type_} {keeps}");
        let conditions = world.plan().status.unwrap().conditions;
        let waits = conditions.iter().find(|one| one.type_ == "FailedUpdate");
        let why = waits.and_then(|one| one.message.as_deref()).unwrap_or_default();
        assert_eq!(why.contains("its claim data follows no change"), effect == TOLD, "{why}");
        // One that waits for a node may wait for its claim: it gets another one where those that run do.
        let mut waiting = world.pods[0].clone();
        waiting.node.clear();
        let runs = std::mem::replace(&mut world.pods[0], waiting);
        let is_anew = chosen && storage == Some("1Gi") && type_ != "InPlaceOnly" && !keeps;
        let deleted = world.plan().actions.into_iter().filter(|one| matches!(one, Action::DeleteClaim(_)));
        assert_eq!(deleted.count(), usize::from(is_anew), "{chosen} {storage:?} {type_} {keeps}");
        world.pods[0] = runs;
        // A change of the claims alone is no update.
        world.pods.iter_mut().for_each(|pod| *pod = super::world::pod(&pod.name, "n"));
        assert!(world.plan().actions.is_empty(), "{effect}");
    }
}

/// Claims are copies of their templates: those of all pods together would fill the memory.
#[test]
fn claims_of_a_pass_are_bounded() {
    let mut spec = spec(20);
    spec["volumeClaimTemplates"][0]["metadata"]["annotations"] = json!({ "note": "x".repeat(1 << 20) });
    assert_eq!(made(&World::new(spec, "")).len(), 3);
}

/// A pass over many claims looks at each of them a few times, and not at all pods for each: that would take
/// this test minutes.
#[test]
fn many_claims_are_no_work_in_pairs() {
    const MANY: i32 = 60_000;
    let mut world = World::new(spec(MANY), &format!("{MANY}n"));
    world.claims = world.pods.iter().map(|pod| claim(pod.instance())).collect();
    world.pods.pop();
    assert_eq!(made(&world).len(), 1);
    let strategy = json!({ "disablePVCReuse": true });
    world.set.spec.scale_strategy = Some(serde_json::from_value(strategy).unwrap());
    assert!(matches!(world.plan().actions.first(), Some(Action::DeleteClaim(_))));
}
