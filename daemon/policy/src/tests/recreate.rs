//! Recreate, as a conversation between a request, the agent, the kubelet and the runtime.

use std::time::Duration;

use super::world::{World, pod};
use crate::{
    Amendment, CallId, ConnectionId, ContainerId, ContainerName, ContainerPhase, Event, Hook, Mark,
    MarkPhase, Origin, Outcome, Path, Pod, Readiness, RecreateReport, RecreateRequest, RecreateStrategy,
    RecreateTarget, RequestId, RequestPhase, RestartPolicy, Restate, SandboxId, Step, StepOutcome, Verdict,
};

/// A node on which everything is carried out at once, and written down.
struct Play {
    world: World,
    pod: Pod,
    /// What the store has.
    store: Vec<Mark>,
    reports: Vec<(String, RecreateReport)>,
    /// Steps that had an effect in the world, as one word each.
    effects: Vec<String>,
    instances: u32,
    lists: u64,
}

impl Play {
    /// A pod whose containers all run, Ready.
    fn new(pod: Pod) -> Self {
        Self::on(crate::Config::default(), pod)
    }

    fn on(config: crate::Config, pod: Pod) -> Self {
        let world = World::with(config);
        let mut play = Self {
            world,
            pod,
            store: Vec::new(),
            reports: Vec::new(),
            effects: Vec::new(),
            instances: 0,
            lists: 1000,
        };
        play.world.apply(Event::ViewFresh(true));
        let names: Vec<ContainerName> = play.pod.containers.keys().cloned().collect();
        play.world.apply(play.pod.seen());
        for name in names {
            play.start(name.as_str());
        }
        play.world.apply(Event::RecreatesListed(Origin::Api, Vec::new()));
        play
    }

    /// The kubelet creates and starts the next instance of a container.
    fn start(&mut self, name: &str) -> String {
        let (call, verdict) = self.world.create(&self.pod.clone(), name);
        assert!(matches!(verdict, Verdict::Forward | Verdict::Latch(_)), "{name}: {verdict:?}");
        self.instances += 1;
        let id = format!("{name}-{}", self.instances);
        self.world.start(&call, &id);
        self.reports_ready(name, &id, true);
        id
    }

    fn reports_ready(&mut self, name: &str, id: &str, ready: bool) {
        self.pod = self.pod.clone().report(name, id, ready);
        self.world.apply(self.pod.seen());
        self.settle();
    }

    fn request(&mut self, id: &str, containers: &[&str], strategy: RecreateStrategy) {
        let request = self.asks(id, containers, strategy);
        self.world.apply(Event::RecreateSeen(Box::new(request)));
        self.settle();
    }

    fn asks(&self, id: &str, containers: &[&str], strategy: RecreateStrategy) -> RecreateRequest {
        let newest = |name: &str| {
            self.pod
                .statuses
                .get(&ContainerName::from(name))
                .map_or("none".into(), |report| report.id.clone())
        };
        RecreateRequest {
            id: id.into(),
            origin: Origin::Api,
            key: format!("ns/{id}"),
            created: self.world.now,
            pod: self.pod.pod.uid.clone(),
            containers: containers
                .iter()
                .map(|name| RecreateTarget { name: (*name).into(), instance: newest(name) })
                .collect(),
            strategy,
            deadline: None,
            delete_after: None,
            reported: RecreateReport::default(),
            ended: None,
            unready_since: None,
        }
    }

    /// Carries out what is owed until nothing is.
    fn settle(&mut self) {
        for _ in 0..50 {
            let steps = self.world.node.plan(self.world.now);
            let before = self.effects.len() + self.reports.len();
            for step in steps {
                self.carry_out(step);
            }
            if before == self.effects.len() + self.reports.len() {
                return;
            }
        }
        panic!("never settles: {:?}", self.effects);
    }

