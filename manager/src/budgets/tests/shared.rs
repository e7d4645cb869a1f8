//! Budgets that wait for the same facts, facts that cannot be read, and facts that do not come.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use berth_proto::crd::PodUnavailableBudgetStatus as Status;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::world::{Pod, of_web, owner, seen};
use crate::{
    budgets::{
        BudgetIndex,
        adapter::{Answer, Step},
        in_flight::{OF_A_NAMESPACE, OF_FAILING},
        lookup::{Fact, Found, Lookup, What},
    },
    effect::Effect,
    index::{Index, Set},
    store::{BudgetSeen, Kind, Now, Object, Owner, PodStage, Pods},
};

/// Many budgets, and a leader's index whose lookups are answered when a test says so.
struct Crowd {
    begin: (Instant, Timestamp),
    passed: Duration,
    known: Pods,
    index: BudgetIndex,
    /// Version, spec and status by namespace and name.
    budgets: BTreeMap<(String, String), (u64, Value, Status)>,
    /// Lookups without an answer, oldest first.
    out: VecDeque<Lookup>,
    /// Lookups that were asked for, and when.
    asked: Vec<(Lookup, Duration)>,
    /// Budgets that were looked at because of an answer.
    looked_at: usize,
    writes: usize,
}

impl Crowd {
    /// Budgets by namespace, name and spec, and pods by namespace, name and owner.
    fn new(
        budgets: impl IntoIterator<Item = (&'static str, String, Value)>,
        pods: impl IntoIterator<Item = (&'static str, String, Owner)>,
    ) -> Self {
        let budgets = budgets.into_iter();
        let mut crowd = Self {
            begin: (Instant::now(), "2026-07-02T10:00:00Z".parse().unwrap()),
            passed: Duration::ZERO,
            known: Pods::default(),
            index: BudgetIndex::default(),
            budgets: budgets
                .map(|(namespace, name, spec)| ((namespace.to_owned(), name), (1, spec, Status::default())))
                .collect(),
            out: VecDeque::new(),
            asked: Vec::new(),
            looked_at: 0,
            writes: 0,
        };
        let now = crowd.now();
        crowd.set().list_begins(Kind::Pod, now);
        pods.into_iter().for_each(|(namespace, name, owner)| crowd.show(namespace, &name, owner, true));
        let effects = crowd.set().list_ends(Kind::Pod, now);
        crowd.take(effects);
        crowd.set().list_begins(Kind::Budget, now);
        let keys: Vec<_> = crowd.budgets.keys().cloned().collect();
        keys.iter().for_each(|key| crowd.show_budget(key));
        let mut effects = crowd.set().list_ends(Kind::Budget, now);
        effects.extend(crowd.set().leads(now));
        crowd.take(effects);
        crowd.goes_on();
        crowd
    }

    fn now(&self) -> Now {
        Now { instant: self.begin.0 + self.passed, wall: self.begin.1 + self.passed }
    }

    fn set(&mut self) -> Set<'_, 1> {
        Set { pods: &mut self.known, indexes: [&mut self.index] }
    }

    fn show(&mut self, namespace: &str, name: &str, owner: Owner, ready: bool) {
        let pod = Pod {
            uid: format!("uid-of-{name}"),
            version: 1,
            created: self.begin.1,
            stage: PodStage::Active,
            ready,
            owner: Some(owner),
        };
        let mut shown = seen(name, &pod);
        if let Object::Pod(pod) = &mut shown {
            namespace.clone_into(&mut pod.namespace);
        }
        let now = self.now();
        let effects = self.set().apply(&shown, now);
        self.take(effects);
    }

    fn show_budget(&mut self, key: &(String, String)) {
        let (version, spec, status) = &self.budgets[key];
        let seen = BudgetSeen {
            namespace: key.0.clone(),
            name: key.1.clone(),
            uid: format!("uid-of-{}", key.1),
            resource_version: version.to_string(),
            generation: Some(1),
            created: None,
            deleting: false,
            annotations: BTreeMap::new(),
            pod_uid: None,
            spec: Ok(serde_json::from_value(spec.clone()).unwrap()),
            status: Ok(status.clone()),
        };
        let now = self.now();
        let effects = self.set().apply(&Object::Budget(Box::new(seen)), now);
        self.take(effects);
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Budget(Step::LookUp(lookup)) => {
                    self.asked.push((lookup.clone(), self.passed));
                    self.out.push_back(lookup);
                }
                Effect::Budget(Step::Write(order)) => {
                    let key = (order.key.namespace.to_string(), order.key.name.to_string());
                    let (version, _, status) = self.budgets.get_mut(&key).unwrap();
                    (*version, *status) = (*version + 1, *order.status);
                    self.writes += 1;
                    self.show_budget(&key);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// The index does what is due at this moment.
    fn goes_on(&mut self) {
        let now = self.now();
        let mut is_due = true;
        while is_due {
            let effects = self.set().time_passed(now);
            self.take(effects);
            is_due = self.index.next_deadline().is_some_and(|at| at <= now.instant);
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.passed + time;
        while self.passed < end {
            self.passed = (self.passed + Duration::from_millis(100)).min(end);
            self.goes_on();
        }
    }

    /// The oldest lookup is answered.
    fn answer(&mut self, found: impl FnOnce(&Lookup) -> Found) {
        // What was written is seen first.
        self.goes_on();
        let lookup = self.out.pop_front().unwrap();
        let (found, now) = (found(&lookup), self.now().instant);
        self.index.found(Answer { lookup, found }, now);
        let due = std::iter::from_fn(|| Some(self.index.queue.due(now)).filter(|due| !due.is_empty()));
        let due: Vec<_> = due.flatten().collect();
        self.looked_at += due.len();
        due.into_iter().for_each(|key| self.index.queue.touch(key));
        self.index.queue.put_off(now);
        self.goes_on();
    }

    /// All lookups are answered as things are.
    fn answer_all(&mut self) {
        while !self.out.is_empty() {
            self.answer(as_it_is);
        }
    }

    fn pass_with_answers(&mut self, time: Duration) {
        let end = self.passed + time;
        while self.passed < end {
            self.pass(Duration::from_millis(100));
            self.answer_all();
        }
    }
}

/// Each ReplicaSet `name-1` is of the Rollout `name`, and each workload wants one pod.
fn as_it_is(lookup: &Lookup) -> Found {
    Ok(match &lookup.what {
        What::Scale(workload) => Fact::Wants { uid: format!("uid-of-{}", workload.name), replicas: 1 },
        What::Parent { name, .. } => Fact::Parent(Some(owner("Rollout", name.strip_suffix("-1").unwrap()))),
    })
}

fn of(kind: &str, name: &str) -> Value {
    let api_version = owner(kind, name).api_version;
    json!({"targetRef": {"apiVersion": api_version, "kind": kind, "name": name}, "maxUnavailable": 1})
}

const MANY: usize = 100;
const SPACE: &str = "shop";

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
    let status = &crowd.budgets[&(SPACE.to_owned(), "b7".to_owned())].2;
    assert_eq!((status.total_replicas, status.current_available), (1, 1));
    // A pod of a ReplicaSet is nothing to the budgets of the other workloads.
    crowd.asked.clear();
    crowd.show(SPACE, "p7", set(7), false);
    crowd.pass_with_answers(Duration::from_secs(5));
    let r7 = |(lookup, _): &(Lookup, Duration)| matches!(&lookup.what, What::Scale(workload) if &*workload.name == "r7");
    assert!(!crowd.asked.is_empty() && crowd.asked.iter().all(r7), "{:?}", crowd.asked);
}

fn selected(workloads: usize) -> Crowd {
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1});
    let pods = (0..workloads).map(|at| (SPACE, format!("p{at}"), owner("CloneSet", &format!("c{at}"))));
    Crowd::new([(SPACE, "b".to_owned(), spec)], pods)
}

fn is_c7(lookup: &Lookup) -> bool {
    matches!(&lookup.what, What::Scale(workload) if &*workload.name == "c7")
}

/// Facts that were found are not asked for again.
#[test]
fn a_fact_that_cannot_be_read_is_asked_for_alone() {
    let mut crowd = selected(20);
    while !crowd.out.is_empty() {
        crowd.answer(|lookup| if is_c7(lookup) { Err("no answer".to_owned()) } else { as_it_is(lookup) });
    }
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
        while !crowd.out.is_empty() {
            crowd.answer(|_| Err("no answer".to_owned()));
        }
    }
    let pauses: Vec<_> = crowd.asked.windows(2).map(|two| (two[1].1 - two[0].1).as_secs()).collect();
    assert!(pauses.starts_with(&[5, 10, 15, 20, 25, 30, 35, 40, 45]), "{pauses:?}");
}

