//! Plan of an upgrade: which pods get the newest sidecars now, and which entries are taken back. A pure
//! function of the set, its pods and their entries.
//!
//! A pod costs one of `maxUnavailable` from when it is asked for until it is available with the newest
//! sidecars; one that is not Ready anyway costs nothing, and is always taken. A pod whose upgrade failed
//! holds its place, so that a bad image stops where it was tried; it is tried again after a while. What is
//! left to an agent that is silent costs as little as it can: an entry that it has not begun is taken back,
//! and one that it has begun holds no place while its pod is available. The pods that `partition` keeps are
//! the last ones in the order.
//!
//! A pause stops the next pods: one whose agent has been given the newest revision gets it, as where somebody
//! pauses just after an edit. `NotUpdate`, the selector and a newer revision take back what is not begun.
//!
//! A pod that cannot be upgraded is told so, in its condition `SidecarSetUpgradable`, and that it can when
//! that is so again: by an entry that costs nothing, and that an upgrade takes the place of. A set that rests
//! tells no pod that it cannot.

use std::{collections::BTreeSet, time::Duration};

use berth_proto::crd::UpdatePhase;

use super::{
    order::{self, Ordered, Rank},
    progress::Progress,
    strategy::Strategy,
};
use crate::store::Labels;

/// A failed upgrade is tried again after it, then after twice as long, and so on.
const RETRIED_AFTER: Duration = Duration::from_secs(30);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// The most words of one set that wait for an agent at a time.
const MOST_TOLD: usize = 100;

/// A pod of the set, as far as the plan looks at it.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidate<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) labels: Labels,
    pub(super) rank: Rank,
    /// It has the newest sidecars.
    pub(super) updated: bool,
    /// It is Ready and runs what its spec says.
    pub(super) available: bool,
    /// It is Ready, and runs something else than its spec says: somebody changes it.
    pub(super) changing: bool,
    /// It differs from the newest in images alone.
    pub(super) upgradable: bool,
    /// Word of its condition; `None`: it has none of this set.
    pub(super) told: Option<bool>,
    /// Its agent writes that condition.
    pub(super) tells: bool,
    pub(super) means: Means,
    pub(super) entry: Option<PodRequest>,
}

/// Whether the pod's node can carry it out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Means {
    /// Its agent can.
    #[default]
    Agent,
    /// It has no node.
    Unscheduled,
    /// Its agent cannot, or there is none.
    NoAgent,
    /// Its agent has given no sign of life for too long.
    Silent,
    /// A hot upgrade is needed, and its agent cannot swap.
    NoSwaps,
}

/// Request that stands for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodRequest {
    /// It is the newest revision.
    pub(super) newest: bool,
    /// The agent has it, or may have it any moment.
    pub(super) given: bool,
    pub(super) attempt: i32,
    /// As the agent says; `None` before it has.
    pub(super) phase: Option<UpdatePhase>,
    /// Time since the agent said so.
    pub(super) ago: Duration,
    /// It is no upgrade, but this word for the condition.
    pub(super) word: Option<bool>,
}

/// Next step of an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Pods that are asked for, and the number of the try.
    pub(super) ask: Vec<(usize, i32)>,
    /// Pods that are told whether they can be upgraded.
    pub(super) tell: Vec<(usize, bool)>,
    /// Pods whose upgrade is not wanted any more.
    pub(super) take_back: Vec<usize>,
    /// Pods whose word is not wanted any more, or is asked for anew.
    pub(super) told: Vec<usize>,
    pub(super) progress: Progress,
    /// When a failed pod is tried again, at the latest in so long.
    pub(super) again_in: Option<Duration>,
}

impl Plan {
    /// Sees to it that the pods are looked at in so long at the latest.
    fn look_again(&mut self, pause: Duration) {
        self.again_in = Some(self.again_in.map_or(pause, |known| known.min(pause)));
    }
}

impl Ordered for Candidate<'_> {
    fn rank(&self) -> &Rank {
        &self.rank
    }

    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn name(&self) -> (&str, &str) {
        (self.namespace, self.name)
    }
}

