//! ContainerRecreateRequests of the API server, of files and of the admin socket, and what is reported of
//! them. The decisions are the policy's.
//!
//! - [`codec`]: what a request asks for and what is told of it, the same for all sources.
//! - [`api`]: requests at the API server. [`files`]: requests that are files. They only bring the bytes and
//!   take them away.

pub mod api;
pub(crate) mod codec;
pub(crate) mod files;
