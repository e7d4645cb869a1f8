//! `berthctl version`: ours and the runtime's.

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::cli::Global;
use super::cri::Cri;
use super::output::{self, OutputArgs};

/// Flags of `version`.
#[derive(Args, Debug)]
pub(crate) struct VersionArgs {
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    /// berthctl's own.
    berthctl_version: &'static str,
    version: String,
    runtime_name: String,
    runtime_version: String,
    runtime_api_version: String,
}

/// Runs `version`.
pub(crate) async fn version(global: &Global, args: &VersionArgs) -> Result<()> {
    let runtime = Cri::connect(global).await?.version().await?;
    let versions = Versions {
        berthctl_version: env!("CARGO_PKG_VERSION"),
        version: runtime.version,
        runtime_name: runtime.runtime_name,
        runtime_version: runtime.runtime_version,
        runtime_api_version: runtime.runtime_api_version,
    };
    output::data(args.output.format, &versions, || {
        format!(
            "Berthctl:            {}\nVersion:             {}\nRuntimeName:         {}\nRuntimeVersion:      {}\nRuntimeApiVersion:   {}\n",
            versions.berthctl_version,
            versions.version,
            versions.runtime_name,
            versions.runtime_version,
            versions.runtime_api_version
        )
    })
}
