//! Berth's CRI data path: between the kubelet and the runtime, passing bytes.
//!
//! One call, from the kubelet's connection to the runtime's and back:
//!
//! ```text
//!  kubelet                         berth-shim                                        runtime
//!     |                                                                                 |
//!     |--HEADERS--> serve --> call --+-- not in the table ------------> forward ------->|
//!     |  DATA                        |                                     ^            |
//!     |                              +-- in the table (intercept):         |            |
//!     |                                  frames collected, a copy read     |            |
//!     |                                  |          |                      |            |
//!     |                               observed    gated --> hold --Pass----+            |
//!     |                               Gate::observe  |  Gate::admit        |            |
//!     |                                  |           |                     |            |
//!     |                                  +-----------|---------------------+            |
//!     |<--HEADERS (grpc-status)------ status <-Refuse-                                  |
//!     |                                                                                 |
//!     |<--HEADERS, DATA, trailers---- download <-------- the observer sees the end <----|
//!                                     (+ exceptions, to the kubelet only)
//! ```
//!
//! - `bounds`: limits of connections, calls and memory, and what is shed beyond them.
//! - `serve`: connections, one upstream connection for each (two where a descriptor store is), GOAWAY and
//!   drain.
//! - `call`, `intercept`, `frames`, `observe`, `hold`: the closed table of calls that are looked at.
//! - `forward`, `upload`, `download`, `upstream`: bytes both ways, and every way a call can end.
//! - `socket`: what is written in one turn goes out in one system call.
//! - `authority`: an `:authority` that is none is mended as it is read, or h2 would refuse the call.
//! - `fd_store`: second descriptors of connections to the runtime, kept by another process, so that calls go
//!   on when this one is killed.
//! - [`wire`], `env`: edits of a request, on the bytes themselves.
//! - `peer`, `relist`, [`exceptions`], `append`, `edit`: the three exceptions from the runtime's own words,
//!   to the kubelet and no other client.
//! - `trace`: where a call belongs in the trace of its client, for a gate that wants to know.
//! - `passing`, `descriptor`, `handover`: descriptors that go from one process to the next, with words.
//! - [`convert`]: from CRI messages to the words of the policy.
//!
//! This crate holds no policy: whether a call may pass, and whether an answer is an exception, is the answer
//! of a [`Gate`]. It never does this:
//! - decode an answer but the two small ones that carry a new identity, or encode a message it has decoded;
//! - answer a list itself, or a `PullImage` but with what the runtime answered to the agent's own pull of the
//!   same image;
//! - send a call twice that the runtime may have acted on.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should")
)]

pub mod convert;
pub mod exceptions;
pub mod frames;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod wire;

mod append;
mod assemble;
mod authority;
mod bounds;
mod call;
mod confined;
mod descriptor;
mod download;
mod edit;
mod endpoint;
mod env;
mod fd_store;
mod forward;
mod gate;
mod handover;
mod hold;
mod http2;
mod intercept;
mod listener;
mod metrics;
mod observe;
mod passing;
mod peer;
mod relist;
pub mod remote;
mod serve;
mod socket;
mod status;
mod timeout;
mod trace;
mod upload;
mod upstream;

pub use bounds::MOST_MEMORY;
pub use confined::Confined;
pub use descriptor::own;
pub use endpoint::{EndpointError, RuntimeEndpoint};
pub use fd_store::{FdStore, StoredFd};
pub use gate::{Answer, BoxFuture, Decision, Gate, Holds, Query};
pub use handover::HandOverWord;
pub use hold::decide_by_asking;
pub use listener::{BindError, Listener, bind};
pub use metrics::{Exported, Metrics};
pub use passing::PassingLine;
pub use peer::{Clients, MAX_PROCESS_NAME};
pub use serve::{Shutdown, serve};
pub use socket::Socket;
pub use trace::{TRACEPARENT, TraceParent};
