//! The points of the fault matrix that a call passes at the gate.

use berth_policy::{Call, Request, Verdict};

use crate::agent::fault::Point;

/// The point where a call stands that was just looked at. Asking around holds a call, too, and is no point:
/// it decides nothing.
pub(super) fn point_of(call: &Call, verdict: &Verdict) -> Option<Point> {
    match (&call.request, verdict) {
        (Request::StopContainer(_), Verdict::Forward | Verdict::Amend(_)) => Some(Point::StopAsked),
        (Request::CreateContainer(_), Verdict::Forward) => Some(Point::Forwarding),
        (Request::CreateContainer(_), Verdict::Refuse(_)) => Some(Point::Refusing),
        (Request::CreateContainer(_), Verdict::Hold { why, .. }) => {
            (!why.waiting_for().is_empty()).then_some(Point::Holding)
        }
        _ => None,
    }
}
