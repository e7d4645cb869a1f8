//! Claims, and what they go with.

use super::*;

fn claim(ordinal: i64) -> ClaimView {
    ClaimView {
        namespace: "ns".to_owned(),
        name: format!("data-db-{ordinal}"),
        uid: format!("claim-{ordinal}"),
        version: "1".to_owned(),
        instance: String::new(),
        owners: Vec::new(),
        terminating: false,
        asks: Default::default(),
    }
}

fn with_claims(deleted: &str, scaled: &str) -> Value {
    json!({
        "volumeClaimTemplates": [{ "metadata": { "name": "data", "labels": { "own": "1" } } }],
        "persistentVolumeClaimRetentionPolicy": { "whenDeleted": deleted, "whenScaled": scaled },
    })
}

/// Each row: the policy, and what the claims of a pod with a slot and of one without go with.
#[rstest]
#[case("Retain", "Retain", None, None)]
#[case("Delete", "Retain", Some("set"), Some("set"))]
#[case("Retain", "Delete", None, Some("uid-4"))]
#[case("Delete", "Delete", Some("set"), Some("uid-4"))]
fn claims_go_with(
    #[case] deleted: &str,
    #[case] scaled: &str,
    #[case] slot: Option<&str>,
    #[case] condemned: Option<&str>,
) {
    // With a reserved number, pod 3 of 3 has a slot; OpenKruise 1.4 gives its claims away.
    let mut spec = with_claims(deleted, scaled);
    spec["reserveOrdinals"] = json!([0]);
    let mut world = World::new(3, spec, "1n 2n 3n 4n");
    world.claims = vec![claim(3), claim(4)];
    let mut found = BTreeMap::new();
    for action in world.plan().actions {
        if let Action::PatchClaim(target, patch) = action {
            let owners = patch["metadata"]["ownerReferences"].as_array().unwrap().clone();
            found.insert(target.name, owners[0]["uid"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(found.get("data-db-3").map(String::as_str), slot);
    assert_eq!(found.get("data-db-4").map(String::as_str), condemned);
}

/// Claims go with their pods, so these are not deleted before that is written: they would take the claims
/// with them, or leave them. Rows: claims 0 to 3, of which `p` go with their pods, the policy, one that could
/// not be written to, and what is done with the pods of a set of two, all at once and one after the other.
#[rstest]
#[case::all_is_said("--pp", "Retain", "", "-3 -2 -1", "-3 -1")]
#[case::two_go_with_none("----", "Retain", "", "-1", "-1")]
#[case::one_cannot_be_written_to("---p", "Retain", "claim-2", "-3 -1", "-3 -1")]
#[case::one_that_stays_goes_with_its_pod("-ppp", "Retain", "", "-3 -2", "-3")]
#[case::and_cannot_be_written_to("-ppp", "Retain", "claim-1", "-3 -2 -0", "-3")]
#[case::they_go_with_the_set("--pp", "Delete", "claim-1", "-3 -2 -1", "-3 -1")]
fn a_pod_is_deleted_when_its_claims_say_what_they_go_with(
    #[case] claims: &str,
    #[case] deleted: &str,
    #[case] put_off: &str,
    #[case] effect: &str,
    #[case] in_order: &str,
) {
    let of_pod = |(ordinal, with): (i64, char)| {
        let kind = if with == 'p' { "Pod" } else { "Other" };
        let owner =
            json!([{ "apiVersion": "v1", "kind": kind, "name": "x", "uid": format!("uid-{ordinal}") }]);
        ClaimView { owners: serde_json::from_value(owner).unwrap(), ..claim(ordinal) }
    };
    let mut world = World::new(2, with_claims(deleted, "Delete"), "0o 1o 2o 3o");
    world.claims = (0..).zip(claims.chars()).map(of_pod).collect();
    world.put_off.insert(put_off.to_owned());
    assert_eq!(world.effect(), effect);
    world.spec["podManagementPolicy"] = "OrderedReady".into();
    assert_eq!(world.effect(), in_order);
}

/// Whatever is refused of one kind, the others are written.
#[test]
fn claims_new_pods_and_deletions_are_parts_of_their_own() {
    let mut world = World::new(3, with_claims("Delete", "Retain"), "0n! 2o 3n");
    world.pods[0].phase = Phase::Pending;
    world.claims = vec![claim(2)];
    let (parts, _) = world.plan().into_parts();
    let [claims, new, deleted, ..] = parts.as_slice() else { panic!("{parts:?}") };
    assert!(matches!(claims.as_slice(), [Action::PatchClaim(..)]), "{claims:?}");
    assert!(
        matches!(new.as_slice(), [Action::CreateClaim(_), Action::CreateClaim(_), Action::CreatePod(_)]),
        "{new:?}"
    );
    assert!(matches!(deleted.as_slice(), [Action::DeletePod(_), ..]), "{deleted:?}");
}

#[test]
fn a_change_of_claim_templates_is_said() {
    let mut spec = with_claims("Retain", "Retain");
    spec["volumeClaimTemplates"][0]["spec"] = json!({ "storageClassName": "fast" });
    let mut world = World::new(1, spec, "0n");
    let mut claim = claim(0);
    world.claims = vec![claim.clone()];
    assert!(world.plan().notes.is_empty(), "the class of the cluster");
    let slow = json!({ "metadata": {}, "spec": { "storageClassName": "slow" } });
    claim.asks = ClaimView::of(&serde_json::from_value(slow).unwrap()).asks;
    world.claims = vec![claim];
    let plan = world.plan();
    assert!(plan.notes.iter().any(|note| note.reason == "ClaimTemplatesChanged"), "{:?}", plan.notes);
    let conditions = plan.status.unwrap().conditions;
    assert!(conditions.iter().any(|one| one.type_ == "ClaimTemplatesChanged"), "{conditions:?}");
}

#[test]
fn a_claim_that_goes_holds_its_pod_up() {
    let mut world = World::new(2, with_claims("Retain", "Delete"), "0n");
    world.claims = vec![claim(0), claim(1)];
    world.claims[1].terminating = true;
    assert_eq!(world.effect(), "");
    let condition = world.plan().status.unwrap().conditions.remove(0);
    assert_eq!(condition.type_, "FailedCreatePod");
    assert!(condition.message.unwrap().contains("data-db-1 is being deleted"));
    world.claims.pop();
    let plan = world.plan();
    let [Action::CreateClaim(claim), Action::CreatePod(pod), ..] = plan.actions.as_slice() else {
        panic!("{plan:?}")
    };
    assert_eq!(claim["metadata"]["labels"], json!({ "own": "1", "app": "db" }));
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-db-1");
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["aFieldOfLater"]), (&json!("db-1"), &json!([1])));
}

/// Scaled away and back before the garbage collector was there: a new pod would lose the claim under it.
#[test]
fn n12_a_claim_that_goes_with_an_earlier_pod_is_waited_for() {
    let of_a_pod = json!([{ "apiVersion": "v1", "kind": "Pod", "name": "db-1", "uid": "before" }]);
    for (policy, effect, says) in
        [("Delete", "", Some("claim data-db-1 still goes with an earlier pod db-1")), ("Retain", "+1n", None)]
    {
        let mut world = World::new(2, with_claims("Retain", policy), "0n");
        world.claims = vec![claim(0), claim(1)];
        world.claims[1].owners = serde_json::from_value(of_a_pod.clone()).unwrap();
        assert_eq!(world.effect(), effect, "{policy}");
        let conditions = world.plan().status.unwrap().conditions;
        let message = conditions.first().and_then(|one| one.message.as_deref());
        assert_eq!(message.map(|text| text.split(':').next().unwrap()), says, "{policy}");
        // It is gone: the pod comes with a new one.
        world.claims.pop();
        assert!(world.effect().contains("+1n"), "{policy}");
    }
}

/// As Kubernetes does: it is the pod's, nothing is written to it, and no pod waits for that.
#[test]
fn a_claim_that_another_controller_owns_is_used_as_it_is() {
    let owned = |ordinal: i64, kind: &str| {
        let owner =
            json!([{ "apiVersion": "v1", "kind": kind, "name": "data", "uid": "x", "controller": true }]);
        ClaimView { owners: serde_json::from_value(owner).unwrap(), ..claim(ordinal) }
    };
    let mut world = World::new(1, with_claims("Delete", "Delete"), "0n! 1n");
    world.pods[0].phase = Phase::Pending;
    world.claims = vec![owned(0, "Other"), owned(1, "Other")];
    let actions = world.plan().actions;
    assert!(matches!(&actions[..], [Action::DeletePod(pod)] if pod.name == "db-1"), "{actions:?}");
    // A pod that is no earlier one of the set.
    let mut world = World::new(1, with_claims("Delete", "Delete"), "");
    world.claims = vec![owned(0, "Pod")];
    assert_eq!(world.effect(), "+0n");
}

#[test]
fn a_claim_that_somebody_has_deleted_is_made_again() {
    let mut world = World::new(1, with_claims("Retain", "Retain"), "0n!");
    world.pods[0].phase = Phase::Pending;
    let actions = world.plan().actions;
    assert!(matches!(&actions[..], [Action::CreateClaim(_)]), "{actions:?}");
    world.claims.push(claim(0));
    assert_eq!(world.plan().actions, []);
}

/// Claims are copies of their templates: those of all pods together would fill the memory.
#[test]
fn claims_of_a_pass_are_bounded() {
    let count = |pods: &str| {
        let mut spec = with_claims("Retain", "Retain");
        spec["volumeClaimTemplates"][0]["metadata"]["annotations"] = json!({ "note": "x".repeat(1 << 20) });
        let mut world = World::new(20, spec, pods);
        world.pods.iter_mut().for_each(|pod| pod.phase = Phase::Pending);
        let actions = world.plan().actions;
        let claims = actions.iter().filter(|action| matches!(action, Action::CreateClaim(_))).count();
        (claims, actions.len() - claims)
    };
    assert_eq!(count(""), (3, 3), "new pods");
    let waiting: String = (0..20).map(|ordinal| format!("{ordinal}n! ")).collect();
    assert_eq!(count(&waiting), (3, 0), "pods that wait for theirs");
}