    fn carry_out(&mut self, step: Step) {
        match &step {
            Step::InspectSandbox(sandbox) => {
                self.world.apply(Event::InspectionStarted(sandbox.clone()));
                let containers = self.world.runtime.values().filter(|(home, _)| home == sandbox);
                let containers = containers.map(|(_, container)| container.clone()).collect();
                self.world.apply(Event::SandboxInspected { sandbox: sandbox.clone(), containers });
                return;
            }
            Step::PollKubelet | Step::ForgetLatches(_) => return,
            Step::RemoveContainers(ids, _) => {
                for id in ids {
                    self.world.runtime.remove(id);
                    self.effects.push(format!("remove {id}"));
                }
            }
            Step::WriteMarks(marks) => {
                let words: Vec<String> =
                    marks.iter().map(|mark| format!("{} {:?}", mark.container, mark.phase)).collect();
                self.effects.push(format!("mark {}", words.join(", ")));
                self.store.extend(marks.iter().cloned());
            }
            Step::ForgetMarks(request) => {
                self.store.retain(|mark| mark.request != *request);
                self.effects.push(format!("forget {request}"));
            }
            Step::StopContainer(stop) => {
                let hook = if stop.hook.is_some() { " with hook" } else { "" };
                self.effects.push(format!("stop {} {}s{hook}", stop.container, stop.grace.as_secs()));
                self.world.exit(stop.container.as_str(), 143);
                if stop.remove {
                    self.world.runtime.remove(&stop.container);
                    self.effects.push(format!("remove {}", stop.container));
                }
            }
            Step::Report(_, id, report) => self.reports.push((id.to_string(), report.clone())),
            Step::HoldUnready(_, key) => self.effects.push(format!("hold {key}")),
            Step::ReleaseUnready(_, key) => {
                self.effects.push(format!("release {key}"));
                self.pod.unready.as_mut().unwrap().requests.clear();
                self.world.apply(self.pod.seen());
            }
            Step::DeleteRequest(_, id) => self.effects.push(format!("delete {id}")),
        }
        self.world.apply(Event::StepBegan(step.clone()));
        self.world.apply(Event::StepEnded(step, StepOutcome::Done));
    }

    /// A relist of the kubelet; how many pods it is nudged to look at.
    fn relist(&mut self) -> usize {
        self.lists += 1;
        let (call, connection) = (CallId(self.lists), self.world.connection);
        self.world.apply(Event::RelistAsked { call, connection });
        let nudges = self.world.node.nudges(call, self.world.now);
        self.world.apply(Event::RelistAnswered { call, connection });
        self.world.apply(Event::CallEnded(call));
        nudges.len()
    }

    /// The kubelet looks at a container: does it see a changed definition?
    fn looks(&mut self, id: &str) -> bool {
        match self.world.node.restate(self.world.connection, &id.into()) {
            Restate::No => false,
            Restate::Yes => true,
            Restate::Once(mark) => {
                self.write(mark);
                true
            }
        }
    }

    fn hook(&mut self, id: &str) {
        if let Some(mark) = self.world.node.hook_begins(&id.into()) {
            self.write(mark);
        }
    }

    fn write(&mut self, mark: Mark) {
        self.store.retain(|old| old.container != mark.container);
        self.store.push(mark.clone());
        self.world.apply(Event::MarkWritten(mark, self.world.connection));
        self.settle();
    }

    /// The kubelet stops a container; how the call is let through.
    fn stop(&mut self, id: &str, timeout: u64) -> Verdict {
        let (call, verdict) = self.world.stop(id, timeout);
        self.world.exit(id, 0);
        self.world.apply(Event::ContainerStopped(id.into()));
        self.world.apply(Event::CallEnded(call.id));
        self.settle();
        verdict
    }

    /// The whole way of one container through the kubelet.
    fn replaced_by_kubelet(&mut self, name: &str, id: &str) -> String {
        assert!(self.relist() > 0, "no nudge");
        assert!(self.looks(id), "{id} is not shown");
        self.stop(id, 30);
        self.start(name)
    }

