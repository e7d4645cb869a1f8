//! Random requests, answers, failures and deaths, a kubelet that works when it likes, and a watch that lags.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use proptest::prelude::*;

use super::{
    super::model::{NAMES, Shape, keys, shape, world},
    play::Play,
};
use crate::{
    ContainerName, RequestId, StepOutcome,
    in_place_update::{
        Gate, ImageMatch, Life, Metadata, PodPatch, PodWrite, Reason, UpdateAction, UpdateOutcome,
        UpdateRequest, UpdateSource, WriteOutcome,
    },
};

const MOST_REQUESTS: usize = 4;
/// The shortest pause after a failure.
const PAUSE: Duration = Duration::from_millis(200);
/// The kubelet knows what the watch has shown.
const SETTLED: Duration = Duration::from_millis(100);
/// A container without a probe runs steadily.
const STEADY: Duration = Duration::from_millis(400);
/// The kubelet's look after a removal is waited for so long; and what it makes of the look.
const RELIST: Duration = Duration::from_millis(1500);
const INSPECTION: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
enum Op {
    Ask(Box<Wish>),
    /// It is deleted.
    TakeBack(usize),
    Fetch(bool),
    Inspect(bool),
    Step(Answer),
    Report(usize, StepOutcome),
    Delete(StepOutcome),
    PullEnds,
    KubeletLearns,
    KubeletSyncs(usize),
    BecomesReady(usize),
    KubeletReports(usize),
    Exits(usize),
    Relists,
    WatchShows,
    WatchLists,
    ExecutorLost,
    Dies,
    Pass(u16),
    /// Until something may be owed.
    Wait,
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    Done,
    /// It was written, and the answer said that somebody else was faster.
    DoneUnheard,
    Outdated,
    /// As an API server that comes up refuses.
    Refused,
    Failed,
}

#[derive(Clone, Debug)]
struct Wish {
    /// By container; 0: none.
    images: [u8; 3],
    values: [u8; 4],
    source: UpdateSource,
}

fn wish() -> impl Strategy<Value = Wish> {
    let images = prop::array::uniform3(prop_oneof![1 => Just(0), 2 => 1..4_u8]);
    let values = prop::array::uniform4(prop_oneof![2 => Just(0), 1 => 1..4_u8]);
    let source = prop_oneof![Just(UpdateSource::Api), Just(UpdateSource::Admin)];
    (images, values, source)
        .prop_filter("asks for something", |(images, values, _)| {
            images.iter().chain(values).any(|wanted| *wanted > 0)
        })
        .prop_map(|(images, values, source)| Wish { images, values, source })
}

fn outcome() -> impl Strategy<Value = StepOutcome> {
    prop_oneof![4 => Just(StepOutcome::Done), 1 => Just(StepOutcome::Failed)]
}

fn op() -> impl Strategy<Value = Op> {
    let works = || prop::bool::weighted(0.8);
    let answer = prop_oneof![
        8 => Just(Answer::Done),
        1 => Just(Answer::DoneUnheard),
        1 => Just(Answer::Outdated),
        1 => Just(Answer::Refused),
        1 => Just(Answer::Failed),
    ];
    prop_oneof![
        1 => wish().prop_map(|wish| Op::Ask(Box::new(wish))),
        1 => (0..4_usize).prop_map(Op::TakeBack),
        6 => works().prop_map(Op::Fetch),
        8 => works().prop_map(Op::Inspect),
        8 => answer.prop_map(Op::Step),
        8 => (0..3_usize, outcome()).prop_map(|(which, how)| Op::Report(which, how)),
        2 => outcome().prop_map(Op::Delete),
        4 => Just(Op::PullEnds),
        3 => Just(Op::KubeletLearns),
        8 => (0..3_usize).prop_map(Op::KubeletSyncs),
        4 => (0..3_usize).prop_map(Op::BecomesReady),
        6 => (0..3_usize).prop_map(Op::KubeletReports),
        1 => (0..3_usize).prop_map(Op::Exits),
        3 => Just(Op::Relists),
        6 => Just(Op::WatchShows),
        1 => Just(Op::WatchLists),
        1 => Just(Op::ExecutorLost),
        1 => Just(Op::Dies),
        4 => (1..2000_u16).prop_map(Op::Pass),
        4 => Just(Op::Wait),
    ]
}

