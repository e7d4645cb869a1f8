//! `berthctl get`: what berthd was asked for.

use anyhow::Result;
use clap::{Args, Subcommand};

use super::cli::Global;
use super::output::ListOutputArgs;
use super::{requests, updates};

/// Objects that `get` lists.
#[derive(Debug, Subcommand)]
pub(crate) enum Get {
    /// List requests to recreate containers
    ///
    /// Requests of the API server, of files in berthd's desired-state directory, and of berthctl recreate,
    /// the oldest first.
    #[command(visible_alias = "crr", alias = "request")]
    Requests(ListArgs),
    /// List in-place updates of pods
    ///
    /// Updates of the API server (origin api), of controllers (controller: this node's NodePodUpdate; they
    /// are named by their pod), and of berthctl update (admin), the oldest first.
    #[command(visible_alias = "cur", alias = "update")]
    Updates(ListArgs),
}

/// Flags of every list.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Only what has this name, or namespace/name
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// How to show it.
    #[command(flatten)]
    pub output: ListOutputArgs,
}

/// Runs `get`.
pub(crate) async fn get(global: &Global, what: &Get) -> Result<()> {
    match what {
        Get::Requests(args) => requests::requests(global, args).await,
        Get::Updates(args) => updates::updates(global, args).await,
    }
}
