//! Timeline of what was decided and what happened, for people: the answer to "why is this pod where it is?"
//! an hour later.
//!
//! Nothing is decided by it. It is a ring: [`MOST`] entries in all and [`OF_ONE_POD`] of one pod, so that a
//! pod that crashes all day leaves the others their past. What is said again is the same entry with a count.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{
    call::{Call, Request},
    event::{Event, StepOutcome},
    model::{ContainerId, ContainerName, ContainerState, PodRef, SandboxId},
    node::{Held, InFlightKind, Node},
    recreate::{ContainerPhase, Outcome, RecreateReport, RequestPhase},
    step::{Effect, PodEffect, RequestEffect, RuntimeEffect, StoreEffect},
    verdict::{Amendment, HoldReason, Verdict},
};

/// Entries at most.
pub(crate) const MOST: usize = 1024;
/// Entries about one pod at most.
pub(crate) const OF_ONE_POD: usize = 48;
/// Bytes of a text at most: messages of runtimes and names of images have no bound of their own.
const LONGEST: usize = 300;

/// Decision or event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The pod that it is about.
    pub pod: PodRef,
    /// The container, where it is about one.
    pub container: Option<ContainerName>,
    /// A word for programs.
    pub what: What,
    /// A sentence for people, without its subject.
    pub text: String,
    /// How often it was so, one after the other.
    pub times: u32,
    /// The first time.
    pub first: Instant,
    /// The last time.
    pub last: Instant,
}

/// Kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A call waits in the agent.
    Held,
    /// A call that waited goes on.
    LetGo,
    /// A call was answered with an error.
    Refused,
    /// A launch level may start.
    Opened,
    /// A call was changed on its way.
    Changed,
    /// A sandbox or a container came into being.
    Created,
    /// A container was started.
    Started,
    /// A container became Ready.
    Ready,
    /// A container ended, or the pod is being stopped.
    Stopped,
    /// The agent acts by itself.
    Acted,
    /// A request or an update got on.
    Request,
    /// An Event was written about the pod.
    Told,
}

impl What {
    /// A constant word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Held => "Held",
            Self::LetGo => "LetGo",
            Self::Refused => "Refused",
            Self::Opened => "Opened",
            Self::Changed => "Changed",
            Self::Created => "Created",
            Self::Started => "Started",
            Self::Ready => "Ready",
            Self::Stopped => "Stopped",
            Self::Acted => "Acted",
            Self::Request => "Request",
            Self::Told => "Told",
        }
    }
}

/// The ring.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    entries: VecDeque<Entry>,
}

impl Timeline {
    /// Adds an entry, or counts the last one about its container once more.
    pub(crate) fn note(
        &mut self,
        now: Instant,
        pod: &PodRef,
        container: Option<&ContainerName>,
        what: What,
        text: String,
    ) {
        let text = cut(text);
        let of_pod = |entry: &Entry| entry.pod.uid == pod.uid;
        let about = |entry: &&mut Entry| of_pod(entry) && entry.container.as_ref() == container;
        if let Some(last) = self.entries.iter_mut().rev().find(about)
            && last.what == what
            && last.text == text
        {
            last.times = last.times.saturating_add(1);
            last.last = now;
            return;
        }
        if self.entries.iter().filter(|entry| of_pod(entry)).count() >= OF_ONE_POD {
            let oldest = self.entries.iter().position(of_pod);
            oldest.and_then(|oldest| self.entries.remove(oldest));
        } else if self.entries.len() >= MOST {
            self.entries.pop_front();
        }
        let entry = Entry {
            pod: pod.clone(),
            container: container.cloned(),
            what,
            text,
            times: 1,
            first: now,
            last: now,
        };
        self.entries.push_back(entry);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    #[cfg(test)]
    pub(crate) fn of(&self, pod: &crate::model::PodUid) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.pod.uid == *pod)
    }
}

fn cut(mut text: String) -> String {
    if text.len() > LONGEST {
        let most = LONGEST.saturating_sub("…".len());
        text.truncate((0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0));
        text.push('…');
    }
    text
}

// === Node ===

impl Node {
    /// Entries about the pods that `wanted` picks, oldest first.
    pub fn timeline(&self, wanted: impl Fn(&PodRef) -> bool) -> impl Iterator<Item = &Entry> {
        self.timeline.entries.iter().filter(move |entry| wanted(&entry.pod))
    }

    /// Notes something that another core has decided about this pod.
    pub fn note(&mut self, pod: &PodRef, container: Option<&ContainerName>, text: String, now: Instant) {
        self.timeline.note(now, pod, container, What::Request, text);
    }

