//! Sequences of events with the largest and smallest numbers, against the three cores of the policy: whatever
//! authors write and in whatever order it comes, no evaluation panics. The bytes choose what happens next.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use berth_policy::{
    Call, CallId, Config, ConnectionId, Container, ContainerSpec, ContainerState, CreateContainer,
    Credentials, Declared, Deletion, Event, Hook, ImageEvent, ImageLimits, ImageReference, ImageStep, Images,
    Instance as ProbedInstance, InstanceState, Markers, Node, Origin, Pod, PodRef, Probe, ProbeAction,
    ProbeEvent, ProbeLimits, ProbeOutcome, ProbeResult, ProbeStep, Probes, PullFailure, Readiness,
    RecreateReport, RecreateRequest, RecreateStrategy, RecreateTarget, Request, RestartPolicy, RestartRule,
    Restate, Step, StepOutcome, StopContainer, Turn, Unready, WantedPod, WantedProbe, Wish, WishId,
    WishSource,
    launch_priority::{EnvValue, LaunchOrder},
    time::later,
};

use crate::base::extremes::{LENGTHS, MOST};

const KUBELET: ConnectionId = ConnectionId(1);

/// Plays what the bytes say.
pub fn events(data: &[u8]) {
    let mut play = Play::new();
    let mut bytes = data.iter().copied();
    for _ in 0..MOST {
        let (Some(what), Some(which)) = (bytes.next(), bytes.next()) else { break };
        play.next(what, which);
        play.look(which);
    }
    assert_eq!(play.node.panics(), 0, "an evaluation of the node panicked");
    assert_eq!(play.images.panics(), 0, "an evaluation of images panicked");
    assert_eq!(play.probes.panics(), 0, "an evaluation of probes panicked");
}

struct Play {
    node: Node,
    images: Images,
    probes: Probes,
    now: Instant,
    calls: u64,
    made: u32,
}

impl Play {
    fn new() -> Self {
        let now = crate::agent::now();
        let limits = ImageLimits { parallel: 2, per_registry: 1, seed: 1 };
        let mut node = Node::new(Config::default());
        node.apply(Event::ViewFresh(true), now);
        node.apply(Event::RecreatesListed(Origin::Api, Vec::new()), now);
        let (images, probes) = (Images::new(limits), Probes::new(ProbeLimits::default(), now));
        Self { node, images, probes, now, calls: 0, made: 0 }
    }

    fn call(&mut self, request: Request) -> Call {
        self.calls += 1;
        let length = LENGTHS[usize::try_from(self.calls).unwrap_or(0) % LENGTHS.len()];
        let deadline = Some(later(self.now, length));
        Call { id: CallId(self.calls), connection: KUBELET, arrived: self.now, deadline, request }
    }

