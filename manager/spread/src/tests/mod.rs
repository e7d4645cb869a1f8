//! Tables: worked cases of WorkloadSpreads, and what must not happen to them.

mod counting;
mod merging;
mod placing;
mod plans;
mod specs;
mod zones;

use berth_proto::crd::WorkloadSpreadSpec;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::Spread;

/// A spread of subsets as they are given: names and limits.
pub(super) fn spread(kind: &str, subsets: Value) -> Spread {
    parsed(json!({"targetRef": target(kind), "subsets": subsets})).unwrap()
}

pub(super) fn adaptive(seconds: i64, subsets: Value) -> Spread {
    let strategy = json!({"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": seconds}});
    parsed(json!({"targetRef": target("CloneSet"), "subsets": subsets, "scheduleStrategy": strategy}))
        .unwrap()
}

pub(super) fn target(kind: &str) -> Value {
    let api = match kind {
        "CloneSet" => "apps.kruise.io/v1alpha1",
        "Job" => "batch/v1",
        _ => "apps/v1",
    };
    json!({"apiVersion": api, "kind": kind, "name": "web"})
}

pub(super) fn parsed(spec: Value) -> Result<Spread, String> {
    let spec: WorkloadSpreadSpec = serde_json::from_value(spec).map_err(|error| error.to_string())?;
    Spread::parse(&spec)
}

/// So many seconds after the beginning.
pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}
