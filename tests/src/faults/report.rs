//! What came of the cells: a line for each as it ends, and the matrix in the end.

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use super::matrix::{Cell, Fault, POINTS, Way};

/// What came of one cell.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    point: &'static str,
    way: Way,
    fault: Fault,
    seconds: f64,
    /// Why it failed; nothing when it did not.
    failure: Option<String>,
}

impl Outcome {
    pub(super) fn new(cell: &Cell, played: Result<()>, took: Duration) -> Self {
        Self {
            point: cell.point,
            way: cell.way,
            fault: cell.fault,
            seconds: (took.as_secs_f64() * 10.0).round() / 10.0,
            failure: played.err().map(|error| format!("{error:#}")),
        }
    }

    /// Everything was as it is to be.
    pub fn passed(&self) -> bool {
        self.failure.is_none()
    }

    /// For people.
    pub fn line(&self) -> String {
        let (fault, point, seconds) = (self.fault.name(), self.point, self.seconds);
        match &self.failure {
            None => format!("{fault:<19} {point:<17} passed {seconds:6.1} s"),
            Some(why) => format!("{fault:<19} {point:<17} FAILED {seconds:6.1} s  {why}"),
        }
    }
}

/// The matrix in Markdown: how many cells of how many passed, by way, and the points of the others; `-` where no cell was run.
pub fn table(outcomes: &[Outcome]) -> String {
    let faults = Fault::value_variants();
    let heads: Vec<_> = faults.iter().map(|fault| fault.name()).collect();
    let mut text = format!("| points | {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    for &(way, points) in POINTS {
        let of_way: Vec<_> = outcomes.iter().filter(|outcome| outcome.way == way).collect();
        let names: Vec<_> = points.iter().map(|point| format!("`{point}`")).collect();
        text += &format!("| {}: {} | {} |\n", way.name(), names.join(", "), counts(&of_way));
    }
    text + &format!("| all | {} |\n", counts(&outcomes.iter().collect::<Vec<_>>()))
}

fn counts(outcomes: &[&Outcome]) -> String {
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
    Fault::value_variants().iter().map(of).collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::super::matrix::cells;
    use super::*;

    #[test]
    fn what_was_not_run_did_not_pass() {
        let wanted = ["marked".to_owned(), "taken".to_owned()];
        let outcomes: Vec<_> = cells(&wanted, &[Fault::Kill])
            .iter()
            .map(|cell| {
                let played = if cell.point == "taken" { Err(anyhow::anyhow!("no")) } else { Ok(()) };
                Outcome::new(cell, played, Duration::from_secs(1))
            })
            .collect();
        let table = table(&outcomes);
        assert!(table.contains("| 1/1 | - | - | - | - | - |"), "{table}");
        assert!(table.contains("| 0/1 (not taken) | - | - | - | - | - |"), "{table}");
        assert!(table.contains("| all | 1/2 (not taken) | - | - | - | - | - |"), "{table}");
    }
}