    fn next(&mut self, what: u8, which: u8) {
        let (now, length) = (self.now, LENGTHS[usize::from(which) % LENGTHS.len()]);
        let (pod, name) = (pod_of(which), ["m", "s"][usize::from(which / 3) % 2]);
        let newest = format!("{}-{name}-{}", pod.uid, self.made);
        match what % 16 {
            0 => self.node.apply(Event::PodSeen(Box::new(shown(which, length))), now),
            1 => self.create(pod, name),
            2 => {
                let sandbox = sandbox_of(&pod);
                let code = Some(i32::from(which) * 1_000_000);
                let state =
                    if which > 128 { ContainerState::Exited { code } } else { ContainerState::Running };
                let container =
                    Container { id: newest.as_str().into(), name: name.into(), attempt: self.made, state };
                self.node.apply(Event::SandboxInspected { sandbox, containers: vec![container] }, now);
            }
            3 => {
                let request = recreate(which, &pod, name, &newest, length, now);
                self.node.apply(Event::RecreateSeen(Box::new(request)), now);
            }
            4 => self.now = later(now, length.min(Duration::from_secs(400 * 24 * 3600))),
            5 => {
                let stop = StopContainer { container: newest.as_str().into(), timeout: length };
                let call = self.call(Request::StopContainer(stop));
                self.node.admit(&call, now);
                if which > 128 {
                    self.node.apply(Event::CallEnded(call.id), now);
                }
            }
            6 => {
                self.calls += 1;
                let (call, connection) = (CallId(self.calls), KUBELET);
                self.node.apply(Event::RelistAsked { call, connection }, now);
                self.node.nudges(call, now);
                self.node.apply(Event::RelistAnswered { call, connection }, now);
            }
            7 => {
                if let Restate::Once(mark) = self.node.restate(KUBELET, &newest.as_str().into(), now) {
                    self.node.apply(Event::MarkWritten(mark, KUBELET), now);
                }
                self.calls += 1;
                let (call, container) = (CallId(self.calls), newest.as_str().into());
                self.node.apply(Event::HookAsked { call, container, connection: KUBELET }, now);
                if let Turn::Once(mark) = self.node.hook_begins(&newest.as_str().into()) {
                    self.node.apply(Event::MarkWritten(mark, KUBELET), now);
                }
                if which > 128 {
                    self.node.apply(Event::CallEnded(call), now);
                }
            }
            8 => self.node.apply(Event::PodGone(pod.uid), now),
            9 => self.node.apply(Event::RecreateGone(format!("r{}", which % 5).as_str().into()), now),
            10 => self.images.apply(ImageEvent::WishSeen(Box::new(wish(which, length))), now),
            11 => self.images.apply(ImageEvent::WishGone(wish(which, length).id), now),
            12 => self.probes.apply(ProbeEvent::Wanted(vec![wanted(which, length)]), now),
            13 => {
                let instance = ProbedInstance {
                    id: newest.as_str().into(),
                    sandbox: sandbox_of(&pod),
                    state: InstanceState::Running { since: now },
                };
                let instances = BTreeMap::from([(name.into(), instance)]);
                self.probes.apply(ProbeEvent::Instances(pod.uid, instances), now);
            }
            14 => self.probes.apply(ProbeEvent::PodGone(pod.uid), now),
            _ => self.node.apply(Event::ConnectionClosed(KUBELET), now),
        }
    }

    fn create(&mut self, pod: PodRef, name: &str) {
        self.made += 1;
        let id = format!("{}-{name}-{}", pod.uid, self.made);
        let create = CreateContainer {
            sandbox: sandbox_of(&pod),
            pod,
            container: name.into(),
            attempt: self.made,
            declared: Declared::default(),
            images: Vec::new(),
        };
        let call = self.call(Request::CreateContainer(create));
        self.node.admit(&call, self.now);
        let created = Event::ContainerCreated { call: call.id, container: id.as_str().into() };
        for event in [created, Event::CallEnded(call.id), Event::ContainerStarted(id.as_str().into())] {
            self.node.apply(event, self.now);
        }
    }

    /// Plans, and carries out what is owed, or lets it fail, or never ends it.
    fn look(&mut self, which: u8) {
        let now = self.now;
        let outcome = [StepOutcome::Done, StepOutcome::Gone, StepOutcome::Failed][usize::from(which) % 3];
        for step in self.node.plan(now) {
            let Step::Effect(effect) = step else { continue };
            self.node.apply(Event::EffectBegan(effect.clone()), now);
            if !which.is_multiple_of(4) {
                self.node.apply(Event::EffectEnded(effect, outcome), now);
            }
        }
        let _ = self.node.next_deadline();
        for step in self.images.plan(now) {
            match step {
                ImageStep::Look(image) => self.images.apply(ImageEvent::Looked { image, found: None }, now),
                ImageStep::Pull(order) => {
                    let result = Err(PullFailure::TimedOut(order.timeout));
                    self.images.apply(ImageEvent::PullEnded { pull: order.pull, result }, now);
                }
                _ => {}
            }
        }
        let _ = self.images.next_deadline();
        for step in self.probes.plan(now) {
            match step {
                ProbeStep::Run(run, _) if !which.is_multiple_of(4) => {
                    let result = match which % 4 {
                        1 => ProbeResult::Refused(String::new()),
                        _ => ProbeResult::Failure(String::new()),
                    };
                    self.probes.apply(ProbeEvent::RunEnded(run, result), now);
                }
                ProbeStep::Look(pod) => {
                    self.probes.apply(ProbeEvent::LookEnded(pod.uid, ProbeOutcome::Failed), now);
                }
                _ => {}
            }
        }
        let _ = self.probes.next_deadline();
    }
}

