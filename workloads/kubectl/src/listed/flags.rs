//! Flags of questions about the whole cluster.

use clap::{Args, Subcommand};

use crate::cli::ListOutput;

/// Questions about the whole cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum Listed {
    /// List open requests to recreate or to update containers, and what each waits for
    Requests(Requests),
    /// List nodes: whether an agent lives there, where it stands, and whether pods keep their order
    Nodes(Nodes),
    /// List pods in which something waits for Berth, and why
    ///
    /// It says what stands in the pods and in the requests for them: containers that wait for others, gates
    /// that are closed, hooks of a workload's lifecycle. On the node, berthctl explain says more.
    Waiting(Waiting),
    /// List SidecarSets, and how far each is rolled out
    #[command(visible_alias = "sidecarset")]
    Sidecarsets(SidecarSets),
    /// List the revisions of a SidecarSet that are kept
    Revisions(Revisions),
}

/// Names of objects.
#[derive(Args, Clone, Debug)]
pub(crate) struct Names {
    /// Only those of these names
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

/// Namespaces that are looked at.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Within {
    /// All namespaces, in place of one
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
}

/// Flag of everything that is shown as a table.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Format {
    /// How to show it; wide is the table with more columns; json and yaml are for programs
    #[arg(
        short,
        long,
        value_enum,
        default_value_t,
        value_name = "table|wide|json|yaml",
        hide_possible_values = true
    )]
    pub(crate) output: ListOutput,
}

/// Flags of every list.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Showing {
    /// Number of rows at the most; how many there are more is said
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = rows)]
    pub(crate) most: usize,
    #[command(flatten)]
    pub(crate) format: Format,
}

/// Flags of `requests`.
#[derive(Args, Debug)]
pub(crate) struct Requests {
    #[command(flatten)]
    pub(crate) names: Names,
    /// Requests that have ended, too
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) space: Within,
    #[command(flatten)]
    pub(crate) showing: Showing,
}

/// Flags of `nodes`.
#[derive(Args, Debug)]
pub(crate) struct Nodes {
    #[command(flatten)]
    pub(crate) names: Names,
    #[command(flatten)]
    pub(crate) showing: Showing,
}

/// Flags of `waiting`.
#[derive(Args, Debug)]
pub(crate) struct Waiting {
    #[command(flatten)]
    pub(crate) space: Within,
    #[command(flatten)]
    pub(crate) showing: Showing,
}

/// Flags of `sidecarsets`.
#[derive(Args, Debug)]
pub(crate) struct SidecarSets {
    #[command(flatten)]
    pub(crate) names: Names,
    #[command(flatten)]
    pub(crate) showing: Showing,
}

/// Flags of `revisions`.
#[derive(Args, Debug)]
pub(crate) struct Revisions {
    /// The SidecarSet
    #[arg(value_name = "NAME")]
    pub(crate) set: String,
    #[command(flatten)]
    pub(crate) format: Format,
}

fn rows(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "is no number of rows: give one such as 500".to_owned())
}
