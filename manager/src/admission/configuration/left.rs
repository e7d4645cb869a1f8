//! Kinds that are left to OpenKruise: its webhooks are asked about their objects, and ours are not.

use berth_base::ownership::{Ownership, SharedKind};
use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;

use super::Desired;

/// Takes those kinds out of the entries, and with them entries that are for nothing else.
pub(super) fn leave_out(desired: &mut Desired, ownership: Ownership) {
    desired.mutating.retain_mut(|entry| keep(entry.rules.as_deref_mut(), ownership));
    desired.validating.retain_mut(|entry| keep(entry.rules.as_deref_mut(), ownership));
}

/// Tells whether something is left of the rules of an entry.
fn keep(rules: Option<&mut [RuleWithOperations]>, ownership: Ownership) -> bool {
    let Some(rules) = rules else { return true };
    let resources = rules.iter_mut().filter_map(|rule| {
        let resources = rule.resources.as_mut()?;
        resources.retain(|resource| kind_of(resource).is_none_or(|kind| ownership.has(kind)));
        Some(resources.len())
    });
    resources.fold(0, usize::saturating_add) > 0
}

/// Kind that a resource goes with.
fn kind_of(resource: &str) -> Option<SharedKind> {
    match resource {
        "nodeimages" => Some(SharedKind::ImagePullJob),
        other => SharedKind::of_resource(other),
    }
}
