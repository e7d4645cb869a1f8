//! Knowledge of the model test itself, against which the agent's picture is held.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use super::play::{Play, name_of, pod, secs};
use crate::{
    ContainerId, ContainerName, Instance, InstanceState, PodMarks, PodUid, Probe, ProbeAction, ProbeEvent,
    ProbeLimits, ProbeResult, ProbeRun, ProbeState, ProbeStep, RunId, WantedPod, WantedProbe,
};

type Key = (PodUid, Arc<str>);

/// A run that the agent has given out.
pub(super) struct Begun {
    pub(super) run: ProbeRun,
    key: Key,
    /// The agent does not wait for it any longer then.
    until: Instant,
    /// The result is still asked for.
    valid: bool,
}

/// The state of a probe, told by results alone.
#[derive(Clone, Debug, Default)]
struct Naive {
    state: Option<ProbeState>,
    streak: u32,
    last: Option<ProbeState>,
}

pub(super) struct Truth {
    pub(super) play: Play,
    limits: ProbeLimits,
    pub(super) wanted: BTreeMap<PodUid, BTreeMap<Arc<str>, WantedProbe>>,
    pub(super) instances: BTreeMap<PodUid, BTreeMap<ContainerName, Instance>>,
    pub(super) runs: BTreeMap<RunId, Begun>,
    states: BTreeMap<Key, Naive>,
    /// When a refusal counts, if the instance lives until then.
    refused: BTreeMap<Key, Instant>,
    /// The last begin in the instance that is there, of the probe as it is asked.
    last_begin: BTreeMap<Key, Instant>,
    execs: Vec<Instant>,
    writes: Vec<Instant>,
    /// Labels and conditions the agent has written and should take away when nobody asks for them.
    pub(super) ours: BTreeMap<(PodUid, Arc<str>), BTreeSet<Arc<str>>>,
    /// Writes that were under way when their pod went.
    stray: BTreeSet<PodUid>,
    /// Nothing but what should happen does.
    pub(super) goes_well: bool,
}

impl Truth {
    pub(super) fn new(limits: ProbeLimits) -> Self {
        Self {
            play: Play::limited(limits),
            limits,
            wanted: BTreeMap::new(),
            instances: BTreeMap::new(),
            runs: BTreeMap::new(),
            states: BTreeMap::new(),
            refused: BTreeMap::new(),
            last_begin: BTreeMap::new(),
            execs: Vec::new(),
            writes: Vec::new(),
            ours: BTreeMap::new(),
            stray: BTreeSet::new(),
            goes_well: false,
        }
    }

    /// The model allows so many, whatever the agent was told.
    pub(super) fn limit_execs(&mut self, allowed: usize) {
        self.limits.exec_concurrent = allowed;
    }

    /// A fact, said twice while everything is possible.
    pub(super) fn apply(&mut self, event: &ProbeEvent) {
        if self.goes_well {
            return self.play.apply(event.clone());
        }
        self.play.apply(event.clone());
        let once = format!("{:?}", self.play.probes);
        self.play.apply(event.clone());
        assert_eq!(format!("{:?}", self.play.probes), once, "said again it means something else: {event:?}");
    }

    pub(super) fn want(&mut self, listed: Vec<(PodUid, Vec<WantedProbe>)>) {
        let old = std::mem::take(&mut self.wanted);
        for (uid, probes) in &listed {
            let probes = probes.iter().rev().map(|probe| (probe.name.clone(), probe.clone()));
            self.wanted.insert(uid.clone(), probes.collect());
        }
        let before =
            old.iter().flat_map(|(uid, probes)| probes.iter().map(move |(name, it)| (uid, name, it)));
        for (uid, name, before) in before {
            let key = (uid.clone(), name.clone());
            let after = self.wanted.get(uid).and_then(|probes| probes.get(name)).cloned();
            match &after {
                Some(after) if after.container == before.container => {
                    if after.paused != before.paused {
                        self.invalidate(&key);
                    }
                    if probe_of(after).action != probe_of(before).action {
                        self.invalidate(&key);
                        self.begin_anew(&key);
                        self.last_begin.remove(&key);
                    } else if after.probe != before.probe {
                        let naive = self.states.entry(key).or_default();
                        (naive.streak, naive.last) = (0, None);
                    }
                }
                Some(_) | None => self.forget(&key),
            }
        }
        let keys = self
            .wanted
            .iter()
            .flat_map(|(uid, probes)| probes.keys().map(|name| (uid.clone(), name.clone())));
        for key in keys.collect::<Vec<_>>() {
            if !self.states.contains_key(&key) {
                self.begin_anew(&key);
            }
        }
        let pods = listed.into_iter().map(|(uid, probes)| WantedPod { pod: pod(uid.as_str()), probes });
        self.apply(&ProbeEvent::Wanted(pods.collect()));
    }

