//! Budgets that wait for the same facts, facts that cannot be read, and facts that do not come.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    crowd::{Crowd, as_it_is},
    world::{of_web, owner},
};
use crate::{
    budgets::{
        in_flight::{OF_A_NAMESPACE, OF_FAILING},
        lookup::{Lookup, What},
    },
    store::Kind,
};

fn of(kind: &str, name: &str) -> Value {
    let api_version = owner(kind, name).api_version;
    json!({"targetRef": {"apiVersion": api_version, "kind": kind, "name": name}, "maxUnavailable": 1})
}

/// Spec of a budget of all pods of an app, whatever workloads they are of.
fn of_app() -> Value {
    json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1})
}

const MANY: usize = 100;
const SPACE: &str = "shop";

/// Many CloneSets of a namespace, each with a budget.
fn of_clone_sets() -> impl Iterator<Item = (&'static str, String, Value)> {
    (0..MANY).map(|at| (SPACE, format!("b{at}"), of("CloneSet", &format!("c{at}"))))
}

/// The same when all are counted, and what was asked for that is forgotten.
fn counted() -> Crowd {
    let mut crowd = Crowd::new(of_clone_sets(), []);
    crowd.pass_with_answers(Duration::from_secs(10));
    crowd.asked.clear();
    crowd
}

/// Kinds whose ReplicaSets may have any name: each budget asks whose each ReplicaSet is.
#[test]
fn each_fact_is_asked_for_once_and_each_budget_looks_a_few_times() {
    let budgets = (0..MANY).map(|at| (SPACE, format!("b{at}"), of("Rollout", &format!("r{at}"))));
    let set = |at: usize| owner("ReplicaSet", &format!("r{at}-1"));
    let mut crowd = Crowd::new(budgets, (0..MANY).map(|at| (SPACE, format!("p{at}"), set(at))));
    while crowd.writes < MANY {
        crowd.answer(as_it_is);
    }
    assert_eq!((crowd.asked.len(), crowd.out.len()), (2 * MANY, 0), "whose it is, and its scale");
    assert!(crowd.looked_at <= 2 * MANY, "{} for {} answers", crowd.looked_at, crowd.asked.len());
    crowd.pass_with_answers(Duration::from_secs(60));
    let status = crowd.status(SPACE, "b7");
    assert_eq!((status.total_replicas, status.current_available), (1, 1));
    // A pod of a ReplicaSet is nothing to the budgets of the other workloads.
    crowd.asked.clear();
    crowd.show(SPACE, "p7", set(7), false);
    crowd.pass_with_answers(Duration::from_secs(5));
    let r7 = |(lookup, _): &(Lookup, Duration)| matches!(&lookup.what, What::Scale(workload) if &*workload.name == "r7");
    assert!(!crowd.asked.is_empty() && crowd.asked.iter().all(r7), "{:?}", crowd.asked);
}

fn selected(workloads: usize) -> Crowd {
    let pods = (0..workloads).map(|at| (SPACE, format!("p{at}"), owner("CloneSet", &format!("c{at}"))));
    Crowd::new([(SPACE, "b".to_owned(), of_app())], pods)
}

fn is_c7(lookup: &Lookup) -> bool {
    matches!(&lookup.what, What::Scale(workload) if &*workload.name == "c7")
}

/// Facts that were found are not asked for again.
#[test]
fn a_fact_that_cannot_be_read_is_asked_for_alone() {
    let mut crowd = selected(20);
    crowd.answer_but(is_c7);
    assert_eq!((crowd.asked.len(), crowd.writes), (20, 0));
    crowd.pass(Duration::from_secs(5));
    assert!(crowd.asked.len() == 21 && crowd.asked.last().is_some_and(|(lookup, _)| is_c7(lookup)));
    crowd.answer(as_it_is);
    assert_eq!(crowd.writes, 1, "with what was found before");
}

