//! Budgets as admission has them. Every replica has all of them, and their authors decide how many there are
//! and how much each selects by.
//!
//! One for whose selector there is no room counts as one of all pods of its namespace, and is read whole when
//! such a pod is asked about: it limits what it did before. Pure.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::{
    admission::view::Bound,
    budgets::{Budget, Cover, is_replica_set},
    store::{Object, PodSeen},
    wire::{self, Watched},
};

/// Bound of all budgets. Most take a KiB or two.
pub(in crate::admission) const BOUND: Bound<BudgetKept> =
    Bound { most: 32 << 20, bytes: BudgetKept::bytes, bare: BudgetKept::bare };
/// Bytes that a budget takes beside its selector, about: its names, and its place in the map.
const BUDGET: usize = 1 << 10;
/// Bytes that a text of a selector takes beside its letters, about.
const TEXT: usize = 64;

/// A budget as admission has it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::admission) struct BudgetKept {
    pub(in crate::admission) namespace: String,
    pub(in crate::admission) name: String,
    /// Its selector as it is written, if it has one and there is room for it.
    pub(in crate::admission) selector: Option<LabelSelector>,
    /// The budget, or what is wrong with it.
    pub(in crate::admission) budget: Result<Budget, String>,
}

/// Reads a budget; one whose deletion has begun limits nothing.
pub(in crate::admission) fn read(object: Watched<wire::Budgets>) -> Option<BudgetKept> {
    let Object::Budget(seen) = object.into_object() else { return None };
    let selector = seen.spec.as_ref().ok().and_then(|spec| spec.selector.clone());
    let budget = seen.spec.and_then(|spec| Budget::parse(&spec, &seen.annotations));
    // One that cannot be kept may have any number of values.
    let selector = selector.filter(|_| budget.is_ok());
    let kept = BudgetKept { namespace: seen.namespace, name: seen.name, selector, budget };
    Some(kept).filter(|_| !seen.deleting)
}

impl BudgetKept {
    /// Says whether it is here without its selector.
    pub(in crate::admission) fn is_bare(&self) -> bool {
        self.selector.is_none() && self.budget.as_ref().is_ok_and(|budget| budget.workload().is_none())
    }

    /// Says whether it may cover the pod, whose labels are these, sorted.
    pub(super) fn may_cover(&self, pod: &PodSeen, labels: &[(Arc<str>, Arc<str>)]) -> bool {
        let Ok(budget) = &self.budget else { return false };
        match (&budget.cover, &pod.owner) {
            (Cover::Selector(selector), _) => selector.matches(labels),
            (Cover::Workload(workload), Some(owner)) => {
                workload.is(owner) || is_replica_set(owner) && workload.may_have(&owner.name)
            }
            (Cover::Workload(_), None) => false,
        }
    }

    fn bytes(&self) -> usize {
        let selector = self.selector.as_ref().map_or(0, bytes);
        let fault = self.budget.as_ref().err().map_or(0, String::len);
        BUDGET.saturating_add(selector).saturating_add(fault)
    }

    /// The same without its selector. One of a workload has none, and one that cannot be kept limits nothing.
    fn bare(self) -> Self {
        let budget = match self.budget {
            Ok(budget) if budget.workload().is_none() => Ok(budget.of_all_pods()),
            Ok(budget) => Ok(budget),
            Err(_) => Err("it cannot be kept, and there is no room for the reason".to_owned()),
        };
        Self { selector: None, budget, ..self }
    }
}

/// Budgets of a namespace, by name.
pub(in crate::admission) fn of_namespace<'a>(
    budgets: &'a BTreeMap<String, BudgetKept>,
    namespace: &str,
) -> impl Iterator<Item = &'a BudgetKept> {
    let prefix = format!("{namespace}/");
    let behind = budgets.range(prefix.clone()..);
    behind.take_while(move |(key, _)| key.starts_with(&prefix)).map(|(_, kept)| kept)
}

/// Bytes of a selector, as it is written and as pods are compared with it.
fn bytes(selector: &LabelSelector) -> usize {
    let labels = selector.match_labels.iter().flatten().flat_map(|(key, value)| [key, value]);
    let expressions = selector.match_expressions.iter().flatten();
    let asked =
        expressions.flat_map(|one| [&one.key, &one.operator].into_iter().chain(one.values.iter().flatten()));
    let texts = labels.chain(asked).map(|text| text.len().saturating_add(TEXT));
    texts.fold(0, usize::saturating_add).saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::{admission::subject::limited, budgets::Operation};

    fn kept(spec: Value) -> BudgetKept {
        let metadata = json!({ "namespace": "shop", "name": "b", "uid": "u",
            "annotations": { "kruise.io/pub-protect-operations": "EVICT,EVICT" } });
        let object = json!({ "apiVersion": "policy.kruise.io/v1alpha1", "kind": "PodUnavailableBudget",
            "metadata": metadata, "spec": spec });
        read(serde_json::from_value(object).unwrap()).unwrap()
    }

    /// Rows: what it covers, whether there is less of it then, and whether it still may cover the pod `web`
    /// and another one.
    #[rstest]
    #[case::selector(json!({ "selector": { "matchLabels": { "app": "web" } }, "maxUnavailable": 1 }), true,
        [true, true])]
    #[case::workload(json!({ "targetRef": { "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db" },
        "maxUnavailable": 1 }), false, [false, false])]
    #[case::broken(json!({ "maxUnavailable": 1 }), false, [false, false])]
    fn what_is_left_covers_no_less(#[case] spec: Value, #[case] less: bool, #[case] covers: [bool; 2]) {
        let whole = kept(spec);
        let bare = whole.clone().bare();
        assert_eq!((whole.is_bare(), bare.is_bare(), bare.bytes() < whole.bytes()), (false, less, less));
        assert_eq!(bare.clone().bare(), bare);
        let pod = limited(json!({ "metadata": { "namespace": "shop", "name": "p", "uid": "u" } })).unwrap();
        let labels = |app| [(Arc::from("app"), Arc::from(app))];
        let covered = ["web", "other"].map(|app| bare.may_cover(&pod, &labels(app)));
        assert_eq!(covered, covers);
        if let (Ok(whole), Ok(bare)) = (&whole.budget, &bare.budget) {
            assert_eq!((bare.desired(10), bare.total), (whole.desired(10), whole.total));
            let limited = |budget: &Budget| {
                [Operation::Evict, Operation::Delete, Operation::Update].map(|one| budget.limits(one))
            };
            assert_eq!((limited(bare), limited(whole)), ([true, false, false], [true, false, false]));
        }
    }

    #[test]
    fn a_selector_counts_twice() {
        let of = |values: usize| {
            let values: Vec<String> = (0..values).map(|number| format!("v{number:0>9}")).collect();
            let asked = json!([{ "key": "app", "operator": "In", "values": values }]);
            kept(json!({ "selector": { "matchExpressions": asked }, "maxUnavailable": 1 })).bytes()
        };
        assert_eq!(of(1000) - of(1), 999 * 2 * (10 + TEXT));
    }
}
