//! Pods that a plan follows from, and those that nobody looks at.

use berth_base::lease::Tenure;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    super::tests::{pod, spread, view},
    *,
};
use crate::{event_loop::Listed, served::Served};

/// A controller of one WorkloadSpread, whose pods are listed.
fn controller() -> Controller {
    let (sender, inputs) = mpsc::channel(1);
    let (_, tenure) = Tenure::of_test();
    let (listed, _) = watch::channel(Listed::default());
    let writer = Served::default().writer();
    let mut controller = Controller::new(Connections { tenure, writer, listed }, sender, inputs);
    let watch = controller.watches.spawn(std::future::pending());
    controller.spaces.insert("ns".to_owned(), Space { listed: true, ..Space::of(watch) });
    controller.take_spread(Shown::Applied(spread()));
    assert_eq!(due(&mut controller), 1);
    controller
}

/// Plans that are due by now.
fn due(controller: &mut Controller) -> usize {
    controller.turns.agenda.take(later(Instant::now(), PACE), AT_ONCE, |_| Share::default()).len()
}

#[rstest]
#[case::another_version(|_: &mut Value| {}, 0)]
#[case::an_annotation(|pod: &mut Value| pod["metadata"]["annotations"]["a"] = "b".into(), 0)]
#[case::an_address(|pod: &mut Value| pod["status"]["podIP"] = "10.0.0.1".into(), 0)]
#[case::ready(|pod: &mut Value| pod["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]), 1)]
#[case::ended(|pod: &mut Value| pod["status"]["phase"] = "Failed".into(), 1)]
#[case::it_goes(|pod: &mut Value| pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(), 1)]
#[case::a_cost(|pod: &mut Value| pod["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] =
    "1".into(), 1)]
#[tokio::test]
async fn an_event_is_a_plan_where_something_is_decided_by_it(
    #[case] change: fn(&mut Value),
    #[case] plans: usize,
) {
    let mut controller = controller();
    let mut shown = pod("p0", true);
    controller.take_pod("ns", Shown::Applied(view(&shown)));
    assert_eq!(due(&mut controller), 1, "a new one");
    change(&mut shown);
    shown["metadata"]["resourceVersion"] = "2".into();
    controller.take_pod("ns", Shown::Applied(view(&shown)));
    assert_eq!(due(&mut controller), plans);
    assert_eq!(controller.spaces["ns"].pods["p0"].version, "2", "a deletion is of the newest");
    // A list shows it once more, and that is all.
    controller.take_pod("ns", Shown::ListBegins);
    controller.take_pod("ns", Shown::Applied(view(&shown)));
    controller.take_pod("ns", Shown::ListEnds);
    assert_eq!(due(&mut controller), 0);
    // In the next one it is missing.
    controller.take_pod("ns", Shown::ListBegins);
    controller.take_pod("ns", Shown::ListEnds);
    assert_eq!(due(&mut controller), 1);
}

/// Connections of the controller are few, however many namespaces have spreads; and each has its pods.
#[tokio::test]
async fn one_watch_is_for_the_pods_of_many_namespaces() {
    let mut controller = controller();
    let of = |number: usize| {
        let (namespace, uid) = (format!("ns-{number}"), format!("s-{number}"));
        SpreadView { namespace, uid, ..spread() }
    };
    controller.take_pod("ns", Shown::Applied(view(&pod("p0", true))));
    (1..3 * MOST_WATCHES).for_each(|number| controller.take_spread(Shown::Applied(of(number))));
    // Those that were begun before, and the one of all.
    assert_eq!((controller.spaces.len(), controller.watches.len()), (3 * MOST_WATCHES, MOST_WATCHES + 1));
    assert!(controller.spaces.values().all(|space| space.watch.is_none()));
    while due(&mut controller) > 0 {}
    // The list of all.
    controller.take(Input::AllPodsBegin);
    for (namespace, name) in [("ns", "p0"), ("ns-1", "p1"), ("later", "p2")] {
        let shown = Shown::Applied(view(&pod(name, true)));
        controller.take(Input::PodOfAll(namespace.to_owned(), shown));
    }
    while due(&mut controller) > 0 {}
    // What the watch of a namespace still says counts for nothing.
    let gone_by_now = Shown::Applied(view(&pod("p9", true)));
    for shown in [Shown::ListBegins, gone_by_now, Shown::Gone("p0".to_owned()), Shown::ListEnds] {
        controller.take(Input::Pod("ns".to_owned(), shown));
    }
    controller.take(Input::AllPodsEnd);
    assert!(controller.spaces.values().all(|space| space.listed));
    let pods = |controller: &Controller, namespace: &str| -> Vec<String> {
        controller.spaces[namespace].pods.keys().cloned().collect()
    };
    assert_eq!(pods(&controller, "ns"), ["p0"]);
    assert_eq!(pods(&controller, "ns-1"), ["p1"]);
    while due(&mut controller) > 0 {}
    // A spread comes, and finds its pods.
    let late = SpreadView { namespace: "later".to_owned(), uid: "late".to_owned(), ..spread() };
    controller.take_spread(Shown::Applied(late));
    assert_eq!(pods(&controller, "later"), ["p2"]);
    assert!(controller.spaces["later"].listed && due(&mut controller) == 1);
    controller.take(Input::PodOfAll("later".to_owned(), Shown::Gone("p2".to_owned())));
    assert_eq!(due(&mut controller), 1, "its pod has gone");
    controller.take_spread(Shown::Gone("late".to_owned()));
    assert!(!controller.spaces.contains_key("later"));
    // The next list does not have them any more.
    controller.take(Input::AllPodsBegin);
    controller.take(Input::AllPodsEnd);
    assert!(pods(&controller, "ns").is_empty() && pods(&controller, "ns-1").is_empty());
}

