//! One call from its request to its end: passed on as it comes, or looked at first when it is in the table.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use berth_cri as cri;
use berth_policy::{Amendment, Call, CallId, ConnectionId, ContainerId, Event, Request as Wanted};
use bytes::Bytes;
use h2::{Reason, RecvStream, server::SendResponse};
use http::{HeaderMap, HeaderValue, Request, header::CONTENT_LENGTH};
use prost::Message;
use tokio::time::Instant;
use tracing::{debug, info};

use crate::{
    assemble::{Unassembled, assemble},
    bounds::{Memory, Room},
    convert::PullImage,
    edit::Edit,
    env,
    exceptions::Exception,
    forward::{forward, refuse, succeed},
    frames::{Assembler, Payload, framed},
    gate::{Answer, Gate, Query},
    hold::{Passage, pass},
    intercept::{Asked, Method},
    metrics::{Metrics, Unread},
    observe::{Observer, OnSuccess},
    relist::Relists,
    serve::Leaving,
    status::Status,
    timeout,
    trace::TraceParent,
    upload::Upload,
    upstream::Upstream,
    wire,
};

/// `StopContainerRequest.timeout`.
const STOP_TIMEOUT_FIELD: u32 = 2;
const GRPC_TIMEOUT: &str = "grpc-timeout";

/// State that all calls of one client connection share.
pub(crate) struct Context {
    pub(crate) connection: ConnectionId,
    /// The kubelet's: only there an answer may differ from the runtime's.
    pub(crate) kubelet: bool,
    pub(crate) relists: Relists,
    pub(crate) gate: Arc<dyn Gate>,
    pub(crate) upstream: Upstream,
    /// Connection for calls that go on when this process is killed; `None` without a descriptor store.
    pub(crate) lasting: Option<Upstream>,
    pub(crate) metrics: Metrics,
    pub(crate) memory: Memory,
    pub(crate) leaving: Leaving,
    /// Over all connections: an identity is never used twice.
    pub(crate) next_call: Arc<AtomicU64>,
}

/// Result of preparing a call of the table before it may go.
enum Prepared {
    /// The exception in a box: it is rare, and calls are many.
    Forward(Upload, Option<Box<Exception>>),
    Refuse(Status),
    /// Answered with this message and OK, without the runtime.
    Done(Vec<u8>),
    /// Given back as if it had never come.
    Unprocessed,
    ClientGone,
}

/// Serves one call. Ends early, without sending anything on, when the client goes.
pub(crate) async fn serve_call(
    context: Arc<Context>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    let method = Method::of(request.uri().path());
    context.metrics.call(method);
    let mut observer = Observer::new(context.gate.clone(), context.connection);
    // Given back when the call ends, in whatever way.
    let mut room = context.memory.room(context.kubelet);
    let (head, body) = request.into_parts();
    let mut head = Request::from_parts(head, ());
    let prepared = match (room.take(size_of_headers(head.headers())), method) {
        (Err(error), _) => Prepared::Refuse(error.into()),
        (Ok(()), None) => Prepared::Forward(Upload::streamed(body), None),
        (Ok(()), Some(method)) => tokio::select! {
            // First: a call is never sent on after its client took it back. Nothing is lost when this arm
            // wins: the other one has no effect but those its drop undoes.
            biased;
            _ = poll_fn(|cx| respond.poll_reset(cx)) => Prepared::ClientGone,
            prepared = context.prepare(method, &mut head, body, &mut room, &mut observer) => prepared,
        },
    };
    match prepared {
        Prepared::Forward(upload, exception) => {
            let Context { metrics, .. } = &*context;
            let upstream = context.upstream_of(method);
            forward(upstream, head, upload, exception, respond, &mut observer, metrics).await;
        }
        Prepared::Refuse(status) => {
            observer.ended();
            refuse(respond, status);
        }
        Prepared::Done(message) => {
            observer.ended();
            succeed(respond, &message);
        }
        // The client's own library sends it again, over a connection to whoever accepts now.
        Prepared::Unprocessed => respond.send_reset(Reason::REFUSED_STREAM),
        Prepared::ClientGone => {}
    }
}

/// Memory that headers take. No window bounds them, and they are kept until the call goes on.
fn size_of_headers(headers: &HeaderMap) -> usize {
    // Beside its texts, about so much for each.
    const AROUND: usize = 160;
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + AROUND).sum()
}

// === impl Context ===

impl Context {
    /// The connection that a call goes out on.
    fn upstream_of(&self, method: Option<Method>) -> &Upstream {
        let lasts = method.is_some_and(Method::survives_restart);
        self.lasting.as_ref().filter(|_| lasts).unwrap_or(&self.upstream)
    }

