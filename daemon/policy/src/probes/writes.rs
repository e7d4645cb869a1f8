//! When a pod is written to.
//!
//! It is compared with what it should show, not with what was written: a write that was lost is made again,
//! one that somebody else has made is not. A change of more than words goes at once, as far as the node's
//! rate allows, the one that waits longest first; words alone wait until 10 s after the pod's last write.
//! Where what is missing is what was written already, somebody takes it back; then it is written again after
//! pauses that double.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    ProbeStep, Probes,
    event::{ProbeOutcome, Shown},
    marks::{AllowedMarks, Changes, Face, MarkKey},
    step::ConditionStatus,
};
use crate::{
    backoff::{Pace, Retry},
    time::later,
};

/// Pause between two writes to a pod of which the second changes only a message.
const BETWEEN_WORDS: Duration = Duration::from_secs(10);
/// Looks at once.
const LOOKS: usize = 4;
/// Steps that the API server did not take; one that it refused is as good as the last of many.
pub(super) const WRITES: Pace = Pace { first: Duration::from_millis(100), longest: Duration::from_secs(30) };
/// Pauses before a mark is written again that somebody has taken back.
const CONTESTED: Pace = Pace { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
/// Time without such a fight after which the pauses are short again.
const QUIET: Duration = Duration::from_secs(120);

/// The writes to one pod.
#[derive(Debug, Default)]
pub(super) struct Marking {
    face: Option<Face>,
    /// It shows all that is asked now.
    complete: bool,
    /// The version is older than our last write: nothing shows that yet.
    outdated: bool,
    /// Marks that were asked since the pod last showed what it should: perhaps they are there, and nobody
    /// asks for them any more.
    former: AllowedMarks,
    looking: bool,
    looked: Retry,
    writing: Option<Writing>,
    retry: Retry,
    part: Part,
    /// Labels and annotations were refused; not before then.
    keys_next: Option<Instant>,
    wrote: Wrote,
    contest: Contest,
    last_write: Option<Instant>,
    /// Since when something is due.
    due_since: Option<Instant>,
    /// It may have to be written to.
    unsettled: bool,
    /// Not before then, unless something changes.
    waits: Option<Instant>,
    /// The API server has no such pod.
    gone: bool,
}

#[derive(Debug)]
struct Writing {
    changes: Changes,
    /// Version of the pod from which the write was made.
    version: u64,
}

/// Values of the last write, for each mark.
#[derive(Debug, Default)]
struct Wrote {
    conditions: BTreeMap<Arc<str>, (ConditionStatus, Arc<str>)>,
    keys: BTreeMap<MarkKey, Option<Arc<str>>>,
}

/// Contest with somebody who takes our marks back.
#[derive(Debug, Default)]
struct Contest {
    rounds: u32,
    last: Option<Instant>,
    /// Ours is written again then.
    until: Option<Instant>,
}

/// Content of the next write. A write that was refused is tried in parts: a label the API server does not
/// take keeps no condition from the pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    All,
    /// Only conditions, while one is due: no labels or annotations.
    Conditions,
    /// Only labels and annotations, while one is due: no conditions.
    Keys,
}

/// Turn of a write: nothing to write, the time to wait for, or the changes to write now.
enum Turn {
    Nothing,
    At(Instant),
    Now(Changes, Instant),
}

impl Marking {
    pub(super) fn former(&self) -> &AllowedMarks {
        &self.former
    }

    pub(super) fn has_left(&self) -> bool {
        !self.former.is_empty()
    }

    /// An answer is due.
    pub(super) fn is_busy(&self) -> bool {
        self.looking || self.writing.is_some()
    }

    pub(super) fn unsettle(&mut self) {
        self.unsettled = true;
        self.waits = None;
    }

    /// Lets go of the marks: nothing more is to be taken away.
    pub(super) fn let_go(&mut self) {
        self.former = AllowedMarks::default();
    }

    /// Other marks are asked for than before.
    pub(super) fn asked_anew(&mut self, before: AllowedMarks, after: &AllowedMarks) {
        if !self.gone {
            self.former.extend(before);
        }
        self.complete &= after.is_within(&self.former);
        self.wrote.conditions.retain(|kind, _| after.conditions.contains(kind));
        self.wrote.keys.retain(|key, _| after.keys.contains_key(key));
        self.unsettle();
    }

