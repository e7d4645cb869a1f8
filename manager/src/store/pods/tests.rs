//! A pod is kept once, and what it has in common with others once for all.

use super::*;
use crate::store::ContainerSeen;

fn pod(name: &str, restarts: i32) -> PodSeen {
    PodSeen {
        owner: None,
        available: false,
        ready: false,
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: "4a1e9a0e-9a6b-4d0c-bd47-4c2d5a1f2b33".to_owned(),
        version: 0,
        node: Some("n0".to_owned()),
        labels: [("app".to_owned(), "shop".to_owned()), ("pod-name".to_owned(), name.to_owned())].into(),
        stage: PodStage::Active,
        initialized: true,
        created: None,
        mirror: false,
        sidecars: None,
        spread: None,
        ip: None,
        containers: vec![
            ContainerSeen {
                name: "setup".to_owned(),
                role: Role::Init,
                id: None,
                restarts: 0,
                ports: Vec::new(),
            },
            ContainerSeen {
                name: "app".to_owned(),
                role: Role::Regular,
                id: Some(format!("containerd://{restarts:064x}")),
                restarts,
                ports: vec![("http".to_owned(), 8080)],
            },
        ],
    }
}

#[test]
fn only_changes_are_told() {
    let mut pods = Pods::default();
    let came = pods.apply(&pod("a", 0)).unwrap();
    assert!(came.before.is_none() && came.after.is_some());
    assert!(pods.apply(&pod("a", 0)).is_none());
    let changed = pods.apply(&pod("a", 1)).unwrap();
    assert_eq!(changed.before, came.after);
    let app = changed.after.as_ref().unwrap().container("app").unwrap();
    assert_eq!((&**app.name, app.role, app.restarts), ("app", Role::Regular, 1));
    assert_eq!(app.id.unwrap().to_string(), format!("containerd://{:064x}", 1));
    assert!(changed.after.as_ref().unwrap().container("none").is_none());
    assert_eq!(pods.len(), 1);
    let gone = pods.remove("shop", "a").unwrap();
    assert!(gone.before == changed.after && gone.after.is_none());
    assert!(pods.remove("shop", "a").is_none());
    assert_eq!((pods.len(), pods.spaces.len()), (0, 0));
}

#[test]
fn what_a_list_does_not_show_has_vanished() {
    let mut pods = Pods::default();
    pods.apply(&pod("a", 0));
    pods.apply(&pod("b", 0));
    pods.list_begins();
    pods.apply(&pod("b", 0));
    let gone: Vec<String> = pods.vanished().iter().map(ToString::to_string).collect();
    assert_eq!(gone, ["shop/a"]);
}

/// One of tens of thousands.
#[test]
fn a_pod_is_small_and_shares_what_it_can() {
    assert_eq!(
        (size_of::<Pod>(), size_of::<Instance>()),
        (144, 48),
        "pointers to sidecars, subset and owner among it, and the version of its end"
    );
    let mut pods = Pods::default();
    let (a, b) = (pods.apply(&pod("a", 0)).unwrap(), pods.apply(&pod("b", 1)).unwrap());
    let (one, other) = (a.after.unwrap(), b.after.unwrap());
    assert!(Arc::ptr_eq(&one.shape, &other.shape));
    assert!(Arc::ptr_eq(one.node.as_ref().unwrap(), other.node.as_ref().unwrap()));
    let label = &one.labels[1].1;
    assert!(Arc::ptr_eq(label, &a.key.name), "a name that is a label is kept once");
}
