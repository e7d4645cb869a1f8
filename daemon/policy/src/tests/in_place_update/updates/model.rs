//! Random requests, answers, failures and deaths, a kubelet that works when it likes, and a watch that lags.

mod answers;
mod op;
mod replayed;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use proptest::prelude::*;

use self::op::{Answer, Op, Wish, op, wish};
use super::{
    super::model::{NAMES, Shape, keys, shape, world},
    play::Play,
};
use crate::{
    ContainerName, RequestId, StepOutcome,
    in_place_update::{
        FailureReason, Gate, Life, PodPatch, PodWrite, UpdateAction, UpdateOutcome, UpdateSource,
        WriteOutcome,
    },
};

const MOST_REQUESTS: usize = 4;

pub(super) struct Truth {
    pub(super) play: Play,
    pub(super) asked: usize,
    /// Requests that are entries of a workload, whose ends the pod may show.
    entries: [bool; MOST_REQUESTS],
    /// When something about the pod failed last, and which requests could not be written.
    pub(super) failed: Option<Instant>,
    pub(super) unwritten: BTreeMap<RequestId, Instant>,
    /// The next question follows from a write that was outdated.
    pub(super) outdated: bool,
    /// The last write has no answer, and the pod was not asked for since.
    pub(super) unanswered: bool,
    /// When each version of the spec was shown first.
    pub(super) shown: BTreeMap<u64, Instant>,
    /// When plans saw instances run first.
    pub(super) running: BTreeMap<crate::ContainerId, Instant>,
    /// When exited instances were removed, at which point of the node's history; and when a list since then
    /// was seen.
    pub(super) cleared: Option<(Instant, u64, Option<Instant>)>,
    /// How often a patch changed what a container runs with.
    pub(super) changes: BTreeMap<ContainerName, u32>,
    /// Something may be left half done: a request was taken back.
    pub(super) taken_back: bool,
}

impl Truth {
    fn new(shape: Shape, probed: [bool; 3]) -> Self {
        let mut play = Play::of(world(shape));
        play.probed = NAMES.iter().zip(probed).filter(|(_, p)| *p).map(|(name, _)| (*name).into()).collect();
        Self {
            play,
            asked: 0,
            entries: [false; MOST_REQUESTS],
            failed: None,
            unwritten: BTreeMap::new(),
            outdated: false,
            unanswered: false,
            shown: BTreeMap::new(),
            running: BTreeMap::new(),
            cleared: None,
            changes: BTreeMap::new(),
            taken_back: false,
        }
    }

    pub(super) fn now(&self) -> Instant {
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
            Op::ExecutorLost(is_written) => {
                if *is_written && matches!(self.play.step, Some(UpdateAction::Write { .. })) {
                    self.answer_step(Answer::DoneUnanswered);
                }
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

    fn forget_writes(&mut self) {
        (self.failed, self.cleared, self.outdated, self.unanswered) = (None, None, false, false);
    }

    fn forget_what_was_judged(&mut self) {
        self.forget_writes();
        self.unwritten.clear();
        self.running.clear();
    }

    fn forget_request(&mut self, id: &RequestId) {
        self.unwritten.remove(id);
        if self.play.requests.values().filter(|request| request.ended.is_none()).count() == 1 {
            // With the last open one goes what is remembered of the pod.
            self.forget_writes();
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
        let is_entry = self.entries[self.asked];
        self.asked += 1;
        let images = NAMES.iter().zip(wish.images).filter(|(_, tag)| *tag > 0);
        let images: Vec<_> = images.map(|(name, tag)| (*name, format!("{name}:{tag}"))).collect();
        let images: Vec<_> = images.iter().map(|(name, image)| (*name, image.as_str())).collect();
        let id = format!("r{}", self.asked);
        let mut asking = super::super::asking::Asking::of(self.play.world.clone());
        let mut request = asking.ask(&id, &images, &[]).clone();
        request.created = self.now();
        request.source = if is_entry { UpdateSource::NodePodUpdate } else { wish.source };
        request.shown_as = is_entry.then_some(0);
        request.delete_after = Some(Duration::from_secs(10));
        for (key, value) in keys().into_iter().zip(wish.values).filter(|(_, value)| *value > 0) {
            request.metadata.insert(key, value.to_string());
        }
        self.play.see(request);
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
        if self.play.updates.is_idle() {
            // With the last open request goes what is remembered of the pod.
            self.forget_writes();
        }
        actions.len()
    }

    fn note_what_is_shown(&mut self) {
        if self.play.known == Some(self.play.number) {
            let now = self.now();
            self.shown.entry(self.play.world.version).or_insert(now);
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
                assert!(
                    matches!(reason, FailureReason::Replaced | FailureReason::Refused),
                    "{id} {reason:?}"
                );
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

    #[test]
    fn nor_with_entries_whose_ends_the_pod_shows(
        shape in shape(),
        probed in prop::array::uniform3(any::<bool>()),
        others in prop::array::uniform3(any::<bool>()),
        first in wish(),
        ops in proptest::collection::vec(op(), 1..200),
    ) {
        let mut truth = Truth::new(shape, probed);
        truth.entries = [true, others[0], others[1], others[2]];
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
