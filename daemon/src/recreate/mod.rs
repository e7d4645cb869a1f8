//! Everything of ContainerRecreateRequests but the decisions, which are the policy's: from the API server, from files
//! and from the admin socket, and what is reported of them.
//!
//! - [`api`]: requests at the API server. `files`: requests that are files. `status`: the words that both write.

pub mod api;
pub(crate) mod files;
pub(crate) mod status;
