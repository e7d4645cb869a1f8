//! An API server on paper with a workload of pods and their budget, the leader's index, which sees it later
//! than it happens, and replicas that give permits.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use berth_proto::crd::{
    ContainerRecreateRequestSpec, ContainerRecreateRequestStatus, PodUnavailableBudgetSpec,
    PodUnavailableBudgetStatus as Status, RecreatePhase,
};
use jiff::Timestamp;
use serde_json::json;

use crate::{
    budgets::{
        BudgetIndex,
        adapter::{Answer as Looked, Step},
        lookup::{Fact, Lookup, What},
        permit::{Answer, Question, decide},
        spec::{Budget, Operation},
    },
    effect::Effect,
    index::Set,
    store::{BudgetSeen, Kind, Now, Object, Owner, PodSeen, PodStage, Pods, RecreateSeen},
};

pub(super) const SPACE: &str = "shop";

/// A pod at the API server.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) uid: String,
    pub(super) version: u64,
    pub(super) created: Timestamp,
    pub(super) stage: PodStage,
    pub(super) ready: bool,
    pub(super) owner: Option<Owner>,
}

pub(super) struct World {
    begin: (Instant, Timestamp),
    pub(super) passed: Duration,
    pub(super) pods: BTreeMap<String, Pod>,
    pub(super) replicas: i32,
    /// Facts that the workload cannot say.
    pub(super) facts: BTreeMap<Lookup, Fact>,
    spec: PodUnavailableBudgetSpec,
    annotations: BTreeMap<String, String>,
    pub(super) status: Status,
    pub(super) version: u64,
    /// Newest version of anything.
    revision: u64,
    uids: u32,
    /// Events that the leader has not seen yet, with their time.
    late_pods: VecDeque<(Duration, String, Option<Pod>)>,
    late_budgets: VecDeque<(Duration, u64, Status)>,
    known: Pods,
    pub(super) index: BudgetIndex,
    /// Lookups that were asked for.
    pub(super) looked: Vec<Lookup>,
    /// So many writes and lookups are still to be lost on their way.
    pub(super) loses: (u32, u32),
}

pub(super) fn owner(kind: &str, name: &str) -> Owner {
    let api_version = if kind == "CloneSet" { "apps.kruise.io/v1alpha1" } else { "apps/v1" };
    Owner {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
        uid: format!("uid-of-{name}"),
    }
}

impl World {
    /// A CloneSet of so many ready pods, and a budget of this spec, counted.
    pub(super) fn new(replicas: i32, spec: serde_json::Value, annotations: serde_json::Value) -> Self {
        let mut world = Self {
            begin: (Instant::now(), "2026-07-02T10:00:00Z".parse().unwrap()),
            passed: Duration::from_secs(3600),
            pods: BTreeMap::new(),
            replicas,
            facts: BTreeMap::new(),
            spec: serde_json::from_value(spec).unwrap(),
            annotations: serde_json::from_value(annotations).unwrap(),
            status: Status::default(),
            version: 1,
            revision: 1,
            uids: 0,
            late_pods: VecDeque::new(),
            late_budgets: VecDeque::new(),
            known: Pods::default(),
            index: BudgetIndex::default(),
            looked: Vec::new(),
            loses: (0, 0),
        };
        for at in 0..replicas {
            world.make(&format!("p{at}"), true, Some(owner("CloneSet", "web")));
        }
        world.passed += Duration::from_secs(3600);
        world.lead_anew();
        world.pass(Duration::from_secs(5));
        world
    }

    pub(super) fn now(&self) -> Now {
        Now { instant: self.begin.0 + self.passed, wall: self.begin.1 + self.passed }
    }

