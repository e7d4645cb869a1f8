//! One probe of one container: what is known, and when it runs next.
//!
//! Thresholds are those of the kubelet's prober worker: a state changes after as many equal results in a row
//! as it takes. Each instance of the container begins without a state, and so does another action. Other
//! numbers change neither the state nor what is under way; they count from the next result on.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    event::{Instance, InstanceState},
    message::{cut, words},
    model::{Probe, ProbeResult},
    pod_events::PendingEvent,
    refusal::Refusal,
    report::ProbeReport,
    step::RunId,
    wanted::WantedProbe,
};
use crate::{
    model::{ContainerId, ContainerName, SandboxId},
    time::later,
};

/// No period and no timeout is shorter.
const SHORTEST: Duration = Duration::from_secs(1);

/// States of a probe; the words of `NodePodProbe.status.podProbeStatuses`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeState {
    /// It succeeded.
    Succeeded,
    /// It failed, or its container does not run.
    Failed,
    /// It has not run often enough since the container started, or cannot be carried out.
    Unknown,
}

/// Where a container stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// Nobody has told of this pod.
    Unheard,
    /// The pod has no such container.
    Absent,
    /// This instance does not run.
    Down(ContainerId),
    /// This one runs.
    Up { container: ContainerId, sandbox: SandboxId, since: Instant },
}

/// A probe that is wanted.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) wanted: WantedProbe,
    pub(super) place: Presence,
    /// The pod had such a container.
    existed: bool,
    /// When the instance that is there became known.
    placed: Instant,
    pub(super) state: ProbeState,
    /// Since when it is in this state.
    pub(super) since: Instant,
    /// Empty while `Unknown` means that nothing is known yet.
    pub(super) message: Arc<str>,
    /// It ever had something to say, here or in an earlier process.
    pub(super) spoken: bool,
    /// The last results that were equal, and how many.
    streak: Option<(ProbeState, u32)>,
    /// The begin of the last run in this instance.
    pub(super) began: Option<Instant>,
    /// The end of the last run.
    pub(super) ended: Option<Instant>,
    /// When the next run should begin.
    pub(super) due: Option<Instant>,
    /// How much later than it should the last run began.
    pub(super) late: Duration,
    /// The run whose result counts.
    pub(super) run: Option<RunId>,
    /// Result of the last run, while it does not count yet.
    pub(super) refusal: Option<Refusal>,
    pub(super) event: PendingEvent,
    news: bool,
}

impl Watch {
    pub(super) fn new(wanted: WantedProbe, memory: Option<ProbeReport>, now: Instant) -> Self {
        let mut watch = Self {
            wanted,
            place: Presence::Unheard,
            existed: false,
            placed: now,
            state: ProbeState::Unknown,
            since: now,
            message: "".into(),
            spoken: false,
            streak: None,
            began: None,
            ended: None,
            due: None,
            late: Duration::ZERO,
            run: None,
            refusal: None,
            event: PendingEvent::default(),
            news: true,
        };
        if let Some(memory) = memory {
            watch.remember(memory);
        }
        watch.refuse_unreadable(now);
        watch
    }

    /// Takes over what an earlier process found out, unless there is something newer.
    pub(super) fn remember(&mut self, memory: ProbeReport) {
        if self.spoken || self.place != Presence::Unheard {
            return;
        }
        self.state = memory.state;
        self.since = memory.last_transition.unwrap_or(self.since);
        self.message = cut(&memory.message);
        self.ended = memory.last_probe;
        self.existed = memory.state != ProbeState::Unknown;
        self.spoken = true;
        self.news = true;
    }

    pub(super) fn container(&self) -> &ContainerName {
        &self.wanted.container
    }

