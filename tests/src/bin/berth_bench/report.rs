//! Report of a bench: one row for each case and metric, as JSON lines for programs or as a table for people.

use std::io::Write;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// A bench as `list` shows it: its cases, each with its metrics, whose names end in their units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bench {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) cases: &'static [(&'static str, &'static [&'static str])],
}

/// One result. `ratio` is value / baseline; both are null where the same work without us does not exist.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    bench: &'static str,
    case: &'static str,
    metric: &'static str,
    unit: &'static str,
    value: f64,
    baseline: Option<f64>,
    ratio: Option<f64>,
    runs: usize,
}

impl Row {
    pub(crate) fn new(bench: &Bench, case: &'static str, metric: &'static str, unit: &'static str) -> Self {
        Self { bench: bench.name, case, metric, unit, value: f64::NAN, baseline: None, ratio: None, runs: 0 }
    }

    /// Returns the case that the row is about.
    pub(crate) fn case(&self) -> &'static str {
        self.case
    }

    /// Sets the measured value, and the value of the same without us.
    pub(crate) fn measured(mut self, value: f64, baseline: Option<f64>, runs: usize) -> Self {
        self.value = value;
        self.baseline = baseline;
        // Of nothing there is none.
        self.ratio = baseline.map(|baseline| value / baseline).filter(|ratio| ratio.is_finite());
        self.runs = runs;
        self
    }

    /// The medians of several measurements.
    pub(crate) fn medians(self, values: &[f64], baseline: &[f64]) -> Result<Self> {
        let value = median(values).with_context(|| format!("{}: nothing was measured", self.case))?;
        Ok(self.measured(value, median(baseline), values.len()))
    }
}

/// The middle one, or the mean of the middle two.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

pub(crate) fn print(rows: &[Row], json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        for row in rows {
            writeln!(out, "{}", serde_json::to_string(row)?)?;
        }
        return Ok(());
    }
    let mut table = plain_table(&["BENCH", "CASE", "METRIC", "VALUE", "BASELINE", "RATIO", "RUNS"]);
    for row in rows {
        table.add_row([
            row.bench.to_owned(),
            row.case.to_owned(),
            format!("{} ({})", row.metric, row.unit),
            number(Some(row.value)),
            number(row.baseline),
            number(row.ratio),
            row.runs.to_string(),
        ]);
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(out, "{}", table.trim_fmt())?;
    Ok(())
}

pub(crate) fn list(benches: &[Bench]) -> Result<()> {
    let mut table = plain_table(&["BENCH", "CASE", "METRICS", "ABOUT"]);
    for bench in benches {
        for (index, (case, metrics)) in bench.cases.iter().enumerate() {
            let about = if index == 0 { bench.about } else { "" };
            table.add_row([bench.name, case, &metrics.join(" "), about]);
        }
    }
    writeln!(std::io::stdout().lock(), "{}", table.trim_fmt())?;
    Ok(())
}

/// Columns and nothing between them, as kubectl prints them.
fn plain_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.to_vec());
    table
}

/// A value with as many places as matter; a dash where there is none.
pub(crate) fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() < 100.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }
}
