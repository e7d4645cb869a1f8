//! Lists that come in, and what is remembered of them.

use berth_base::lease::Tenure;
use kube::api::ObjectMeta;
use serde_json::json;
use tokio::sync::watch;

use super::*;
use crate::served::Served;

/// A watch may go on for weeks, and each object that it shows in that time is another one.
#[tokio::test]
async fn what_a_watch_shows_is_remembered_for_a_list_that_comes_in_alone() {
    let (listed, _) = watch::channel(Listed::default());
    let writer = Served::default().writer();
    let connections = Connections { tenure: Tenure::of_test().1, writer, listed };
    let mut controller = Controller::new(connections, mpsc::channel(1).1);
    let meta = || ObjectMeta {
        namespace: Some("ns".to_owned()),
        name: Some("db".to_owned()),
        uid: Some("u".to_owned()),
        ..ObjectMeta::default()
    };
    let show = |controller: &mut Controller| {
        controller.take_set(SETS, Shown::Applied(SetView::of(meta(), "apps/v1").unwrap()));
        let target = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db" });
        let state = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "metadata": meta(),
            "spec": { "targetRef": target },
        });
        controller.take_state(Shown::Applied(serde_json::from_value(state).unwrap()));
    };
    show(&mut controller);
    assert!(controller.listing.is_empty());
    controller.take_set(SETS, Shown::ListBegins);
    controller.take_state(Shown::ListBegins);
    show(&mut controller);
    let seen = [SETS, STATES].map(|kind| controller.listing[kind].len());
    assert_eq!(seen, [1, 1]);
    controller.take_set(SETS, Shown::ListEnds);
    controller.take_state(Shown::ListEnds);
    assert!(controller.listing.is_empty());
    assert_eq!((controller.sets.len(), controller.states.len()), (1, 1));
}
