//! Observer of calls: tells the policy when a call is asked, when it is answered, and that it ended.
//!
//! Everything is told before the end of the answer goes to the client, so that the kubelet's next call meets
//! a state that knows of this one. A call that was announced ends exactly once, also when its future is
//! dropped.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use berth_cri as cri;
use berth_policy::{CallId, ConnectionId, ContainerId, Declared, Event, PodRef, SandboxId};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use prost::Message;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tracing::debug;

use crate::{
    download::Tap,
    exceptions::Exception,
    frames::{Assembler, Payload},
    gate::Gate,
};

/// The largest answer that is read: those looked at carry one identity.
const MAX_ANSWER: usize = 64 << 10;

/// Watches one call.
pub(crate) struct Observer {
    gate: Arc<dyn Gate>,
    connection: ConnectionId,
    /// The call the policy knows of, until it was told of its end.
    announced: Option<CallId>,
    on_success: OnSuccess,
    answer: Answer,
    /// The kubelet asks for the status of this container.
    status_of: Option<ContainerId>,
    /// When this is over, so is the answer.
    cut: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

/// Meaning of a successful answer.
#[derive(Debug, Default)]
pub(crate) enum OnSuccess {
    #[default]
    Nothing,
    SandboxCreated(PodRef, Declared),
    SandboxRemoved(SandboxId),
    ContainerCreated,
    ContainerStarted(ContainerId),
    ContainerStopped(ContainerId),
    ContainerRemoved(ContainerId),
    /// The answer says with which exit code.
    HookEnded(ContainerId),
    RelistAnswered,
}

/// A copy of the answer, where its content matters.
enum Answer {
    Ignored,
    Collected(BytesMut),
}

// === impl Observer ===

impl Observer {
    /// Watches a call of which the policy knows nothing yet.
    pub(crate) fn new(gate: Arc<dyn Gate>, connection: ConnectionId) -> Self {
        Self {
            gate,
            connection,
            announced: None,
            on_success: OnSuccess::Nothing,
            answer: Answer::Ignored,
            status_of: None,
            cut: None,
        }
    }

    /// Announces a call: from now on the policy knows of this call, and will be told of its end.
    pub(crate) fn announce(&mut self, call: CallId) {
        self.announced = Some(call);
    }

    /// Sets the report to the policy for when the call succeeds.
    pub(crate) fn on_success(&mut self, on_success: OnSuccess) {
        self.answer = match on_success {
            OnSuccess::SandboxCreated(..) | OnSuccess::ContainerCreated | OnSuccess::HookEnded(_) => {
                Answer::Collected(BytesMut::new())
            }
            _ => Answer::Ignored,
        };
        self.on_success = on_success;
    }

    /// The answer is the status of this container, and it is for the kubelet.
    pub(crate) fn shows(&mut self, container: ContainerId) {
        self.status_of = Some(container);
    }

    /// The answer has no end of its own; this is one.
    pub(crate) fn ends_with(&mut self, token: &CancellationToken) {
        self.cut = Some(Box::pin(token.clone().cancelled_owned()));
    }

    /// Tells this at once.
    pub(crate) fn tell(&self, event: Event) {
        self.gate.observe(event);
    }

    /// The call is over, whatever came of it.
    pub(crate) fn ended(&mut self) {
        if let Some(call) = self.announced.take() {
            self.gate.observe(Event::CallEnded(call));
        }
    }

    fn succeeded(&mut self) {
        let event = match std::mem::take(&mut self.on_success) {
            OnSuccess::Nothing => None,
            OnSuccess::SandboxCreated(pod, declared) => {
                self.answered().map(|answer: cri::RunPodSandboxResponse| Event::SandboxCreated {
                    sandbox: answer.pod_sandbox_id.into(),
                    pod,
                    declared,
                })
            }
            OnSuccess::ContainerCreated => self.announced.and_then(|call| {
                self.answered().map(|answer: cri::CreateContainerResponse| Event::ContainerCreated {
                    call,
                    container: answer.container_id.into(),
                })
            }),
            OnSuccess::SandboxRemoved(sandbox) => Some(Event::SandboxRemoved(sandbox)),
            OnSuccess::ContainerStarted(container) => Some(Event::ContainerStarted(container)),
            OnSuccess::ContainerStopped(container) => Some(Event::ContainerStopped(container)),
            OnSuccess::ContainerRemoved(container) => Some(Event::ContainerRemoved(container)),
            // One whose output is too long to be read here is the kubelet's to tell of.
            OnSuccess::HookEnded(container) => self
                .answered()
                .map(|answer: cri::ExecSyncResponse| Event::HookEnded(container, answer.exit_code == 0)),
            OnSuccess::RelistAnswered => {
                self.announced.map(|call| Event::RelistAnswered { call, connection: self.connection })
            }
        };
        if let Some(event) = event {
            self.gate.observe(event);
        }
    }

    /// The message of the answer. `None` when it cannot be read; the next inspection of the sandbox will
    /// tell.
    fn answered<M: Message + Default>(&self) -> Option<M> {
        let Answer::Collected(bytes) = &self.answer else { return None };
        let mut assembler = Assembler::default();
        assembler.push(Bytes::copy_from_slice(bytes)).ok()?;
        let Payload::Message(message) = assembler.payload() else { return None };
        M::decode(message).inspect_err(|error| debug!(%error, "Answer not understood")).ok()
    }
}

impl Tap for Observer {
    fn begun(&mut self) -> Option<Box<Exception>> {
        let container = self.status_of.take()?;
        self.gate.is_completed(&container).then(|| Box::new(Exception::completed()))
    }

    fn data(&mut self, frame: &Bytes) {
        if let Answer::Collected(bytes) = &mut self.answer {
            if bytes.len() + frame.len() > MAX_ANSWER {
                self.answer = Answer::Ignored;
            } else {
                bytes.extend_from_slice(frame);
            }
        }
    }

    fn end(&mut self, trailers: Option<&HeaderMap>) {
        let status = trailers.and_then(|trailers| trailers.get("grpc-status"));
        if status.is_some_and(|status| status == "0") {
            self.succeeded();
        }
        self.ended();
    }

    fn poll_cut(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.cut {
            Some(cut) => cut.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.ended();
    }
}