/// Less and less often, whatever happens meanwhile.
#[test]
fn a_fact_that_is_never_read_is_asked_for_rarely() {
    let mut crowd = Crowd::new(
        [(SPACE, "b".to_owned(), of_web(json!({"maxUnavailable": 1})))],
        [(SPACE, "p".to_owned(), owner("CloneSet", "web"))],
    );
    for at in 0..600 {
        crowd.pass(Duration::from_millis(500));
        crowd.show(SPACE, "p", owner("CloneSet", "web"), at % 2 == 0);
        crowd.answer_but(|_| true);
    }
    let pauses: Vec<_> = crowd.asked.windows(2).map(|two| (two[1].1 - two[0].1).as_secs()).collect();
    assert!(pauses.starts_with(&[5, 10, 15, 20, 25, 30, 35, 40, 45]), "{pauses:?}");
}

/// A namespace whose workloads do not answer asks for a few, and leaves the others their places.
#[test]
fn lookups_without_an_answer_are_few() {
    let other = ("store", "b".to_owned(), of("CloneSet", "other"));
    let mut crowd = Crowd::new(of_clone_sets().chain([other]), []);
    let places = |crowd: &Crowd| {
        let shop = crowd.out.iter().filter(|lookup| &*lookup.namespace == SPACE).count();
        (shop, crowd.out.len() - shop)
    };
    assert_eq!(places(&crowd), (OF_A_NAMESPACE, 1));
    crowd.pass(Duration::from_secs(25));
    assert_eq!(places(&crowd), (OF_A_NAMESPACE, 1), "nothing is asked for twice");
    crowd.answer_all();
    assert_eq!(crowd.writes, MANY + 1, "all have their turn");
}

/// The conversion webhook of a kind does not answer: wherever its workloads are, the others are looked up.
#[test]
fn a_kind_that_fails_everywhere_holds_up_no_other() {
    let spaces = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let mut crowd = Crowd::new(spaces.map(|space| (space, "b".to_owned(), of("Train", "t"))), []);
    crowd.answer_but(|_| true);
    assert_eq!((crowd.asked.len(), crowd.writes), (spaces.len(), 0));
    crowd.pass(Duration::from_secs(5));
    assert_eq!(crowd.out.len(), OF_FAILING, "all wait for it again");
    crowd.add("shop", "b", of("CloneSet", "web"));
    assert_eq!(crowd.out.len(), OF_FAILING + 1);
    // It answers again.
    crowd.answer_all();
    assert_eq!(crowd.writes, spaces.len() + 1);
}

/// Budgets that were counted at the same moment are looked at again one after the other.
#[test]
fn budgets_are_looked_at_again_at_different_times() {
    let mut crowd = counted();
    crowd.pass_with_answers(Duration::from_secs(370));
    let mut seconds: Vec<u64> = crowd.asked.iter().map(|(_, at)| at.as_secs()).collect();
    assert_eq!(seconds.len(), MANY, "each once");
    seconds.dedup();
    assert!(seconds.len() > MANY / 4, "{seconds:?}");
}

/// A watch that begins anew every minute shows what there is once more, and nothing follows from that.
#[test]
fn a_list_that_shows_nothing_new_asks_for_nothing() {
    let mut crowd = counted();
    for _ in 0..3 {
        let now = crowd.now();
        crowd.set().list_begins(Kind::Budget, now);
        let keys: Vec<_> = crowd.budgets.keys().cloned().collect();
        keys.iter().for_each(|key| crowd.show_budget(key));
        let mut effects = crowd.set().list_ends(Kind::Budget, now);
        for kind in [Kind::Pod, Kind::Request] {
            crowd.set().list_begins(kind, now);
            effects.extend(crowd.set().list_ends(kind, now));
        }
        crowd.take(effects);
        crowd.pass_with_answers(Duration::from_secs(60));
    }
    assert_eq!((crowd.asked.len(), crowd.writes), (0, MANY));
}

/// The workload may have been scaled since it was asked for.
#[test]
fn a_scale_that_was_asked_for_before_does_not_count() {
    let web = owner("CloneSet", "web");
    let mut crowd = Crowd::new([(SPACE, "a".to_owned(), of_app())], [(SPACE, "p".to_owned(), web)]);
    crowd.pass(Duration::from_secs(1));
    crowd.add(SPACE, "late", of_app());
    assert_eq!(crowd.asked.len(), 1, "one is on its way");
    crowd.answer(as_it_is);
    assert_eq!((crowd.asked.len(), crowd.writes), (2, 1));
    crowd.answer(as_it_is);
    assert_eq!(crowd.status(SPACE, "late").total_replicas, 1);
}