    /// berthd is killed, and comes back with its store and an empty memory.
    fn dies(&mut self) {
        let requests: Vec<RecreateRequest> = self.known_requests();
        let mut world = World::with(crate::Config::default());
        std::mem::swap(&mut world.runtime, &mut self.world.runtime);
        world.now = self.world.now;
        world.connection = ConnectionId(self.world.connection.0 + 1);
        self.world = world;
        self.world.apply(Event::MarksLoaded(self.store.clone()));
        self.world.apply(Event::ListingStarted);
        let sandbox = SandboxId::from("sandbox");
        self.world.apply(Event::RuntimeListed {
            sandboxes: vec![crate::ListedSandbox {
                sandbox: sandbox.clone(),
                pod: self.pod.pod.clone(),
                declared: crate::Declared::default(),
            }],
            containers: self.world.runtime.values().cloned().collect(),
        });
        self.world.apply(Event::ViewFresh(true));
        self.world.apply(Event::PodsListed(vec![self.pod.clone()]));
        self.world.apply(Event::RecreatesListed(Origin::Api, requests));
        self.settle();
    }

    /// As the API server has them: with what was reported last.
    fn known_requests(&self) -> Vec<RecreateRequest> {
        let mut requests = self.world.node.asked_requests();
        for request in &mut requests {
            let last = self.reports.iter().rfind(|(id, _)| *id == request.id.as_str());
            request.reported = last.map(|(_, report)| report.clone()).unwrap_or_default();
        }
        requests
    }

    fn last(&self, id: &str) -> &RecreateReport {
        &self.reports.iter().rfind(|(request, _)| request == id).unwrap().1
    }

    fn phases(&self, id: &str) -> Vec<(&str, ContainerPhase)> {
        self.last(id).containers.iter().map(|progress| (progress.name.as_str(), progress.phase)).collect()
    }

    fn succeeded(&self, id: &str) {
        let report = self.last(id);
        assert_eq!(report.outcome, Some(Outcome::Complete), "{report:?}");
        assert_eq!(report.phase, Some(RequestPhase::Completed));
    }
}

fn one() -> Pod {
    pod(&[("a", "0")])
}

fn with_hook(mut pod: Pod, name: &str, hook: Hook) -> Pod {
    pod.containers.get_mut(&ContainerName::from(name)).unwrap().pre_stop = Some(hook);
    pod
}

fn exec() -> Hook {
    Hook::Exec { command: vec!["bye".to_owned()] }
}

fn http() -> Hook {
    Hook::Http { host: None, port: 80, path: "/bye".to_owned(), https: false, headers: Vec::new() }
}

fn strategy() -> RecreateStrategy {
    RecreateStrategy::default()
}

#[test]
fn the_kubelet_is_asked_once() {
    let mut play = Play::new(one());
    play.request("r", &["a"], strategy());
    assert_eq!(play.effects, ["mark a-1 Armed"]);
    assert_eq!(play.relist(), 1);
    assert_eq!(play.relist(), 0, "one nudge");
    assert!(play.looks("a-1"));
    assert_eq!(play.store[0].phase, MarkPhase::Shown);
    assert_eq!(play.stop("a-1", 30), Verdict::Forward);
    assert!(!play.looks("other"));
    play.start("a");
    play.succeeded("r");
    assert_eq!(play.effects, ["mark a-1 Armed", "forget r"]);
    assert!(play.store.is_empty());
    // Recreating, killed, completed: one write for each change of state.
    assert_eq!(play.reports.len(), 3, "{:#?}", play.reports);
    assert!(!play.looks("a-2"));
    assert_eq!(play.relist(), 0);
}

#[test]
fn a_kubelet_that_did_not_look_is_nudged_again() {
    let mut play = Play::new(one());
    play.request("r", &["a"], strategy());
    assert_eq!(play.relist(), 1);
    play.world.pass(Duration::from_secs(1));
    assert_eq!(play.relist(), 0);
    play.world.pass(Duration::from_secs(2));
    assert_eq!(play.relist(), 1);
}

