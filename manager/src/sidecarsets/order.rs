//! Order in which pods are upgraded: those first that cost least, then what the set says of priority and of
//! spreading.

use std::{
    cmp::{Ordering, Reverse},
    collections::BTreeMap,
    sync::Arc,
};

use berth_workloads_policy::update_order;

use super::strategy::{Priority, Strategy};
use crate::store::{Labels, Phase};

/// Place of a pod before the set has its say. The smallest comes first: no node, not running, not ready, not
/// for long, restarted often, made last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rank {
    pub(super) scheduled: bool,
    pub(super) phase: Phase,
    pub(super) ready: bool,
    /// In seconds.
    pub(super) ready_since: i64,
    pub(super) restarts: i32,
    /// In seconds.
    pub(super) created: i64,
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        let first = |rank: &Self| (rank.scheduled, rank.phase, rank.ready);
        let since = |rank: &Self| if rank.ready { rank.ready_since } else { 0 };
        first(self)
            .cmp(&first(other))
            // Ready for the shortest time, so since the latest.
            .then_with(|| since(other).cmp(&since(self)))
            .then_with(|| other.restarts.cmp(&self.restarts))
            .then_with(|| other.created.cmp(&self.created))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A pod that is put in order.
pub(super) trait Ordered {
    fn rank(&self) -> &Rank;
    fn labels(&self) -> &Labels;
    /// Tells it from all others.
    fn name(&self) -> (&str, &str);
}

/// Sorts pods, given by their places in `pods`.
pub(super) fn sort<P: Ordered>(strategy: &Strategy, pods: &[P], waiting: &mut Vec<usize>) {
    let of = |at: &usize| pods.get(*at);
    waiting.sort_by(|one, other| {
        let (Some(one), Some(other)) = (of(one), of(other)) else { return Ordering::Equal };
        one.rank().cmp(other.rank()).then_with(|| one.name().cmp(&other.name()))
    });
    match &strategy.priority {
        Priority::None => {}
        Priority::Weights(terms) => waiting.sort_by_cached_key(|at| {
            let labels = of(at).map(Ordered::labels);
            let takes = |labels: &Labels| {
                let weights = terms.iter().filter(|(_, selector)| {
                    selector.as_ref().is_some_and(|selector| selector.matches(labels))
                });
                weights.map(|(weight, _)| i64::from(*weight)).fold(0, i64::saturating_add)
            };
            labels.map_or(0, takes).saturating_neg()
        }),
        Priority::Labels(keys) => waiting
            .sort_by_cached_key(|at| update_order::rank(keys.iter().map(|key| value(of(at)?.labels(), key)))),
    }
    for (key, value) in terms(strategy, pods, waiting) {
        scatter(pods, waiting, &key, &value);
    }
}

fn value<'a>(labels: &'a Labels, key: &str) -> Option<&'a str> {
    let at = labels.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
    labels.get(at).map(|(_, value)| &**value)
}

/// The most values of one label that are spread.
const MOST_VALUES: usize = 64;

/// Labels to spread, the ones that most pods have first; of those that as many have, the one that was named
/// first.
fn terms<P: Ordered>(strategy: &Strategy, pods: &[P], waiting: &[usize]) -> Vec<(String, Arc<str>)> {
    let mut counted: BTreeMap<(String, Arc<str>), (usize, usize)> = BTreeMap::new();
    for (key, wanted) in &strategy.scatter {
        for pod in waiting.iter().filter_map(|at| pods.get(*at)) {
            let Some(found) = value(pod.labels(), key).filter(|found| wanted == "*" || found == wanted)
            else {
                continue;
            };
            let place = counted.len();
            let (pods, _) = counted.entry((key.clone(), found.into())).or_insert((0, place));
            *pods = pods.saturating_add(1);
        }
    }
    let mut terms: Vec<_> = counted.into_iter().collect();
    terms.sort_by_key(|(_, (pods, place))| (Reverse(*pods), *place));
    terms.into_iter().take(MOST_VALUES).map(|(term, _)| term).collect()
}

/// Spreads the pods with a label over the others. The order among those with it, and among those without,
/// stays.
fn scatter<P: Ordered>(pods: &[P], waiting: &mut Vec<usize>, key: &str, wanted: &str) {
    let has = |pod: &P| value(pod.labels(), key) == Some(wanted);
    let with = pods.iter().filter(|pod| has(pod)).count();
    let counts = (with, pods.len().saturating_sub(with));
    *waiting = update_order::spread(waiting, |at| pods.get(*at).is_some_and(has), counts);
}