    pub(super) fn place(&mut self, uid: &PodUid, containers: Option<BTreeMap<ContainerName, Instance>>) {
        let before = self.instances.remove(uid);
        if let Some(containers) = containers.clone() {
            self.instances.insert(uid.clone(), containers);
        }
        for name in self.wanted.get(uid).into_iter().flat_map(BTreeMap::keys).cloned().collect::<Vec<_>>() {
            let key = (uid.clone(), name);
            let container = &self.wanted[uid][&key.1].container;
            let place = |containers: Option<&BTreeMap<ContainerName, Instance>>| {
                containers.map(|all| all.get(container).map(|it| (it.id.clone(), is_up(it))))
            };
            let (old, new) = (place(before.as_ref()), place(containers.as_ref()));
            if old == new {
                continue;
            }
            self.invalidate(&key);
            self.last_begin.remove(&key);
            match new {
                None => drop(self.states.insert(key, Naive::default())),
                // It was never there, or is not there any more.
                Some(None) if !matches!(old, Some(Some(_))) => {}
                Some(None | Some((_, false))) => {
                    self.states.insert(key, Naive { state: Some(ProbeState::Failed), ..Naive::default() });
                }
                Some(Some((_, true))) => drop(self.states.insert(key, Naive::default())),
            }
        }
        if containers.is_none() {
            self.let_go(uid);
        }
        self.apply(&match containers {
            Some(containers) => ProbeEvent::Instances(uid.clone(), containers),
            None => ProbeEvent::PodGone(uid.clone()),
        });
    }

    pub(super) fn end_run(&mut self, id: RunId, result: ProbeResult) {
        let Some(begun) = self.runs.remove(&id) else { return };
        if begun.valid {
            match &result {
                ProbeResult::Refused(_) => drop(self.refused.insert(begun.key, self.play.now + secs(1))),
                _ => self.count(&begun.key, &result),
            }
        }
        self.play.runs.remove(&id);
        self.apply(&ProbeEvent::RunEnded(id, result));
    }

    /// The agent need not take anything away from it.
    pub(super) fn let_go(&mut self, uid: &PodUid) {
        self.ours.retain(|(pod, _), _| pod != uid);
        if self.play.marks.contains_key(uid) {
            self.stray.insert(uid.clone());
        }
    }

    /// Somebody else wrote this, whoever did before.
    pub(super) fn meddled(&mut self, pod: &str, key: &str, value: Option<&str>) {
        if let Some(values) = self.ours.get_mut(&(pod.into(), key.into())) {
            values.retain(|ours| Some(&**ours) != value);
        }
        self.play.label(pod, key, value);
    }

    /// A write has ended.
    pub(super) fn wrote(&mut self, marks: &PodMarks, written: bool) {
        if self.stray.remove(&marks.pod.uid) || !written {
            return;
        }
        for (key, value) in &marks.labels {
            let values = self.ours.entry((marks.pod.uid.clone(), key.clone())).or_default();
            values.extend(value.clone());
        }
        for kind in marks.conditions.keys() {
            self.ours.entry((marks.pod.uid.clone(), kind.clone())).or_default();
        }
    }