/// A namespace whose workloads do not answer asks for a few, and leaves the others their places.
#[test]
fn lookups_without_an_answer_are_few() {
    let budgets = (0..MANY).map(|at| (SPACE, format!("b{at}"), of("CloneSet", &format!("c{at}"))));
    let other = ("store", "b".to_owned(), of("CloneSet", "other"));
    let mut crowd = Crowd::new(budgets.chain([other]), []);
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
    while !crowd.out.is_empty() {
        crowd.answer(|_| Err("no answer".to_owned()));
    }
    assert_eq!((crowd.asked.len(), crowd.writes), (spaces.len(), 0));
    crowd.pass(Duration::from_secs(5));
    assert_eq!(crowd.out.len(), OF_FAILING, "all wait for it again");
    let other = ("shop".to_owned(), "b".to_owned());
    crowd.budgets.insert(other.clone(), (1, of("CloneSet", "web"), Status::default()));
    crowd.show_budget(&other);
    crowd.goes_on();
    assert_eq!(crowd.out.len(), OF_FAILING + 1);
    // It answers again.
    crowd.answer_all();
    assert_eq!(crowd.writes, spaces.len() + 1);
}

/// Budgets that were counted at the same moment are looked at again one after the other.
#[test]
fn budgets_are_looked_at_again_at_different_times() {
    let budgets = (0..MANY).map(|at| (SPACE, format!("b{at}"), of("CloneSet", &format!("c{at}"))));
    let mut crowd = Crowd::new(budgets, []);
    crowd.pass_with_answers(Duration::from_secs(10));
    crowd.asked.clear();
    crowd.pass_with_answers(Duration::from_secs(370));
    let mut seconds: Vec<u64> = crowd.asked.iter().map(|(_, at)| at.as_secs()).collect();
    assert_eq!(seconds.len(), MANY, "each once");
    seconds.dedup();
    assert!(seconds.len() > MANY / 4, "{seconds:?}");
}

/// A watch that begins anew every minute shows what there is once more, and nothing follows from that.
#[test]
fn a_list_that_shows_nothing_new_asks_for_nothing() {
    let budgets = (0..MANY).map(|at| (SPACE, format!("b{at}"), of("CloneSet", &format!("c{at}"))));
    let mut crowd = Crowd::new(budgets, []);
    crowd.pass_with_answers(Duration::from_secs(10));
    crowd.asked.clear();
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
    let spec = || json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1});
    let mut crowd =
        Crowd::new([(SPACE, "a".to_owned(), spec())], [(SPACE, "p".to_owned(), owner("CloneSet", "web"))]);
    crowd.pass(Duration::from_secs(1));
    let late = (SPACE.to_owned(), "late".to_owned());
    crowd.budgets.insert(late.clone(), (1, spec(), Status::default()));
    crowd.show_budget(&late);
    crowd.goes_on();
    assert_eq!(crowd.asked.len(), 1, "one is on its way");
    crowd.answer(as_it_is);
    assert_eq!((crowd.asked.len(), crowd.writes), (2, 1));
    crowd.answer(as_it_is);
    assert_eq!(crowd.budgets[&late].2.total_replicas, 1);
}