#[test]
fn eight_in_a_row_without_a_trace_of_the_earlier_ones() {
    let mut play = Play::new(one());
    let mut id = "a-1".to_owned();
    for round in 0..8 {
        play.effects.clear();
        let request = format!("r{round}");
        play.request(&request, &["a"], strategy());
        if round > 0 {
            assert!(play.effects[0].starts_with("remove a-"), "{:?}", play.effects);
        }
        id = play.replaced_by_kubelet("a", &id);
        play.succeeded(&request);
    }
}

#[test]
fn containers_of_an_unordered_request_are_marked_together() {
    let mut play = Play::new(pod(&[("a", "0"), ("b", "0"), ("c", "0")]));
    play.request("r", &["c", "a"], strategy());
    assert_eq!(play.effects, ["mark a-1 Armed, c-3 Armed"]);
    assert_eq!(play.relist(), 1, "one nudge for the pod");
    assert!(play.looks("a-1") && play.looks("c-3") && !play.looks("b-2"));
    play.stop("a-1", 30);
    play.stop("c-3", 30);
    play.start("a");
    assert_eq!(play.phases("r"), [("c", ContainerPhase::Recreating), ("a", ContainerPhase::Succeeded)]);
    play.start("c");
    play.succeeded("r");
}

#[test]
fn an_ordered_request_waits_for_ready() {
    let mut play = Play::new(pod(&[("a", "0"), ("b", "0")]).becomes_ready_by("a", Readiness::ReadinessProbe));
    play.request("r", &["b", "a"], RecreateStrategy { ordered: true, ..strategy() });
    assert_eq!(play.effects, ["mark a-1 Armed"], "the order of the pod, not of the list");
    let id = play.replaced_by_kubelet("a", "a-1");
    assert_eq!(play.effects.last().unwrap(), "mark b-2 Armed");
    play.reports_ready("a", &id, false);
    play.replaced_by_kubelet("b", "b-2");
    play.succeeded("r");
}

#[test]
fn an_ordered_request_does_not_go_on_before_ready() {
    let mut play = Play::new(pod(&[("a", "0"), ("b", "0")]).becomes_ready_by("a", Readiness::ReadinessProbe));
    play.request("r", &["a", "b"], RecreateStrategy { ordered: true, ..strategy() });
    play.relist();
    play.looks("a-1");
    play.stop("a-1", 30);
    let (call, _) = play.world.create(&play.pod.clone(), "a");
    play.world.start(&call, "a-9");
    play.settle();
    assert_eq!(play.effects, ["mark a-1 Armed"]);
    play.reports_ready("a", "a-9", true);
    assert_eq!(play.effects.last().unwrap(), "mark b-2 Armed");
}

#[test]
fn min_started_is_counted_from_the_start() {
    let mut play = Play::new(one());
    play.request("r", &["a"], RecreateStrategy { min_started: Duration::from_secs(5), ..strategy() });
    play.replaced_by_kubelet("a", "a-1");
    assert_eq!(play.last("r").phase, Some(RequestPhase::Recreating));
    let due = play.world.node.next_deadline().unwrap();
    assert!(due <= play.world.now + Duration::from_secs(5));
    play.world.pass(Duration::from_secs(5));
    play.settle();
    play.succeeded("r");
}

#[test]
fn the_grace_of_the_request_takes_the_place_of_the_pods() {
    // (grace asked for, timeout the kubelet passes, what goes on): the pod's grace is 30 s.
    let amended = |seconds| Verdict::Amend(Amendment::StopTimeout(Duration::from_secs(seconds)));
    let table = [
        (None, 30, Verdict::Forward),
        (Some(5), 30, amended(5)),
        (Some(5), 28, amended(3)),
        (Some(5), 2, Verdict::Forward),
        (Some(0), 30, amended(2)),
        (Some(60), 30, amended(60)),
        (Some(60), 20, amended(50)),
        (Some(30), 30, Verdict::Forward),
    ];
    for (grace, timeout, expected) in table {
        let mut play = Play::new(one());
        let grace = grace.map(Duration::from_secs);
        play.request("r", &["a"], RecreateStrategy { grace, ..strategy() });
        play.relist();
        play.looks("a-1");
        assert_eq!(play.stop("a-1", timeout), expected, "{grace:?} {timeout}");
    }
}

