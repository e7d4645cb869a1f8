//! Steps that wait until the shim knows what they lead to.
//!
//! The kubelet may look at a container as soon as it has ended. A shim that was not told that its end does
//! not count answers with the truth, and a Job fails for its sidecar. So a stop is not begun before the shim
//! knows, nor is its hook.

use std::{collections::BTreeMap, time::Duration};

use berth_policy::{ContainerId, Effect, RuntimeEffect, Step, time::later};
use berth_shim::remote::Foresight;
use tokio::{sync::watch, time::Instant};
use tracing::warn;

use crate::agent::Agent;

/// Time that a shim may take to be there and to be told. Nobody but a Job waits for it; then it ends all the
/// same.
const TOLD_WITHIN: Duration = Duration::from_secs(60);

/// Time for which a wait that was for nothing is remembered: a stop that fails is tried again, and begins at
/// once then. Longer than any stop takes.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Pause between two looks while steps wait: they are due all the time.
const PAUSE: Duration = Duration::from_millis(100);

/// Wait of these steps.
#[derive(Debug)]
pub(super) struct Telling<'a> {
    agent: &'a Agent,
    tellings: watch::Receiver<Option<u64>>,
    /// By the container whose steps wait.
    awaited: BTreeMap<ContainerId, Wait>,
}

/// Wait of the steps of one container.
#[derive(Debug)]
struct Wait {
    /// Number that the shim has to be told: that of the first sight, because what is known goes on growing.
    number: u64,
    since: Instant,
    /// When a step was last due.
    seen: Instant,
    /// It has ended without the shim.
    over: bool,
}

impl<'a> Telling<'a> {
    pub(super) fn new(agent: &'a Agent) -> Self {
        Self { agent, tellings: agent.tellings(), awaited: BTreeMap::new() }
    }

    /// Leaves out the steps that have to wait.
    pub(super) fn may_begin(&mut self, mut steps: Vec<Step>) -> Vec<Step> {
        self.tellings.borrow_and_update();
        let now = Instant::now();
        let mut before = std::mem::take(&mut self.awaited);
        steps.retain(|step| {
            let Some(container) = needs_telling(step) else { return true };
            let first = || Wait { number: self.agent.foretold(), since: now, seen: now, over: false };
            let known = self.awaited.remove(container).or_else(|| before.remove(container));
            let mut wait = Wait { seen: now, ..known.unwrap_or_else(first) };
            if self.agent.was_told(wait.number) {
                return true;
            }
            let ends = now.saturating_duration_since(wait.since) >= TOLD_WITHIN;
            if ends && !std::mem::replace(&mut wait.over, ends) {
                warn!(container.id = %container, "A container begins to end of which the shim was not told");
            }
            self.awaited.insert(container.clone(), wait);
            ends
        });
        before.retain(|_, wait| wait.over && now.saturating_duration_since(wait.seen) < REMEMBERED);
        self.awaited.append(&mut before);
        steps
    }

    /// The next deadline, which those that wait are not.
    pub(super) fn deadline(&self, next: Option<std::time::Instant>) -> Option<std::time::Instant> {
        let Some(since) = self.waiting().map(|wait| wait.since).min() else { return next };
        let soonest = later(Instant::now().into_std(), PAUSE);
        let last = later(since.into_std(), TOLD_WITHIN);
        Some(next.map_or(last, |next| next.min(last)).max(soonest))
    }

    fn waiting(&self) -> impl Iterator<Item = &Wait> {
        self.awaited.values().filter(|wait| !wait.over)
    }

