//! The thread that answers a `berth-shim`, where that has the data path. A thread of its own, because what
//! the API server sends takes milliseconds to read.

use std::{path::Path, sync::Arc, thread, time::Duration};

use berth_shim::remote::{AgentLink, Resync};
use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::warn;

use super::{components::Components, data_path::Serving};
use crate::images::gate::ImageGate;

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

/// Lists the runtime, on the thread whose connection to it is used, until it answers: an agent that knows
/// marks and no container would take from the shim the table that it has, which is right.
fn resync(components: &Components) -> Resync {
    let (executor, control) = (components.executor.clone(), Handle::current());
    Arc::new(move || {
        let (executor, control) = (executor.clone(), control.clone());
        Box::pin(async move {
            loop {
                let executor = executor.clone();
                let listing = control.spawn(async move { executor.until_listed().await });
                // Dropped with the connection, it lists no more.
                let Err(error) = AbortOnDropHandle::new(listing).await else { return };
                warn!(%error, "Runtime not listed for the shim, trying again");
                tokio::time::sleep(RESTART_PAUSE).await;
            }
        })
    })
}
