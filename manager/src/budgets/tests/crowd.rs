//! Many budgets at a leader's index, whose lookups are answered when a test says so.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use berth_proto::crd::PodUnavailableBudgetStatus as Status;
use jiff::Timestamp;
use serde_json::Value;

use super::world::{Pod, owner, seen};
use crate::{
    budgets::{
        BudgetIndex,
        adapter::{Answer, Step},
        lookup::{Fact, Found, Lookup, What},
    },
    effect::Effect,
    index::{Index, Set},
    store::{BudgetSeen, Kind, Now, Object, Owner, PodStage, Pods},
};

/// Many budgets, and a leader's index whose lookups are answered when a test says so.
pub(super) struct Crowd {
    begin: (Instant, Timestamp),
    passed: Duration,
    known: Pods,
    index: BudgetIndex,
    /// Version, spec and status by namespace and name.
    pub(super) budgets: BTreeMap<(String, String), (u64, Value, Status)>,
    /// Lookups without an answer, oldest first.
    pub(super) out: VecDeque<Lookup>,
    /// Lookups that were asked for, and when.
    pub(super) asked: Vec<(Lookup, Duration)>,
    /// Budgets that were looked at because of an answer.
    pub(super) looked_at: usize,
    pub(super) writes: usize,
}

impl Crowd {
    /// Budgets by namespace, name and spec, and pods by namespace, name and owner.
    pub(super) fn new(
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

    pub(super) fn now(&self) -> Now {
        Now { instant: self.begin.0 + self.passed, wall: self.begin.1 + self.passed }
    }

    pub(super) fn set(&mut self) -> Set<'_, 1> {
        Set { pods: &mut self.known, indexes: [&mut self.index] }
    }

    pub(super) fn show(&mut self, namespace: &str, name: &str, owner: Owner, ready: bool) {
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

    pub(super) fn show_budget(&mut self, key: &(String, String)) {
        let (version, spec, status) = &self.budgets[key];
        let seen = BudgetSeen {
            resource_version: version.to_string(),
            status: Ok(status.clone()),
            ..BudgetSeen::of_test(&key.0, &key.1, Ok(serde_json::from_value(spec.clone()).unwrap()))
        };
        let now = self.now();
        let effects = self.set().apply(&Object::Budget(Box::new(seen)), now);
        self.take(effects);
    }

    pub(super) fn status(&self, namespace: &str, name: &str) -> &Status {
        &self.budgets[&(namespace.to_owned(), name.to_owned())].2
    }

    pub(super) fn take(&mut self, effects: Vec<Effect>) {
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

    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.passed + time;
        while self.passed < end {
            self.passed = (self.passed + Duration::from_millis(100)).min(end);
            self.goes_on();
        }
    }

    /// The oldest lookup is answered.
    pub(super) fn answer(&mut self, found: impl FnOnce(&Lookup) -> Found) {
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
    pub(super) fn answer_all(&mut self) {
        self.answer_but(|_| false);
    }

    /// The same, but for those that fail.
    pub(super) fn answer_but(&mut self, fails: impl Fn(&Lookup) -> bool) {
        while !self.out.is_empty() {
            self.answer(|lookup| if fails(lookup) { Err("no answer".to_owned()) } else { as_it_is(lookup) });
        }
    }

    /// Somebody makes a budget.
    pub(super) fn add(&mut self, namespace: &str, name: &str, spec: Value) {
        let key = (namespace.to_owned(), name.to_owned());
        self.budgets.insert(key.clone(), (1, spec, Status::default()));
        self.show_budget(&key);
        self.goes_on();
    }

    pub(super) fn pass_with_answers(&mut self, time: Duration) {
        let end = self.passed + time;
        while self.passed < end {
            self.pass(Duration::from_millis(100));
            self.answer_all();
        }
    }
}

/// Each ReplicaSet `name-1` is of the Rollout `name`, and each workload wants one pod.
pub(super) fn as_it_is(lookup: &Lookup) -> Found {
    Ok(match &lookup.what {
        What::Scale(workload) => Fact::Wants { uid: format!("uid-of-{}", workload.name), replicas: 1 },
        What::Parent { name, .. } => Fact::Parent(Some(owner("Rollout", name.strip_suffix("-1").unwrap()))),
    })
}
