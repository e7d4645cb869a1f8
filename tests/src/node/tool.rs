//! Runs a command line tool to its end and takes its word for it.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

/// Runs `program`; what it printed on success, what it complained of on failure.
pub async fn run(program: impl AsRef<Path>, args: &[&str]) -> Result<String> {
    let program = program.as_ref();
    let done = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("run {}", program.display()))?;
    if !done.status.success() {
        bail!(
            "{} {}: {}: {}",
            program.display(),
            args.join(" "),
            done.status,
            String::from_utf8_lossy(&done.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