    /// Tells whether nothing is known yet, so there are no words.
    pub(super) fn is_blank(&self) -> bool {
        self.state == ProbeState::Unknown && self.message.is_empty()
    }

    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// Takes in that it is asked for in another way, of the same container.
    pub(super) fn change(&mut self, wanted: WantedProbe, agent_began: Instant, now: Instant) {
        let old = std::mem::replace(&mut self.wanted, wanted);
        self.news = true;
        if old.paused != self.wanted.paused {
            // What ran meanwhile was asked for by nobody.
            self.drop_run();
            self.due = self.next_due(agent_began).map(|due| due.max(now));
        }
        if old.probe == self.wanted.probe {
            return;
        }
        self.streak = None;
        let asks = |probe: &Result<Probe, String>| probe.as_ref().ok().map(|probe| probe.action.clone());
        let due = if asks(&old.probe) != asks(&self.wanted.probe) || self.wanted.probe.is_err() {
            self.drop_run();
            // Of what was asked before no period is left to wait for: it may be an hour, without any result.
            self.began = None;
            self.begin_anew(now);
            self.ready()
        } else {
            self.next_due(agent_began)
        };
        self.due = due.map(|due| due.max(now));
    }

    /// Its container stands there now.
    pub(super) fn place(&mut self, place: Presence, agent_began: Instant, now: Instant) {
        let same = self.place.is_like(&place);
        let old = std::mem::replace(&mut self.place, place);
        if same {
            // The start may become known better.
            if old != self.place {
                let due = self.next_due(agent_began);
                self.due = if self.began.is_some() { due.max(self.due) } else { due };
            }
            return;
        }
        self.placed = now;
        self.streak = None;
        self.began = None;
        self.late = Duration::ZERO;
        self.drop_run();
        self.existed |= self.place.container().is_some();
        match &self.place {
            Presence::Unheard => {
                self.spoken = false;
                self.existed = false;
                self.ended = None;
                self.news = true;
                self.blank(now);
                self.refuse_unreadable(now);
            }
            // An earlier process found it out, and about this instance.
            Presence::Up { since, .. }
                if old == Presence::Unheard && self.ended.is_some_and(|ended| ended >= *since) => {}
            Presence::Absent | Presence::Down(_) | Presence::Up { .. } => self.begin_anew(now),
        }
        self.due = self.next_due(agent_began).map(|due| due.max(now));
    }

    /// A run begins.
    pub(super) fn begin(&mut self, run: RunId, now: Instant) {
        self.late = self.due.map_or(Duration::ZERO, |due| now.saturating_duration_since(due));
        self.run = Some(run);
        self.began = Some(now);
        self.due = self.probe().map(|probe| later(now, period(probe)));
    }

    /// Drops the last run: what it finds or found does not count any more.
    fn drop_run(&mut self) {
        self.run = None;
        self.refusal = None;
    }

    /// The run that counts has ended.
    pub(super) fn end(&mut self, result: &ProbeResult, now: Instant) {
        self.run = None;
        // A run that takes longer than the period is not held up by others.
        self.due = self.due.map(|due| due.max(now));
        match result {
            ProbeResult::Refused(words) => self.keep_back(words, now),
            _ => self.count(result, now, now),
        }
    }

    /// A result counts; it came at `ended`.
    pub(super) fn count(&mut self, result: &ProbeResult, ended: Instant, now: Instant) {
        self.ended = Some(ended);
        let Some(probe) = self.probe() else { return };
        let (state, threshold) = match result {
            ProbeResult::Success(_) => (ProbeState::Succeeded, probe.success_threshold),
            ProbeResult::Failure(_) => (ProbeState::Failed, probe.failure_threshold),
            ProbeResult::Unknown(_) | ProbeResult::Refused(_) => {
                (ProbeState::Unknown, probe.failure_threshold)
            }
        };
        let before = self.streak.filter(|(before, _)| *before == state).map_or(0, |(_, count)| count);
        let count = before.saturating_add(1);
        self.streak = Some((state, count));
        if state == self.state || count >= threshold {
            self.turn(state, words(result), now);
        }
    }

    /// Returns when its delay is over; never while it is paused.
    fn ready(&self) -> Option<Instant> {
        if self.wanted.paused {
            return None;
        }
        let Presence::Up { since, .. } = self.place else { return None };
        Some(later(since, self.probe()?.initial_delay))
    }