struct Truth {
    play: Play,
    asked: usize,
    /// When something about the pod failed last, and which requests could not be written.
    failed: Option<Instant>,
    unwritten: BTreeMap<RequestId, Instant>,
    /// The next question follows from a write that was outdated.
    outdated: bool,
    /// When each version of the spec was shown first.
    shown: BTreeMap<u64, Instant>,
    /// When plans saw instances run first.
    running: BTreeMap<crate::ContainerId, Instant>,
    /// When exited instances were removed, at which point of the node's history; and when a list since then was seen.
    cleared: Option<(Instant, u64, Option<Instant>)>,
    /// How often a patch changed what a container runs with.
    changes: BTreeMap<ContainerName, u32>,
    /// Something may be left half done: a request was taken back.
    taken_back: bool,
}

impl Truth {
    fn new(shape: Shape, probed: [bool; 3]) -> Self {
        let mut play = Play::of(world(shape));
        play.probed = NAMES.iter().zip(probed).filter_map(|(name, p)| p.then(|| (*name).into())).collect();
        Self {
            play,
            asked: 0,
            failed: None,
            unwritten: BTreeMap::new(),
            outdated: false,
            shown: BTreeMap::new(),
            running: BTreeMap::new(),
            cleared: None,
            changes: BTreeMap::new(),
            taken_back: false,
        }
    }

