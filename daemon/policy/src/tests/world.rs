//! A node with a clock and a kubelet's vocabulary, so that a test reads like a conversation.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{
    Call, CallId, Config, ConnectionId, Container, ContainerId, ContainerName, ContainerReport,
    ContainerSpec, ContainerState, CreateContainer, Declared, Deletion, Effect, Event, Latch, Node, Pod,
    PodRef, Question, Readiness, Refusal, Request, RestartPolicy, SandboxId, Step, StopContainer, Verdict,
    launch_priority::{EnvValue, LaunchOrder},
};

pub(super) const KUBELET: ConnectionId = ConnectionId(1);

/// The node under test, a clock, and a runtime that knows the truth.
pub(super) struct World {
    pub(super) node: Node,
    pub(super) now: Instant,
    pub(super) connection: ConnectionId,
    next: u64,
    /// Answers that the runtime would give.
    pub(super) runtime: BTreeMap<ContainerId, (SandboxId, Container)>,
}

/// The changes among these steps.
pub(super) fn effects(steps: &[Step]) -> impl Iterator<Item = &Effect> {
    steps.iter().filter_map(|step| match step {
        Step::Effect(effect) => Some(effect),
        Step::Question(_) | Step::ForgetLatches(_) => None,
    })
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(super) fn with(config: Config) -> Self {
        Self {
            node: Node::new(config),
            now: Instant::now_for_tests(),
            connection: KUBELET,
            next: 0,
            runtime: BTreeMap::new(),
        }
    }

    pub(super) fn apply(&mut self, event: Event) {
        let (number, before) = (self.node.foretold(), self.node.in_advance(self.now));
        let told = format!("{event:?}");
        self.node.apply(event, self.now);
        if self.node.foretold() == number {
            assert_eq!(self.node.in_advance(self.now), before, "foretold under the same number after {told}");
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    pub(super) fn call(&mut self, request: Request) -> Call {
        self.next += 1;
        Call {
            id: CallId(self.next),
            connection: self.connection,
            arrived: self.now,
            deadline: None,
            request,
        }
    }

    /// Runs every inspection that is due, as the executor would.
    pub(super) fn inspect(&mut self) {
        for step in self.node.plan(self.now) {
            if let Step::Question(Question::InspectSandbox(sandbox)) = step {
                self.apply(Event::InspectionStarted(sandbox.clone()));
                let containers = self
                    .runtime
                    .values()
                    .filter(|(home, _)| *home == sandbox)
                    .map(|(_, container)| container.clone())
                    .collect();
                self.apply(Event::SandboxInspected { sandbox, containers });
            }
        }
    }

    /// Asks, and asks again after the inspection that the first answer may have wanted.
    pub(super) fn ask(&mut self, call: &Call) -> Verdict {
        let (number, before) = (self.node.foretold(), self.node.in_advance(self.now));
        let first = self.node.admit(call, self.now);
        if before.passes(&call.request) {
            assert_eq!(first, Verdict::Forward, "it was foretold that {call:?} passes");
        }
        if self.node.foretold() == number {
            assert_eq!(self.node.in_advance(self.now), before, "foretold under the same number");
        }
        self.inspect();
        if matches!(first, Verdict::Hold { .. }) { self.node.admit(call, self.now) } else { first }
    }

    pub(super) fn create(&mut self, pod: &Pod, name: &str) -> (Call, Verdict) {
        self.create_in(pod, "sandbox", name, Declared::default())
    }

    pub(super) fn create_in(
        &mut self,
        pod: &Pod,
        sandbox: &str,
        name: &str,
        declared: Declared,
    ) -> (Call, Verdict) {
        let call = self.call(Request::CreateContainer(CreateContainer {
            sandbox: sandbox.into(),
            pod: pod.pod.clone(),
            container: name.into(),
            attempt: 0,
            declared,
            images: Vec::new(),
        }));
        let verdict = self.ask(&call);
        (call, verdict)
    }

    /// The container comes to run: created and started through the agent.
    pub(super) fn start(&mut self, call: &Call, id: &str) {
        let Request::CreateContainer(request) = &call.request else { panic!("not a create") };
        let (sandbox, name) = (request.sandbox.clone(), request.container.clone());
        self.apply(Event::ContainerCreated { call: call.id, container: id.into() });
        self.apply(Event::CallEnded(call.id));
        self.apply(Event::ContainerStarted(id.into()));
        let container =
            Container { id: id.into(), name, attempt: request.attempt, state: ContainerState::Running };
        self.runtime.insert(id.into(), (sandbox, container));
    }

    /// Creates a container that must be let through, and starts it.
    pub(super) fn launch(&mut self, pod: &Pod, name: &str) {
        let (call, verdict) = self.create(pod, name);
        assert!(matches!(verdict, Verdict::Forward | Verdict::Latch(_)), "{name}: {verdict:?}");
        self.start(&call, &format!("{name}-0"));
    }

    /// Ends the call, as the kubelet does after a refusal.
    pub(super) fn end(&mut self, call: &Call) {
        self.apply(Event::CallEnded(call.id));
    }

    /// The process ends, and nobody tells the agent.
    pub(super) fn exit(&mut self, id: &str, code: i32) {
        let (_, container) = self.runtime.get_mut(&ContainerId::from(id)).unwrap();
        container.state = ContainerState::Exited { code: Some(code) };
    }

    /// A PLEG relist: asked and answered.
    pub(super) fn relist(&mut self) {
        self.next += 1;
        let (call, connection) = (CallId(self.next), self.connection);
        self.apply(Event::RelistAsked { call, connection });
        self.apply(Event::RelistAnswered { call, connection });
    }

    pub(super) fn stop(&mut self, id: &str, timeout: u64) -> (Call, Verdict) {
        let call = self.call(Request::StopContainer(StopContainer {
            container: id.into(),
            timeout: Duration::from_secs(timeout),
        }));
        let verdict = self.ask(&call);
        (call, verdict)
    }
}

/// The clock's origin. Tests may read it; the core may not.
pub(crate) trait NowForTests {
    fn now_for_tests() -> Self;
}

impl NowForTests for Instant {
    #[allow(clippy::disallowed_methods, reason = "an origin for the test's own clock")]
    fn now_for_tests() -> Self {
        Self::now()
    }
}

pub(super) fn waiting(names: &[&str]) -> Verdict {
    Verdict::Refuse(Refusal::Waiting(names.iter().map(|name| ContainerName::from(*name)).collect()))
}

pub(super) fn latch(priority: i32) -> Verdict {
    Verdict::Latch(Latch { sandbox: "sandbox".into(), priority })
}

/// A pod whose containers, in spec order, have these priorities (as written in the manifest).
pub(super) fn pod(containers: &[(&str, &str)]) -> Pod {
    let declared = containers.iter().map(|(name, priority)| (*name, Some(EnvValue::Plain(priority))));
    Pod {
        pod: PodRef { uid: "uid".into(), namespace: "ns".into(), name: "pod".into() },
        order: LaunchOrder::declared(None, declared),
        restart_policy: RestartPolicy::Always,
        deletion: None,
        grace: Duration::from_secs(30),
        ended: false,
        ip: None,
        mirror: None,
        containers: containers
            .iter()
            .enumerate()
            .map(|(position, (name, _))| {
                let readiness = Readiness::Running;
                let spec = ContainerSpec {
                    position,
                    sidecar: false,
                    restart_policy: None,
                    restart_rules: Vec::new(),
                    readiness,
                    pre_stop: None,
                    graces: Vec::new(),
                    startup_probe: None,
                    readiness_probe: None,
                    ends_with_job: false,
                };
                (ContainerName::from(*name), spec)
            })
            .collect(),
        statuses: BTreeMap::new(),
        unready: None,
    }
}

impl Pod {
    pub(super) fn becomes_ready_by(mut self, name: &str, readiness: Readiness) -> Self {
        if let Some(container) = self.containers.get_mut(&ContainerName::from(name)) {
            container.readiness = readiness;
        }
        self
    }

    pub(super) fn report(mut self, name: &str, id: &str, ready: bool) -> Self {
        self.statuses
            .insert(name.into(), ContainerReport { id: id.into(), ready, restart_count: 0, ended: false });
        self
    }

    pub(super) fn restarts(mut self, policy: RestartPolicy) -> Self {
        self.restart_policy = policy;
        self
    }

    pub(super) fn deleting(mut self, grace: u64) -> Self {
        self.deletion = Some(Deletion { grace: Duration::from_secs(grace) });
        self
    }

    pub(super) fn seen(&self) -> Event {
        Event::PodSeen(Box::new(self.clone()))
    }
}