/// Plans the next step.
pub(super) fn plan(strategy: &Strategy, pods: &[Candidate]) -> Plan {
    let mut plan = Plan::default();
    let counted = |filter: fn(&&Candidate) -> bool| pods.iter().filter(filter).count();
    plan.progress = Progress {
        matched: pods.len(),
        updated: counted(|pod| pod.updated),
        updated_ready: counted(|pod| pod.updated && pod.available),
        paused: strategy.paused,
        not_update: strategy.not_update,
        ..Progress::default()
    };
    let (mut waiting, mut used) = (Vec::new(), 0_usize);
    for (at, pod) in pods.iter().enumerate() {
        let Some(asked) = pod.entry.as_ref().filter(|asked| asked.word.is_none()) else {
            let unavailable = pod.updated && !pod.available;
            used = used.saturating_add(usize::from(unavailable));
            if !pod.updated {
                wait(strategy, at, pod, &mut plan.progress, &mut waiting);
            }
            continue;
        };
        let silent = pod.means == Means::Silent;
        match next(strategy, pod, asked) {
            // One that has come right is the agent's to confirm, whenever it comes back.
            Next::Stay if silent && pod.updated => {}
            Next::Stay if silent => plan.progress.silent = plan.progress.silent.saturating_add(1),
            Next::Stay => plan.progress.in_flight = plan.progress.in_flight.saturating_add(1),
            Next::Failed => plan.progress.failed = plan.progress.failed.saturating_add(1),
            Next::Unseen(pause) => {
                plan.progress.in_flight = plan.progress.in_flight.saturating_add(1);
                plan.look_again(pause);
            }
            Next::Later(pause) => {
                plan.progress.failed = plan.progress.failed.saturating_add(1);
                plan.look_again(pause);
            }
            Next::Ask(attempt) => {
                plan.ask.push((at, attempt));
                plan.progress.in_flight = plan.progress.in_flight.saturating_add(1);
            }
            Next::TakeBack => {
                plan.take_back.push(at);
                let unavailable = pod.updated && !pod.available;
                used = used.saturating_add(usize::from(unavailable));
                if !pod.updated {
                    // It waits as the others do, from the next plan on.
                    wait(strategy, at, pod, &mut plan.progress, &mut Vec::new());
                }
                continue;
            }
        }
        used = used.saturating_add(usize::from(!silent || !pod.available));
    }
    if strategy.paused || strategy.not_update {
        plan.progress.held = plan.progress.held.saturating_add(waiting.len());
        tell(strategy, pods, &mut plan);
        return plan;
    }
    order::sort(strategy, pods, &mut waiting);
    let kept = strategy.partition.of(pods.len());
    let moved = waiting.len().saturating_sub(kept);
    plan.progress.held = plan.progress.held.saturating_add(waiting.split_off(moved).len());
    let most = strategy.most_unavailable.some_of(pods.len());
    for at in waiting {
        let Some(pod) = pods.get(at) else { continue };
        let progress = &mut plan.progress;
        let count = match pod.means {
            Means::Unscheduled => &mut progress.unscheduled,
            Means::NoAgent => &mut progress.no_agent,
            Means::Silent => &mut progress.silent,
            Means::NoSwaps => &mut progress.no_swaps,
            Means::Agent if pod.changing => &mut progress.queued,
            Means::Agent if !pod.available || used < most => {
                used = used.saturating_add(usize::from(pod.available));
                plan.ask.push((at, 0));
                &mut progress.in_flight
            }
            Means::Agent => &mut progress.queued,
        };
        *count = count.saturating_add(1);
    }
    tell(strategy, pods, &mut plan);
    plan
}