    /// Returns when its next run is wanted, as it stands now.
    fn next_due(&self, agent_began: Instant) -> Option<Instant> {
        let Presence::Up { since, .. } = self.place else { return None };
        let (probe, ready) = (self.probe()?, self.ready()?);
        let Some(began) = self.began else { return Some(ready.max(self.spread(probe, since, agent_began))) };
        let next = ready.max(later(began, period(probe)));
        Some(self.refusal.as_ref().map_or(next, |refusal| next.max(refusal.counts)))
    }

    /// Returns when a first run may begin, the delay of the probe aside. The kubelet does the same: when the
    /// agent has just begun, so do the probes of all containers that run already, and they are not to run all
    /// at once.
    fn spread(&self, probe: &Probe, since: Instant, agent_began: Instant) -> Instant {
        let period = period(probe);
        let young = self.placed.saturating_duration_since(agent_began) < period;
        if !young || self.placed.saturating_duration_since(since) <= period {
            return self.placed;
        }
        let mut hasher = DefaultHasher::new();
        (&self.place.container(), &self.wanted.name).hash(&mut hasher);
        let thousandths = u32::try_from(hasher.finish() % 1000).unwrap_or(0);
        // Thousandths first: a period may be whatever a user wrote.
        later(self.placed, (period / 1000).saturating_mul(thousandths))
    }

    pub(super) fn probe(&self) -> Option<&Probe> {
        self.wanted.probe.as_ref().ok()
    }

    /// Begins anew, as before the first result.
    fn begin_anew(&mut self, now: Instant) {
        match &self.place {
            _ if self.wanted.probe.is_err() => self.refuse_unreadable(now),
            Presence::Absent | Presence::Down(_) if self.existed => {
                let message = format!("Container({}) is Non-running", self.wanted.container);
                self.turn(ProbeState::Failed, cut(&message), now);
            }
            Presence::Unheard | Presence::Absent | Presence::Down(_) | Presence::Up { .. } => self.blank(now),
        }
    }

    fn refuse_unreadable(&mut self, now: Instant) {
        if let Err(why) = &self.wanted.probe {
            let message = cut(&format!("the probe is not run: {why}"));
            self.turn(ProbeState::Unknown, message, now);
        }
    }

    fn blank(&mut self, now: Instant) {
        if self.is_blank() {
            return;
        }
        if self.state != ProbeState::Unknown {
            self.since = now;
        }
        self.state = ProbeState::Unknown;
        self.message = "".into();
        self.news = true;
    }

    /// A state is known, the same or another.
    fn turn(&mut self, state: ProbeState, message: Arc<str>, now: Instant) {
        self.spoken = true;
        if self.state == state && self.message == message {
            return;
        }
        if self.state != state {
            self.since = now;
        }
        self.event.note(self.state != state, state, &message, now);
        self.state = state;
        self.message = message;
        self.news = true;
    }
}

impl Presence {
    pub(super) fn of(containers: Option<&BTreeMap<ContainerName, Instance>>, name: &ContainerName) -> Self {
        let Some(containers) = containers else { return Self::Unheard };
        let Some(Instance { id, sandbox, state }) = containers.get(name) else { return Self::Absent };
        match *state {
            InstanceState::NotRunning => Self::Down(id.clone()),
            InstanceState::Running { since } => {
                Self::Up { container: id.clone(), sandbox: sandbox.clone(), since }
            }
        }
    }

    fn container(&self) -> Option<&ContainerId> {
        match self {
            Self::Unheard | Self::Absent => None,
            Self::Down(container) | Self::Up { container, .. } => Some(container),
        }
    }

    /// The same instance, running or not as before.
    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other) && self.container() == other.container()
    }
}

impl ProbeState {
    /// Name of it, as the API spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }
}

pub(super) fn period(probe: &Probe) -> Duration {
    probe.period.max(SHORTEST)
}

/// Returns how long a run may take where `longest` is the most.
pub(super) fn timeout(probe: &Probe, longest: Duration) -> Duration {
    probe.timeout.max(SHORTEST).min(longest.max(SHORTEST))
}