fn pod_of(which: u8) -> PodRef {
    let name = format!("p{}", which % 3);
    PodRef { uid: name.as_str().into(), namespace: "ns".to_owned(), name }
}

fn sandbox_of(pod: &PodRef) -> berth_policy::SandboxId {
    format!("sandbox-of-{}", pod.uid).as_str().into()
}

fn probe(length: Duration) -> Probe {
    Probe {
        action: ProbeAction::Exec { command: Vec::new() },
        initial_delay: length,
        timeout: length,
        period: length,
        success_threshold: u32::MAX,
        failure_threshold: u32::MAX,
    }
}

fn shown(which: u8, length: Duration) -> Pod {
    let policies = [RestartPolicy::Never, RestartPolicy::OnFailure, RestartPolicy::Always];
    let priorities = [("m", "2147483647"), ("s", "-2147483647")];
    let declared = priorities.map(|(name, priority)| (name, Some(EnvValue::Plain(priority))));
    let spec = |position: usize, job: bool| ContainerSpec {
        position,
        sidecar: false,
        restart_policy: (which > 200).then_some(policies[usize::from(which) % policies.len()]),
        restart_rules: if which > 240 { vec![RestartRule::NotIn(vec![i32::MIN])] } else { Vec::new() },
        readiness: Readiness::ReadinessProbe,
        pre_stop: Some(Hook::Sleep(length)),
        graces: vec![length],
        startup_probe: Some(probe(length)),
        readiness_probe: Some(probe(length)),
        ends_with_job: job,
    };
    Pod {
        pod: pod_of(which),
        order: LaunchOrder::declared(None, declared),
        restart_policy: policies[usize::from(which) % policies.len()],
        deletion: (which > 230).then_some(Deletion { grace: length }),
        grace: length,
        ended: which == 229,
        ip: None,
        mirror: None,
        containers: BTreeMap::from([("m".into(), spec(0, false)), ("s".into(), spec(1, true))]),
        statuses: BTreeMap::new(),
        unready: Some(Unready::default()),
    }
}

fn recreate(
    which: u8,
    pod: &PodRef,
    name: &str,
    id: &str,
    length: Duration,
    now: Instant,
) -> RecreateRequest {
    RecreateRequest {
        id: format!("r{}", which % 5).as_str().into(),
        origin: Origin::Api,
        key: format!("ns/r{}", which % 5),
        created: now,
        pod: pod.uid.clone(),
        named: None,
        containers: vec![RecreateTarget { name: name.into(), instance: id.into() }],
        strategy: RecreateStrategy {
            grace: Some(length),
            unready_grace: (which > 128).then_some(length),
            min_started: length,
            ..RecreateStrategy::default()
        },
        deadline: now.checked_add(length),
        delete_after: Some(length),
        reported: RecreateReport::default(),
        ended: None,
        unready_since: None,
    }
}

fn wish(which: u8, length: Duration) -> Wish {
    let text: Arc<str> = format!("registry.test/image-{}", which % 3).into();
    let (given, record, registry, repository) =
        (text.clone(), text.clone(), "registry.test".into(), text.clone());
    Wish {
        id: WishId { source: WishSource::Api, key: text },
        image: ImageReference { given, record, registry, repository },
        version: i64::MAX,
        always: which > 128,
        timeout: length,
        retries: u32::MAX,
        deadline: Some(length),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        credentials: Credentials::Node,
        pin: Some(length),
        settled: None,
    }
}

fn wanted(which: u8, length: Duration) -> WantedPod {
    let probe = WantedProbe {
        name: "marker#probe".into(),
        container: ["m", "s"][usize::from(which / 3) % 2].into(),
        probe: Ok(probe(length)),
        condition_type: Some("idle".into()),
        succeeded: Markers::default(),
        failed: Markers::default(),
        paused: which > 128,
    };
    WantedPod { pod: pod_of(which), probes: vec![probe] }
}