    pub(super) fn shown(&mut self, shown: Shown) {
        let version = shown.version;
        let known = self.face.as_ref().map(|face| face.version);
        if known.is_some_and(|known| version < known || self.outdated && version == known) {
            return;
        }
        self.face = Some(Face::of(shown));
        self.outdated = false;
        self.complete = true;
        self.gone = false;
        self.unsettle();
    }

    pub(super) fn look_ended(&mut self, outcome: ProbeOutcome, now: Instant) {
        if !std::mem::take(&mut self.looking) {
            return;
        }
        match outcome {
            ProbeOutcome::Done if self.complete => self.looked = Retry::default(),
            ProbeOutcome::Done | ProbeOutcome::Failed => {
                self.looked.failed(now, |failures| WRITES.pause(failures));
            }
            ProbeOutcome::Refused => self.looked.rest(later(now, WRITES.longest)),
            ProbeOutcome::Gone => self.gone(),
        }
    }

    /// Takes in how the write that is under way has ended.
    pub(super) fn mark_ended(&mut self, outcome: ProbeOutcome, now: Instant) {
        let Some(Writing { changes, version }) = self.writing.take() else { return };
        self.unsettle();
        match outcome {
            ProbeOutcome::Done => {
                self.retry = Retry::default();
                if !changes.keys.is_empty() {
                    (self.part, self.keys_next) = (Part::All, None);
                } else if self.part == Part::Conditions {
                    self.part = Part::Keys;
                }
                self.wrote.take(&changes);
                match &mut self.face {
                    Some(face) if face.version == version => {
                        face.take(changes);
                        self.outdated = true;
                    }
                    // Whether what was shown meanwhile came before or after it, nobody knows.
                    Some(face) => self.complete &= face.has(&changes),
                    None => {}
                }
            }
            ProbeOutcome::Failed => {
                self.retry.failed(now, |failures| WRITES.pause(failures));
                // Perhaps it was written all the same.
                self.complete = false;
            }
            ProbeOutcome::Refused => match (changes.conditions.is_empty(), changes.keys.is_empty()) {
                (false, false) => {
                    self.part = Part::Conditions;
                    self.retry.failed(now, |failures| WRITES.pause(failures));
                }
                (true, _) => {
                    self.part = Part::Conditions;
                    self.keys_next = Some(later(now, WRITES.longest));
                }
                (false, true) => {
                    self.part = if self.part == Part::Conditions { Part::Keys } else { self.part };
                    self.retry.rest(later(now, WRITES.longest));
                }
            },
            ProbeOutcome::Gone => self.gone(),
        }
    }

    fn gone(&mut self) {
        self.gone = true;
        self.let_go();
    }

    /// Decides which of these changes are due, and when.
    fn turn(&mut self, mut changes: Changes, now: Instant) -> Turn {
        if changes.is_empty() {
            self.unsettled = false;
            self.due_since = None;
            self.contest.until = None;
            // What is still there is asked for by a probe that has no result yet.
            let face = self.face.as_ref();
            self.former.conditions.clear();
            self.former.keys.retain(|key, values| {
                face.and_then(|face| face.keys.get(key)).is_some_and(|value| values.contains(value))
            });
            return Turn::Nothing;
        }
        let since = *self.due_since.get_or_insert(now);
        let contested = self.wrote.has(&changes).then(|| self.contest.meet(now));
        let keys_next = self.keys_next.filter(|next| *next > now);
        if !changes.conditions.is_empty() && (self.part == Part::Conditions || keys_next.is_some()) {
            changes.keys.clear();
        } else if !changes.keys.is_empty() && self.part == Part::Keys {
            changes.conditions.clear();
        }
        let keys_next = keys_next.filter(|_| !changes.keys.is_empty());
        let words = self.last_write.filter(|_| !changes.is_state()).map(|last| later(last, BETWEEN_WORDS));
        let not_before = words.max(contested).max(keys_next).max(self.retry.next);
        if let Some(not_before) = not_before.filter(|then| *then > now) {
            return Turn::At(not_before);
        }
        Turn::Now(changes, since)
    }

