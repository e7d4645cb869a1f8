//! `berth-faults`: everything that can happen to a node, at every point of berthd's way, on a real node.
//!
//! What a cell is, and what is judged, is told by [`berth_tests::faults`]. A line is printed as each cell
//! ends, and the matrix at the end; when a cell failed the exit code is 1.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use berth_tests::faults::matrix::{Fault, rows};
use berth_tests::faults::{self, report};
use berthd::agent::fault::Point;
use clap::Parser;

#[derive(Parser)]
#[command(version, about = "The fault matrix: what happens to a node, at every point of berthd's way.")]
struct Cli {
    /// Only this point; may be given more than once.
    #[arg(long = "point")]
    points: Vec<String>,
    /// Only this fault; may be given more than once.
    #[arg(long = "fault")]
    faults: Vec<Fault>,
    /// Each cell by a piece of work of its own, not all of a row by one.
    #[arg(long)]
    alone: bool,
    /// One JSON object a line instead of lines for people and the matrix.
    #[arg(long)]
    json: bool,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    // A misspelt point would silently be no cell.
    let named = |name: &String| Point::named(name).with_context(|| format!("there is no point {name}"));
    let points = cli.points.iter().map(named).collect::<Result<Vec<_>>>()?;
    let tell = |outcome: &report::Outcome| -> Result<()> {
        let line = if cli.json { serde_json::to_string(outcome)? } else { outcome.line() };
        writeln!(std::io::stdout().lock(), "{line}")?;
        Ok(())
    };
    let outcomes = faults::run(&rows(&points, &cli.faults, cli.alone), tell).await?;
    let failed = outcomes.iter().filter(|outcome| !outcome.passed()).count();
    if !cli.json {
        let mut out = std::io::stdout().lock();
        writeln!(out, "\n{}\n{} cells, {failed} failed", report::table(&outcomes), outcomes.len())?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
