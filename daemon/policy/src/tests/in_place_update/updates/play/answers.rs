//! Answers to the actions that lie there.

use super::*;

impl Play {
    /// The watch, or an answer, shows the pod as it is.
    pub(in crate::tests::in_place_update::updates) fn shows(&mut self) -> Box<PodView> {
        if self.updates.followed().next().is_some() {
            self.known = Some(self.number);
        }
        Box::new(self.view())
    }

    pub(in crate::tests::in_place_update::updates) fn watch_shows(&mut self) {
        let view = self.shows();
        self.apply(UpdateEvent::PodShown(view));
    }

    pub(in crate::tests::in_place_update::updates) fn answer_fetch(&mut self, works: bool) {
        if std::mem::take(&mut self.fetching) {
            let found = if works { Fetched::Found(self.shows()) } else { Fetched::Failed };
            self.apply(UpdateEvent::Fetched(Self::uid(), found));
        }
    }

    pub(in crate::tests::in_place_update::updates) fn answer_inspection(&mut self, works: bool) {
        let Some(questions) = self.inspecting.take() else { return };
        let created = |question: &InstanceQuestion| {
            let mut all = self.world.containers.iter();
            let container = all.find(|container| container.instance.id == question.instance)?;
            let record = CreatedWith {
                definition: Some(definition(&container.runs)),
                env: container.instance.env,
                finished: None,
                exited: question.exited,
            };
            Some((question.instance.clone(), record))
        };
        let unknown = CreatedWith { definition: None, env: None, finished: None, exited: true };
        let found = questions.iter().map(|question| {
            created(question).unwrap_or_else(|| (question.instance.clone(), unknown.clone()))
        });
        let found = works.then(|| found.collect());
        self.apply(UpdateEvent::Inspected(Self::uid(), found));
    }

    /// Answers the step under way. A write to an old version is outdated, however it was to be answered.
    pub(in crate::tests::in_place_update::updates) fn answer_step(&mut self, outcome: Option<WriteOutcome>) {
        match self.step.take() {
            Some(UpdateAction::Clear(pod, ids)) => {
                self.exited.values_mut().for_each(|exited| exited.retain(|id| !ids.contains(id)));
                self.seq += 1;
                self.apply(UpdateEvent::Cleared { pod, failed: BTreeSet::new(), moment: Moment(self.seq) });
            }
            Some(UpdateAction::Write { pod, version, write }) => {
                let outcome = match outcome {
                    _ if version != self.number => WriteOutcome::Outdated,
                    Some(outcome) => outcome,
                    None => {
                        self.write(write);
                        WriteOutcome::Done(self.shows())
                    }
                };
                self.apply(UpdateEvent::Written(pod.uid, outcome));
            }
            _ => {}
        }
    }

    /// The write under way reaches the pod, and its answer is lost.
    pub(in crate::tests::in_place_update::updates) fn loses_answer(&mut self) {
        match self.step.take() {
            Some(UpdateAction::Write { pod, version, write }) => {
                if version == self.number {
                    self.write(write);
                }
                self.apply(UpdateEvent::Written(pod.uid, WriteOutcome::Failed));
            }
            other => self.step = other,
        }
    }

    /// The write reaches the pod.
    pub(in crate::tests::in_place_update::updates) fn write(&mut self, write: PodWrite) {
        let step = match write {
            PodWrite::Close => Next::SetNotReady,
            PodWrite::Open(_) => Next::SetReady,
            PodWrite::Patch(patch) => Next::Patch(*patch),
        };
        assert!(self.world.carry_out(&step, self.world.version));
        self.number += 1;
    }

    pub(in crate::tests::in_place_update::updates) fn answer_report(
        &mut self,
        index: usize,
        outcome: StepOutcome,
    ) {
        if index >= self.reports.len() {
            return;
        }
        let (id, report) = self.reports.remove(index);
        let now = self.world.now;
        // Somebody took it back meanwhile.
        let outcome = if self.requests.contains_key(&id) { outcome } else { StepOutcome::Gone };
        if let (StepOutcome::Done, Some(request)) = (outcome, self.requests.get_mut(&id)) {
            request.reported = report.clone();
            if request.reported.phase == Some(UpdatePhase::Ended) {
                request.ended.get_or_insert(now);
            }
        }
        self.apply(UpdateEvent::Reported(id, Box::new(report), outcome));
    }

    pub(in crate::tests::in_place_update::updates) fn answer_deletion(&mut self, outcome: StepOutcome) {
        if let Some(id) = self.deletions.pop() {
            if outcome == StepOutcome::Done {
                self.requests.remove(&id);
            }
            self.apply(UpdateEvent::Deleted(id, outcome));
        }
    }

    /// Everything is answered as hoped for, and the kubelet does all it has to.
    pub(in crate::tests::in_place_update::updates) fn goes_well(&mut self) {
        for image in self.images.clone() {
            self.world.on_node.insert(image);
        }
        self.answer_fetch(true);
        self.answer_inspection(true);
        self.answer_step(None);
        (0..self.reports.len()).for_each(|_| self.answer_report(0, StepOutcome::Done));
        (0..self.deletions.len()).for_each(|_| self.answer_deletion(StepOutcome::Done));
        self.world.kubelet_learns();
        for index in 0..self.statuses.len() {
            (0..2).for_each(|_| self.kubelet_syncs(index));
            self.world.becomes_ready(index);
            self.kubelet_reports(index);
        }
        self.relists();
        self.watch_shows();
    }
}
