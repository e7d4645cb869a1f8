//! Client of the API server, and the name of this process among its replicas.

use std::path::Path;

use anyhow::{Context, anyhow};
use berth_pace::{Pace, limit_silence};
use kube::{
    Client,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};

/// Connects by a kubeconfig, or as the ServiceAccount of the pod.
pub async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let mut found = match kubeconfig {
        Some(path) => {
            let read = || format!("--kubeconfig {}", path.display());
            let kubeconfig = Kubeconfig::read_from(path).map_err(|error| match error {
                // It would quote lines, and lines of it have tokens.
                KubeconfigError::Parse(error) => {
                    anyhow!("no kubeconfig, line {}", error.location().map_or(0, |at| at.line()))
                }
                error => error.into(),
            });
            let kubeconfig = kubeconfig.with_context(read)?;
            let options = KubeConfigOptions::default();
            kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.with_context(read)?
        }
        None => kube::Config::incluster().context("not in a pod with a ServiceAccount; give --kubeconfig")?,
    };
    // The library would repeat a refused call (429) for minutes: who asks decides on that, and says so.
    found.default_retry = false;
    limit_silence(&mut found);
    let builder = ClientBuilder::try_from(found).context("client of the API server")?;
    Ok(builder.with_layer(&Pace).build())
}

/// Name of this replica: the given one, or one made up.
pub fn identity(given: Option<&str>) -> anyhow::Result<String> {
    if let Some(identity) = given {
        return Ok(identity.to_owned());
    }
    // Replicas in the host's network share its name, and in containers even the number of the process.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").context("the host's name")?;
    let started = jiff::Timestamp::now().as_nanosecond();
    Ok(format!("{}-{}-{started}", host.trim(), std::process::id()))
}
