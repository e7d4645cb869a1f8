//! A node with job sidecars, and an executor whose store and runtime do as they are told.

use std::time::Duration;

use crate::{
    Config, ContainerId, Effect, Event, Hook, Pod, PodEffect, Question, RestartPolicy, Restate,
    RuntimeEffect, SidecarMark, Step, StepOutcome, StoreEffect,
    tests::world::{KUBELET, World, pod},
};

/// A job's pod; the sidecars are those whose name begins with `s`.
pub(super) fn job(policy: RestartPolicy, containers: &[(&str, &str)]) -> Pod {
    let mut pod = pod(containers).restarts(policy);
    for (name, spec) in &mut pod.containers {
        spec.ends_with_job = name.as_str().starts_with('s');
    }
    pod
}

pub(super) fn hooked(mut pod: Pod, name: &str) -> Pod {
    let hook = Hook::Exec { command: vec!["bye".to_owned()] };
    pod.containers.get_mut(&name.into()).unwrap().pre_stop = Some(hook);
    pod
}

/// A node with an executor whose store and runtime do as they are told.
pub(super) struct Play {
    pub(super) world: World,
    pub(super) did: Vec<String>,
    stored: Vec<SidecarMark>,
    /// Stopped sidecars exit with this; `None`: they don't.
    pub(super) code: Option<i32>,
    /// The store does not take the marks of hooks.
    pub(super) is_full: bool,
}

impl Play {
    pub(super) fn of(pod: &Pod) -> Self {
        Self::with(Config::default(), pod)
    }

    pub(super) fn with(config: Config, pod: &Pod) -> Self {
        let (world, did, stored) = (World::with(config), Vec::new(), Vec::new());
        let mut play = Self { world, did, stored, code: Some(143), is_full: false };
        play.world.apply(pod.seen());
        play.world.apply(Event::ViewFresh(true));
        let mut names: Vec<_> =
            pod.containers.iter().map(|(name, spec)| (spec.position, name.to_string())).collect();
        names.sort();
        for (_, name) in names {
            play.world.launch(pod, &name);
        }
        play
    }

    /// The kubelet looks at a container, and what is owed then is done.
    pub(super) fn looks(&mut self, id: &str) {
        let container: ContainerId = id.into();
        self.world.pass(Duration::from_millis(100));
        self.world.apply(Event::StatusAsked { container, connection: KUBELET });
        self.settle();
    }

    pub(super) fn exits(&mut self, id: &str, code: i32) {
        self.world.exit(id, code);
        self.looks(id);
    }

    pub(super) fn settle(&mut self) {
        for _ in 0..50 {
            let steps = self.world.node.plan(self.world.now);
            if steps.is_empty() {
                return;
            }
            for step in steps {
                self.carry_out(step);
            }
        }
        panic!("never settles: {:?}", self.did);
    }

    pub(super) fn carry_out(&mut self, step: Step) {
        let effect = match step {
            Step::Question(Question::InspectSandbox(_)) => return self.world.inspect(),
            Step::Effect(effect) => effect,
            other => panic!("{other:?}"),
        };
        self.world.apply(Event::EffectBegan(effect.clone()));
        let mut outcome = StepOutcome::Done;
        match &effect {
            Effect::Store(StoreEffect::MarkSidecars(marks)) => {
                let words: Vec<&str> = marks.iter().map(|mark| mark.name.as_str()).collect();
                self.did.push(format!("mark {}", words.join(" ")));
                self.stored.extend(marks.iter().cloned());
            }
            Effect::Runtime(RuntimeEffect::StopContainer(stop)) if stop.mark.is_some() && self.is_full => {
                self.did.push(format!("no mark of {}", stop.container));
                outcome = StepOutcome::Failed;
            }
            Effect::Runtime(RuntimeEffect::StopContainer(stop)) => {
                if let Some(mark) = &stop.mark {
                    self.did.push(format!("mark {}+", mark.name));
                    self.stored.push(mark.clone());
                    self.world.apply(Event::HookBegins(stop.container.clone()));
                }
                let hook = if stop.hook.is_some() { " hook" } else { "" };
                self.did.push(format!("stop {} {}s{hook}", stop.container, stop.grace.as_secs()));
                match self.code {
                    Some(code) => self.world.exit(stop.container.as_str(), code),
                    None => outcome = StepOutcome::Failed,
                }
            }
            Effect::Store(StoreEffect::ForgetSidecars(gone)) => self.did.push(format!("forget {gone:?}")),
            Effect::Store(StoreEffect::ForgetMarks(request)) => self.did.push(format!("forget {request}")),
            Effect::Pod(_, PodEffect::Tell(notice)) => {
                let warning = if notice.warning { "!" } else { "" };
                self.did.push(format!("tell{warning} {}", notice.note));
            }
            other => panic!("{other:?}"),
        }
        self.world.apply(Event::EffectEnded(effect, outcome));
    }

    /// Returns the actions about sidecars since the last question, Events left out.
    pub(super) fn done(&mut self) -> Vec<String> {
        let did = std::mem::take(&mut self.did);
        did.into_iter().filter(|did| !did.starts_with("tell")).collect()
    }

    pub(super) fn shown(&self, id: &str) -> Restate {
        self.world.node.restate(KUBELET, &id.into(), self.world.now)
    }
}
