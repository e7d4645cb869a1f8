//! Events on pods: one for each change of a state, and one for each reason why a probe cannot be carried out,
//! at most one of these a minute and probe. What is not told yet when something newer is to be told is not
//! told any more.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::time::later;

use super::{
    ProbeStep, Probes,
    message::cut,
    step::{ProbeEventText, ProbeReason},
    watch::ProbeState,
};

/// Pause between two Events that one probe cannot be carried out.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

/// Event of one probe that is to be told.
#[derive(Debug, Default)]
pub(super) struct PendingEvent {
    untold: Option<Untold>,
    /// Why it could not be carried out, told or about to be; empty since it gave a result.
    warned: Arc<str>,
    warned_at: Option<Instant>,
}

#[derive(Debug)]
struct Untold {
    reason: ProbeReason,
    message: Arc<str>,
    since: Instant,
}

impl PendingEvent {
    /// The probe is in this state now, and says this.
    pub(super) fn note(&mut self, changed: bool, state: ProbeState, message: &Arc<str>, now: Instant) {
        let reason = match state {
            ProbeState::Succeeded => ProbeReason::Succeeded,
            ProbeState::Failed => ProbeReason::Failed,
            ProbeState::Unknown => ProbeReason::Unknown,
        };
        let tells = match state {
            ProbeState::Succeeded | ProbeState::Failed => changed,
            ProbeState::Unknown => self.warned != *message,
        };
        self.warned = if state == ProbeState::Unknown { message.clone() } else { "".into() };
        if tells {
            self.untold = Some(Untold { reason, message: message.clone(), since: now });
        }
    }

    /// Times since which something is to be told, and at which it may be.
    fn due(&self) -> Option<(Instant, Instant)> {
        let untold = self.untold.as_ref()?;
        let quiet = self.warned_at.filter(|_| untold.reason == ProbeReason::Unknown);
        Some((untold.since, quiet.map_or(untold.since, |last| later(last, BETWEEN_WARNINGS))))
    }

    fn take(&mut self, now: Instant) -> Option<(ProbeReason, Arc<str>)> {
        let Untold { reason, message, .. } = self.untold.take()?;
        if reason == ProbeReason::Unknown {
            self.warned_at = Some(now);
        }
        Some((reason, message))
    }
}

impl Probes {
    pub(super) fn events_due(&mut self, now: Instant) -> Vec<ProbeStep> {
        let mut due = Vec::new();
        for (uid, pod) in &self.pods {
            for (name, watch) in &pod.probes {
                match watch.event.due() {
                    Some((since, at)) if at <= now => due.push((since, uid.clone(), name.clone())),
                    Some((_, at)) => self.wake.at(at),
                    None => {}
                }
            }
        }
        due.sort();
        let mut steps = Vec::new();
        for (_, uid, name) in due {
            let Some(pod) = self.pods.get_mut(&uid) else { continue };
            let Some(watch) = pod.probes.get_mut(&name) else { continue };
            if !self.event_rate.take(now) {
                self.event_rate.free_at().into_iter().for_each(|free| self.wake.at(free));
                break;
            }
            if let Some((reason, message)) = watch.event.take(now) {
                let message = cut(&format!("{name}: {message}")).to_string();
                steps.push(ProbeStep::EmitEvent(ProbeEventText { pod: pod.pod.clone(), reason, message }));
            }
        }
        steps
    }
}
