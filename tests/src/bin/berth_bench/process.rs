//! Use of the machine by berthd at a moment: by the kernel, and by its own metrics.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use berth_tests::node::Berthd;

use crate::churn::count;
use crate::manager::memory_mb;

/// Gauges that are measured, in the order of [`Sample::values`].
pub(crate) const GAUGES: [(&str, &str); 5] =
    [("rss", "MB"), ("fds", "descriptors"), ("threads", "threads"), ("tasks", "tasks"), ("known", "objects")];

/// One moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// When, in minutes.
    pub(crate) at: f64,
    /// As [`GAUGES`] names them.
    pub(crate) values: [f64; GAUGES.len()],
}

/// Looks at the berthd that runs now, so long after the beginning.
pub(crate) async fn sample(berthd: &Berthd, after: Duration) -> Result<Sample> {
    let metrics = berthd.metrics().await?;
    let pid = berthd.service().pid().context("berthd does not run")?;
    let files = fs::read_dir(format!("/proc/{pid}/fd")).context("descriptors of berthd")?.count();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).context("threads of berthd")?.count();
    let values = [
        memory_mb(pid, "VmRSS")?,
        count(files),
        count(threads),
        sum_of(&metrics, "berth_agent_tasks{")?,
        sum_of(&metrics, "berth_agent_known{")?,
    ];
    Ok(Sample { at: after.as_secs_f64() / 60.0, values })
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

/// By how much something grows in one of the first, as a straight line has it that fits all pairs best.
pub(crate) fn slope(pairs: &[(f64, f64)]) -> f64 {
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count(pairs.len());
    let (at, value) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let products: f64 = pairs.iter().map(|pair| (pair.0 - at) * (pair.1 - value)).sum();
    products / pairs.iter().map(|pair| (pair.0 - at).powi(2)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_and_a_flat_one() {
        assert!((slope(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0), (5.0, 11.0)]) - 2.0).abs() < 1e-9);
        assert!(slope(&[(0.0, 4.0), (1.0, 5.0), (2.0, 5.0), (3.0, 4.0)]).abs() < 1e-9);
    }

    #[test]
    fn of_all_labels() {
        let page = "# HELP a b\nberth_agent_tasks{thread=\"control\"} 12\nberth_agent_tasks{thread=\"data-path\"} 3\nother 7\n";
        assert!((sum_of(page, "berth_agent_tasks{").unwrap() - 15.0).abs() < 1e-9);
    }
}
