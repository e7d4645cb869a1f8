//! postStart hooks.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::timeout_at;

use super::Playing;
use crate::cri::Cri;
use crate::manifest::types::Handler;

/// Runs a postStart hook to its end; a failure of it is a failure of the container.
pub(crate) async fn post_start(playing: &Playing<'_>, hook: &Handler, id: &str, name: &str) -> Result<()> {
    match timeout_at(playing.deadline, run(playing.cri, hook, id, name)).await {
        Ok(result) => result,
        Err(_) => bail!("the postStart hook of container {name:?} has not ended within --timeout"),
    }
}

async fn run(cri: &Cri, hook: &Handler, id: &str, name: &str) -> Result<()> {
    if let Some(exec) = &hook.exec {
        let done = cri.exec(id, exec.command.clone(), None, name).await?;
        if done.exit_code != 0 {
            let said = String::from_utf8_lossy(&done.stderr);
            let said = if said.trim().is_empty() { String::new() } else { format!(": {}", said.trim()) };
            bail!("the postStart hook of container {name:?} ended with exit code {}{said}", done.exit_code);
        }
    }
    if let Some(sleep) = &hook.sleep {
        tokio::time::sleep(Duration::from_secs(sleep.seconds)).await;
    }
    Ok(())
}
