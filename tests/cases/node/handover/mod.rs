//! Another berthd takes the place of the one that runs. Nobody notices, or it is the old one that goes on.

mod refused;
mod unnoticed;

use anyhow::{Context, Result, ensure};
use berth_tests::observe::node_ready;

use crate::case::Case;

/// Flags of an upgrade that is not looked at afterwards for longer than a test likes.
const QUICKLY: &[&str] = &["--watch=1s"];

/// Fails when the node has not been Ready all the time since then.
async fn check_node_ready_since(case: &Case, since: jiff::Timestamp) -> Result<()> {
    let ready = node_ready(&case.pods.clone().into_client()).await?;
    let changed = ready.last_transition_time.as_ref().context("no transition")?;
    ensure!(changed.0 < since, "the node was not Ready in between: {ready:?}");
    Ok(())
}