    fn now(&self) -> Instant {
        self.play.world.now
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Ask(wish) => self.ask(wish),
            Op::TakeBack(which) => {
                if let Some(id) = self.play.requests.keys().nth(*which).cloned() {
                    self.taken_back = true;
                    self.forget_request(&id);
                    self.play.requests.remove(&id);
                    self.play.apply(crate::in_place_update::UpdateEvent::RequestGone(id));
                }
            }
            Op::Fetch(works) => {
                self.fails(self.play.fetching && !works);
                self.play.answer_fetch(*works);
            }
            Op::Inspect(works) => {
                self.fails(self.play.inspecting.is_some() && !works);
                self.play.answer_inspection(*works);
            }
            Op::Step(answer) => self.answer_step(*answer),
            Op::Report(which, outcome) => {
                if let Some((id, _)) = self.play.reports.get(*which).cloned() {
                    self.told(&id, *outcome);
                    self.play.answer_report(*which, *outcome);
                }
            }
            Op::Delete(outcome) => {
                if let Some(id) = self.play.deletions.last().cloned() {
                    self.told(&id, *outcome);
                    self.play.answer_deletion(*outcome);
                }
            }
            Op::PullEnds => self.play.world.on_node.extend(self.play.images.clone()),
            Op::KubeletLearns => self.play.world.kubelet_learns(),
            Op::KubeletSyncs(index) => self.play.kubelet_syncs(*index),
            Op::BecomesReady(index) => self.play.world.becomes_ready(*index),
            Op::KubeletReports(index) => self.play.kubelet_reports(*index),
            Op::Exits(index) => self.play.world.containers[*index].instance.life = Life::Restarting,
            Op::Relists => self.play.relists(),
            Op::WatchShows => self.play.watch_shows(),
            Op::WatchLists => {
                self.play.apply(crate::in_place_update::UpdateEvent::WatchLost);
                let lacking = if self.play.number.is_multiple_of(2) { vec![Play::uid()] } else { Vec::new() };
                self.play
                    .apply(crate::in_place_update::UpdateEvent::PodsListed(lacking.into_iter().collect()));
            }
            Op::ExecutorLost => {
                self.play.executor_is_lost();
                self.forget_what_was_judged();
            }
            Op::Dies => {
                self.play.dies();
                self.forget_what_was_judged();
                self.running.clear();
            }
            Op::Pass(millis) => self.play.pass(Duration::from_millis((*millis).into())),
            Op::Wait => {
                let next = self.play.updates.next_deadline().filter(|next| *next > self.now());
                let time = next.map(|next| next - self.now()).unwrap_or_default();
                self.play.pass(time);
            }
        }
        self.plan();
    }

    fn forget_what_was_judged(&mut self) {
        (self.failed, self.cleared, self.outdated) = (None, None, false);
        self.unwritten.clear();
        self.running.clear();
    }

    fn forget_request(&mut self, id: &RequestId) {
        self.unwritten.remove(id);
        if self.play.requests.values().filter(|request| request.ended.is_none()).count() == 1 {
            // With the last open one goes what is remembered of the pod.
            (self.failed, self.cleared, self.outdated) = (None, None, false);
            self.running.clear();
        }
    }

    fn fails(&mut self, fails: bool) {
        if fails {
            self.failed = Some(self.now());
        }
    }

    fn told(&mut self, id: &RequestId, outcome: StepOutcome) {
        match outcome {
            StepOutcome::Failed => drop(self.unwritten.insert(id.clone(), self.now())),
            StepOutcome::Done | StepOutcome::Gone => drop(self.unwritten.remove(id)),
        }
    }

    fn ask(&mut self, wish: &Wish) {
        if self.asked == MOST_REQUESTS {
            return;
        }
        self.asked += 1;
        let images = NAMES.iter().zip(wish.images).filter(|(_, tag)| *tag > 0);
        let images: Vec<_> = images.map(|(name, tag)| (*name, format!("{name}:{tag}"))).collect();
        let images: Vec<_> = images.iter().map(|(name, image)| (*name, image.as_str())).collect();
        let id = format!("r{}", self.asked);
        let mut asking = super::super::asking::Asking::of(self.play.world.clone());
        let mut request = asking.ask(&id, &images, &[]).clone();
        request.created = self.now();
        request.source = wish.source;
        request.delete_after = Some(Duration::from_secs(10));
        for (key, value) in keys().into_iter().zip(wish.values).filter(|(_, value)| *value > 0) {
            request.metadata.insert(key, value.to_string());
        }
        self.play.see(request);
    }

    fn answer_step(&mut self, answer: Answer) {
        let is_new = match &self.play.step {
            Some(UpdateAction::Write { version, write, .. }) => {
                let is_new = *version == self.play.number;
                self.outdated |= !is_new || matches!(answer, Answer::Outdated | Answer::DoneUnheard);
                if let (true, PodWrite::Patch(patch), Answer::Done | Answer::DoneUnheard) =
                    (is_new, write, answer)
                {
                    let patch = patch.clone();
                    self.patched(&patch);
                }
                is_new
            }
            Some(UpdateAction::Clear(..)) => {
                self.cleared = Some((self.now(), self.play.seq + 1, None));
                false
            }
            _ => return,
        };
        let outcome = match answer {
            Answer::Done => None,
            Answer::DoneUnheard => {
                if let (true, Some(UpdateAction::Write { write, .. })) = (is_new, self.play.step.clone()) {
                    self.play.write(write);
                }
                Some(WriteOutcome::Outdated)
            }
            Answer::Outdated => Some(WriteOutcome::Outdated),
            Answer::Refused => Some(WriteOutcome::Refused { why: "no".to_owned(), for_good: false }),
            Answer::Failed => Some(WriteOutcome::Failed),
        };
        if is_new {
            match answer {
                Answer::Refused | Answer::Failed => self.failed = Some(self.now()),
                Answer::Done => self.failed = None,
                Answer::DoneUnheard | Answer::Outdated => {}
            }
        }
        self.play.answer_step(outcome);
    }

    fn patched(&mut self, patch: &PodPatch) {
        let world = &self.play.world;
        for container in &world.containers {
            let reads = |key| patch.metadata.get(key).is_some_and(|new| Some(new) != world.metadata.get(key));
            if patch.images.contains_key(&container.name) || container.reads.iter().any(reads) {
                *self.changes.entry(container.name.clone()).or_default() += 1;
            }
        }
    }

    fn plan(&mut self) -> usize {
        let now = self.now();
        self.note_what_is_shown();
        if let Some((_, moment, seen @ None)) = &mut self.cleared
            && self.play.relisted.is_some_and(|relisted| relisted > *moment)
        {
            *seen = Some(now);
        }
        let ids: BTreeSet<_> =
            self.play.world.containers.iter().map(|container| container.instance.id.clone()).collect();
        self.running.retain(|id, _| ids.contains(id));
        for container in &self.play.world.containers {
            if matches!(container.instance.life, Life::Running { .. }) {
                self.running.entry(container.instance.id.clone()).or_insert(now);
            }
        }
        let actions = self.play.plan();
        for action in &actions {
            self.check(action);
            self.play.take(action.clone());
        }
        actions.len()
    }

    fn note_what_is_shown(&mut self) {
        if self.play.known == Some(self.play.number) {
            let now = self.now();
            self.shown.entry(self.play.world.version).or_insert(now);
        }
    }

    fn is_paused(&self) -> bool {
        self.failed.is_some_and(|failed| self.now() - failed < PAUSE)
    }

    /// Checks the facts that must be so when an action is given out, read from the world itself.
    fn check(&mut self, action: &UpdateAction) {
        let play = &self.play;
        match action {
            UpdateAction::Fetch(_) => {
                assert!(!play.fetching && play.inspecting.is_none(), "two questions at once");
                assert!(!self.is_paused() || self.outdated, "asked during a pause");
                self.outdated = false;
            }
            UpdateAction::Inspect { instances, .. } => {
                assert!(!play.fetching && play.inspecting.is_none(), "two questions at once");
                assert!(!self.is_paused(), "asked during a pause");
                assert!(!instances.is_empty());
            }
            UpdateAction::Clear(_, ids) => {
                assert!(play.step.is_none(), "two steps at once");
                let mut running = play.world.containers.iter().map(|container| &container.instance.id);
                assert!(
                    !ids.is_empty() && running.all(|id| !ids.contains(id)),
                    "a newest instance is cleared"
                );
            }
            UpdateAction::Write { version, write, .. } => {
                assert!(play.step.is_none(), "two steps at once");
                assert!(!play.fetching && play.inspecting.is_none(), "written while it is asked");
                assert!(!self.is_paused(), "written during a pause");
                assert!(!self.outdated, "somebody else's write was not looked at");
                assert_eq!(Some(*version), play.known, "not the newest version");
                if let PodWrite::Patch(patch) = write {
                    self.check_patch(patch, *version);
                }
            }
            UpdateAction::Restart(request) => {
                assert!(play.all_known, "before the restarts of an earlier process are known");
                self.check_restart(&request.containers[0]);
            }
            UpdateAction::AllKnown(_) => assert!(!play.all_known, "said twice"),
            UpdateAction::DropRestart(_) => {}
            UpdateAction::Report(request, report) => {
                assert!(play.reports.iter().all(|(id, _)| *id != request.id), "two writes at once");
                assert!(!play.deletions.contains(&request.id), "two writes at once");
                self.check_written(request);
                assert_eq!(play.requests[&request.id].ended, None, "told after its end");
                assert_ne!(play.requests[&request.id].reported, **report, "told twice");
            }
            UpdateAction::Delete(request) => {
                assert!(!play.deletions.contains(&request.id), "deleted twice");
                self.check_written(request);
                let ended = play.requests[&request.id].ended.expect("deleted before its end");
                assert!(self.now() >= ended + request.delete_after.unwrap(), "deleted too early");
            }
            UpdateAction::WantImage(_, image) => assert!(!play.images.contains(image), "wanted twice"),
            UpdateAction::LetImageGo(_, image) => assert!(play.images.contains(image), "never wanted"),
            UpdateAction::SetEnv(_, values) => assert_ne!(play.env, *values, "said twice"),
        }
    }

    fn check_written(&self, request: &UpdateRequest) {
        let failed = self.unwritten.get(&request.id);
        assert!(failed.is_none_or(|failed| self.now() - *failed >= PAUSE), "written during a pause");
    }

    fn check_restart(&self, target: &crate::RecreateTarget) {
        let world = &self.play.world;
        let seen = world.observed();
        let container = seen.containers.iter().find(|container| container.name == target.name).unwrap();
        let instance = container.instance.as_ref().unwrap();
        assert_eq!(instance.id, target.instance, "not the newest instance");
        assert!(matches!(instance.life, Life::Running { .. }));
        if self.play.known == Some(self.play.number) {
            assert!(self.play.is_worked_on(), "it would start with old values");
            assert!(self.now() >= self.shown[&world.version] + SETTLED, "the kubelet may not have it");
            assert!(matches!(world.gate, Gate::NotReady { .. }), "restarted in service");
            assert_eq!(instance.image, ImageMatch::Wanted, "the kubelet restarts it already");
            assert_ne!(instance.env, Some(container.env), "restarted for nothing");
        }
        let others = self.play.restarts.values().filter(|(name, _)| *name == target.name);
        assert_eq!(others.count(), 0, "two restarts of one container");
    }

    fn check_patch(&self, patch: &PodPatch, version: u64) {
        let (play, now) = (&self.play, self.now());
        // What was decided on an older version is refused.
        if version != play.number || patch.images.is_empty() && patch.metadata.is_empty() {
            return;
        }
        if !patch.images.is_empty() {
            assert!(matches!(play.world.gate, Gate::NotReady { .. }), "restarted in service");
            if let Some((cleared, _, listed)) = self.cleared {
                let listed = listed.is_some_and(|listed| now >= listed + INSPECTION);
                assert!(listed || now >= cleared + RELIST, "before the kubelet has looked");
            }
        }
        for image in patch.images.values() {
            assert!(play.world.on_node.contains(image), "stopped before {image} is there");
        }
        for name in patch.images.keys() {
            let running = |id: &crate::ContainerId| {
                play.world.containers.iter().any(|container| container.instance.id == *id)
            };
            let mut left = play.exited.get(name).into_iter().flatten();
            assert!(left.all(running), "exited instances hold the next one back");
        }
        // What is started from now on is not too old.
        for container in &play.world.containers {
            let named: Metadata = container
                .reads
                .iter()
                .filter_map(|key| Some((key.clone(), patch.metadata.get(key)?.clone())))
                .collect();
            let overrides = play.world.overrides.get(&container.name);
            for (key, value) in &named {
                assert_eq!(overrides.and_then(|all| all.get(key)), Some(value), "created with an old value");
            }
        }
        self.check_order(patch, now);
    }

    /// Whatever is higher and was moved by this update is Ready, or as good as that.
    fn check_order(&self, patch: &PodPatch, now: Instant) {
        let play = &self.play;
        let batches = &patch.record.container_batches_record;
        let Some((batch, before)) = batches.split_last() else { return };
        let old = play.world.record.as_ref().filter(|record| record.revision == patch.record.revision);
        if old.map_or(0, |record| record.container_batches_record.len()) == batches.len() {
            return;
        }
        let moved = |name: &ContainerName| before.iter().any(|batch| batch.containers.contains(name));
        for container in play.world.containers.iter().filter(|container| moved(&container.name)) {
            if batch.containers.contains(&container.name) {
                continue;
            }
            assert_eq!(container.runs, container.image, "a higher one does not run what is wanted");
            let steady = self.running.get(&container.instance.id).is_some_and(|at| now >= *at + STEADY);
            let probed = play.probed.contains(&container.name);
            let ready = play.is_said_ready(&container.name) || steady && !probed;
            assert!(ready, "a higher one is not Ready");
        }
    }

    /// From now on everything goes well: all of it ends, and nothing is left.
    fn comes_to_rest(&mut self) {
        let mut quiet = 0;
        for _ in 0..600 {
            let owed = self.plan();
            if self.play.requests.is_empty() && owed == 0 {
                quiet += 1;
                if quiet == 3 {
                    return self.is_at_rest();
                }
            }
            self.goes_well();
            let next = self.play.updates.next_deadline();
            let time = next.map_or(Duration::from_secs(1), |next| next.saturating_duration_since(self.now()));
            self.play.pass(time.min(Duration::from_secs(1)));
        }
        panic!("never ends: {:#?} {:#?}", self.play.requests, self.play.updates);
    }

    fn goes_well(&mut self) {
        if let Some(UpdateAction::Clear(..) | UpdateAction::Write { .. }) = self.play.step {
            self.answer_step(Answer::Done);
        }
        let ids: Vec<RequestId> = self.play.reports.iter().map(|(id, _)| id.clone()).collect();
        ids.iter().for_each(|id| self.told(id, StepOutcome::Done));
        for (id, report) in &self.play.reports {
            if let Some(UpdateOutcome::Failed(reason)) = report.outcome {
                assert!(matches!(reason, Reason::Replaced | Reason::Refused), "{id} {reason:?}");
            }
        }
        self.play.goes_well();
        self.note_what_is_shown();
    }

    fn is_at_rest(&self) {
        let play = &self.play;
        assert_eq!(play.updates.remembered(), (0, 0), "something is left");
        assert_eq!(play.updates.next_deadline(), None);
        assert!(play.updates.is_idle());
        assert!(play.images.is_empty() && play.env.is_empty() && play.restarts.is_empty());
        for container in &play.world.containers {
            let needed = self.changes.get(&container.name).copied().unwrap_or_default();
            assert!(container.restarted <= needed, "{} {} > {needed}", container.name, container.restarted);
            assert_eq!(container.runs, container.image, "{}", container.name);
        }
        assert!(self.taken_back || !matches!(play.world.gate, Gate::NotReady { .. }), "left out of service");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_nothing_is_done_twice_or_too_early_and_nothing_is_left(
        shape in shape(),
        probed in prop::array::uniform3(any::<bool>()),
        first in wish(),
        ops in proptest::collection::vec(op(), 1..200),
    ) {
        let mut truth = Truth::new(shape, probed);
        truth.ask(&first);
        for op in &ops {
            truth.run(op);
        }
        truth.comes_to_rest();
    }
}

/// The model can fail: a patch before its image is there is caught.
#[test]
#[should_panic(expected = "stopped before b:2 is there")]
fn the_model_catches_a_patch_before_its_image() {
    let mut truth = Truth::new((false, [0; 3], [[false; 4]; 3]), [false; 3]);
    truth.ask(&Wish { images: [2, 0, 0], values: [0; 4], source: UpdateSource::Api });
    for _ in 0..20 {
        for mut action in truth.play.plan() {
            if let UpdateAction::Write { write: PodWrite::Patch(patch), .. } = &mut action {
                patch.images.insert("b".into(), Arc::from("b:2"));
            }
            truth.check(&action);
            truth.play.take(action);
        }
        truth.play.goes_well();
        truth.play.pass(Duration::from_millis(500));
    }
}