#[test]
fn a_second_request_for_the_container_waits_and_finds_it_replaced() {
    let mut play = Play::new(pod(&[("a", "0"), ("b", "0")]));
    play.request("r1", &["a"], strategy());
    play.request("r2", &["a"], strategy());
    play.request("r3", &["b"], strategy());
    assert_eq!(play.last("r2").phase, Some(RequestPhase::Pending));
    assert_eq!(play.last("r2").containers[0].message, "waits for request ns/r1");
    assert_eq!(play.effects, ["mark a-1 Armed", "mark b-2 Armed"], "disjoint containers do not wait");
    play.replaced_by_kubelet("a", "a-1");
    play.succeeded("r1");
    play.succeeded("r2");
    assert_eq!(play.last("r3").phase, Some(RequestPhase::Recreating));
}

#[test]
fn force_restarts_also_what_was_replaced_and_once() {
    let mut play = Play::new(one());
    play.request("r1", &["a"], strategy());
    play.request("r2", &["a"], RecreateStrategy { force: true, ..strategy() });
    // Created and not started yet is the moment in which it must not count as done.
    play.relist();
    play.looks("a-1");
    play.stop("a-1", 30);
    let (call, _) = play.world.create(&play.pod.clone(), "a");
    play.world.apply(Event::ContainerCreated { call: call.id, container: "a-x".into() });
    play.settle();
    play.world.start(&call, "a-x");
    play.reports_ready("a", "a-x", true);
    let id = "a-x".to_owned();
    play.succeeded("r1");
    assert_eq!(play.last("r2").phase, Some(RequestPhase::Recreating));
    assert_eq!(play.store.last().unwrap().container, ContainerId::from(id.as_str()));
    play.replaced_by_kubelet("a", &id);
    play.succeeded("r2");
}

#[test]
fn the_pod_is_drained_first() {
    let mut gated = one();
    gated.unready = Some(crate::Unready::default());
    let mut play = Play::new(gated);
    let strategy = RecreateStrategy { unready_grace: Some(Duration::from_secs(3)), ..strategy() };
    play.request("r", &["a"], strategy);
    assert_eq!(play.effects, ["hold ns/r"]);
    assert!(play.last("r").unready);
    play.pod.unready.as_mut().unwrap().requests.push("ns/r".to_owned());
    play.world.apply(play.pod.seen());
    play.world.pass(Duration::from_secs(2));
    play.settle();
    assert_eq!(play.effects, ["hold ns/r"]);
    play.world.pass(Duration::from_secs(1));
    play.settle();
    assert_eq!(play.effects, ["hold ns/r", "mark a-1 Armed"]);
    play.replaced_by_kubelet("a", "a-1");
    assert!(play.effects.contains(&"release ns/r".to_owned()), "{:?}", play.effects);
    play.succeeded("r");
}

#[test]
fn a_pod_without_the_gate_waits_and_is_not_touched() {
    let mut play = Play::new(one());
    let strategy = RecreateStrategy { unready_grace: Some(Duration::from_secs(3)), ..strategy() };
    play.request("r", &["a"], strategy);
    assert!(play.effects.is_empty());
    play.world.pass(Duration::from_secs(3));
    play.settle();
    assert_eq!(play.effects, ["mark a-1 Armed"]);
}

#[test]
fn what_a_request_left_in_the_gate_is_taken_away() {
    let mut gated = one();
    gated.unready = Some(crate::Unready { requests: vec!["ns/forgotten".to_owned()] });
    let play = Play::new(gated);
    let mut play = play;
    play.settle();
    assert_eq!(play.effects, ["release ns/forgotten"]);
}

