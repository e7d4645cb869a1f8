//! Carries out the steps the policy owes, and nothing else: a match and awaits, no decisions.

mod effects;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
pub(crate) mod hook;
mod spans;
mod telling;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use berth_policy::{Event, ProbeRun, Question, Step};
use berth_shim::Gate;
use futures::FutureExt;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, error, warn};

use self::telling::Telling;
use crate::{
    agent::{Agent, metrics::AgentMetrics},
    base::{causes::chain, deadline},
    cri::{PATIENCE, Runtime, RuntimeError},
    pods::kubelet::KubeletView,
    probes::prober::Prober,
    recreate::{api::ApiRequests, files::Files},
};

/// How often the runtime's own lists are compared with what is known, against drift by those who work beside
/// the agent.
const RESYNC_PERIOD: Duration = Duration::from_secs(60);
/// How soon the runtime is listed again when it could not be.
const RESYNC_RETRY: Duration = Duration::from_secs(1);
/// The most time for a list that took too long before: a node that is busy answers late.
const LONGEST_LIST: Duration = Duration::from_secs(30);
/// How soon it is listed again for what the list before did not have.
const MISSED_AGAIN: Duration = Duration::from_millis(200);

/// Executor of the steps.
#[derive(Clone, Debug)]
pub(crate) struct Executor {
    agent: Arc<Agent>,
    runtime: Runtime,
    kubelet: Option<Arc<KubeletView>>,
    files: Files,
    requests: Option<ApiRequests>,
    prober: Prober,
    /// Questions under way.
    tasks: TaskTracker,
    /// Tasks that change something, under way, and how they are broken off.
    effects: TaskTracker,
    break_off: CancellationToken,
    /// The list of the runtime that is under way.
    listing: Arc<tokio::sync::Mutex<()>>,
}

impl Executor {
    /// An executor that does nothing before [`Executor::run`].
    pub(crate) fn new(
        agent: Arc<Agent>,
        runtime: Runtime,
        kubelet: Option<Arc<KubeletView>>,
        files: Files,
        requests: Option<ApiRequests>,
        prober: Prober,
    ) -> Self {
        let (tasks, effects) = (TaskTracker::new(), TaskTracker::new());
        let break_off = CancellationToken::new();
        Self {
            agent,
            runtime,
            kubelet,
            files,
            requests,
            prober,
            tasks,
            effects,
            break_off,
            listing: Arc::default(),
        }
    }

