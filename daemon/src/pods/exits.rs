//! Hints that a container has ended, from containerd's stream of events, at once.
//!
//! The CRI has no such word but for a stream that few runtimes have; the kubelet finds an end when it lists,
//! up to a second later. containerd says it in a stream of its own API, on the same socket. It is a hint to
//! look, and nothing depends on it: another runtime has no such stream, and then the kubelet's own questions
//! are the hint, as they are while the stream is not there.

use std::{sync::Arc, time::Duration};

use berth_policy::Event;
use berth_shim::{Gate, RuntimeEndpoint};
use containerd_client::{
    events::TaskExit,
    services::v1::{SubscribeRequest, events_client::EventsClient},
    types::Envelope,
};
use prost::Message;
use tokio::{
    sync::watch::{self, error::RecvError},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, transport::Channel};
use tracing::{debug, info};

use crate::{agent::Agent, base::unix};

/// Ends of processes in the containers of the CRI plugin.
const ENDS: &str = r#"topic=="/tasks/exit",namespace=="k8s.io""#;
/// A runtime that restarts is away for about so long.
const RECONNECT_PAUSE: Duration = Duration::from_secs(2);

/// Hands hints on while there are pods for which an end counts; until the shutdown.
pub(crate) async fn follow(agent: Arc<Agent>, endpoint: RuntimeEndpoint, shutdown: CancellationToken) {
    let channel = unix::endpoint().connect_with_connector_lazy(unix::connector(endpoint.path()));
    // Cancel-safe: a hint that is lost is lost.
    shutdown.run_until_cancelled(hint(agent, EventsClient::new(channel))).await;
}

async fn hint(agent: Arc<Agent>, client: EventsClient<Channel>) {
    let mut needed = agent.follows();
    loop {
        if needed.wait_for(|needed| *needed).await.is_err() {
            return;
        }
        let status = match while_needed(&mut needed, told(&agent, client.clone())).await {
            Ok(Some(status)) => status,
            Ok(None) => continue,
            Err(_) => return,
        };
        if status.code() == Code::Unimplemented {
            info!("The runtime does not tell when a container ends; the kubelet's looks have to do");
            return;
        }
        debug!(%status, "No word of ends from the runtime, asking again");
        sleep(RECONNECT_PAUSE).await;
    }
}

/// Ends with the work, or drops it once there is no need of it any more. The guard that `wait_for` gives is
/// let go before: it locks what the work writes to while it is dropped, see [`Agent::observe`].
async fn while_needed<T>(
    needed: &mut watch::Receiver<bool>,
    work: impl Future<Output = T>,
) -> Result<Option<T>, RecvError> {
    tokio::select! {
        outcome = work => Ok(Some(outcome)),
        unneeded = async { needed.wait_for(|needed| !*needed).await.map(drop) } => unneeded.map(|()| None),
    }
}

/// Says why it ended. Dropped, nothing is told of ends any more.
async fn told(agent: &Agent, client: EventsClient<Channel>) -> Status {
    let _told = Told(agent);
    subscribed(agent, client).await
}

/// The runtime tells of ends, for as long as this is there.
struct Told<'a>(&'a Agent);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.observe(Event::EndsTold(false));
    }
}

/// Says why it ended.
async fn subscribed(agent: &Agent, mut client: EventsClient<Channel>) -> Status {
    let request = SubscribeRequest { filters: vec![ENDS.to_owned()] };
    let mut events = match client.subscribe(request).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => return status,
    };
    // The answer begins with the first end.
    agent.observe(Event::EndsTold(true));
    loop {
        match events.message().await {
            Ok(Some(envelope)) => {
                if let Some(container) = ended(&envelope) {
                    agent.observe(Event::EndHinted(container.as_str().into()));
                }
            }
            Ok(None) => return Status::unavailable("the stream ended"),
            Err(status) => return status,
        }
    }
}

/// The container whose main process has ended. A command that was executed in it has another ID.
fn ended(envelope: &Envelope) -> Option<String> {
    let exit = TaskExit::decode(&*envelope.event.as_ref()?.value).ok()?;
    (exit.id == exit.container_id).then_some(exit.container_id)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    /// The end of the stream is told to the agent, and the agent may say that nobody needs it.
    #[tokio::test]
    async fn work_that_is_dropped_may_write_to_what_dropped_it() {
        struct Writes<'a>(&'a watch::Sender<bool>);
        impl Drop for Writes<'_> {
            fn drop(&mut self) {
                self.0.send_if_modified(|needed| std::mem::replace(needed, false));
            }
        }
        let sender = watch::Sender::new(true);
        let mut needed = sender.subscribe();
        let work = async {
            let _writes = Writes(&sender);
            sender.send_replace(false);
            pending::<()>().await;
        };
        assert!(matches!(while_needed(&mut needed, work).await, Ok(None)));
        sender.send_replace(true);
        assert!(matches!(while_needed(&mut needed, async { 1 }).await, Ok(Some(1))));
        drop(sender);
        assert!(while_needed(&mut needed, pending::<()>()).await.is_err());
    }

    #[test]
    fn only_the_end_of_a_container_counts() {
        let envelope = |id: &str| {
            let (container_id, id) = ("c".to_owned(), id.to_owned());
            let exit = TaskExit { container_id, id, ..TaskExit::default() };
            let mut envelope = Envelope { event: Some(Default::default()), ..Envelope::default() };
            envelope.event.as_mut().unwrap().value = exit.encode_to_vec();
            envelope
        };
        assert_eq!(ended(&envelope("c")).as_deref(), Some("c"));
        assert_eq!(ended(&envelope("exec-1")), None);
        assert_eq!(ended(&Envelope::default()), None);
    }
}
