//! Owners of one pod that go on each for itself. Together they would fail by what one of them bears: a
//! workload waits for a container that falls over again and again, and a SidecarSet beside it need not.

use std::time::Instant;

use crate::{
    in_place_update::{
        Next, Observed, UpdateReport, UpdateRequest,
        answer::{Judged, going_on, told},
        records,
    },
    model::RequestId,
};

/// Requests of one owner, and what would come next if they were the only ones.
pub(super) type Alone<'a> = (&'a Vec<&'a UpdateRequest>, Judged);

/// Tells whether one of them fails by itself.
pub(super) fn is_blamed(judged: &[Alone<'_>]) -> bool {
    judged.iter().any(|(_, (next, _))| matches!(next, Next::Failed(_) | Next::RollBack(..)))
}

/// Returns the report to each of them, and the one next step: of the first that has one, or else the wait
/// that ends first.
pub(super) fn apart(
    judged: Vec<Alone<'_>>,
    seen: &Observed,
    now: Instant,
) -> (Vec<(RequestId, UpdateReport)>, Option<Next>) {
    let reports = judged.iter().flat_map(|(open, alone)| match &alone.0 {
        Next::Done => told(open, alone, seen, now),
        next => open.iter().map(|request| going_on(request, next, seen, &alone.1)).collect(),
    });
    let reports: Vec<_> = reports.collect();
    if reports.iter().any(|(_, report)| report.outcome.is_some()) {
        return (reports, None);
    }
    let first = judged.into_iter().min_by_key(|(_, (next, _))| match next {
        Next::Wait { until, .. } => (true, until.is_none(), *until),
        _ => (false, false, None),
    });
    (reports, first.map(|(open, (next, _))| records::parted(next, open, seen)))
}