#[test]
fn the_deadline_ends_what_was_not_shown() {
    let mut play = Play::new(one());
    let mut request = play.asks("r", &["a"], strategy());
    request.deadline = Some(play.world.now + Duration::from_secs(3));
    play.world.apply(Event::RecreateSeen(Box::new(request)));
    play.settle();
    assert_eq!(play.effects, ["mark a-1 Armed"]);
    play.world.pass(Duration::from_secs(3));
    play.settle();
    let report = play.last("r");
    assert_eq!(report.outcome, Some(Outcome::Failed("DeadlineExceeded")));
    assert_eq!(report.message, "recreating has exceeded the activeDeadlineSeconds");
    assert!(!play.looks("a-1"), "nothing is done after the end");
    assert!(play.store.is_empty());
}

#[test]
fn a_finished_request_is_deleted_after_its_time() {
    let mut play = Play::new(one());
    let mut request = play.asks("r", &["a"], strategy());
    request.delete_after = Some(Duration::from_secs(10));
    play.world.apply(Event::RecreateSeen(Box::new(request)));
    play.settle();
    play.replaced_by_kubelet("a", "a-1");
    assert!(!play.effects.contains(&"delete r".to_owned()));
    play.world.pass(Duration::from_secs(10));
    play.settle();
    assert!(play.effects.contains(&"delete r".to_owned()));
}

#[test]
fn a_pod_that_goes_ends_the_request() {
    for gone in ["deleted", "removed", "ended"] {
        let mut play = Play::new(one());
        play.request("r", &["a"], strategy());
        match gone {
            "deleted" => play.pod = play.pod.clone().deleting(30),
            "ended" => play.pod.ended = true,
            _ => {}
        }
        let event = match gone {
            "removed" => Event::PodGone(play.pod.pod.uid.clone()),
            _ => play.pod.seen(),
        };
        play.world.apply(event);
        assert!(!play.looks("a-1"), "{gone}");
        play.settle();
        assert_eq!(play.last("r").outcome, Some(Outcome::Failed("PodGone")), "{gone}");
    }
}

#[test]
fn a_container_the_pod_does_not_keep_running_fails() {
    for (ignore, outcome) in [(false, Outcome::Failed("ContainerFailed")), (true, Outcome::Complete)] {
        let mut play = Play::new(one());
        let asked = RecreateStrategy { ignore_failures: ignore, ..strategy() };
        play.request("r", &["nobody", "a"], asked);
        if ignore {
            play.replaced_by_kubelet("a", "a-1");
        }
        let report = play.last("r");
        assert_eq!(report.outcome, Some(outcome));
        assert!(report.message.contains("nobody"), "{}", report.message);
        assert_eq!(report.containers[0].phase, ContainerPhase::Failed);
    }
}

#[test]
fn an_exited_container_that_is_not_restarted_fails() {
    let table = [
        (RestartPolicy::Never, 1, false),
        (RestartPolicy::OnFailure, 0, false),
        (RestartPolicy::OnFailure, 1, true),
        (RestartPolicy::Always, 0, true),
    ];
    for (policy, code, waits) in table {
        let mut play = Play::new(one().restarts(policy));
        play.world.exit("a-1", code);
        play.request("r", &["a"], strategy());
        play.world.pass(Duration::from_secs(2));
        play.settle();
        assert_eq!(play.last("r").outcome.is_none(), waits, "{policy:?} {code}");
    }
}

#[test]
fn a_request_that_goes_away_is_forgotten() {
    let mut play = Play::new(one());
    play.request("r", &["a"], strategy());
    play.world.apply(Event::RecreateGone(RequestId::from("r")));
    play.settle();
    assert!(!play.looks("a-1"));
    assert_eq!(play.effects.last().unwrap(), "forget r");
    assert!(!play.world.node.is_waiting());
}

