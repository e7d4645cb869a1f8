//! A request, the agent, the kubelet and the runtime, on one stage.

use std::time::Duration;

use crate::tests::world::{World, pod};
use crate::{
    CallId, ConnectionId, ContainerName, ContainerPhase, ContainerState, Effect, Event, Hook, HookTurn,
    Origin, Outcome, Pod, PodEffect, Question, RecreateMark, RecreateReport, RecreateRequest,
    RecreateStrategy, RecreateTarget, RequestEffect, RequestPhase, Restate, RuntimeEffect, SandboxId,
    Showing, Step, StepOutcome, StoreEffect, Turn, Verdict,
};

/// A node on which everything is carried out at once, and written down.
pub(super) struct Play {
    pub(super) world: World,
    pub(super) pod: Pod,
    /// Marks in the store.
    pub(super) store: Vec<RecreateMark>,
    pub(super) reports: Vec<(String, RecreateReport)>,
    /// Steps that had an effect in the world, as one word each.
    pub(super) effects: Vec<String>,
    pub(super) instances: u32,
    pub(super) lists: u64,
}

impl Play {
    /// A pod whose containers all run, Ready.
    pub(super) fn new(pod: Pod) -> Self {
        Self::on(crate::Config::default(), pod)
    }

    pub(super) fn on(config: crate::Config, pod: Pod) -> Self {
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
    pub(super) fn start(&mut self, name: &str) -> String {
        let (call, verdict) = self.world.create(&self.pod.clone(), name);
        assert!(matches!(verdict, Verdict::Forward | Verdict::Latch(_)), "{name}: {verdict:?}");
        self.instances += 1;
        let id = format!("{name}-{}", self.instances);
        self.world.start(&call, &id);
        self.reports_ready(name, &id, true);
        id
    }

    pub(super) fn reports_ready(&mut self, name: &str, id: &str, ready: bool) {
        self.pod = self.pod.clone().report(name, id, ready);
        self.world.apply(self.pod.seen());
        self.settle();
    }

    pub(super) fn request(&mut self, id: &str, containers: &[&str], strategy: RecreateStrategy) {
        let request = self.asks(id, containers, strategy);
        self.world.apply(Event::RecreateSeen(Box::new(request)));
        self.settle();
    }

    pub(super) fn asks(&self, id: &str, containers: &[&str], strategy: RecreateStrategy) -> RecreateRequest {
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
            named: None,
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
    pub(super) fn settle(&mut self) {
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

    pub(super) fn carry_out(&mut self, step: Step) {
        let effect = match step {
            Step::Question(Question::InspectSandbox(sandbox)) => {
                self.world.apply(Event::InspectionStarted(sandbox.clone()));
                let containers = self.world.runtime.values().filter(|(home, _)| *home == sandbox);
                let containers = containers.map(|(_, container)| container.clone()).collect();
                self.world.apply(Event::SandboxInspected { sandbox, containers });
                return;
            }
            Step::Question(Question::PollKubelet | Question::Probe(_)) | Step::ForgetLatches(_) => return,
            Step::Effect(effect) => effect,
        };
        match &effect {
            Effect::Store(StoreEffect::MarkSidecars(marks)) => {
                self.effects.extend(marks.iter().map(|mark| format!("end {}", mark.container)));
            }
            Effect::Store(StoreEffect::ForgetSidecars(gone)) => {
                self.effects.push(format!("forget sidecars {gone:?}"));
            }
            Effect::Pod(_, PodEffect::Tell(notice)) => {
                self.effects.push(format!("tell{}", if notice.warning { " warning" } else { "" }));
            }
            Effect::Runtime(RuntimeEffect::RemoveContainers(ids)) => {
                for id in ids {
                    self.world.runtime.remove(id);
                    self.effects.push(format!("remove {id}"));
                }
            }
            Effect::Store(StoreEffect::WriteMarks(marks)) => {
                let words: Vec<String> =
                    marks.iter().map(|mark| format!("{} {:?}", mark.container, mark.phase)).collect();
                self.effects.push(format!("mark {}", words.join(", ")));
                self.store.extend(marks.iter().cloned());
            }
            Effect::Store(StoreEffect::ForgetMarks(request)) => {
                self.store.retain(|mark| mark.request != *request);
                self.effects.push(format!("forget {request}"));
            }
            Effect::Runtime(RuntimeEffect::StopContainer(stop)) => {
                let hook = if stop.hook.is_some() { " with hook" } else { "" };
                self.effects.push(format!("stop {} {}s{hook}", stop.container, stop.grace.as_secs()));
                self.world.exit(stop.container.as_str(), 143);
            }
            Effect::Request(_, id, RequestEffect::Report(report)) => {
                self.reports.push((id.to_string(), report.clone()));
            }
            Effect::Pod(_, PodEffect::HoldUnready(key)) => self.effects.push(format!("hold {key}")),
            Effect::Pod(_, PodEffect::ReleaseUnready(key)) => {
                self.effects.push(format!("release {key}"));
                self.pod.unready.as_mut().unwrap().requests.clear();
                self.world.apply(self.pod.seen());
            }
            Effect::Pod(pod, PodEffect::OpenGate) => {
                self.effects.push(format!("open {}", pod.name));
                self.pod.unready.as_mut().unwrap().unwritten = false;
                self.world.apply(self.pod.seen());
            }
            Effect::Request(_, id, RequestEffect::Delete) => self.effects.push(format!("delete {id}")),
        }
        self.world.apply(Event::EffectBegan(effect.clone()));
        self.world.apply(Event::EffectEnded(effect, StepOutcome::Done));
    }

    /// A relist of the kubelet; how many pods it is nudged to look at.
    pub(super) fn relist(&mut self) -> usize {
        self.lists += 1;
        let (call, connection) = (CallId(self.lists), self.world.connection);
        self.world.apply(Event::RelistAsked { call, connection });
        let nudges = self.world.node.nudges(call, self.world.now);
        self.world.apply(Event::RelistAnswered { call, connection });
        self.world.apply(Event::CallEnded(call));
        nudges.len()
    }

    /// The kubelet looks at a container: does it see a changed definition?
    pub(super) fn looks(&mut self, id: &str) -> bool {
        self.sees(id) == Showing::OtherDefinition
    }

    pub(super) fn runs(&self, id: &str) -> bool {
        let container = self.world.runtime.values().find(|(_, container)| container.id.as_str() == id);
        container.is_some_and(|(_, container)| container.state == ContainerState::Running)
    }

    pub(super) fn sees(&mut self, id: &str) -> Showing {
        let asked = self.world.now;
        for _ in 0..3 {
            match self.world.node.restate(self.world.connection, &id.into(), asked) {
                Restate::Show(showing) => return showing,
                Restate::Once(mark) => {
                    self.write(mark);
                    return Showing::OtherDefinition;
                }
                Restate::Later => {
                    self.world.pass(Duration::from_secs(1));
                    self.settle();
                }
            }
        }
        panic!("nobody looks at the runtime")
    }

    /// The kubelet begins the hook; whether it runs.
    pub(super) fn hook(&mut self, id: &str) -> bool {
        match self.world.node.hook_begins(&id.into()) {
            Turn::Take(turn) => turn == HookTurn::Run,
            Turn::Once(mark) => {
                self.write(mark);
                true
            }
        }
    }

    pub(super) fn write(&mut self, mark: RecreateMark) {
        self.store.retain(|old| old.container != mark.container);
        self.store.push(mark.clone());
        self.world.apply(Event::MarkWritten(mark, self.world.connection));
        self.settle();
    }

    /// The kubelet stops a container; how the call is let through.
    pub(super) fn stop(&mut self, id: &str, timeout: u64) -> Verdict {
        let (call, verdict) = self.world.stop(id, timeout);
        self.world.exit(id, 0);
        self.world.apply(Event::ContainerStopped(id.into()));
        self.world.apply(Event::CallEnded(call.id));
        self.settle();
        verdict
    }

    /// The whole way of one container through the kubelet.
    pub(super) fn replaced_by_kubelet(&mut self, name: &str, id: &str) -> String {
        assert!(self.relist() > 0, "no nudge");
        assert!(self.looks(id), "{id} is not shown");
        self.stop(id, 30);
        self.start(name)
    }

    /// berthd is killed, and comes back with its store and an empty memory.
    pub(super) fn dies(&mut self) {
        self.comes_back();
        self.lists();
        self.settle();
    }

    /// The same, and the runtime does not answer its list.
    pub(super) fn comes_back(&mut self) {
        let requests: Vec<RecreateRequest> = self.known_requests();
        let mut world = World::with(crate::Config::default());
        std::mem::swap(&mut world.runtime, &mut self.world.runtime);
        world.now = self.world.now;
        world.connection = ConnectionId(self.world.connection.0 + 1);
        self.world = world;
        self.world.apply(Event::MarksLoaded(self.store.clone()));
        self.world.apply(Event::ViewFresh(true));
        self.world.apply(Event::PodsListed(vec![self.pod.clone()]));
        self.world.apply(Event::RecreatesListed(Origin::Api, requests));
    }

    pub(super) fn lists(&mut self) {
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
    }

    /// As the API server has them: with what was reported last.
    pub(super) fn known_requests(&self) -> Vec<RecreateRequest> {
        let mut requests = self.world.node.asked_requests();
        for request in &mut requests {
            let last = self.reports.iter().rfind(|(id, _)| *id == request.id.as_str());
            request.reported = last.map(|(_, report)| report.clone()).unwrap_or_default();
        }
        requests
    }

    pub(super) fn last(&self, id: &str) -> &RecreateReport {
        &self.reports.iter().rfind(|(request, _)| request == id).unwrap().1
    }

    pub(super) fn phases(&self, id: &str) -> Vec<(&str, ContainerPhase)> {
        self.last(id).containers.iter().map(|progress| (progress.name.as_str(), progress.phase)).collect()
    }

    pub(super) fn succeeded(&self, id: &str) {
        let report = self.last(id);
        assert_eq!(report.outcome, Some(Outcome::Complete), "{report:?}");
        assert_eq!(report.phase, Some(RequestPhase::Completed));
    }
}

pub(super) fn one() -> Pod {
    pod(&[("a", "0")])
}

pub(super) fn with_hook(mut pod: Pod, name: &str, hook: Hook) -> Pod {
    pod.containers.get_mut(&ContainerName::from(name)).unwrap().pre_stop = Some(hook);
    pod
}

pub(super) fn exec() -> Hook {
    Hook::Exec { command: vec!["bye".to_owned()] }
}

pub(super) fn http() -> Hook {
    Hook::Http { host: None, port: 80, path: "/bye".to_owned(), https: false, headers: Vec::new() }
}

pub(super) fn strategy() -> RecreateStrategy {
    RecreateStrategy::default()
}
