//! Answers to what the updates ask and write.

use super::*;

impl Truth {
    pub(super) fn answer_step(&mut self, answer: Answer) {
        let is_new = match &self.play.step {
            Some(UpdateAction::Write { version, write, .. }) => {
                let is_new = *version == self.play.number;
                self.outdated |= !is_new || matches!(answer, Answer::Outdated | Answer::DoneUnheard);
                self.unanswered |= matches!(answer, Answer::Failed | Answer::DoneUnanswered);
                if is_new
                    && let PodWrite::Patch(patch) = write
                    && let Answer::Done | Answer::DoneUnheard | Answer::DoneUnanswered = answer
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
            Answer::DoneUnanswered if matches!(self.play.step, Some(UpdateAction::Write { .. })) => {
                self.failed = Some(self.now());
                return self.play.loses_answer();
            }
            Answer::Done | Answer::DoneUnanswered => None,
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
                Answer::DoneUnheard | Answer::Outdated | Answer::DoneUnanswered => {}
            }
        }
        self.play.answer_step(outcome);
    }

    pub(super) fn patched(&mut self, patch: &PodPatch) {
        let world = &self.play.world;
        for container in &world.containers {
            let reads = |key| patch.metadata.get(key).is_some_and(|new| Some(new) != world.metadata.get(key));
            if patch.images.contains_key(&container.name) || container.reads.iter().any(reads) {
                *self.changes.entry(container.name.clone()).or_default() += 1;
            }
        }
    }
}
