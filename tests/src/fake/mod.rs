//! A kubelet and a runtime that are nothing but ends of a CRI socket: what goes over it is all there is of
//! them.
//!
//! Both are written against HTTP/2 frames, not against gRPC stubs, so that a test can send and see what no
//! well-behaved library would: a broken frame, a reset code, a method nobody has invented yet. They hold no
//! policy and wait for nothing but their peer.

mod kubelet;
mod message;
mod runtime;

pub use kubelet::{Begun, FakeKubelet, OpenCall, Reply};
pub use message::{framed, grpc_status};
pub use runtime::{Exchange, FakeRuntime};
