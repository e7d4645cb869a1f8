//! Groups of the open requests of a pod, each of which succeeds, fails and goes back for itself.

use std::collections::BTreeMap;

use crate::in_place_update::{UpdateOwner, UpdateRequest};

/// The requests by owner, in their order.
pub(super) fn by_owner<'a>(open: &[&'a UpdateRequest]) -> Vec<Vec<&'a UpdateRequest>> {
    let mut by_owner: BTreeMap<&UpdateOwner, Vec<&UpdateRequest>> = BTreeMap::new();
    for request in open {
        by_owner.entry(&request.owner).or_default().push(request);
    }
    by_owner.into_values().collect()
}

/// The same, with those of one owner apart that never go back.
pub(super) fn by_way<'a>(open: &[&'a UpdateRequest]) -> Vec<Vec<&'a UpdateRequest>> {
    let ways = by_owner(open).into_iter().flat_map(|open| {
        let (one_way, others): (Vec<_>, Vec<_>) = open.into_iter().partition(|request| request.is_one_way());
        [one_way, others]
    });
    ways.filter(|open| !open.is_empty()).collect()
}