/// Adds the words that pods are to be told, and takes those back that are told. Few stand at a time, for a
/// change of a set may concern all of its pods at once, and each word costs its agent three requests.
fn tell(strategy: &Strategy, pods: &[Candidate], plan: &mut Plan) {
    let upgraded: BTreeSet<usize> = plan.ask.iter().map(|(at, _)| *at).collect();
    let (mut missing, mut stand) = (Vec::new(), 0_usize);
    for (at, pod) in pods.iter().enumerate().filter(|(at, _)| !upgraded.contains(at)) {
        let standing = pod.entry.as_ref().and_then(|asked| Some((asked, asked.word?)));
        match (word(strategy, pod), standing) {
            (Some(word), None) if pod.entry.is_none() => missing.push((at, word)),
            (Some(word), Some((_, standing))) if word != standing => missing.push((at, word)),
            (Some(_), Some((PodRequest { phase: Some(UpdatePhase::Failed), ago, .. }, _))) => {
                // What refuses it may be mended by then; it keeps nobody waiting until then.
                let pause = LONGEST_PAUSE.saturating_sub(*ago);
                if pause.is_zero() {
                    plan.told.push(at);
                }
                plan.look_again(pause);
            }
            (Some(_), Some(_)) => stand = stand.saturating_add(1),
            (None, Some(_)) => plan.told.push(at),
            (Some(_) | None, None) => {}
        }
    }
    missing.truncate(MOST_TOLD.saturating_sub(stand));
    plan.tell = missing;
}

/// Word that a pod is to be told.
fn word(strategy: &Strategy, pod: &Candidate) -> Option<bool> {
    let rests = strategy.paused || strategy.not_update;
    let word = pod.updated || pod.upgradable;
    // Where nothing was said, it can.
    let is_news = word != pod.told.unwrap_or(true);
    (pod.tells && pod.means != Means::Silent && is_news && (word || !rests)).then_some(word)
}

/// A pod that has not been asked for waits, or is held back.
fn wait(strategy: &Strategy, at: usize, pod: &Candidate, progress: &mut Progress, waiting: &mut Vec<usize>) {
    if !pod.upgradable {
        progress.not_upgradable = progress.not_upgradable.saturating_add(1);
    } else if !selected(strategy, pod) {
        progress.held = progress.held.saturating_add(1);
    } else {
        waiting.push(at);
    }
}

fn selected(strategy: &Strategy, pod: &Candidate) -> bool {
    strategy.selector.as_ref().is_none_or(|selector| selector.matches(&pod.labels))
}

/// Fate of an entry.
enum Next {
    Stay,
    /// It failed, and is not tried again.
    Failed,
    /// It failed, and is tried again in so long.
    Later(Duration),
    /// It succeeded, which the pod does not show; it is tried again in so long.
    Unseen(Duration),
    Ask(i32),
    TakeBack,
}

fn next(strategy: &Strategy, pod: &Candidate, asked: &PodRequest) -> Next {
    let begun = asked.phase.is_some_and(|phase| phase != UpdatePhase::Pending);
    let ended = matches!(asked.phase, Some(UpdatePhase::Succeeded | UpdatePhase::Failed));
    let can = pod.upgradable && selected(strategy, pod) && pod.means == Means::Agent;
    let wanted = can && !strategy.paused && !strategy.not_update;
    if pod.updated && asked.newest && !ended && (begun || pod.means == Means::Agent) {
        // The pod is seen before the agent's word of its end.
        return Next::Stay;
    }
    if pod.updated {
        // It came right, whatever the agent said last.
        return if asked.phase == Some(UpdatePhase::Failed) && asked.newest && !pod.available {
            Next::Failed
        } else {
            Next::TakeBack
        };
    }
    if !ended && begun && (asked.newest || !wanted) {
        return Next::Stay;
    }
    if !ended && asked.newest && asked.given && can && !strategy.not_update {
        return Next::Stay;
    }
    if !wanted {
        return if asked.phase == Some(UpdatePhase::Failed) && asked.newest && pod.upgradable {
            Next::Failed
        } else {
            Next::TakeBack
        };
    }
    if !asked.newest {
        return Next::Ask(0);
    }
    if !ended {
        return Next::Stay;
    }
    // What succeeded and does not show is seen late, or was undone: either way it has some time.
    let twice = u32::try_from(asked.attempt.clamp(0, 10)).unwrap_or(0);
    let pause = RETRIED_AFTER.saturating_mul(2_u32.saturating_pow(twice)).min(LONGEST_PAUSE);
    match pause.checked_sub(asked.ago).filter(|rest| !rest.is_zero()) {
        // Until it is seen it counts as being upgraded.
        Some(rest) if asked.phase == Some(UpdatePhase::Succeeded) => Next::Unseen(rest),
        Some(rest) => Next::Later(rest),
        None => Next::Ask(asked.attempt.saturating_add(1)),
    }
}

#[cfg(test)]
mod tests;