    /// Reads the request, tells and asks the policy.
    async fn prepare(
        &self,
        method: Method,
        head: &mut Request<()>,
        body: RecvStream,
        room: &mut Room,
        observer: &mut Observer,
    ) -> Prepared {
        let assembler = match assemble(body, room).await {
            Ok(assembler) => assembler,
            Err(Unassembled::TooLarge(error)) => return Prepared::Refuse(error.into()),
            Err(Unassembled::OutOfMemory(error)) => return Prepared::Refuse(error.into()),
            Err(Unassembled::ClientGone) => return Prepared::ClientGone,
        };
        let message = match assembler.payload() {
            Payload::Message(message) => message,
            Payload::Compressed => return self.unread(method, Unread::Compressed, assembler),
            Payload::Broken => return self.unread(method, Unread::Truncated, assembler),
        };
        let asked = match method.read(message.clone()) {
            Ok(asked) => asked,
            Err(error) => {
                debug!(rpc = method.name(), %error, "Request not understood");
                return self.unread(method, Unread::Undecodable, assembler);
            }
        };
        let mut answer = Answer::Pass;
        match asked {
            Asked::Gated(request) => {
                return self.ask(method, request, head, assembler, &message, observer).await;
            }
            Asked::RunPodSandbox(pod, declared) => {
                observer.on_success(OnSuccess::SandboxCreated(pod, declared));
            }
            Asked::StopPodSandbox(sandbox) => observer.tell(Event::SandboxStopping(sandbox)),
            Asked::RemovePodSandbox(sandbox) => observer.on_success(OnSuccess::SandboxRemoved(sandbox)),
            Asked::StartContainer(container) => {
                observer.on_success(OnSuccess::ContainerStarted(container));
            }
            Asked::RemoveContainer(container) => {
                observer.on_success(OnSuccess::ContainerRemoved(container));
            }
            Asked::AllSandboxes { empty_filter } => self.relists.sandboxes(empty_filter),
            // Others list, look and run commands as well: that says nothing about the kubelet.
            Asked::Relist | Asked::ContainerStatus(_) | Asked::Hook(_) if !self.kubelet => {}
            Asked::Relist => answer = self.relist(observer).await,
            Asked::ContainerStatus(container) => answer = self.status(container, observer).await,
            Asked::Statuses(field) => return self.statuses(method, field, assembler, observer).await,
            Asked::Hook(container) => answer = self.hook(container, observer).await,
            Asked::Pull(asked) => answer = self.pull(asked, head, observer).await,
            Asked::Nothing => {}
        }
        shaped(answer, assembler, &message, method)
    }

    /// Tells of a list of all containers, and asks what is to be added to its answer.
    async fn relist(&self, observer: &mut Observer) -> Answer {
        let call = self.next_call();
        observer.announce(call);
        observer.tell(Event::RelistAsked { call, connection: self.connection });
        observer.on_success(OnSuccess::RelistAnswered);
        if !self.relists.containers() {
            return Answer::Pass;
        }
        self.gate.answer(Query::Relist(call)).await
    }

    /// Tells that the kubelet looks at this container, and asks what it is to be shown.
    async fn status(&self, container: ContainerId, observer: &mut Observer) -> Answer {
        observer.tell(Event::StatusAsked { container: container.clone(), connection: self.connection });
        let query = Query::Status { connection: self.connection, container: &container };
        let answer = self.gate.answer(query).await;
        observer.shows(container);
        answer
    }

    /// Prepares a call whose answer has the status of several containers, in this field of its messages.
    async fn statuses(
        &self,
        method: Method,
        field: u64,
        assembler: Assembler,
        observer: &mut Observer,
    ) -> Prepared {
        if method == Method::GetContainerEvents {
            observer.ends_with(&self.leaving.goodbye);
        }
        let mut edited = None;
        if self.kubelet {
            // The stream of events begins at once: those that nobody listens to are lost.
            if method == Method::PodSandboxStatus {
                self.gate.can_tell().await;
            }
            edited = Some(Box::new(Exception::edited(Edit::new(field, self.gate.clone()))));
        }
        Prepared::Forward(Upload::assembled(assembler.into_frames()), edited)
    }

    /// Tells of a lifecycle hook, and asks whether it runs.
    async fn hook(&self, container: ContainerId, observer: &mut Observer) -> Answer {
        let (call, connection) = (self.next_call(), self.connection);
        observer.announce(call);
        observer.tell(Event::HookAsked { call, container: container.clone(), connection });
        let answer = self.gate.answer(Query::Hook { connection, container: &container }).await;
        if answer == Answer::Done {
            info!(container.id = %container, "Hook answered without running it a second time");
        } else {
            observer.on_success(OnSuccess::HookEnded(container));
        }
        answer
    }

    /// Waits for a pull of the agent's own that is just this one, or tells that this one is passed on.
    async fn pull(&self, asked: PullImage, head: &Request<()>, observer: &mut Observer) -> Answer {
        let PullImage { image, credential, handler } = asked;
        let (call, trace) = (self.next_call(), self.trace(head));
        let pull = Query::Pull { call, image: &image, credential, trace };
        // Cancel-safe: whoever stops waiting has joined nothing.
        let answer = tokio::select! {
            joined = self.gate.answer(pull), if !handler => joined,
            () = self.leaving.goodbye.cancelled(), if !handler => Answer::Pass,
            else => Answer::Pass,
        };
        if matches!(answer, Answer::Pulled(_)) {
            info!(image, "Pull answered by the agent's own of the same image");
        } else {
            observer.announce(call);
            observer.tell(Event::PullPassed { call, image, credential });
        }
        answer
    }

