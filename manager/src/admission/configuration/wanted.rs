//! Entries of both configurations, of all objects together; and those of some made-up objects, by which
//! replicas are told apart that want something else of the same ones. Pure.

use std::collections::BTreeMap;

use berth_pod_state::Rules;
use berth_spread::Spread;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    BudgetOptions, Desired, Options, Service, SpreadOptions, StateOptions, budgets, changing, desired, left,
    pod_states, spreads,
};
use crate::{
    admission::{budgets::BudgetKept, pod_states::StateKept, sets::SetRules, spreads::SpreadKept},
    budgets::Budget,
    store::Reach,
};

/// Choices of the operator.
#[derive(Clone, Copy, Debug)]
pub(in crate::admission) struct Choices {
    pub(in crate::admission) others: Options,
    pub(in crate::admission) budgets: BudgetOptions,
    pub(in crate::admission) spreads: SpreadOptions,
    pub(in crate::admission) states: StateOptions,
}

/// Objects that have entries.
pub(super) struct Kept<'a> {
    /// Sets by name, with those that are about to be stored.
    pub(super) sets: BTreeMap<&'a String, &'a SetRules>,
    /// Sets that get another reach, by the names of their second entries.
    pub(super) changing: BTreeMap<String, &'a SetRules>,
    pub(super) budgets: Vec<&'a BudgetKept>,
    pub(super) spreads: Vec<&'a SpreadKept>,
    pub(super) states: Vec<&'a StateKept>,
}

impl Kept<'_> {
    /// Sets with an entry, and those with a second one once more.
    pub(super) fn of_sets(&self) -> impl Iterator<Item = (&String, &SetRules)> {
        let sets = self.sets.iter().map(|(name, rules)| (*name, *rules));
        sets.chain(self.changing.iter().map(|(name, rules)| (name, *rules)))
    }
}

/// Computes the entries.
pub(super) fn wanted(kept: &Kept<'_>, bundle: &[u8], service: &Service, choices: Choices) -> Desired {
    let budget = || kept.budgets.iter().copied();
    let spread = || kept.spreads.iter().copied();
    let sets = kept.sets.iter().map(|(name, rules)| (*name, *rules));
    let mut desired = desired(sets, bundle, service, choices.others);
    if !desired.shared {
        desired.mutating.splice(0..0, changing::entries(&kept.changing, bundle, service));
    }
    desired.validating.extend(budgets::validating(budget(), bundle, service, choices.budgets));
    desired.mutating.extend(budgets::mutating(budget(), bundle, service, choices.budgets));
    desired.mutating.extend(spreads::evictions(spread(), bundle, service, choices.spreads));
    desired.validating.extend(spreads::validating(spread(), bundle, service, choices.spreads));
    desired.validating.push(pod_states::validating(bundle, service));
    // Before the sidecars, so that they find the pod as its subset has it.
    let first = spreads::mutating(spread(), bundle, service, choices.spreads);
    desired.mutating.splice(0..0, first);
    // After them: they change nothing that a pod is placed by, and its own place wins over a subset's.
    let states = kept.states.iter().copied();
    desired.mutating.extend(pod_states::mutating(states, bundle, service, choices.states));
    left::leave_out(&mut desired, choices.others.ownership);
    desired
}

