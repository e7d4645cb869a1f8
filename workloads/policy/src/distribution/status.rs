//! Status of a ResourceDistribution: counts, and its six conditions in their order.

use std::collections::BTreeMap;

use berth_proto::crd::{DistributionCondition, ResourceDistribution, ResourceDistributionStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Input, Plan, Problem};
use crate::{action::Note, fault::Fault, time::whole_second};

/// Condition: the spec makes no sense. OpenKruise has none for it.
const INVALID: &str = "InvalidSpec";
/// Reason of a condition that is False.
const SUCCEEDED: &str = "Succeeded";
/// The most namespaces that a condition lists.
pub(super) const MOST_LISTED: usize = 128;
/// The longest reason.
const LONGEST_REASON: usize = 1024;
/// The problems, in the order of the conditions.
const PROBLEMS: [(Problem, &str); 6] = [
    (Problem::Get, "GetResourceFailed"),
    (Problem::Create, "CreateResourceFailed"),
    (Problem::Update, "UpdateResourceFailed"),
    (Problem::Delete, "DeleteResourceFailed"),
    (Problem::Conflict, "ConflictOccurred"),
    (Problem::Missing, "NamespaceNotExists"),
];

pub(super) fn status(
    input: &Input<'_>,
    desired: usize,
    succeeded: usize,
    problems: &BTreeMap<&str, (Problem, String)>,
    now: Timestamp,
) -> ResourceDistributionStatus {
    let before = input.distribution.status.as_ref();
    let known = before.map(|before| before.conditions.as_slice()).unwrap_or_default();
    let conditions = PROBLEMS.iter().map(|(problem, type_)| {
        let mut of_problem = problems.iter().filter(|(_, (of, _))| of == problem).peekable();
        let reason = of_problem.peek().map(|(_, (_, text))| text.clone());
        let mut namespaces: Vec<String> =
            of_problem.by_ref().take(MOST_LISTED).map(|(name, _)| (*name).to_owned()).collect();
        let rest = of_problem.count();
        let reason = reason.map(|text| match rest {
            0 => text,
            // Told in front: the text may be cut.
            rest => format!("{rest} more namespaces than are listed here: {text}"),
        });
        namespaces.sort();
        condition(known, type_, reason, namespaces, now)
    });
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    ResourceDistributionStatus {
        desired: number(desired),
        succeeded: number(succeeded),
        failed: number(desired.saturating_sub(succeeded)),
        observed_generation: input.distribution.metadata.generation,
        conditions: conditions.collect(),
    }
}

/// A condition, True with a reason; its time moves with its status alone.
fn condition(
    known: &[DistributionCondition],
    type_: &str,
    reason: Option<String>,
    failed_namespaces: Vec<String>,
    now: Timestamp,
) -> DistributionCondition {
    let status = if reason.is_some() { "True" } else { "False" };
    let known = known.iter().find(|known| known.type_ == type_ && known.status == status);
    let now = Some(Time(whole_second(now)));
    let reason = reason.unwrap_or_else(|| SUCCEEDED.to_owned());
    DistributionCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_transition_time: known.map_or(now, |known| known.last_transition_time.clone()),
        reason: Some(reason.chars().take(LONGEST_REASON).collect()),
        failed_namespaces,
    }
}

pub(super) fn faulty(distribution: &ResourceDistribution, fault: &Fault, now: Timestamp) -> Plan {
    if distribution.metadata.deletion_timestamp.is_some() {
        return Plan::default();
    }
    let before = distribution.status.as_ref();
    let known = before.map(|before| before.conditions.as_slice()).unwrap_or_default();
    let text = fault.to_string();
    let mut status = before.cloned().unwrap_or_default();
    status.observed_generation = distribution.metadata.generation;
    status.conditions.retain(|condition| condition.type_ != INVALID);
    status.conditions.push(condition(known, INVALID, Some(text.clone()), Vec::new(), now));
    let is_new = before != Some(&status);
    let note = Note { warning: true, reason: INVALID, text };
    Plan {
        notes: is_new.then_some(note).into_iter().collect(),
        status: is_new.then_some(status),
        ..Plan::default()
    }
}
