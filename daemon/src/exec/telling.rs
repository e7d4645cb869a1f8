//! Steps that wait until the shim knows what they lead to.
//!
//! The kubelet may look at a container as soon as it has ended. A shim that was not told that its end does
//! not count answers with the truth, and a Job fails for its sidecar. So a stop is not begun before the shim
//! knows, and neither is the mark by which its hook is not begun a second time.

use std::{collections::BTreeMap, time::Duration};

use berth_policy::{ContainerId, Effect, RuntimeEffect, Step, StoreEffect, time::later};
use berth_shim::remote::Foresight;
use tokio::{sync::watch, time::Instant};
use tracing::warn;

use crate::agent::Agent;

/// Time that a shim may take to be there and to be told. Nobody but a Job waits for it; then it ends all the
/// same.
const TOLD_WITHIN: Duration = Duration::from_secs(60);

/// Pause between two looks while steps wait: they are due all the time.
const PAUSE: Duration = Duration::from_millis(100);

/// Wait of these steps.
#[derive(Debug)]
pub(super) struct Telling<'a> {
    agent: &'a Agent,
    tellings: watch::Receiver<Option<u64>>,
    /// Containers whose steps wait: the number that the shim has to know, and since when.
    awaited: BTreeMap<ContainerId, (u64, Instant)>,
}

impl<'a> Telling<'a> {
    pub(super) fn new(agent: &'a Agent) -> Self {
        Self { agent, tellings: agent.tellings(), awaited: BTreeMap::new() }
    }

    /// Leaves out the steps that have to wait.
    pub(super) fn may_begin(&mut self, mut steps: Vec<Step>) -> Vec<Step> {
        self.tellings.borrow_and_update();
        let mut before = std::mem::take(&mut self.awaited);
        steps.retain(|step| {
            let Some(container) = needs_telling(step) else { return true };
            // The number of its first sight: what is known goes on growing.
            let (number, since) =
                before.remove(container).unwrap_or_else(|| (self.agent.foretold(), Instant::now()));
            let was_told = self.agent.was_told(number);
            let begins = was_told || since.elapsed() >= TOLD_WITHIN;
            if !begins {
                self.awaited.insert(container.clone(), (number, since));
            } else if !was_told {
                warn!(container.id = %container, "The shim was not told of a container that is stopped now");
            }
            begins
        });
        steps
    }

    /// The next deadline, which those that wait are not.
    pub(super) fn deadline(&self, next: Option<std::time::Instant>) -> Option<std::time::Instant> {
        let Some(since) = self.awaited.values().map(|(_, since)| *since).min() else { return next };
        let soonest = later(Instant::now().into_std(), PAUSE);
        let last = later(since.into_std(), TOLD_WITHIN);
        Some(next.map_or(last, |next| next.min(last)).max(soonest))
    }

    /// Ends when the shim was told something.
    pub(super) async fn told(&mut self) {
        if self.awaited.is_empty() || self.tellings.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Container of a step that waits.
fn needs_telling(step: &Step) -> Option<&ContainerId> {
    match step {
        Step::Effect(Effect::Runtime(RuntimeEffect::StopContainer(stop))) => Some(&stop.container),
        Step::Effect(Effect::Store(StoreEffect::MarkSidecars(marks))) => {
            marks.iter().find(|mark| mark.hooked).map(|mark| &mark.container)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_policy::{DirectStop, PodRef, Question, SidecarMark};
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
        stop_of("c")
    }

    fn stop_of(container: &str) -> Step {
        let pod = PodRef { uid: "u".into(), namespace: "shop".to_owned(), name: "web".to_owned() };
        let (container, sandbox) = (container.into(), "s".into());
        let stop = DirectStop { container, pod, sandbox, ip: None, hook: None, grace: Duration::ZERO };
        Step::Effect(Effect::Runtime(RuntimeEffect::StopContainer(stop)))
    }

    fn mark(hooked: bool) -> Step {
        let (pod, name, container) = ("u".into(), "proxy".into(), "c".into());
        let mark = SidecarMark { pod, name, container, hooked };
        Step::Effect(Effect::Store(StoreEffect::MarkSidecars(vec![mark])))
    }

    /// Rows: what the shim was told of two facts, a step, and whether it begins at once.
    #[rstest]
    #[case::no_shim_is_to_be_told(Some(u64::MAX), stop(), true)]
    #[case::none_has_come(None, stop(), false)]
    #[case::one_stays_behind(Some(0), stop(), false)]
    #[case::its_hook_counts_as_begun_then(None, mark(true), false)]
    #[case::a_mark_is_what_it_is_told(None, mark(false), true)]
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
        assert!(telling.may_begin(vec![step.clone(), stop_of("later")]).is_empty());
        agent.told(Some(number));
        tokio::time::timeout(PAUSE, telling.told()).await.unwrap();
        assert_eq!(telling.may_begin(vec![step, stop_of("later")]).len(), 1);
        agent.told(Some(agent.foretold()));
        assert_eq!(telling.may_begin(vec![stop_of("later")]).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_shim_that_does_not_come_is_not_waited_for_for_ever() {
        let (agent, _dir) = agent();
        agent.told(None);
        let mut telling = Telling::new(&agent);
        let begun = Instant::now();
        while telling.may_begin(vec![stop()]).is_empty() {
            tokio::time::sleep_until(telling.deadline(None).unwrap().into()).await;
        }
        assert_eq!(begun.elapsed().as_secs(), TOLD_WITHIN.as_secs());
    }
}