    /// Notes what comes of a call, before it is recorded.
    pub(crate) fn note_verdict(&mut self, call: &Call, verdict: &Verdict, now: Instant) {
        let before = self.calls.get(&call.id).and_then(|call| call.hold.as_ref());
        let rpc = match &call.request {
            Request::CreateContainer(_) => "its creation",
            Request::StopContainer(_) => "its stop",
        };
        let (what, text) = match verdict {
            // Asked again for the same reason, it is the same wait.
            Verdict::Hold { why, .. } if before.is_some_and(|held| held.why.label() == why.label()) => return,
            // Every first question of a call: it takes a moment and says nothing.
            Verdict::Hold { why: HoldReason::Inspection, .. } => return,
            Verdict::Hold { why, .. } => (What::Held, format!("{rpc} is held: {}", because(why))),
            Verdict::Refuse(refusal) => (What::Refused, format!("{rpc} is refused: {refusal}")),
            Verdict::Latch(latch) => {
                (What::Opened, format!("containers of priority {} may start", latch.priority))
            }
            Verdict::Amend(Amendment::StopTimeout(grace)) => {
                (What::Changed, format!("{rpc} gets {} s of the pod's grace", grace.as_secs()))
            }
            Verdict::Forward => match before {
                None | Some(Held { why: HoldReason::Inspection, .. }) => return,
                Some(Held { since, .. }) => {
                    let held = now.saturating_duration_since(*since);
                    (What::LetGo, format!("{rpc} goes on, held for {}", seconds(held)))
                }
            },
        };
        let (pod, container) = match &call.request {
            Request::CreateContainer(request) => (request.pod.clone(), request.container.clone()),
            Request::StopContainer(request) => {
                let Some(named) = self.named(&request.container) else { return };
                named
            }
        };
        let container = (what != What::Opened).then_some(&container);
        self.timeline.note(now, &pod, container, what, text);
    }

    /// Notes a fact, before it is applied.
    pub(crate) fn note_event(&mut self, event: &Event, now: Instant) {
        match event {
            Event::SandboxCreated { sandbox, pod, .. } if !self.is_confirmed(sandbox) => {
                self.timeline.note(now, pod, None, What::Created, "its sandbox was created".to_owned());
            }
            Event::SandboxStopping(id) => {
                let sandbox = self.sandboxes.get(id).filter(|sandbox| !sandbox.stopping);
                let Some(pod) = sandbox.map(|sandbox| sandbox.pod.clone()) else { return };
                self.timeline.note(now, &pod, None, What::Stopped, "its sandbox is being stopped".to_owned());
            }
            Event::ContainerCreated { call, .. } => {
                let Some(InFlightKind::Create { sandbox, container, attempt }) =
                    self.calls.get(call).map(|call| &call.kind)
                else {
                    return;
                };
                let Some(sandbox) = self.sandboxes.get(sandbox) else { return };
                let (pod, text) = (sandbox.pod.clone(), format!("instance {attempt} was created"));
                self.timeline.note(now, &pod, Some(&container.clone()), What::Created, text);
            }
            Event::ContainerStarted(id) => self.note_container(id, What::Started, "was started", now),
            Event::ContainerStopped(id) => self.note_container(id, What::Stopped, "was stopped", now),
            Event::SandboxInspected { containers, .. } => {
                for container in containers {
                    self.note_exit(&container.id, container.state, now);
                }
            }
            Event::RuntimeListed { containers, .. } => {
                for (_, container) in containers {
                    self.note_exit(&container.id, container.state, now);
                }
            }
            Event::EffectBegan(Effect::Runtime(RuntimeEffect::StopContainer(stop))) => {
                self.note_container(&stop.container, What::Acted, "is stopped by the agent", now);
            }
            Event::EffectEnded(effect, StepOutcome::Done) => self.note_effect(effect, now),
            _ => {}
        }
    }

    /// Notes that the pod view calls an instance Ready which it did not before.
    pub(crate) fn note_ready(&mut self, pod: &PodRef, container: &ContainerName, now: Instant) {
        self.timeline.note(now, pod, Some(container), What::Ready, "is Ready".to_owned());
    }

