//! What berthd takes of the machine at a moment: by the kernel, and by its own metrics.

use std::fs;

use anyhow::{Context, Result};
use berth_tests::node::Berthd;

use crate::churn::count;
use crate::manager::memory_mb;

/// What is measured, in the order of [`Sample::values`].
pub(crate) const GAUGES: [(&str, &str); 5] =
    [("rss", "MB"), ("fds", "descriptors"), ("threads", "threads"), ("tasks", "tasks"), ("known", "objects")];

/// One moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// As [`GAUGES`] names them.
    pub(crate) values: [f64; GAUGES.len()],
}

/// Looks at the berthd that runs now.
pub(crate) async fn sample(berthd: &Berthd) -> Result<Sample> {
    let metrics = berthd.metrics().await?;
    let pid = berthd.service().pid().context("berthd does not run")?;
    let files = fs::read_dir(format!("/proc/{pid}/fd")).context("descriptors of berthd")?.count();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).context("threads of berthd")?.count();
    let values = [
        memory_mb(pid, "VmRSS")?,
        count(files),
        count(threads),
        sum_of(&metrics, "berthd_tasks{")?,
        sum_of(&metrics, "berthd_known{")?,
    ];
    Ok(Sample { values })
}

/// The sum over all lines of a metrics page that begin so.
pub(crate) fn sum_of(metrics: &str, beginning: &str) -> Result<f64> {
    let lines = metrics.lines().filter(|line| line.starts_with(beginning));
    let values = lines.map(|line| line.rsplit(' ').next().unwrap_or_default().parse::<f64>());
    values.sum::<Result<f64, _>>().with_context(|| format!("{beginning}: no number"))
}

/// The lines of a metrics page that begin so, in one.
pub(crate) fn text_of(metrics: &str, beginning: &str) -> String {
    metrics.lines().filter(|line| line.starts_with(beginning)).collect::<Vec<_>>().join("; ")
}

/// By how much values grow from one to the next, as a straight line has it that fits them best.
pub(crate) fn slope(values: &[f64]) -> f64 {
    let middle = (count(values.len()) - 1.0) / 2.0;
    let mean = values.iter().sum::<f64>() / count(values.len());
    let (mut products, mut squares) = (0.0, 0.0);
    for (at, value) in values.iter().enumerate() {
        let beside = count(at) - middle;
        products += beside * (value - mean);
        squares += beside * beside;
    }
    products / squares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_and_a_flat_one() {
        assert!((slope(&[1.0, 3.0, 5.0, 7.0]) - 2.0).abs() < 1e-9);
        assert!(slope(&[4.0, 5.0, 5.0, 4.0]).abs() < 1e-9);
    }

    #[test]
    fn of_all_labels() {
        let page = "# HELP a b\nberthd_tasks{thread=\"control\"} 12\nberthd_tasks{thread=\"data-path\"} 3\nother 7\n";
        assert!((sum_of(page, "berthd_tasks{").unwrap() - 15.0).abs() < 1e-9);
    }
}
