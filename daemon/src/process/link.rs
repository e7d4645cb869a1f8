//! The thread that answers a `berth-shim`, where that has the data path. A thread of its own, because what
//! the API server sends takes milliseconds to read.

use std::{path::Path, sync::Arc, thread, time::Duration};

use berth_shim::remote::{AgentLink, Resync};
use tokio::{runtime::Handle, time::timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::warn;

use super::{components::Components, data_path::Serving};
use crate::images::gate::ImageGate;

/// Time in which a store that could not be read at the start may be read before the shim is told without it.
const STORE: Duration = Duration::from_secs(10);
/// Time after which a task that has panicked is started again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// Makes a link around the gate of these components.
pub(super) fn of(gate: Arc<ImageGate>, components: &Components) -> AgentLink {
    let metrics = components.shim_metrics.clone();
    AgentLink::new(gate, components.agent.clone(), resync(components), metrics)
}

/// Starts the thread. It ends with the work that the agent does of its own accord: a successor decides then.
pub(super) fn start(
    link: AgentLink,
    socket: &Path,
    serving: Serving,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let Serving { heartbeat, shutdown, .. } = serving;
    let (socket, stopped) = (socket.to_owned(), shutdown.token);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("shim-link".to_owned()).spawn(move || {
        runtime.block_on(async {
            let until = stopped.clone();
            tokio::spawn(async move { heartbeat.beat(until).await });
            link.run(&socket, stop).await;
            // The process is not at its end while it waits for its successor.
            stopped.cancelled().await;
        });
    })?;
    Ok(())
}

/// Finds out what there is, on the thread whose connection to the runtime is used: see [`until_known`].
fn resync(components: &Components) -> Resync {
    let (agent, executor) = (components.agent.clone(), components.executor.clone());
    let control = Handle::current();
    Arc::new(move || {
        let (agent, executor, control) = (agent.clone(), executor.clone(), control.clone());
        Box::pin(async move {
            loop {
                let (agent, executor) = (agent.clone(), executor.clone());
                let known = async move {
                    until_known(agent.until_remembered(), executor.until_listed()).await;
                };
                // Dropped with the connection, it lists no more.
                let Err(error) = AbortOnDropHandle::new(control.spawn(known)).await else { return };
                warn!(%error, "Runtime not listed for the shim, trying again");
                tokio::time::sleep(RESTART_PAUSE).await;
            }
        })
    })
}

/// Waits for the store, and then for the runtime's list: an agent that knew what the one says and not what
/// the other does would take from the shim the table that it has, which is right.
async fn until_known(remembered: impl Future<Output = ()>, listed: impl Future<Output = ()>) {
    if timeout(STORE, remembered).await.is_err() {
        warn!("The store is not read yet, and the shim is told without what it remembers");
    }
    listed.await;
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_shim_keeps_its_table_while_the_store_cannot_be_read() {
        let begun = Instant::now();
        let listed = async || assert_eq!(begun.elapsed().as_secs(), 0);
        until_known(ready(()), listed()).await;
        let listed = async || assert_eq!(begun.elapsed().as_secs(), 3);
        until_known(sleep(Duration::from_secs(3)), listed()).await;
        let listed =
            async || assert_eq!(begun.elapsed().as_secs(), 13, "a store that is lost is not waited for");
        until_known(pending(), listed()).await;
        assert_eq!(begun.elapsed().as_secs(), 13);
    }
}
