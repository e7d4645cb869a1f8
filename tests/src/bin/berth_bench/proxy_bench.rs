//! The bench `proxy`: the data path against a direct connection ([`crate::proxy`]), and its cost on an idle
//! node ([`crate::idle`]).

use anyhow::Result;

use crate::report::{Bench, Row};
use crate::{Options, idle, proxy};

pub(crate) const BENCH: Bench = Bench {
    name: "proxy",
    about: "CRI calls through berthd; baseline: the same calls on a direct connection, containerd's CPU for idle-40-pods",
    cases: &proxy::CASES,
};

pub(crate) async fn run(options: &Options) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if proxy::CASES.iter().any(|(case, _)| *case != idle::CASE && options.wants(case)) {
        // One run measures all of its cases: they share the processes.
        proxy::run(|measured| {
            if options.wants(measured.case) {
                let row = Row::new(&BENCH, measured.case, measured.metric, measured.unit);
                rows.push(row.measured(measured.value, measured.baseline, measured.runs));
            }
        })
        .await?;
    }
    if options.wants(idle::CASE) {
        rows.extend(idle::run().await?);
    }
    Ok(rows)
}