    /// Takes what is owed.
    pub(super) fn plan(&mut self) -> Vec<String> {
        let now = self.play.now;
        self.give_up();
        self.settle_refusals();
        let steps = self.play.probes.plan(now);
        steps.iter().for_each(|step| self.check_step(step));
        assert_eq!(self.play.probes.plan(now), [], "a step is given out once");
        assert!(self.play.probes.next_deadline().is_none_or(|next| next > now), "it spins");
        self.check_states();
        steps.into_iter().map(|step| self.play.take(step)).collect()
    }

    fn check_step(&mut self, step: &ProbeStep) {
        let now = self.play.now;
        match step {
            ProbeStep::Run(id, run) => self.check_run(*id, run),
            ProbeStep::Look(pod) => assert!(!self.play.looks.contains(&pod.uid), "looked at twice: {pod:?}"),
            ProbeStep::Mark(marks) => {
                assert!(!self.play.marks.contains_key(&marks.pod.uid), "two writes at once: {marks:?}");
                assert!(!marks.conditions.is_empty() || !marks.labels.is_empty(), "an empty write");
                self.writes.push(now);
                check_rate(&self.writes, self.limits.write_every, self.limits.write_burst);
            }
            ProbeStep::Report(_) => assert!(self.play.report.is_none(), "two reports at once"),
            ProbeStep::EmitEvent(_) => {}
        }
    }

    fn check_run(&mut self, id: RunId, run: &ProbeRun) {
        let now = self.play.now;
        let key = (run.pod.uid.clone(), Arc::from(name_of(&run.action)));
        let wanted = self.wanted.get(&key.0).and_then(|probes| probes.get(&key.1)).expect("it is not wanted");
        let probe = probe_of(wanted);
        assert!(!wanted.paused, "it is paused");
        assert_eq!(run.action, probe.action, "an older question");
        let instance = &self.instances[&key.0][&wanted.container];
        assert_eq!((&run.container, &run.sandbox), (&instance.id, &instance.sandbox), "another instance");
        let InstanceState::Running { since } = instance.state else { panic!("it does not run") };
        assert!(now >= since + probe.initial_delay, "too early");
        assert!(!self.refused.contains_key(&key), "its last run does not count yet: {key:?}");
        let last = self.last_begin.insert(key.clone(), now);
        assert!(last.is_none_or(|last| now >= last + probe.period), "too often: {key:?}");
        let same = |begun: &&Begun| begun.key == key && begun.run.container == run.container;
        assert!(!self.runs.values().any(|begun| same(&begun)), "two runs at once: {key:?}");

        let until = now + run.timeout + Duration::from_secs(10);
        self.runs.insert(id, Begun { run: run.clone(), key: key.clone(), until, valid: true });
        let exec = is_exec(&run.action);
        let like = || self.runs.values().filter(|begun| is_exec(&begun.run.action) == exec);
        let (all, of_pod) = match exec {
            true => (self.limits.exec_concurrent, self.limits.exec_concurrent_per_pod),
            false => (self.limits.other_concurrent, self.limits.other_concurrent_per_pod),
        };
        assert!(like().count() <= all, "too many at once");
        assert!(like().filter(|begun| begun.key.0 == key.0).count() <= of_pod, "too many of a pod at once");
        if exec {
            self.execs.push(now);
            check_rate(&self.execs, self.limits.exec_every, self.limits.exec_burst);
        }
    }

    fn give_up(&mut self) {
        let now = self.play.now;
        let lost = self.runs.iter().filter(|(_, begun)| begun.until <= now).map(|(id, _)| *id);
        for id in lost.collect::<Vec<_>>() {
            let begun = self.runs.remove(&id).unwrap();
            self.play.runs.remove(&id);
            if begun.valid {
                self.count(&begun.key, &ProbeResult::Unknown("lost".to_owned()));
            }
        }
    }

    fn settle_refusals(&mut self) {
        let now = self.play.now;
        let due = self.refused.iter().filter(|(_, counts)| **counts <= now).map(|(key, _)| key.clone());
        for key in due.collect::<Vec<_>>() {
            self.refused.remove(&key);
            self.count(&key, &ProbeResult::Unknown("refused".to_owned()));
        }
    }