    /// Ends when the shim was told something.
    pub(super) async fn told(&mut self) {
        if self.waiting().next().is_none() || self.tellings.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Container of a step that waits.
fn needs_telling(step: &Step) -> Option<&ContainerId> {
    match step {
        Step::Effect(Effect::Runtime(RuntimeEffect::StopContainer(stop))) => Some(&stop.container),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_policy::{DirectStop, Hook, PodRef, Question, SidecarMark, StoreEffect};
    use berth_shim::Gate;
    use prometheus_client::registry::Registry;
    use rstest::rstest;

    use super::*;
    use crate::agent::{metrics::AgentMetrics, store::Store};

    fn agent() -> (Agent, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(dir.path()).unwrap());
        let metrics = AgentMetrics::register(&mut Registry::default());
        let agent = Agent::new(berth_policy::Config::default(), store, metrics);
        agent.observe(berth_policy::Event::SandboxStopping("s".into()));
        assert!(agent.foretold() > 0);
        (agent, dir)
    }

    fn stop() -> Step {
        stop_of("c", None)
    }

    fn hooked_stop() -> Step {
        stop_of("c", Some(Hook::Exec { command: vec!["bye".to_owned()] }))
    }

    fn stop_of(container: &str, hook: Option<Hook>) -> Step {
        let pod = PodRef { uid: "u".into(), namespace: "shop".to_owned(), name: "web".to_owned() };
        let (container, name, sandbox) = (container.into(), "proxy".into(), "s".into());
        let (mark, grace) = (None, Duration::ZERO);
        let stop = DirectStop { container, name, pod, sandbox, ip: None, hook, mark, grace };
        Step::Effect(Effect::Runtime(RuntimeEffect::StopContainer(Box::new(stop))))
    }

    fn mark() -> Step {
        let (pod, name, container) = ("u".into(), "proxy".into(), "c".into());
        let mark = SidecarMark { pod, name, container, hooked: false };
        Step::Effect(Effect::Store(StoreEffect::MarkSidecars(vec![mark])))
    }

    /// Rows: what the shim was told of two facts, a step, and whether it begins at once.
    #[rstest]
    #[case::no_shim_is_to_be_told(Some(u64::MAX), stop(), true)]
    #[case::none_has_come(None, stop(), false)]
    #[case::one_stays_behind(Some(0), stop(), false)]
    #[case::its_hook_counts_as_begun_then(None, hooked_stop(), false)]
    #[case::a_mark_is_what_it_is_told(None, mark(), true)]
    #[case::a_question(None, Question::PollKubelet.into(), true)]
    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_until_the_shim_knows(
        #[case] told: Option<u64>,
        #[case] step: Step,
        #[case] begins: bool,
    ) {
        let (agent, _dir) = agent();
        agent.told(told);
        let mut telling = Telling::new(&agent);
        assert_eq!(telling.may_begin(vec![step.clone()]).len(), usize::from(begins));
        if begins {
            assert!(tokio::time::timeout(TOLD_WITHIN, telling.told()).await.is_err());
            assert_eq!(telling.deadline(None), None);
            return;
        }
        let number = agent.foretold();
        // What is known goes on growing, and the wait is for what was known.
        agent.observe(berth_policy::Event::SandboxStopping("s".into()));
        assert!(agent.foretold() > number && telling.may_begin(vec![step.clone()]).is_empty());
        let now = Instant::now().into_std();
        assert!(telling.deadline(Some(now)) > Some(now), "it is due all the time");
        // One that comes later waits for what was known then.
        assert!(telling.may_begin(vec![step.clone(), stop_of("later", None)]).is_empty());
        agent.told(Some(number));
        tokio::time::timeout(PAUSE, telling.told()).await.unwrap();
        assert_eq!(telling.may_begin(vec![step, stop_of("later", None)]).len(), 1);
        agent.told(Some(agent.foretold()));
        assert_eq!(telling.may_begin(vec![stop_of("later", None)]).len(), 1);
    }

    /// Seconds until these steps begin, one after the other, while no shim comes.
    async fn begin(telling: &mut Telling<'_>, steps: impl IntoIterator<Item = Step>) -> Vec<u64> {
        let begun = Instant::now();
        let mut began = Vec::new();
        for step in steps {
            while telling.may_begin(vec![step.clone()]).is_empty() {
                tokio::time::sleep_until(telling.deadline(None).unwrap().into()).await;
            }
            began.push(begun.elapsed().as_secs());
        }
        began
    }

    #[tokio::test(start_paused = true)]
    async fn a_shim_that_does_not_come_is_waited_for_once_and_not_for_ever() {
        let (agent, _dir) = agent();
        agent.told(None);
        let limit = TOLD_WITHIN.as_secs();
        let mut telling = Telling::new(&agent);
        assert_eq!(begin(&mut telling, [mark(), stop()]).await, [0, limit]);
        assert_eq!(telling.deadline(None), None, "nothing waits");
        // The stop fails in the end.
        telling.may_begin(Vec::new());
        tokio::time::sleep(Duration::from_secs(35)).await;
        assert_eq!(begin(&mut telling, [stop(), stop_of("other", None), stop()]).await, [0, limit, limit]);
        // A shim that comes is told, and one that comes after it is waited for.
        agent.told(Some(agent.foretold()));
        assert_eq!(begin(&mut telling, [stop()]).await, [0]);
        agent.told(None);
        assert_eq!(begin(&mut telling, [stop()]).await, [limit]);
        tokio::time::sleep(REMEMBERED).await;
        telling.may_begin(Vec::new());
        assert!(telling.awaited.is_empty());
    }
}
