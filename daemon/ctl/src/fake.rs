//! The fake runtime of `berth-fake`, as the flags of a command name it.

use std::time::Duration;

pub(crate) use berth_fake::{Node, serve};

use super::cli::Global;

/// Flags that lead to this node.
pub(crate) fn global(node: &Node) -> Global {
    Global {
        runtime_endpoint: Some(format!("unix://{}", node.socket().display())),
        admin_socket: node.dir.path().join("admin.sock"),
        timeout: Duration::from_secs(60),
        debug: false,
    }
}
