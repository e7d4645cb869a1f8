//! `berth-faults`: everything that can happen to a node, at every point of berthd's way, on a real node.
//!
//! What a cell is, and what is judged, is told by [`berth_tests::faults`]. A line is printed as each cell
//! ends, and the matrix at the end; when a cell failed the exit code is 1.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use berth_tests::faults::matrix::{Fault, Programs, rows};
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
    /// On a node with a berth-shim and a berthd, each of which can be killed.
    #[arg(long)]
    two_programs: bool,
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
    let programs = if cli.two_programs { Programs::Two } else { Programs::One };
    let happens = cli.faults.iter().all(|fault| fault.happens_to(programs));
    ensure!(happens, "--fault kill-shim: there is no berth-shim without --two-programs");
    let rows = rows(&points, &cli.faults, programs, cli.alone);
    let outcomes = faults::run(&rows, programs, tell).await?;
    let failed = outcomes.iter().filter(|outcome| !outcome.passed()).count();
    if !cli.json {
        let mut out = std::io::stdout().lock();
        writeln!(out, "\n{}\n{} cells, {failed} failed", report::table(&outcomes), outcomes.len())?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
