//! Lists that come in, and what is remembered of them.

use berth_base::lease::Tenure;
use kube::api::ObjectMeta;
use serde_json::json;
use tokio::sync::watch;

use super::{super::ADVANCED, *};
use crate::served::Served;

fn controller() -> Controller {
    let (listed, _) = watch::channel(Listed::default());
    let writer = Served::default().writer();
    let connections = Connections { tenure: Tenure::of_test().1, writer, listed };
    Controller::new(connections, mpsc::channel(1).1)
}

/// A watch may go on for weeks, and each object that it shows in that time is another one.
#[tokio::test]
async fn what_a_watch_shows_is_remembered_for_a_list_that_comes_in_alone() {
    let mut controller = controller();
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

/// A plan may end when its StatefulSet has gone: nothing of it is kept. One of the other group has its name.
#[tokio::test]
async fn nothing_is_kept_of_a_set_that_has_gone() {
    let mut controller = controller();
    let set = |uid: &str, group: &'static str| {
        let (namespace, name) = (Some("ns".to_owned()), Some("db".to_owned()));
        let meta = ObjectMeta { namespace, name, uid: Some(uid.to_owned()), ..ObjectMeta::default() };
        Shown::Applied(SetView::of(meta, group).unwrap())
    };
    controller.take_set(SETS, set("a", "apps/v1"));
    controller.take_set(ADVANCED, set("b", "apps.kruise.io/v1beta1"));
    let name = ("ns".to_owned(), "db".to_owned());
    let due = |controller: &mut Controller| -> Vec<String> {
        controller.touch(&("ns".to_owned(), "other".to_owned()));
        controller.touch(&name);
        let soon = later(Instant::now(), PACE);
        let due = controller.turns.agenda.take(soon, AT_ONCE, |_| Share::default());
        due.into_iter().filter(|uid| controller.sets.contains_key(uid)).collect()
    };
    assert_eq!(due(&mut controller), ["a", "b"]);
    controller.settle(Report { uid: "a".to_owned(), done: false });
    assert_eq!(controller.backoff.len(), 1);
    controller.take_set(SETS, Shown::Gone("a".to_owned()));
    controller.settle(Report { uid: "a".to_owned(), done: false });
    assert_eq!((controller.sets.len(), controller.named.len(), controller.backoff.len()), (1, 1, 0));
    assert_eq!(due(&mut controller), ["b"]);
    controller.take_set(ADVANCED, Shown::ListBegins);
    controller.take_set(ADVANCED, Shown::ListEnds);
    assert_eq!((controller.sets.len(), controller.named.len()), (0, 0));
}
