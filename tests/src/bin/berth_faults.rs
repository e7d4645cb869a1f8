//! `berth-faults`: everything that can happen to a node, at every point of berthd's way, on a real node.
//!
//! What a cell is, and what is judged, is told by [`berth_tests::faults`]. A line is printed as each cell ends, and the matrix
//! at the end; when a cell failed the exit code is 1.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use berth_tests::faults::matrix::{Fault, POINTS, rows};
use berth_tests::faults::{self, report};
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
    for wanted in &cli.points {
        // A misspelt point would silently be no cell.
        let known = POINTS.iter().any(|(_, points)| points.contains(&wanted.as_str()));
        ensure!(known, "there is no point {wanted}");
    }
    let tell = |outcome: &report::Outcome| -> Result<()> {
        let line = if cli.json { serde_json::to_string(outcome)? } else { outcome.line() };
        writeln!(std::io::stdout().lock(), "{line}")?;
        Ok(())
    };
    let outcomes = faults::run(&rows(&cli.points, &cli.faults, cli.alone), tell).await?;
    let failed = outcomes.iter().filter(|outcome| !outcome.passed()).count();
    if !cli.json {
        let mut out = std::io::stdout().lock();
        writeln!(out, "\n{}\n{} cells, {failed} failed", report::table(&outcomes), outcomes.len())?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
