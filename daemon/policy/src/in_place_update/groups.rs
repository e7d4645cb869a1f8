//! Groups of the open requests of a pod, each of which succeeds, fails and goes back for itself.

use std::{collections::BTreeMap, time::Duration};

use crate::in_place_update::{ContainerView, MetadataKey, Observed, UpdateOwner, UpdateRequest};

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

/// Grace of these requests together: of the owners that still change something the longest, and of each
/// owner that of its newest. Who keeps the pod in service needs none, and takes none from the others.
pub(super) fn grace(open: &[&UpdateRequest], newest: &UpdateRequest, seen: &Observed) -> Duration {
    if open.len() < 2 {
        return newest.grace;
    }
    let of_owners = by_owner(open).into_iter().filter_map(|open| open.last().copied());
    let changing = of_owners.filter(|request| !request.keeps_service && changes_something(request, seen));
    changing.map(|request| request.grace).max().unwrap_or(newest.grace)
}

fn changes_something(request: &UpdateRequest, seen: &Observed) -> bool {
    let (images, metadata) = request.wanted(seen);
    let is_there = |container: &ContainerView| {
        let wanted = images.get(&container.name);
        wanted.is_none_or(|image| *image == container.image)
    };
    let is_set = |(key, value): (&MetadataKey, &String)| seen.metadata.get(key) == Some(value);
    !seen.containers.iter().all(is_there) || !metadata.iter().all(is_set)
}
