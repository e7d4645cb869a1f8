//! Everything of ContainerRecreateRequests but the decisions, which are the policy's: from the API server,
//! from files and from the admin socket, and what is reported of them.
//!
//! - [`codec`]: what a request asks for and what is told of it, the same for all sources.
//! - [`api`]: requests at the API server. [`files`]: requests that are files. They only bring the bytes and
//!   take them away.

pub mod api;
pub(crate) mod codec;
pub(crate) mod files;
