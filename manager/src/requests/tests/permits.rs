//! Requests for pods that a budget covers: asked for before they are assigned, and what a refusal means.

use std::time::{Duration, Instant};

use berth_proto::crd::{ContainerRecreateRequestStatus, PodUnavailableBudgetStatus};

use super::world::{
    NAMESPACE, World, changed, container, node, pod, request, seconds, succeeded, update, with_deadline,
};
use crate::{
    effect::Effect,
    index::alone::Alone,
    requests::{
        Ask, Assignment, FailureReason, Reply, RequestAct, RequestIndex, RequestStatus, Said, StatusPatch,
    },
    store::{BudgetSeen, Kind, Now, Object, PodSeen, RecreateSeen},
    write::Write,
};

/// A manager that asks budgets, and everything that it owes.
struct Asking {
    index: Alone<RequestIndex, Effect>,
    start: Instant,
    passed: Duration,
    asks: Vec<Ask>,
    patches: Vec<StatusPatch>,
}

impl Asking {
    /// With `node-1` and a running pod of each name.
    fn with(pods: &[&str]) -> Self {
        let index = Alone::default();
        let mut asking =
            Self { index, start: Instant::now(), passed: Duration::ZERO, asks: vec![], patches: vec![] };
        asking.index.ask_budgets();
        let now = asking.now();
        Kind::ALL.into_iter().for_each(|kind| asking.index.list_begins(kind, now));
        for kind in Kind::ALL {
            asking.index.list_ends(kind, now);
        }
        asking.index.apply(Object::Node(node("node-1")), now);
        asking.lead();
        for name in pods {
            asking.pod(pod(name, &[container("a", 1)]));
        }
        asking
    }

    fn now(&self) -> Now {
        Now { instant: self.start + self.passed, wall: World::BEGUN + self.passed }
    }

    fn keep(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Ask(ask) => self.asks.push(ask),
                Effect::Write(Write::Request(patch)) => self.patches.push(patch),
                // See `ended`.
                Effect::Note(_) => {}
                other => panic!("not of this index: {other:?}"),
            }
        }
    }

    fn lead(&mut self) {
        let effects = self.index.owed(self.now());
        self.keep(effects);
    }

    fn pod(&mut self, pod: PodSeen) {
        let effects = self.index.apply(Object::Pod(pod), self.now());
        self.keep(effects);
    }

    fn request(&mut self, request: RecreateSeen) {
        let effects = self.index.apply(Object::Request(Box::new(request)), self.now());
        self.keep(effects);
    }

    /// The budget's status says so many may go.
    fn budget(&mut self, name: &str, allowed: i32) {
        let budget = BudgetSeen {
            status: Ok(PodUnavailableBudgetStatus { unavailable_allowed: allowed, ..Default::default() }),
            ..BudgetSeen::of_test(NAMESPACE, name, Err("not looked at".to_owned()))
        };
        let effects = self.index.apply(Object::Budget(Box::new(budget)), self.now());
        self.keep(effects);
        self.pass(Duration::ZERO);
    }

    fn pass(&mut self, time: Duration) {
        let end = self.passed + time;
        while let Some(at) = self.index.next_deadline().filter(|at| *at <= self.start + end) {
            self.passed = self.passed.max(at.saturating_duration_since(self.start));
            let effects = self.index.due(self.now());
            self.keep(effects);
            assert!(self.index.next_deadline().is_none_or(|next| next > at), "a deadline that does not pass");
        }
        self.passed = end;
    }

    /// Takes the questions: which requests they are for.
    fn asked(&mut self) -> Vec<String> {
        std::mem::take(&mut self.asks).into_iter().map(|ask| ask.id.key.name.to_string()).collect()
    }

    fn answer(&mut self, ask: Ask, said: Said) {
        let now = self.now();
        self.index.permitted(Reply { ask, said }, now);
        self.pass(Duration::ZERO);
    }

    /// A permit that was written just now.
    fn given(&self) -> Said {
        Said::Given(self.now().instant + STANDS_FOR)
    }

    /// Answers the only question.
    fn say(&mut self, said: Said) {
        let [ask] = std::mem::take(&mut self.asks).try_into().expect("one question");
        self.answer(ask, said);
    }

    /// Takes the only write.
    fn only(&mut self) -> StatusPatch {
        let [patch] = std::mem::take(&mut self.patches).try_into().expect("one write");
        patch
    }

    fn assigns(&mut self) -> Assignment {
        let patch = self.only();
        let RequestAct::Assign(assignment) = patch.write else { panic!("{patch:?}") };
        assignment
    }

    /// Writes what a request says why it waits, and shows it.
    fn waits(&mut self, request: RecreateSeen) -> RecreateSeen {
        let patch = self.only();
        let RequestStatus::Recreate(status) = patch.status() else { panic!("{patch:?}") };
        let expected = ContainerRecreateRequestStatus {
            message: Some(format!("waits until its pod may be unavailable: {WHY}")),
            ..Default::default()
        };
        assert_eq!(*status, expected);
        let written = changed(RecreateSeen { status: Ok(*status), ..request });
        self.request(written.clone());
        written
    }
}

