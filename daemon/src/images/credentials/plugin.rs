//! One run of a credential provider: a request on its stdin, a response on its stdout, as the kubelet does
//! it.
//!
//! It is a program of somebody else: it gets a limit of time and of output, and is killed with everything it
//! started when it has reached one, or when the pull that asked for it ends. What it says on stderr may be a
//! secret and is not kept.

use std::{collections::BTreeMap, path::Path, process::Stdio, time::Duration};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Command,
    time::timeout,
};

use super::plugin_config::Provider;
use crate::config::GoDuration;

/// The kubelet's own.
const LIMIT: Duration = Duration::from_secs(60);
/// The kubelet's own, too.
const OUTPUT_LIMIT: u64 = 1 << 20;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CredentialProviderRequest<'a> {
    api_version: &'a str,
    kind: &'static str,
    image: &'a str,
}

/// `CredentialProviderResponse`. It has no `Debug`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CredentialProviderResponse {
    api_version: String,
    kind: String,
    cache_key_type: CacheKeyType,
    #[serde(default)]
    cache_duration: Option<GoDuration>,
    #[serde(default)]
    auth: Option<BTreeMap<String, Login>>,
}

/// For what an answer is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum CacheKeyType {
    Image,
    Registry,
    Global,
}

/// User and password. It has no `Debug`.
#[derive(Clone, Deserialize)]
pub(super) struct Login {
    #[serde(default)]
    pub(super) username: String,
    #[serde(default)]
    pub(super) password: String,
}

/// Answer of a provider.
pub(super) struct Answer {
    pub(super) key: CacheKeyType,
    /// `None`: it leaves that to the configuration.
    pub(super) keep: Option<Duration>,
    /// By the images they are for.
    pub(super) logins: BTreeMap<String, Login>,
}

/// A run that gave nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PluginError {
    #[error("not started: {0}")]
    Start(String),
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("more than {OUTPUT_LIMIT} bytes of output")]
    TooMuch,
    #[error("ended with {0}")]
    Failed(String),
    #[error("its answer is no CredentialProviderResponse of {0}")]
    Answer(String),
}

/// Kills what is left of a run.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Gone already, mostly.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// Asks a provider about an image.
pub(super) async fn run(provider: &Provider, directory: &Path, image: &str) -> Result<Answer, PluginError> {
    run_within(provider, directory, image, LIMIT).await
}

async fn run_within(
    provider: &Provider,
    directory: &Path,
    image: &str,
    limit: Duration,
) -> Result<Answer, PluginError> {
    let request = CredentialProviderRequest {
        api_version: &provider.api_version,
        kind: "CredentialProviderRequest",
        image,
    };
    let request = serde_json::to_vec(&request).map_err(|error| PluginError::Start(error.to_string()))?;
    let output = timeout(limit, output(provider, directory, &request)).await;
    let output = output.unwrap_or(Err(PluginError::TimedOut(limit)))?;
    parse(&output, &provider.api_version)
}

async fn output(provider: &Provider, directory: &Path, request: &[u8]) -> Result<Vec<u8>, PluginError> {
    let start = |error: std::io::Error| PluginError::Start(error.to_string());
    let mut child = Command::new(directory.join(&provider.name))
        .args(&provider.args)
        .envs(provider.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(start)?;
    let mut group = Group(child.id().and_then(|id| id.try_into().ok()).map(Pid::from_raw));
    let (Some(mut input), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(PluginError::Start("no pipes".to_owned()));
    };
    let mut output = Vec::new();
    let write = async {
        // One that does not read its request may know the answer all the same.
        let _ = input.write_all(request).await;
        drop(input);
    };
    let mut limited = stdout.take(OUTPUT_LIMIT + 1);
    let (_, read) = tokio::join!(write, limited.read_to_end(&mut output));
    read.map_err(start)?;
    if output.len() as u64 > OUTPUT_LIMIT {
        return Err(PluginError::TooMuch);
    }
    let status = child.wait().await.map_err(start)?;
    // Its number may be somebody else's from here on.
    group.0 = None;
    if !status.success() {
        return Err(PluginError::Failed(status.to_string()));
    }
    Ok(output)
}

/// The error never says what the answer was.
pub(super) fn parse(output: &[u8], version: &str) -> Result<Answer, PluginError> {
    let wrong = || PluginError::Answer(version.to_owned());
    let response: CredentialProviderResponse = serde_json::from_slice(output).map_err(|_| wrong())?;
    if response.kind != "CredentialProviderResponse" || response.api_version != version {
        return Err(wrong());
    }
    Ok(Answer {
        key: response.cache_key_type,
        keep: response.cache_duration.map(|duration| duration.0),
        logins: response.auth.unwrap_or_default(),
    })
}

#[cfg(test)]
#[path = "tests/plugin.rs"]
mod tests;
