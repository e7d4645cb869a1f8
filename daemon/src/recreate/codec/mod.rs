//! The one codec of ContainerRecreateRequests: what a request asks for, and what is told of it, wherever its
//! bytes come from and go to.
//!
//! ```text
//!   object of the API server ─┐                                       ┌─ status of the object
//!   file ─────────────────────┼─ Shown ─ request ─> policy ─> report ─┼─ status beside the file
//!   admin socket (a file) ────┘                                       └─ answer of the admin socket
//! ```
//!
//! - `request`: checks a spec and gives it to the policy. `status`: a report of the policy as a status, and
//!   back.
//! - `answer`: the same for the admin socket.
//!
//! Nothing here reads or writes anything.

mod answer;
mod request;
mod status;

#[cfg(test)]
mod tests;

pub(crate) use self::{
    answer::{Row, answer},
    request::{Refused, Shown, authored, request},
    status::{has_ended, merged, outcome, own, read, status},
};