    /// Asks what is owed after every change and at every deadline, until the shutdown.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        // Subscribed before the first question, so that no change in between is lost.
        let mut owed = self.agent.due();
        let mut telling = Telling::new(&self.agent);
        loop {
            owed.borrow_and_update();
            let (steps, deadline) = self.agent.plan();
            // What has to wait has not begun, and is owed again with the next plan.
            for step in telling.may_begin(steps) {
                self.begin(step, &shutdown);
            }
            let deadline = telling.deadline(deadline);
            // All cancel-safe: flags, version numbers and a timer.
            tokio::select! {
                () = shutdown.cancelled() => break,
                changed = owed.changed() => if changed.is_err() { break },
                () = telling.told() => {}
                () = deadline::reached(deadline) => {}
            }
        }
        for tasks in [&self.tasks, &self.effects] {
            tasks.close();
            tasks.wait().await;
        }
    }

    /// Lets what changes something come to its end, and breaks it off after `limit`, as a crash would:
    /// whoever comes next finds how far it was. The policy must owe nothing of the kind any more.
    pub(crate) async fn give_up(&self, limit: Duration) {
        self.effects.close();
        if tokio::time::timeout(limit, self.effects.wait()).await.is_err() {
            warn!(steps = self.effects.len(), "Steps under way are broken off for the successor");
            self.break_off.cancel();
            self.effects.wait().await;
        }
    }

    /// Marks a step as begun before anything awaits, so that the next plan does not owe it again.
    fn begin(&self, step: Step, shutdown: &CancellationToken) {
        match step {
            Step::Question(question) => self.ask(question, shutdown),
            Step::ForgetLatches(sandbox) => self.agent.forget_latches(&sandbox),
            Step::Effect(effect) => self.begin_effect(effect, shutdown),
        }
    }

    fn ask(&self, question: Question, shutdown: &CancellationToken) {
        match question {
            Question::InspectSandbox(sandbox) => {
                self.agent.observe(Event::InspectionStarted(sandbox.clone()));
                let this = self.clone();
                self.tasks.spawn(async move {
                    let inspection = async {
                        let known = this.agent.read(|node, _| node.exit_codes(&sandbox));
                        this.runtime.inspect(&sandbox, &known).await
                    };
                    let event = match to_its_end(this.agent.metrics(), inspection).await {
                        Some(Ok(containers)) => Event::SandboxInspected { sandbox, containers },
                        Some(Err(error)) => {
                            this.agent.metrics().inspection_failed();
                            warn!(sandbox = %sandbox, error = %chain(&error), "Sandbox not inspected");
                            Event::InspectionFailed(sandbox)
                        }
                        None => Event::InspectionFailed(sandbox),
                    };
                    this.agent.observe(event);
                });
            }
            Question::PollKubelet => {
                self.agent.observe(Event::KubeletPollStarted);
                let this = self.clone();
                self.tasks.spawn(async move { this.poll_kubelet().await });
            }
            Question::Probe(run) => {
                self.agent.observe(Event::ProbeBegan(run.clone()));
                let this = self.clone();
                let shutdown = shutdown.clone();
                // Cancel-safe: nobody waits for the result any more.
                self.tasks.spawn(async move { shutdown.run_until_cancelled(this.probe(run)).await });
            }
        }
    }

    async fn probe(&self, run: ProbeRun) {
        let ip = self.agent.read(|node, _| node.ip(&run.pod.uid));
        let result = self.prober.run(&run, ip.as_deref()).await;
        self.agent.observe(Event::ProbeEnded(run, result));
    }

    /// Asks the kubelet for its pods once.
    pub(crate) async fn poll_kubelet(&self) {
        if let Some(kubelet) = &self.kubelet {
            match to_its_end(self.agent.metrics(), kubelet.poll()).await {
                Some(Ok(events)) => {
                    for event in events {
                        if let Event::PodsUnread(pods) = &event {
                            self.agent.metrics().pods_unread(pods.len());
                        }
                        self.agent.observe(event);
                    }
                }
                Some(Err(error)) => {
                    self.agent.metrics().kubelet_poll_failed();
                    warn!(error = %chain(&error), "Kubelet not asked for its pods");
                }
                None => self.agent.metrics().kubelet_poll_failed(),
            }
        }
        self.agent.observe(Event::KubeletPollEnded);
    }

    /// Lists the runtime once; each of its lists may take so long.
    pub(crate) async fn resync(&self, patience: Duration) -> Result<(), RuntimeError> {
        // An answer is older than everything since it was asked for: with two questions at once it could not
        // be told which.
        let _one = self.listing.lock().await;
        self.agent.observe(Event::ListingStarted);
        let listing = self.runtime.list(patience).await?;
        let (sandboxes, containers) = (listing.sandboxes.len(), listing.containers.len());
        self.agent
            .observe(Event::RuntimeListed { sandboxes: listing.sandboxes, containers: listing.containers });
        self.agent.observe(Event::ContainersCreated(listing.created));
        debug!(sandboxes, containers, "Runtime listed");
        Ok(())
    }

    /// Lists the runtime until it answers.
    pub(crate) async fn until_listed(&self) {
        // The shim's questions wait meanwhile: a list that takes long is better than one begun anew.
        until_listed(|| self.resync(LONGEST_LIST)).await;
    }

    /// Lists the runtime now and then until the shutdown; soon again after a failure, and when a request is
    /// about what was made since: beside the kubelet nobody tells of a new sandbox.
    pub(crate) async fn keep_in_step(self, listed: bool, shutdown: CancellationToken) {
        let mut pause = if listed { RESYNC_PERIOD } else { RESYNC_RETRY };
        let (mut failing, mut patience) = (!listed, PATIENCE);
        // Cancel-safe: a listing that is dropped changed nothing yet.
        while shutdown.run_until_cancelled(tokio::time::timeout(pause, self.missed())).await.is_some() {
            match self.resync(patience).await {
                Ok(()) => (pause, failing, patience) = (RESYNC_PERIOD, false, PATIENCE),
                Err(error) => {
                    if !failing {
                        warn!(error = %chain(&error), "Runtime not listed, trying every second");
                    }
                    (pause, failing, patience) = (RESYNC_RETRY, true, longer(patience));
                }
            }
            if shutdown.run_until_cancelled(tokio::time::sleep(MISSED_AGAIN)).await.is_none() {
                break;
            }
        }
    }

    /// Waits until the runtime's list lacks what a request is about.
    async fn missed(&self) {
        // Subscribed before the first look, so that no change in between is lost.
        let mut owed = self.agent.due();
        while !self.agent.read(|node, _| node.misses_container()) {
            if owed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Does what somebody waits for; `None` where it panicked. Without a word of its end its subject would be
/// under way for ever.
async fn to_its_end<T>(metrics: &AgentMetrics, work: impl Future<Output = T>) -> Option<T> {
    let ended = AssertUnwindSafe(work).catch_unwind().await;
    if ended.is_err() {
        metrics.policy_panicked();
        error!("Step panicked, it counts as failed");
    }
    ended.ok()
}

async fn until_listed<F>(list: impl Fn() -> F)
where
    F: Future<Output = Result<(), RuntimeError>>,
{
    while let Err(error) = list().await {
        warn!(error = %chain(&error), "Runtime not listed for the shim, trying every second");
        tokio::time::sleep(RESYNC_RETRY).await;
    }
}

/// The time for the list after one that failed.
fn longer(patience: Duration) -> Duration {
    patience.saturating_mul(2).min(LONGEST_LIST)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use prometheus_client::registry::Registry;

    use super::*;

    #[tokio::test]
    async fn a_step_that_panics_comes_to_its_end_and_is_counted() {
        let metrics = AgentMetrics::register(&mut Registry::default());
        assert_eq!(to_its_end(&metrics, async { 1 }).await, Some(1));
        assert_eq!(metrics.policy_panics(), 0);
        let mistaken = async { assert!(metrics.policy_panics() > 0, "a mistake of ours") };
        assert_eq!(to_its_end(&metrics, mistaken).await, None);
        assert_eq!(metrics.policy_panics(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_does_not_list_is_asked_until_it_does() {
        let asked = Cell::new(0);
        let begun = tokio::time::Instant::now();
        until_listed(|| {
            asked.set(asked.get() + 1);
            let is_there = asked.get() > 6;
            async move {
                if is_there {
                    return Ok(());
                }
                let status = Box::new(tonic::Status::deadline_exceeded("busy"));
                Err(RuntimeError::Call { method: "ListPodSandbox", status })
            }
        })
        .await;
        assert_eq!(asked.into_inner(), 7);
        assert_eq!(begun.elapsed().as_secs(), 6);
    }
}