    fn count(&mut self, key: &Key, result: &ProbeResult) {
        let probe = probe_of(&self.wanted[&key.0][&key.1]).clone();
        let (state, threshold) = match result {
            ProbeResult::Success(_) => (ProbeState::Succeeded, probe.success_threshold),
            ProbeResult::Failure(_) => (ProbeState::Failed, probe.failure_threshold),
            ProbeResult::Unknown(_) | ProbeResult::Refused(_) => {
                (ProbeState::Unknown, probe.failure_threshold)
            }
        };
        let naive = self.states.get_mut(key).unwrap();
        naive.streak = if naive.last == Some(state) { naive.streak + 1 } else { 1 };
        naive.last = Some(state);
        if naive.streak >= threshold {
            naive.state = Some(state);
        }
    }

    fn check_states(&self) {
        let views = self.play.probes.explain();
        assert_eq!(views.len(), self.states.len());
        for view in views {
            let naive = &self.states[&(view.pod.uid.clone(), view.name.clone())];
            assert_eq!(view.state, naive.state.unwrap_or(ProbeState::Unknown), "{view:?}");
        }
        let size = self.play.probes.size();
        assert_eq!(size.runs, self.runs.len());
        assert_eq!(size.containers, self.instances.values().map(BTreeMap::len).sum::<usize>());
        assert!(size.pods <= super::model::PODS.len());
    }

    /// Every probe that can run did so within its period and what the turns of all others take.
    pub(super) fn check_turns(&self) {
        let others = u32::try_from(self.states.len()).unwrap();
        for ((uid, name), wanted) in self.wanted.iter().flat_map(|(uid, probes)| {
            probes.iter().map(move |(name, wanted)| ((uid.clone(), name.clone()), wanted))
        }) {
            let instance = self.instances.get(&uid).and_then(|all| all.get(&wanted.container));
            if wanted.paused || !instance.is_some_and(is_up) {
                continue;
            }
            let last = self.last_begin.get(&(uid.clone(), name.clone())).expect("it never ran");
            let bound = probe_of(wanted).period + self.limits.exec_every * others;
            assert!(self.play.now - *last <= bound, "{uid} {name} starves");
        }
    }

    fn forget(&mut self, key: &Key) {
        self.invalidate(key);
        self.last_begin.remove(key);
        self.states.remove(key);
    }

    fn invalidate(&mut self, key: &Key) {
        self.runs.values_mut().filter(|begun| begun.key == *key).for_each(|begun| begun.valid = false);
        self.refused.remove(key);
    }

    fn begin_anew(&mut self, key: &Key) {
        let container = &self.wanted[&key.0][&key.1].container;
        let was_failed = self.states.get(key).is_some_and(|naive| naive.state == Some(ProbeState::Failed));
        let state = match self.instances.get(&key.0).map(|all| all.get(container)) {
            Some(Some(instance)) if !is_up(instance) => Some(ProbeState::Failed),
            Some(None) if was_failed => Some(ProbeState::Failed),
            _ => None,
        };
        self.states.insert(key.clone(), Naive { state, ..Naive::default() });
    }
}

/// Never more than the bucket holds.
fn check_rate(begins: &[Instant], every: Duration, burst: u32) {
    let last = begins.len() - 1;
    for (first, begin) in begins.iter().enumerate().rev().take(50) {
        let many = u32::try_from(last - first).unwrap();
        assert!(begins[last] - *begin >= every * (many + 1).saturating_sub(burst), "too many in a time");
    }
}

fn probe_of(wanted: &WantedProbe) -> &Probe {
    wanted.probe.as_ref().unwrap()
}

fn is_exec(action: &ProbeAction) -> bool {
    matches!(action, ProbeAction::Exec { .. })
}

fn is_up(instance: &Instance) -> bool {
    matches!(instance.state, InstanceState::Running { .. })
}

pub(super) fn instance(pod: &PodUid, container: &str, attempt: u32, state: InstanceState) -> Instance {
    let id: ContainerId = format!("{pod}-{container}-{attempt}").into();
    Instance { id, sandbox: format!("{pod}-sandbox").into(), state }
}