/// A watch may go on for weeks, and each pod that it shows in that time is another one.
#[tokio::test]
async fn what_a_watch_shows_is_remembered_for_a_list_that_comes_in_alone() {
    let mut controller = controller();
    let listing = |controller: &Controller| {
        let of = |seen: &Option<BTreeSet<String>>| seen.as_ref().map(BTreeSet::len);
        (of(&controller.listing), of(&controller.spaces["ns"].listing))
    };
    let show = |controller: &mut Controller| {
        controller.take_spread(Shown::Applied(spread()));
        controller.take_pod("ns", Shown::Applied(view(&pod("p0", true))));
    };
    show(&mut controller);
    assert_eq!(listing(&controller), (None, None));
    controller.take_spread(Shown::ListBegins);
    controller.take_pod("ns", Shown::ListBegins);
    show(&mut controller);
    assert_eq!(listing(&controller), (Some(1), Some(1)));
    controller.take_spread(Shown::ListEnds);
    controller.take_pod("ns", Shown::ListEnds);
    assert_eq!(listing(&controller), (None, None));
    assert!(controller.spreads.contains_key("s") && controller.spaces["ns"].pods.contains_key("p0"));
}

#[tokio::test]
async fn a_pod_of_another_workload_is_no_plan() {
    let mut controller = controller();
    let mut other = pod("p0", true);
    other["metadata"]["ownerReferences"][0]["name"] = "other".into();
    controller.take_pod("ns", Shown::Applied(view(&other)));
    assert_eq!(due(&mut controller), 0);
    // It is another one's now.
    controller.take_pod("ns", Shown::Applied(view(&pod("p0", true))));
    assert_eq!(due(&mut controller), 1);
    controller.take_pod("ns", Shown::Applied(view(&other)));
    assert_eq!(due(&mut controller), 1);
    controller.take_pod("ns", Shown::Gone("p0".to_owned()));
    assert_eq!(due(&mut controller), 0);
}

/// A plan knows which spreads are there of those that its pods name.
#[tokio::test]
async fn a_pod_names_a_spread_that_is_there() {
    let mut controller = controller();
    let named = |name: &str, uid: &str| SpreadView { name: name.to_owned(), uid: uid.to_owned(), ..spread() };
    let mut pod = pod("p0", true);
    let matched = json!({ "name": "more", "subset": "a" }).to_string();
    pod["metadata"]["annotations"][berth_spread::MATCHED] = matched.into();
    let pods = [Arc::new(view(&pod))];
    let names = |controller: &Controller| -> Vec<String> {
        controller.spaces["ns"].named(&pods).into_iter().collect()
    };
    assert_eq!(names(&controller), [""; 0]);
    controller.take_spread(Shown::Applied(named("more", "m")));
    // Its status is another one.
    controller.take_spread(Shown::Applied(named("more", "m")));
    controller.take_spread(Shown::Applied(named("third", "t")));
    assert_eq!(names(&controller), ["more"], "and no other one");
    // It was made anew, and its end is seen late.
    controller.take_spread(Shown::Applied(named("more", "n")));
    controller.take_spread(Shown::Gone("m".to_owned()));
    assert_eq!(names(&controller), ["more"]);
    controller.take_spread(Shown::Gone("n".to_owned()));
    assert_eq!(names(&controller), [""; 0]);
    controller.take_spread(Shown::ListBegins);
    controller.take_spread(Shown::ListEnds);
    assert!(controller.spaces.is_empty() && controller.spreads.is_empty());
}

/// A plan may end when its spread has gone: nothing of it is kept.
#[tokio::test]
async fn nothing_is_kept_of_a_spread_that_has_gone() {
    let mut controller = controller();
    let more = SpreadView { name: "more".to_owned(), uid: "m".to_owned(), ..spread() };
    controller.take_spread(Shown::Applied(more));
    let ended = |uid: &str| Report { uid: uid.to_owned(), done: false, held: None, again: None };
    for uid in ["m", "s"] {
        controller.settle(ended(uid));
        controller.memory.entry(uid.to_owned()).or_default();
    }
    let kept = |controller: &Controller| {
        let spaces = controller.spaces.values().map(|space| space.spreads.len()).collect::<Vec<_>>();
        (controller.spreads.len(), controller.backoff.len(), controller.memory.len(), spaces)
    };
    assert_eq!(kept(&controller), (2, 2, 2, vec![2]));
    controller.take_spread(Shown::Gone("m".to_owned()));
    controller.take_spread(Shown::Gone("never".to_owned()));
    controller.settle(ended("m"));
    assert_eq!(kept(&controller), (1, 1, 1, vec![1]), "the other one stays");
    controller.take_spread(Shown::Gone("s".to_owned()));
    controller.settle(ended("s"));
    assert_eq!(kept(&controller), (0, 0, 0, vec![]));
}