/// Time for which a permit stands that nothing comes of.
const STANDS_FOR: Duration = Duration::from_secs(10);
const WHY: &str = "pub unavailable allowed is negative";

fn refused() -> Said {
    Said::Refused { budget: Some("web".to_owned()), why: WHY.to_owned() }
}

#[test]
fn a_request_is_assigned_when_its_budget_lets_it() {
    let mut asking = Asking::with(&["p"]);
    asking.request(request("r", "p", &["a"]));
    assert!(asking.patches.is_empty(), "assigned without a permit");
    let ask = asking.asks[0].clone();
    assert_eq!((&*ask.uid, &*ask.pod, &*ask.pod_uid), ("uid-of-r", "p", "uid-of-p"));
    asking.say(asking.given());
    assert_eq!(asking.assigns().pod_uid, "uid-of-p");
    asking.pass(seconds(30));
    assert_eq!(asking.asked(), ["r"; 0], "it is assigned, and asked for no more");
}

#[test]
fn who_is_refused_says_so_and_asks_again_after_ever_longer_pauses() {
    let mut asking = Asking::with(&["p"]);
    asking.request(request("r", "p", &["a"]));
    asking.say(refused());
    asking.waits(request("r", "p", &["a"]));
    for pause in [2, 4, 8, 16, 32, 32] {
        asking.pass(seconds(pause) - Duration::from_millis(1));
        assert_eq!(asking.asked(), ["r"; 0], "{pause}");
        asking.pass(Duration::from_millis(1));
        asking.say(refused());
        assert!(asking.patches.is_empty(), "said once");
    }
    asking.pass(seconds(32));
    asking.say(asking.given());
    let patch = asking.only();
    let RequestStatus::Recreate(status) = patch.status() else { panic!("{patch:?}") };
    assert_eq!((status.message, status.node_name.as_deref()), (None, Some("node-1")));
}

#[test]
fn others_do_not_wait_for_one_that_waits() {
    let mut asking = Asking::with(&["p", "q"]);
    asking.request(request("first", "p", &["a"]));
    asking.say(refused());
    asking.waits(request("first", "p", &["a"]));
    asking.request(request("second", "q", &["a"]));
    asking.say(asking.given());
    assert_eq!(asking.assigns().pod_uid, "uid-of-q");
}

#[test]
fn a_deadline_counts_while_it_waits() {
    let mut asking = Asking::with(&["p"]);
    let limited = with_deadline(request("r", "p", &["a"]), 5);
    asking.request(limited.clone());
    asking.say(refused());
    asking.waits(limited);
    asking.pass(seconds(2));
    asking.say(refused());
    asking.pass(seconds(3) - Duration::from_millis(1));
    assert!(asking.patches.is_empty());
    asking.pass(Duration::from_millis(1));
    let patch = asking.only();
    assert!(
        matches!(&patch.write, RequestAct::Fail(failure, None) if failure.reason == FailureReason::DeadlineExceeded),
        "{patch:?}"
    );
}

/// Three wait, and the budget lets one go: the one that has waited longest asks, and nobody else.
#[test]
fn a_budget_that_lets_pods_go_again_wakes_as_many() {
    let mut asking = Asking::with(&["p", "q", "o"]);
    for (name, pod) in [("z", "p"), ("b", "q"), ("a", "o")] {
        asking.request(request(name, pod, &["a"]));
        asking.say(refused());
        asking.waits(request(name, pod, &["a"]));
        asking.pass(Duration::from_millis(100));
    }
    asking.budget("web", 0);
    asking.budget("another", 3);
    assert_eq!(asking.asked(), ["z"; 0]);
    asking.pass(seconds(1));
    asking.budget("web", 1);
    assert_eq!(asking.asked(), ["z"]);
}

