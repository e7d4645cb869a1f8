//! Berth's manager. No feature of this version needs a centre: launch and exit order are decided on the node alone. It
//! says so and exits, rather than looking like a controller that runs.

use std::process::ExitCode;

fn main() -> ExitCode {
    eprintln!(
        "berth-manager {}: nothing to manage in this version; launch and exit order need only berthd on the nodes",
        env!("CARGO_PKG_VERSION")
    );
    ExitCode::from(64)
}
