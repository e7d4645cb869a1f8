//! Pods that an OpenKruise has left in the grace period of an update in place.

use super::*;

/// It is labelled with the newest revision, and has the image of the old one.
#[test]
fn a_pod_in_its_grace_period_is_not_updated() {
    let known = |phase| InPlaceState {
        node: "j".to_owned(),
        revision: "log-new".to_owned(),
        attempt: 0,
        generation: Some(4),
        phase,
    };
    for (row, type_, known, effect, updated) in [
        ("its node is asked", "InPlaceIfPossible", None, "~j", 9),
        ("or a new pod has the image", "Standard", None, "-j", 9),
        ("it is updated", "InPlaceIfPossible", Some(known(InPlacePhase::Pending)), "", 9),
        ("the annotation goes", "InPlaceIfPossible", Some(known(InPlacePhase::Done)), "held j", 10),
    ] {
        let mut world = World::new(json!({ "rollingUpdateType": type_ }), &ten("n").replace("j:n", "j:n!"));
        let grace = json!({ "revision": "log-new", "containerImages": { "main": "a:2" } }).to_string();
        let pod = json!({ "metadata": { "annotations": { "apps.kruise.io/inplace-update-grace": grace } } });
        world.pods[9].grace = PodView::of(&serde_json::from_value(pod).unwrap()).grace;
        world.in_place.extend(known.map(|known| ("uid-9".to_owned(), known)));
        assert_eq!(world.effect(), effect, "{row}");
        assert_eq!(world.plan().status.unwrap().updated_number_scheduled, updated, "{row}");
    }
}