/// Entries of some made-up objects of each kind.
pub(in crate::admission) fn sample(service: &Service, choices: Choices) -> Desired {
    let labels = json!({ "matchLabels": { "app": "web" } });
    let target =
        |group: &str, kind: &str| json!({ "apiVersion": format!("{group}/v1"), "kind": kind, "name": "web" });
    let selector: Option<LabelSelector> = read(labels.clone()).ok();
    let reach = Reach { selector: selector.clone(), ..Reach::default() };
    let set = |ignore| SetRules { reach: reach.clone(), ignore, fault: None };
    let (waits, ignores) = (("waits".to_owned(), set(false)), ("ignores".to_owned(), set(true)));
    let covers = [
        ("selector", labels),
        ("targetRef", target("apps", "Deployment")),
        ("targetRef", target("apps.kruise.io", "CloneSet")),
        ("targetRef", target("example.com", "Other")),
    ];
    let budgets = covers.into_iter().enumerate().map(|(at, (field, cover))| BudgetKept {
        namespace: "sample".to_owned(),
        name: format!("budget-{at}"),
        selector: selector.clone().filter(|_| field == "selector"),
        budget: read(json!({ field: cover, "maxUnavailable": 1 }))
            .and_then(|spec| Budget::parse(&spec, &BTreeMap::new())),
    });
    let spreads = [target("apps", "Deployment"), target("batch", "Job")].into_iter().enumerate();
    let spreads = spreads.map(|(at, target)| SpreadKept {
        namespace: "sample".to_owned(),
        name: format!("spread-{at}"),
        spread: read(json!({ "targetRef": target, "subsets": [{ "name": "a" }] }))
            .and_then(|spec| Spread::parse(&spec)),
        is_bare: false,
        bytes: 0,
    });
    let states = ["apps", "apps.kruise.io"].map(|group| StateKept {
        namespace: "sample".to_owned(),
        name: group.to_owned(),
        rules: read(json!({ "targetRef": target(group, "StatefulSet"),
            "requiredPersistentTopology": { "nodeTopologyKeys": ["zone"] } }))
        .and_then(|spec| Rules::of(&spec).map_err(|fault| fault.to_string())),
    });
    let (budgets, spreads): (Vec<_>, Vec<_>) = (budgets.collect(), spreads.collect());
    let kept = Kept {
        sets: [&waits, &ignores].map(|(name, rules)| (name, rules)).into(),
        changing: [(changing::next_of(&waits.0), &waits.1)].into(),
        budgets: budgets.iter().collect(),
        spreads: spreads.iter().collect(),
        states: states.iter().collect(),
    };
    wanted(&kept, b"", service, choices)
}

fn read<T: DeserializeOwned>(spec: Value) -> Result<T, String> {
    serde_json::from_value(spec).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn choices() -> Choices {
        Choices {
            others: Options::default(),
            budgets: BudgetOptions { deletions: true, updates: true, ignore: false },
            spreads: SpreadOptions { on: true, ignore: false },
            states: StateOptions { on: true, ignore: false },
        }
    }

    fn of(choices: Choices) -> Desired {
        sample(&Service { namespace: "berth-system".to_owned(), name: "berth-manager".to_owned() }, choices)
    }

    #[test]
    fn each_kind_has_entries() {
        let Desired { mutating, validating, left_out, shared } = of(choices());
        let names: Vec<_> =
            mutating.iter().map(|one| &one.name).chain(validating.iter().map(|one| &one.name)).collect();
        for name in [
            "spread-0.sample.workloadspread",
            "spread-1.sample.workloadspread",
            "waits.next.sidecarset",
            "ignores.sidecarset",
            "waits.sidecarset",
            "apps.sample.persistentpodstate",
            "apps.kruise.io.sample.persistentpodstate",
            "evictions.podunavailablebudgets",
            "budget-0.sample.podunavailablebudget",
            "budget-3.sample.podunavailablebudget",
        ] {
            assert!(names.contains(&&format!("{name}.berth.dev")), "{name} of {names:?}");
        }
        assert_eq!((left_out.len(), shared), (0, false));
    }

    #[rstest]
    #[case::gate(Choices { others: Options { pod_readiness_gate: true, ..Options::default() }, ..choices() })]
    #[case::budgets(Choices { budgets: BudgetOptions { updates: false, ..choices().budgets }, ..choices() })]
    #[case::spreads(Choices { spreads: SpreadOptions { ignore: true, on: true }, ..choices() })]
    #[case::states(Choices { states: StateOptions { on: false, ignore: false }, ..choices() })]
    fn another_choice_is_seen(#[case] other: Choices) {
        assert_ne!(of(choices()), of(other));
    }
}