#[test]
fn a_step_that_fails_is_tried_again_later() {
    let mut play = Play::new(one());
    let request = play.asks("r", &["a"], strategy());
    play.world.apply(Event::RecreateSeen(Box::new(request)));
    let steps = play.world.node.plan(play.world.now);
    let write = steps.iter().find(|step| matches!(step, Step::WriteMarks(_))).unwrap().clone();
    play.world.apply(Event::StepBegan(write.clone()));
    assert!(!play.world.node.plan(play.world.now).contains(&write), "under way");
    play.world.apply(Event::StepEnded(write.clone(), StepOutcome::Failed));
    assert!(!play.world.node.plan(play.world.now).contains(&write), "paused");
    assert!(!play.looks("a-1"), "what is not durable is not shown");
    play.world.pass(Duration::from_secs(1));
    assert!(play.world.node.plan(play.world.now).contains(&write));
}

#[test]
fn a_change_of_the_request_later_changes_nothing() {
    let mut play = Play::new(pod(&[("a", "0"), ("b", "0")]));
    play.request("r", &["a"], strategy());
    play.request("r", &["a", "b"], strategy());
    assert_eq!(play.effects, ["mark a-1 Armed"]);
}

#[test]
fn beside_the_kubelet_the_agent_stops_it_with_its_hook() {
    let config = crate::Config { path: Path::Beside, ..crate::Config::default() };
    let mut play = Play::on(config, with_hook(one(), "a", exec()));
    play.request("r", &["a"], RecreateStrategy { grace: Some(Duration::from_secs(7)), ..strategy() });
    assert_eq!(play.effects, ["mark a-1 Stopping", "stop a-1 7s with hook"]);
    assert_eq!(play.relist(), 0, "nobody is nudged");
    play.start("a");
    play.succeeded("r");
}

#[test]
fn beside_the_kubelet_a_pod_that_never_restarts_is_not_stopped() {
    let config = crate::Config { path: Path::Beside, ..crate::Config::default() };
    let mut play = Play::on(config, one().restarts(RestartPolicy::Never));
    play.request("r", &["a"], strategy());
    assert_eq!(play.last("r").outcome, Some(Outcome::Failed("ContainerFailed")));
    assert!(play.last("r").message.contains("restartPolicy is Never"));
    assert_eq!(play.effects, Vec::<String>::new());
}

#[test]
fn beside_the_kubelet_what_was_made_since_the_last_list_is_listed_first() {
    let config = crate::Config { path: Path::Beside, ..crate::Config::default() };
    let mut play = Play::on(config.clone(), one().restarts(RestartPolicy::Never));
    let mut world = World::with(config);
    std::mem::swap(&mut world.runtime, &mut play.world.runtime);
    play.world = world;
    play.world.apply(Event::ListingStarted);
    play.world.apply(Event::RuntimeListed { sandboxes: Vec::new(), containers: Vec::new() });
    play.world.apply(Event::ViewFresh(true));
    play.world.apply(Event::PodsListed(vec![play.pod.clone()]));
    play.world.apply(Event::RecreatesListed(Origin::Api, Vec::new()));
    assert!(!play.world.node.misses_container(), "nobody asks for it");

    play.request("r", &["a"], strategy());
    assert!(play.world.node.misses_container());
    play.world.apply(Event::ListingStarted);
    play.world.apply(Event::RuntimeListed {
        sandboxes: vec![crate::ListedSandbox {
            sandbox: SandboxId::from("sandbox"),
            pod: play.pod.pod.clone(),
            declared: crate::Declared::default(),
        }],
        containers: play.world.runtime.values().cloned().collect(),
    });
    play.settle();
    assert!(!play.world.node.misses_container());
    // Not taken for one that is under way: whether it may be stopped is still asked.
    assert!(play.last("r").message.contains("restartPolicy is Never"), "{:?}", play.last("r"));
    assert_eq!(play.effects, Vec::<String>::new());
}