/// However often the budget changes, nobody asks more than once a second.
#[test]
fn the_pace_of_questions_is_bounded() {
    let mut asking = Asking::with(&["p"]);
    asking.request(request("r", "p", &["a"]));
    let mut questions = 0;
    for _ in 0..100 {
        for ask in std::mem::take(&mut asking.asks) {
            questions += 1;
            asking.answer(ask, refused());
        }
        asking.patches.clear();
        asking.budget("web", 1);
        asking.pass(Duration::from_millis(100));
    }
    assert_eq!(questions, 10, "in ten seconds");
}

#[test]
fn only_the_leader_asks() {
    let mut asking = Asking::with(&["p"]);
    let now = asking.now();
    asking.index.rests(now);
    asking.request(request("r", "p", &["a"]));
    asking.pass(seconds(60));
    assert_eq!((asking.asks.len(), asking.patches.len()), (0, 0));
    asking.lead();
    assert_eq!(asking.asked(), ["r"]);
    // A new term knows of no question.
    asking.lead();
    assert_eq!(asking.asked(), ["r"]);
}

#[test]
fn an_answer_that_does_not_come_is_asked_for_again() {
    let mut asking = Asking::with(&["p"]);
    asking.request(request("r", "p", &["a"]));
    assert_eq!(asking.asked(), ["r"]);
    asking.pass(seconds(10));
    assert_eq!(asking.asked(), ["r"]);
}

/// A write that is lost is owed again; the permit may be gone by then.
#[test]
fn a_permit_that_was_not_used_is_asked_for_again() {
    let mut asking = Asking::with(&["p"]);
    let first = request("r", "p", &["a"]);
    asking.request(first.clone());
    asking.say(asking.given());
    let until = asking.now().instant + STANDS_FOR;
    for _ in 0..2 {
        let write = Write::Request(asking.only());
        assert_eq!(write.by(), Some(until), "not when it may be another pod's");
        let now = asking.now();
        asking.index.lost(&write.target(), now);
        asking.pass(seconds(5));
    }
    assert!(asking.patches.is_empty(), "the permit is too old");
    assert_eq!(asking.asked(), ["r"]);
}

#[test]
fn an_answer_that_came_late_is_of_no_use() {
    let mut asking = Asking::with(&["p"]);
    asking.request(request("r", "p", &["a"]));
    let given = asking.given();
    asking.pass(seconds(9));
    asking.say(given);
    assert!(asking.patches.is_empty(), "a second is too short for a write");
    asking.say(asking.given());
    assert_eq!(asking.assigns().pod_uid, "uid-of-p");
}

#[test]
fn a_permit_is_for_one_pod_and_none_of_its_name_after_it() {
    let mut asking = Asking::with(&["p"]);
    asking.request(request("r", "p", &["a"]));
    let [of_first] = std::mem::take(&mut asking.asks).try_into().expect("one question");
    asking.pod(PodSeen { uid: "another".to_owned(), ..pod("p", &[container("a", 2)]) });
    asking.answer(of_first, asking.given());
    assert!(asking.patches.is_empty(), "the answer is about another pod");
    assert_eq!(asking.asks[0].pod_uid, "another");
    asking.say(asking.given());
    assert_eq!(asking.assigns().pod_uid, "another");
}

#[test]
fn one_that_is_gone_waits_for_nothing() {
    let mut asking = Asking::with(&["p", "q"]);
    for (name, pod) in [("r", "p"), ("s", "q")] {
        asking.request(request(name, pod, &["a"]));
        asking.say(refused());
        asking.waits(request(name, pod, &["a"]));
    }
    let now = asking.now();
    asking.index.delete(Kind::Request, NAMESPACE, "r", now);
    let mut ended = succeeded(changed(request("s", "q", &["a"])));
    ended.resource_version = "9".to_owned();
    asking.request(ended);
    assert!(asking.index.nobody_waits());
    asking.budget("web", 5);
    asking.pass(seconds(60));
    assert_eq!((asking.asks.len(), asking.patches.len()), (0, 0));
}

/// An update is asked about when its agent begins with it.
#[test]
fn updates_do_not_ask() {
    let mut asking = Asking::with(&["p"]);
    let now = asking.now();
    let effects = asking.index.apply(Object::Update(Box::new(update("u", "p", &["a"]))), now);
    asking.keep(effects);
    assert_eq!(asking.asked(), ["u"; 0]);
    asking.assigns();
}