    /// Asks the gate, waits if it says so, and does what it says.
    async fn ask(
        &self,
        method: Method,
        request: Wanted,
        head: &mut Request<()>,
        assembler: Assembler,
        message: &[u8],
        observer: &mut Observer,
    ) -> Prepared {
        observer.on_success(match &request {
            Wanted::CreateContainer(_) => OnSuccess::ContainerCreated,
            Wanted::StopContainer(stop) => OnSuccess::ContainerStopped(stop.container.clone()),
        });
        let arrived = Instant::now().into_std();
        let timeout = head.headers().get(GRPC_TIMEOUT).and_then(timeout::parse);
        let call = Call {
            id: self.next_call(),
            connection: self.connection,
            arrived,
            deadline: timeout.and_then(|timeout| arrived.checked_add(timeout)),
            request,
        };
        observer.announce(call.id);
        let (amended, held) =
            match pass(&*self.gate, &call, method, self.trace(head), &self.leaving, &self.metrics).await {
                Passage::Pass { amended, held } => (amended, held),
                Passage::Refuse(refusal) => return Prepared::Refuse(Status::from(&refusal)),
                Passage::Unprocessed => return Prepared::Unprocessed,
                Passage::DeadlinePassed => return Prepared::Refuse(Status::deadline_exceeded()),
            };
        if let Some(timeout) = timeout
            && !held.is_zero()
        {
            // What it waited here it must not wait again there.
            let rest: HeaderValue = timeout::format(timeout.saturating_sub(held));
            head.headers_mut().insert(GRPC_TIMEOUT, rest);
        }
        if let Some(Amendment::StopTimeout(timeout)) = amended {
            // gRPC does not use it, and it is wrong from here on.
            head.headers_mut().remove(CONTENT_LENGTH);
            let edited = wire::set_varint(message, STOP_TIMEOUT_FIELD, timeout.as_secs());
            return Prepared::Forward(
                Upload::assembled(edited_or_as_it_came(edited.map(Some), assembler, method)),
                None,
            );
        }
        let answer = match &call.request {
            Wanted::CreateContainer(create) if self.kubelet => self.gate.answer(Query::Create(create)).await,
            Wanted::CreateContainer(_) | Wanted::StopContainer(_) => Answer::Pass,
        };
        if matches!(answer, Answer::WithEnv(_)) {
            head.headers_mut().remove(CONTENT_LENGTH);
        }
        shaped(answer, assembler, message, method)
    }

    fn unread(&self, method: Method, why: Unread, assembler: Assembler) -> Prepared {
        debug!(rpc = method.name(), ?why, "Request passed on without a look");
        self.metrics.left_unread(why);
        Prepared::Forward(Upload::assembled(assembler.into_frames()), None)
    }

    /// Finds where a call belongs in the trace of its client, for a gate that wants to know.
    fn trace(&self, head: &Request<()>) -> Option<TraceParent> {
        self.gate.traces().then(|| TraceParent::of(head.headers()))?
    }

    fn next_call(&self) -> CallId {
        CallId(self.next_call.fetch_add(1, Ordering::Relaxed))
    }
}

/// Does what the gate says of a request and its answer.
fn shaped(answer: Answer, assembler: Assembler, message: &[u8], method: Method) -> Prepared {
    let mut exception = None;
    let frames = match answer {
        Answer::Pass => assembler.into_frames(),
        Answer::WithEnv(env) if env.0.is_empty() => assembler.into_frames(),
        Answer::WithEnv(env) => {
            let edited = env::set_env(message, &env.0);
            if let Ok(Some(_)) = edited {
                info!(rpc = method.name(), "Env of a container set to what its pod says now");
            }
            edited_or_as_it_came(edited, assembler, method)
        }
        Answer::Shown(showing) => {
            exception = Exception::shown(showing).map(Box::new);
            assembler.into_frames()
        }
        Answer::Nudged(nudges) => {
            exception = Exception::nudged(nudges).map(Box::new);
            assembler.into_frames()
        }
        Answer::Done => return Prepared::Done(Vec::new()),
        Answer::Pulled(image_ref) => {
            return Prepared::Done(cri::PullImageResponse { image_ref }.encode_to_vec());
        }
    };
    Prepared::Forward(Upload::assembled(frames), exception)
}

/// The frames of a request that was edited; of one in which there was nothing to edit, those that came.
fn edited_or_as_it_came(
    edited: Result<Option<Bytes>, wire::Malformed>,
    assembler: Assembler,
    method: Method,
) -> Vec<Bytes> {
    match edited {
        Ok(Some(edited)) => vec![framed(&edited)],
        Ok(None) => assembler.into_frames(),
        Err(error) => {
            // Cannot be: the same bytes were decoded.
            debug!(rpc = method.name(), %error, "Request not edited");
            assembler.into_frames()
        }
    }
}
