//! Report on the cells: a line for each as it ends, and the matrix in the end.

use std::time::Duration;

use anyhow::Result;
use berthd::agent::fault::Point;
use clap::ValueEnum;
use serde::Serialize;

use super::matrix::{Fault, Row, Way, lines};

/// Outcome of one cell.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    point: &'static str,
    way: Way,
    fault: Fault,
    /// Time that its row took, and number of the cells in the row.
    seconds: f64,
    cells: usize,
    /// Why it failed; nothing when it did not.
    failure: Option<String>,
}

impl Outcome {
    /// Makes the outcomes of a row, all of which failed when it did.
    pub(super) fn of(row: &Row, played: Result<()>, took: Duration) -> Vec<Self> {
        let failure = played.err().map(|error| format!("{error:#}"));
        let outcome = |point: &Point| Self {
            point: point.name(),
            way: row.way,
            fault: row.fault,
            seconds: (took.as_secs_f64() * 10.0).round() / 10.0,
            cells: row.points.len(),
            failure: failure.clone(),
        };
        row.points.iter().map(outcome).collect()
    }

    /// Everything was as it is to be.
    pub fn passed(&self) -> bool {
        self.failure.is_none()
    }

    /// For people.
    pub fn line(&self) -> String {
        let Self { point, seconds, cells, .. } = self;
        let (fault, outcome) = (self.fault.name(), if self.passed() { "passed" } else { "FAILED" });
        let line = format!("{fault:<19} {point:<17} {outcome}  {cells:2} in {seconds:.1} s");
        match &self.failure {
            None => line,
            Some(why) => format!("{line}: {why}"),
        }
    }
}

/// The matrix in Markdown: how many cells of how many passed, by way, and the points of the others; `-` where
/// no cell was run.
pub fn table(outcomes: &[Outcome]) -> String {
    let faults = columns(outcomes);
    let heads: Vec<_> = faults.iter().map(|fault| fault.name()).collect();
    let mut text = format!("| points | {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    for (way, points) in lines() {
        let names: Vec<_> = points.iter().map(|point| point.name()).collect();
        let of_line: Vec<_> = outcomes.iter().filter(|outcome| names.contains(&outcome.point)).collect();
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        text += &format!("| {}: {} | {} |\n", way.name(), names.join(", "), counts(&faults, &of_line));
    }
    text + &format!("| all | {} |\n", counts(&faults, &outcomes.iter().collect::<Vec<_>>()))
}

/// The faults that were run.
fn columns(outcomes: &[Outcome]) -> Vec<Fault> {
    let was_run = |fault: &Fault| outcomes.iter().any(|outcome| outcome.fault == *fault);
    Fault::value_variants().iter().copied().filter(was_run).collect()
}

fn counts(faults: &[Fault], outcomes: &[&Outcome]) -> String {
    let of = |fault: &Fault| {
        let all: Vec<_> = outcomes.iter().filter(|outcome| outcome.fault == *fault).collect();
        if all.is_empty() {
            return "-".to_owned();
        }
        let failed: Vec<_> = all.iter().filter(|cell| !cell.passed()).map(|cell| cell.point).collect();
        let passed = format!("{}/{}", all.len() - failed.len(), all.len());
        match failed.is_empty() {
            true => passed,
            false => format!("{passed} (not {})", failed.join(", ")),
        }
    };
    faults.iter().map(of).collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::super::matrix::{Programs, rows};
    use super::*;

    #[test]
    fn what_was_not_run_did_not_pass() {
        let wanted = [Point::Marked, Point::Taken];
        let faults = [Fault::Kill, Fault::KillShim];
        let play = |row: &Row| if row.points == [Point::Taken] { Err(anyhow::anyhow!("no")) } else { Ok(()) };
        let mut rows = rows(&wanted, &faults, Programs::Two, false);
        rows.retain(|row| row.fault == Fault::Kill || row.points == [Point::Taken]);
        let outcomes: Vec<_> =
            rows.iter().flat_map(|row| Outcome::of(row, play(row), Duration::from_secs(1))).collect();
        let table = table(&outcomes);
        assert!(table.contains("`reported` | 1/1 | - |"), "{table}");
        assert!(table.contains("`taken` | 0/1 (not taken) | 0/1 (not taken) |"), "{table}");
        assert!(table.contains("| all | 1/2 (not taken) | 0/1 (not taken) |"), "{table}");
    }
}