    fn note_effect(&mut self, effect: &Effect, now: Instant) {
        match effect {
            Effect::Request(_, id, RequestEffect::Report(report)) => {
                let Some(pod) = self.recreates.pod_of(id).and_then(|uid| self.pod_of(uid)) else { return };
                let key = self.recreates.key_of(id).unwrap_or(id.as_str());
                let text = format!("recreate request {key}: {}", progress(report));
                self.timeline.note(now, &pod, None, What::Request, text);
            }
            Effect::Pod(pod, PodEffect::Tell(notice)) => {
                let text = format!("Event {}: {}", notice.reason, notice.note);
                self.timeline.note(now, pod, None, What::Told, text);
            }
            Effect::Pod(pod, PodEffect::HoldUnready(key)) => {
                let text = format!("the pod is held not Ready for request {key}");
                self.timeline.note(now, pod, None, What::Acted, text);
            }
            Effect::Pod(pod, PodEffect::ReleaseUnready(key)) => {
                let text = format!("the pod is not held for request {key} any more");
                self.timeline.note(now, pod, None, What::Acted, text);
            }
            Effect::Store(StoreEffect::MarkSidecars(marks)) => {
                let known = |mark: &crate::SidecarMark| self.sidecars.is_marked(&mark.container);
                let new: Vec<ContainerId> =
                    marks.iter().filter(|mark| !known(mark)).map(|mark| mark.container.clone()).collect();
                let text = "is to end: the main containers of its job have ended";
                new.iter().for_each(|container| self.note_container(container, What::Acted, text, now));
            }
            Effect::Pod(_, PodEffect::OpenGate)
            | Effect::Request(_, _, RequestEffect::Delete)
            | Effect::Runtime(_)
            | Effect::Store(_) => {}
        }
    }

    /// Notes the exit of an instance that was not known to have exited with this code.
    fn note_exit(&mut self, id: &ContainerId, state: ContainerState, now: Instant) {
        let ContainerState::Exited { code: Some(code) } = state else { return };
        let known = self.instance(id).map(|instance| instance.container.state);
        // What is found for the first time may have happened at any time before.
        if !matches!(known, None | Some(ContainerState::Exited { code: Some(_) })) {
            self.note_container(id, What::Stopped, &format!("exited with code {code}"), now);
        }
    }

    fn note_container(&mut self, id: &ContainerId, what: What, text: &str, now: Instant) {
        if let Some((pod, name)) = self.named(id) {
            self.timeline.note(now, &pod, Some(&name), what, text.to_owned());
        }
    }

    fn named(&self, id: &ContainerId) -> Option<(PodRef, ContainerName)> {
        let sandbox = self.sandboxes.get(self.containers.get(id)?)?;
        Some((sandbox.pod.clone(), sandbox.instances.get(id)?.container.name.clone()))
    }

    fn is_confirmed(&self, id: &SandboxId) -> bool {
        self.sandboxes.get(id).is_some_and(|sandbox| sandbox.confirmed)
    }
}

/// Says why a call waits, after "held: ".
fn because(why: &HoldReason) -> String {
    let names =
        |names: &[ContainerName]| names.iter().map(ContainerName::as_str).collect::<Vec<_>>().join(", ");
    match why {
        HoldReason::PodUnknown => "the pod is not in the pod view yet".to_owned(),
        HoldReason::Inspection => "the runtime is asked what runs".to_owned(),
        HoldReason::NotReady(waiting) => format!("{} not Ready yet", names(waiting)),
        HoldReason::SameSecond(started) => format!("{} started in this second", names(started)),
        HoldReason::PodKillUnclear => "it is not clear yet whether the whole pod is stopped".to_owned(),
        HoldReason::StillRunning(waiting) => format!("{} still running", names(waiting)),
        HoldReason::AgentAway => "the agent is away".to_owned(),
    }
}

/// Says where a request stands, without what changes all the time.
fn progress(report: &RecreateReport) -> String {
    let mut text = match (&report.outcome, report.phase) {
        (Some(Outcome::Complete), _) => "complete".to_owned(),
        (Some(Outcome::Failed(reason)), _) => format!("failed ({reason:?})"),
        (None, Some(RequestPhase::Recreating)) => "goes on".to_owned(),
        (None, Some(RequestPhase::Completed)) => "ended".to_owned(),
        (None, Some(RequestPhase::Pending) | None) => "waits".to_owned(),
    };
    let containers: Vec<String> = report
        .containers
        .iter()
        .map(|container| {
            let phase = match container.phase {
                ContainerPhase::Pending => "waits",
                ContainerPhase::Recreating if container.killed => "was told to stop",
                ContainerPhase::Recreating => "begins",
                ContainerPhase::Succeeded => "was replaced",
                ContainerPhase::Failed => "failed",
            };
            format!("{} {phase}", container.name)
        })
        .collect();
    if !containers.is_empty() {
        text = format!("{text}; {}", containers.join(", "));
    }
    if report.message.is_empty() { text } else { format!("{text}; {}", report.message) }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
