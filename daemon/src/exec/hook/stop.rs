//! Stopping a container without the kubelet: its hook, the stop signal, and SIGKILL, within its grace.

use std::time::Duration;

use berth_policy::{About, DirectStop, Notice};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{HookError, run};
use crate::{
    base::causes::chain,
    cri::{Runtime, RuntimeError},
    trace::Span,
};

/// Time that is left for the stop signal, however long the hook took: the kubelet's own minimum.
const SHORTEST_GRACE: Duration = Duration::from_secs(2);

/// The container was stopped.
#[derive(Debug)]
pub(crate) struct StopOutcome {
    /// How its hook ended; `None` without one. A hook that failed does not keep a container alive.
    pub hook: Option<Result<(), HookError>>,
    /// From the beginning of the hook to the end of the container.
    #[cfg_attr(not(test), expect(dead_code, reason = "who stops has logged it; tests read it"))]
    pub took: Duration,
}

impl StopOutcome {
    /// Events of the stop, by the reasons of the kubelet, which does not tell of a stop that is not its own.
    pub(crate) fn notices(&self, stop: &DirectStop) -> Vec<Notice> {
        let container = &stop.name;
        let notice = |reason, warning, note| Notice { about: About::Pod, reason, warning, note };
        let failed = match &self.hook {
            Some(Err(error)) => {
                let note = format!("preStop hook of container {container}: {}", chain(error));
                Some(notice("FailedPreStopHook", true, note))
            }
            Some(Ok(())) | None => None,
        };
        let killed = notice("Killing", false, format!("container {container} was stopped"));
        failed.into_iter().chain([killed]).collect()
    }
}

/// The container was not stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StopError {
    /// The agent is stopping. Nobody knows how far the container has got.
    #[error("the stop was called off")]
    Cancelled,
    /// The runtime did not stop it.
    #[error("container not stopped")]
    Stop(#[source] RuntimeError),
}

/// Runs the hook and stops the container.
pub(crate) async fn stop_directly(
    runtime: &Runtime,
    stop: &DirectStop,
    cancel: &CancellationToken,
) -> Result<StopOutcome, StopError> {
    let began = Instant::now();
    let hook = run_hook(runtime, stop, cancel).await;
    if cancel.is_cancelled() {
        return Err(StopError::Cancelled);
    }
    let rest = stop.grace.saturating_sub(began.elapsed()).max(SHORTEST_GRACE);
    // Cancel-safe: a stop that was begun goes on in the runtime or is asked for again, and asking twice is
    // one stop.
    let stopped = cancel.run_until_cancelled(runtime.stop_container(&stop.container, rest)).await;
    stopped.ok_or(StopError::Cancelled)?.map_err(StopError::Stop)?;
    let took = began.elapsed();
    info!(
        container = %stop.container,
        pod = %format_args!("{}/{}", stop.pod.namespace, stop.pod.name),
        ?took,
        "Container stopped without the kubelet"
    );
    Ok(StopOutcome { hook, took })
}

/// Runs the hook. Without any grace there is no time for a hook, and the kubelet leaves it out too.
async fn run_hook(
    runtime: &Runtime,
    stop: &DirectStop,
    cancel: &CancellationToken,
) -> Option<Result<(), HookError>> {
    let hook = stop.hook.as_ref().filter(|_| !stop.grace.is_zero())?;
    let span = Span::own("preStop hook");
    let result = span.around(run(runtime, stop, hook, stop.grace, cancel)).await;
    match &result {
        Ok(()) => debug!(container = %stop.container, "preStop hook ended"),
        Err(error) => {
            warn!(container = %stop.container, error = %chain(error), "preStop hook failed");
        }
    }
    Some(result)
}
