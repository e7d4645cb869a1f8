//! Checks of each action that is given out, read from the simulated world itself.

use std::time::{Duration, Instant};

use super::model::Truth;
use crate::{
    ContainerName,
    in_place_update::{
        CarriedOut, Gate, ImageMatch, Life, Metadata, PodPatch, PodWrite, UpdateAction, UpdateOutcome,
        UpdateRequest,
    },
};

/// The shortest pause after a failure.
const PAUSE: Duration = Duration::from_millis(200);
/// The kubelet knows what the watch has shown.
const SETTLED: Duration = Duration::from_millis(100);
/// A container without a probe runs steadily.
const STEADY: Duration = Duration::from_millis(400);
/// The kubelet's look after a removal is waited for so long; and what it makes of the look.
const RELIST: Duration = Duration::from_millis(1500);
const INSPECTION: Duration = Duration::from_millis(50);

impl Truth {
    fn is_paused(&self) -> bool {
        self.failed.is_some_and(|failed| self.now() - failed < PAUSE)
    }

    /// Checks the facts that must be so when an action is given out, read from the world itself.
    pub(super) fn check(&mut self, action: &UpdateAction) {
        let play = &self.play;
        match action {
            UpdateAction::Fetch(_) => {
                assert!(!play.fetching && play.inspecting.is_none(), "two questions at once");
                assert!(!self.is_paused() || self.outdated, "asked during a pause");
                (self.outdated, self.unanswered) = (false, false);
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
            UpdateAction::Stop(..) => assert!(play.step.is_none(), "two steps at a time"),
            UpdateAction::Write { version, write, .. } => {
                assert!(play.step.is_none(), "two steps at once");
                assert!(!play.fetching && play.inspecting.is_none(), "written while it is asked");
                assert!(!self.is_paused(), "written during a pause");
                assert!(!self.outdated, "somebody else's write was not looked at");
                assert!(!self.unanswered, "what became of the last write was not asked");
                assert_eq!(Some(*version), play.known, "not the newest version");
                match write {
                    PodWrite::Patch(patch) => self.check_patch(patch, *version),
                    // What was decided on an older version is refused.
                    PodWrite::Open(Some(word)) if *version == play.number => self.check_word(word),
                    PodWrite::Open(_) | PodWrite::Close => {}
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
                let open = play.requests.values().filter(|request| request.ended.is_none());
                if report.outcome == Some(UpdateOutcome::Complete) && open.count() == 1 {
                    for container in &play.world.containers {
                        let wanted = request.images.get(&container.name);
                        assert!(wanted.is_none_or(|image| container.runs == *image), "complete too early");
                    }
                }
            }
            UpdateAction::Delete(request) => {
                assert!(!play.deletions.contains(&request.id), "deleted twice");
                self.check_written(request);
                let ended = play.requests[&request.id].ended.expect("deleted before its end");
                assert!(self.now() >= ended + request.delete_after.unwrap(), "deleted too early");
            }
            UpdateAction::WantImage { image, .. } => assert!(!play.images.contains(image), "wanted twice"),
            UpdateAction::LetImageGo(_, image) => assert!(play.images.contains(image), "never wanted"),
            UpdateAction::SetEnv(_, values) => assert_ne!(play.env, *values, "said twice"),
            UpdateAction::Ended(request) => {
                assert!(!play.requests.contains_key(&request.id), "it is there, and its end is to be told");
            }
            UpdateAction::Tell(..) => {}
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

    /// Containers that run are those that are wanted, and those that were stopped are started again.
    fn check_word(&self, word: &CarriedOut) {
        for container in &self.play.world.containers {
            let runs = matches!(container.instance.life, Life::Running { .. });
            assert!(!runs || container.runs == container.image, "carried out, it says too early");
            let restarts = container.instance.restarts + u32::from(!runs);
            assert_eq!(word.restarts.get(&container.name), Some(&restarts), "not the next one");
        }
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
}