    fn begin(&mut self, changes: &Changes, now: Instant) {
        let version = self.face.as_ref().map_or(0, |face| face.version);
        self.writing = Some(Writing { changes: changes.clone(), version });
        self.contest.until = None;
        self.due_since = None;
        self.last_write = Some(now);
    }
}

impl Wrote {
    fn take(&mut self, changes: &Changes) {
        for (kind, mark) in &changes.conditions {
            self.conditions.insert(kind.clone(), (mark.status, mark.message.clone()));
        }
        self.keys.extend(changes.keys.clone());
    }

    /// All of it was written before, and nothing else since.
    fn has(&self, changes: &Changes) -> bool {
        let condition = |kind, status, message: &Arc<str>| {
            self.conditions.get(kind).is_some_and(|wrote| wrote.0 == status && wrote.1 == *message)
        };
        changes.conditions.iter().all(|(kind, mark)| condition(kind, mark.status, &mark.message))
            && changes.keys.iter().all(|(key, value)| self.keys.get(key) == Some(value))
    }
}

impl Contest {
    /// Meets the other side once more. Returns until when it has its way.
    fn meet(&mut self, now: Instant) -> Instant {
        if let Some(until) = self.until {
            return until;
        }
        if self.last.is_some_and(|last| later(last, QUIET) <= now) {
            self.rounds = 0;
        }
        self.rounds = self.rounds.saturating_add(1);
        self.last = Some(now);
        *self.until.insert(later(now, CONTESTED.pause(self.rounds)))
    }
}

impl Probes {
    /// Pods whose marks on file are not known and are to be read now, as many as may be read at once.
    pub(super) fn looks_due(&mut self, now: Instant) -> Vec<ProbeStep> {
        let mut free = LOOKS.saturating_sub(self.pods.values().filter(|pod| pod.marking.looking).count());
        let mut steps = Vec::new();
        for (uid, pod) in &mut self.pods {
            let marking = &pod.marking;
            let told = self.instances.contains_key(uid) && !marking.gone;
            if !told || !marking.unsettled || marking.complete || marking.is_busy() {
                continue;
            }
            if pod.asked().is_empty() && !marking.has_left() {
                pod.marking.unsettled = false;
            } else if let Some(next) = marking.looked.next.filter(|next| *next > now) {
                self.wake.at(next);
            } else if free > 0 {
                free -= 1;
                pod.marking.looking = true;
                steps.push(ProbeStep::Look(pod.pod.clone()));
            }
        }
        steps
    }

    /// Writes of marks that are due now, as many as the rate lets go: more than words first, then the oldest.
    pub(super) fn marks_due(&mut self, now: Instant) -> Vec<ProbeStep> {
        let mut due = Vec::new();
        for (uid, pod) in &mut self.pods {
            let told = self.instances.contains_key(uid) && !pod.marking.gone;
            if !told || !pod.marking.unsettled || !pod.marking.complete || pod.marking.writing.is_some() {
                continue;
            }
            if let Some(not_before) = pod.marking.waits.filter(|then| *then > now) {
                self.wake.at(not_before);
                continue;
            }
            let turn = self.set_aside.evaluate(
                || uid.clone(),
                now,
                || {
                    let Some(face) = &pod.marking.face else { return Turn::Nothing };
                    let changes = pod.changes(face, &pod.marking.former, now);
                    pod.marking.turn(changes, now)
                },
            );
            match turn.unwrap_or(Turn::Nothing) {
                Turn::Nothing => {}
                Turn::At(not_before) => {
                    pod.marking.waits = Some(not_before);
                    self.wake.at(not_before);
                }
                Turn::Now(changes, since) => due.push((!changes.is_state(), since, uid.clone(), changes)),
            }
        }
        due.sort_by(|a, b| (a.0, a.1, &a.2).cmp(&(b.0, b.1, &b.2)));
        let mut steps = Vec::new();
        for (_, _, uid, changes) in due {
            if !self.write_rate.take(now) {
                self.write_rate.free_at().into_iter().for_each(|free| self.wake.at(free));
                break;
            }
            if let Some(pod) = self.pods.get_mut(&uid) {
                pod.marking.begin(&changes, now);
                steps.push(ProbeStep::Mark(changes.into_marks(pod.pod.clone())));
            }
        }
        steps
    }
}
