//! Order in which pods are deleted, and in which they are updated.

use std::{cmp::Ordering, collections::BTreeMap};

use serde_json::{Map, Value};

use super::member::Member;
use crate::plan::Nodes;

/// Node label that every node has, with its own name.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The most constraints of a template that count: each is looked at for each pod, and a template has room for
/// tens of thousands.
const MOST_CONSTRAINTS: usize = 64;

/// Which keys count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    Delete,
    Update,
}

/// Compares two pods: the one that goes first is the smaller.
fn compare(one: &Member<'_>, other: &Member<'_>, ranks: (f64, f64), keys: Keys) -> Ordering {
    let (a, b) = (one.pod, other.pod);
    let deletes = keys == Keys::Delete;
    let since = |member: &Member<'_>| member.pod.ready_since.filter(|_| member.ready);
    (!a.node.is_empty(), a.phase)
        .cmp(&(!b.node.is_empty(), b.phase))
        .then_with(|| if deletes { one.available.cmp(&other.available) } else { Ordering::Equal })
        .then_with(|| one.ready.cmp(&other.ready))
        .then_with(|| if deletes { a.deletion_cost.cmp(&b.deletion_cost) } else { Ordering::Equal })
        .then_with(|| if deletes { ranks.1.total_cmp(&ranks.0) } else { Ordering::Equal })
        // Ready for the shortest time, so since the latest; one without a time before all others.
        .then_with(|| match (since(one), since(other)) {
            (Some(a), Some(b)) => b.cmp(&a),
            (a, b) => a.is_some().cmp(&b.is_some()),
        })
        .then_with(|| b.restarts.cmp(&a.restarts))
        .then_with(|| b.created.cmp(&a.created))
        // Of those that are alike, the pods of a node go together: one write asks for them, one answers.
        .then_with(|| if deletes { Ordering::Equal } else { a.node.cmp(&b.node) })
        .then_with(|| a.name.cmp(&b.name))
}

/// Sorts pods of one side, those that are deleted first at the front.
pub(super) fn victims(members: &mut Vec<Member<'_>>, template: &Map<String, Value>, nodes: &Nodes) {
    let ranks = ranks(members, template, nodes);
    let mut ranked: Vec<_> = members.drain(..).zip(ranks).collect();
    ranked.sort_by(|(one, a), (other, b)| compare(one, other, (*a, *b), Keys::Delete));
    members.extend(ranked.into_iter().map(|(member, _)| member));
}

/// Sorts pods that wait for an update, those that do not serve at the front.
pub(super) fn waiting(members: &mut [Member<'_>]) {
    members.sort_by(|one, other| compare(one, other, (0.0, 0.0), Keys::Update));
}

/// Rank of each pod: the higher, the more others are beside it.
fn ranks(members: &[Member<'_>], template: &Map<String, Value>, nodes: &Nodes) -> Vec<f64> {
    let constraints = template.get("spec").and_then(|spec| spec.get("topologySpreadConstraints"));
    let constraints = constraints.and_then(Value::as_array).into_iter().flatten();
    let keys = constraints.filter_map(|one| one.get("topologyKey")?.as_str());
    let keys: Vec<&str> = keys.take(MOST_CONSTRAINTS).collect();
    if keys.is_empty() {
        return positions(members, |member| Some(member.pod.node.clone())).0;
    }
    let mut ranks = vec![0.0; members.len()];
    for key in keys {
        let (positions, domains) = positions(members, |member| {
            let node = &member.pod.node;
            let label = nodes.get(node).and_then(|node| node.labels.get(key)).cloned();
            label.or_else(|| (key == HOSTNAME && !node.is_empty()).then(|| node.clone()))
        });
        let weight = f64::ln(f64::from(u32::try_from(domains).unwrap_or(u32::MAX)) + 2.0);
        for (rank, position) in ranks.iter_mut().zip(positions) {
            *rank += position * weight;
        }
    }
    ranks
}

/// Position of each pod in its domain from the end, and the number of domains. Pods without one have 0.
fn positions(members: &[Member<'_>], domain: impl Fn(&Member<'_>) -> Option<String>) -> (Vec<f64>, usize) {
    let mut domains: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, member) in members.iter().enumerate() {
        if let Some(domain) = domain(member).filter(|domain| !domain.is_empty()) {
            domains.entry(domain).or_default().push(at);
        }
    }
    let mut positions = vec![0.0; members.len()];
    let count = domains.len();
    for mut places in domains.into_values() {
        places.sort_by(|one, other| compare(&members[*one], &members[*other], (0.0, 0.0), Keys::Delete));
        let last = places.len().saturating_sub(1);
        for (at, place) in places.into_iter().enumerate() {
            positions[place] = f64::from(u32::try_from(last.saturating_sub(at)).unwrap_or(u32::MAX));
        }
    }
    (positions, count)
}