#[test]
fn a_pod_that_is_seen_later_is_waited_for() {
    let mut play = Play::new(one());
    let mut request = play.asks("r", &["a"], strategy());
    request.pod = "later".into();
    play.world.apply(Event::RecreateSeen(Box::new(request)));
    play.world.pass(Duration::from_secs(2));
    play.settle();
    assert!(play.reports.iter().all(|(_, report)| report.outcome.is_none()));
    play.world.pass(Duration::from_secs(3));
    play.settle();
    assert_eq!(play.last("r").outcome, Some(Outcome::Failed("PodGone")));
}

#[test]
fn a_static_pod_is_known_by_its_mirror_too() {
    let mut pod = one();
    pod.mirror = Some("mirror".into());
    let mut play = Play::new(pod);
    let mut request = play.asks("r", &["a"], strategy());
    request.pod = "mirror".into();
    play.world.apply(Event::RecreateSeen(Box::new(request)));
    play.settle();
    play.replaced_by_kubelet("a", "a-1");
    play.succeeded("r");
}

/// berthd is killed at each step of the way; the hook runs once and the container is replaced once.
#[test]
fn killed_at_every_step() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum At {
        Requested,
        Nudged,
        Shown,
        Hooked,
        Stopped,
        Started,
    }
    let all = [At::Requested, At::Nudged, At::Shown, At::Hooked, At::Stopped, At::Started];
    let policies = [RestartPolicy::Always, RestartPolicy::OnFailure, RestartPolicy::Never];
    for (name, hook) in [("none", None), ("exec", Some(exec())), ("http", Some(http()))] {
        for policy in policies {
            for at in all {
                let pod = one().restarts(policy);
                let pod = match &hook {
                    Some(hook) => with_hook(pod, "a", hook.clone()),
                    None => pod,
                };
                let row = format!("hook {name}, {policy:?}, {at:?}");
                let mut play = Play::new(pod);
                play.request("r", &["a"], strategy());
                let mut hooks = 0;
                let mut begun = |play: &mut Play| {
                    hooks += 1;
                    play.hook("a-1");
                };
                // As far as it gets before the kill.
                if at != At::Requested {
                    assert_eq!(play.relist(), 1, "{row}");
                }
                if !matches!(at, At::Requested | At::Nudged) {
                    assert!(play.looks("a-1"), "{row}");
                }
                let by_kubelet = matches!(at, At::Hooked | At::Stopped | At::Started);
                if by_kubelet {
                    begun(&mut play);
                }
                if matches!(at, At::Stopped | At::Started) {
                    play.stop("a-1", 30);
                }
                if at == At::Started {
                    play.start("a");
                }
                play.dies();

                // The kubelet relists, looks at what it is nudged to, and retries what failed; up to two minutes.
                for _ in 0..120 {
                    play.world.pass(Duration::from_secs(1));
                    play.settle();
                    if play.last("r").outcome.is_some() {
                        break;
                    }
                    let running = play.world.runtime.values().any(|(_, container)| {
                        container.id.as_str() == "a-1" && container.state == crate::ContainerState::Running
                    });
                    let exited = play.world.runtime.contains_key(&"a-1".into()) && !running;
                    let newer = play.world.runtime.keys().any(|id| id.as_str() != "a-1");
                    if running && play.relist() > 0 && play.looks("a-1") {
                        begun(&mut play);
                        play.stop("a-1", 30);
                        play.start("a");
                    } else if !running && !newer && (!exited || policy == RestartPolicy::Always) {
                        play.start("a");
                    }
                }
                play.succeeded("r");
                let expected = match (name, at) {
                    // Nobody can tell whether a hook that does not pass through the agent was begun.
                    ("http", At::Shown) => 0,
                    _ => 1,
                };
                assert_eq!(hooks, expected, "{row}: {:?}", play.effects);
                let live: Vec<_> = play
                    .world
                    .runtime
                    .values()
                    .filter(|(_, container)| container.state == crate::ContainerState::Running)
                    .collect();
                assert_eq!(live.len(), 1, "{row}");
                assert!(play.instances == 2, "{row}: restarted {} times", play.instances - 1);
            }
        }
    }
}