    fn set(&mut self) -> Set<'_, 1> {
        Set { pods: &mut self.known, indexes: [&mut self.index] }
    }

    /// Another replica leads, which sees everything as it is.
    pub(super) fn lead_anew(&mut self) {
        (self.known, self.index) = (Pods::default(), BudgetIndex::default());
        (self.late_pods, self.late_budgets) = (VecDeque::new(), VecDeque::new());
        let now = self.now();
        let mut effects = Vec::new();
        for kind in [Kind::Pod, Kind::Budget] {
            self.set().list_begins(kind, now);
            let objects: Vec<Object> = match kind {
                Kind::Pod => self.pods.iter().map(|(name, pod)| seen(name, pod)).collect(),
                _ => vec![self.budget(self.version, &self.status.clone())],
            };
            for object in objects {
                effects.extend(self.set().apply(&object, now));
            }
            effects.extend(self.set().list_ends(kind, now));
        }
        effects.extend(self.set().leads(now));
        self.carry_out(effects);
    }

    fn budget(&self, version: u64, status: &Status) -> Object {
        Object::Budget(Box::new(BudgetSeen {
            resource_version: version.to_string(),
            annotations: self.annotations.clone(),
            status: Ok(status.clone()),
            ..BudgetSeen::of_test(SPACE, "b", Ok(self.spec.clone()))
        }))
    }

    pub(super) fn make(&mut self, name: &str, ready: bool, owner: Option<Owner>) {
        self.uids += 1;
        let created = self.now().wall;
        let pod = Pod {
            uid: format!("u{}", self.uids),
            version: 0,
            created,
            stage: PodStage::Active,
            ready,
            owner,
        };
        self.change(name, Some(pod));
    }

    /// A pod changes, and the leader is told of it later.
    pub(super) fn change(&mut self, name: &str, mut pod: Option<Pod>) {
        self.revision += 1;
        if let Some(pod) = &mut pod {
            pod.version = self.revision;
        }
        match &pod {
            Some(pod) => drop(self.pods.insert(name.to_owned(), pod.clone())),
            None => drop(self.pods.remove(name)),
        }
        self.late_pods.push_back((self.passed, name.to_owned(), pod));
    }

    /// Writes the status, if nobody else was faster.
    pub(super) fn write(&mut self, version: u64, status: Status) -> bool {
        if version != self.version {
            return false;
        }
        // What changes nothing has no new version.
        if self.status == status {
            return true;
        }
        self.revision += 1;
        self.version = self.revision;
        self.status = status;
        self.late_budgets.push_back((self.passed, self.version, self.status.clone()));
        true
    }

    /// Returns the answer of a replica, and the version it was decided on.
    pub(super) fn ask(&self, pod: &str, operation: Operation) -> (Answer, u64) {
        let budget = Budget::parse(&self.spec, &self.annotations).unwrap();
        let of_pod = &self.pods[pod];
        let question = Question {
            pod,
            created: Some(of_pod.created),
            available: of_pod.ready && of_pod.stage == PodStage::Active,
            operation,
        };
        let total = if budget.workload().is_some() { self.replicas } else { self.status.total_replicas };
        (decide(&budget, &self.status, total, &question, self.now().wall), self.version)
    }

    /// The leader sees one event of these.
    pub(super) fn see(&mut self, of_pods: bool) {
        let now = self.now();
        let effects = if of_pods {
            let Some((_, name, pod)) = self.late_pods.pop_front() else { return };
            match pod {
                Some(pod) => self.set().apply(&seen(&name, &pod), now),
                None => self.set().delete(Kind::Pod, SPACE, &name, now),
            }
        } else {
            let Some((_, version, status)) = self.late_budgets.pop_front() else { return };
            let budget = self.budget(version, &status);
            self.set().apply(&budget, now)
        };
        self.carry_out(effects);
    }

    /// Time passes; no event is seen later than a second after it happened.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.passed + time;
        while self.passed < end {
            self.passed = (self.passed + Duration::from_millis(100)).min(end);
            let late = self.passed.saturating_sub(Duration::from_secs(1));
            while self.late_pods.front().is_some_and(|(at, ..)| *at <= late) {
                self.see(true);
            }
            while self.late_budgets.front().is_some_and(|(at, ..)| *at <= late) {
                self.see(false);
            }
            self.carry_out(Vec::new());
        }
    }

    /// The leader sees a request to recreate a container of a pod, which an agent has; or its end.
    pub(super) fn recreate(&mut self, pod: &str, ended: bool) {
        let phase = if ended { RecreatePhase::Completed } else { RecreatePhase::Recreating };
        let spec = ContainerRecreateRequestSpec { pod_name: pod.to_owned(), ..Default::default() };
        let status = ContainerRecreateRequestStatus {
            phase: Some(phase),
            node_name: Some("n0".to_owned()),
            ..Default::default()
        };
        let request = RecreateSeen { status: Ok(status), ..RecreateSeen::of_test(SPACE, "r", Ok(spec)) };
        let now = self.now();
        let effects = self.set().apply(&Object::Request(Box::new(request)), now);
        self.carry_out(effects);
    }

    /// There is no room for the request.
    pub(super) fn set_recreate_aside(&mut self) {
        let request = Object::absent(Kind::Request, SPACE, "r", "uid-of-r").expect("a request");
        let now = self.now();
        let effects = self.set().apply(&request, now);
        self.carry_out(effects);
    }

    /// Deletes the request.
    pub(super) fn no_recreate(&mut self) {
        let now = self.now();
        let effects = self.set().delete(Kind::Request, SPACE, "r", now);
        self.carry_out(effects);
    }

    /// The leader sees a pod that differs in this from what it knows.
    pub(super) fn show(&mut self, name: &str, change: fn(&mut PodSeen)) {
        let now = self.now();
        let mut shown = seen(name, &self.pods[name]);
        if let Object::Pod(pod) = &mut shown {
            change(pod);
        }
        let effects = self.set().apply(&shown, now);
        self.carry_out(effects);
    }

    /// Carries out what the index asks for, as long as it asks.
    fn carry_out(&mut self, mut effects: Vec<Effect>) {
        for _ in 0..32 {
            let now = self.now();
            effects.extend(self.set().time_passed(now));
            if effects.is_empty() {
                return;
            }
            for effect in std::mem::take(&mut effects) {
                match effect {
                    Effect::Budget(Step::LookUp(lookup)) => {
                        self.looked.push(lookup.clone());
                        if self.loses.1 > 0 {
                            self.loses.1 -= 1;
                            continue;
                        }
                        let found = Ok(self.fact(&lookup));
                        self.index.found(Looked { lookup, found }, now.instant);
                    }
                    Effect::Budget(Step::Write(_)) if self.loses.0 > 0 => self.loses.0 -= 1,
                    Effect::Budget(Step::Write(order)) => {
                        self.write(order.resource_version.parse().unwrap(), *order.status);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        panic!("it asks for ever");
    }

    fn fact(&self, lookup: &Lookup) -> Fact {
        if let Some(fact) = self.facts.get(lookup) {
            return fact.clone();
        }
        match &lookup.what {
            What::Scale(workload) if &*workload.name == "web" => {
                Fact::Wants { uid: "uid-of-web".to_owned(), replicas: self.replicas }
            }
            _ => Fact::Gone,
        }
    }

    /// Pods that are available at this moment, whether anybody has seen it or not.
    pub(super) fn available(&self) -> usize {
        self.pods.values().filter(|pod| pod.ready && pod.stage == PodStage::Active).count()
    }
}

pub(super) fn seen(name: &str, pod: &Pod) -> Object {
    Object::Pod(PodSeen {
        namespace: SPACE.to_owned(),
        name: name.to_owned(),
        uid: pod.uid.clone(),
        version: pod.version,
        node: Some("n0".to_owned()),
        labels: [("app".to_owned(), "web".to_owned())].into(),
        stage: pod.stage,
        initialized: true,
        ip: None,
        containers: Vec::new(),
        created: Some(pod.created),
        mirror: false,
        sidecars: None,
        spread: None,
        owner: pod.owner.clone(),
        available: pod.ready,
        ready: pod.ready,
    })
}

pub(super) fn of_web(limit: serde_json::Value) -> serde_json::Value {
    let mut spec =
        json!({"targetRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"}});
    spec.as_object_mut().unwrap().extend(limit.as_object().unwrap().clone());
    spec
}
