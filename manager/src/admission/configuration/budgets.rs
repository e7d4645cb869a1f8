//! Entries of the PodUnavailableBudgets: exactly the pods that one covers are asked about, as far as the API
//! server can tell them apart. Pure.
//!
//! One entry for each budget, with its selector, or with the name of its workload as pods have it in their
//! controller. An eviction names only its pod: one entry is for those of all namespaces with a budget, and it
//! may change them, as it ties each to its pod. Above [`MOST`] budgets, or for names that an entry cannot
//! have, one entry is for all pods of such namespaces.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::admissionregistration::v1::{
        MatchCondition, MutatingWebhook, RuleWithOperations, ValidatingWebhook,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use super::{Entry, LEFT_OUT, MOST_BYTES, Service, by_name, rule, selectors};
use crate::{
    admission::{
        budgets::BudgetKept,
        path::Route,
        subject::{GATE, NO_PROTECT, UNAVAILABLE},
    },
    budgets::{Operation, ReplicaSets, Workload},
    size,
};

/// Most budgets with an entry for each: beyond, one entry is for all of them.
const MOST: usize = 100;

/// Choices of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::admission) struct BudgetOptions {
    /// Evictions and deletions are limited.
    pub(in crate::admission) deletions: bool,
    /// Updates in place are limited.
    pub(in crate::admission) updates: bool,
    /// Pods go while no manager answers.
    pub(in crate::admission) ignore: bool,
}

/// Entry for evictions.
pub(super) fn mutating<'a>(
    budgets: impl Iterator<Item = &'a BudgetKept> + Clone,
    bundle: &[u8],
    service: &Service,
    options: BudgetOptions,
) -> Option<MutatingWebhook> {
    let spaces: BTreeSet<&str> = kept(budgets)
        .filter(|kept| options.deletions && limits(kept, Operation::Evict))
        .map(|kept| &*kept.namespace)
        .collect();
    if spaces.is_empty() {
        return None;
    }
    let name = "evictions.podunavailablebudgets".to_owned();
    let rule = rule("", "v1", "pods/eviction", &["CREATE"], "Namespaced");
    Some(MutatingWebhook {
        // A pod that is let go stands in the status.
        side_effects: "NoneOnDryRun".to_owned(),
        ..of(name, LabelSelector::default(), &spaces, options).mutating(
            rule,
            &Route::Budgets,
            bundle,
            service,
        )
    })
}

/// Entries for deletions and updates, and for budgets that are written.
pub(super) fn validating<'a>(
    budgets: impl Iterator<Item = &'a BudgetKept> + Clone,
    bundle: &[u8],
    service: &Service,
    options: BudgetOptions,
) -> Vec<ValidatingWebhook> {
    let checks = Entry::everywhere("checks.podunavailablebudgets".to_owned(), "Fail");
    let written =
        rule("policy.kruise.io", "v1alpha1", "podunavailablebudgets", &["CREATE", "UPDATE"], "Namespaced");
    let mut entries = vec![ValidatingWebhook {
        side_effects: "None".to_owned(),
        ..checks.validating(written, &Route::CheckBudgets, bundle, service)
    }];
    let entry = |name: String, pods, namespaces: &BTreeSet<&str>, rule, conditions: Vec<MatchCondition>| {
        ValidatingWebhook {
            match_conditions: Some(conditions).filter(|conditions| !conditions.is_empty()),
            ..of(name, pods, namespaces, options).validating(rule, &Route::Budgets, bundle, service)
        }
    };
    let kept = kept(budgets);
    let (mut own, mut shared) = (Vec::new(), BTreeSet::new());
    for kept in kept.clone() {
        // One is for all of them then.
        if own.len() > MOST {
            break;
        }
        let operations = operations(kept, options);
        let Some(rule) = pods(&operations) else { continue };
        let only = BTreeSet::from([&*kept.namespace]);
        match covered(kept) {
            Some((labels, condition)) => {
                let conditions = conditions(&operations).into_iter().chain(condition).collect();
                let name = format!("{}.{}.podunavailablebudget", kept.name, kept.namespace);
                own.push(entry(name, labels, &only, rule, conditions));
            }
            None => drop(shared.insert(&*kept.namespace)),
        }
    }
    if own.len() > MOST || size::bytes(&own) > MOST_BYTES / 2 {
        own.clear();
        shared = kept.clone().map(|kept| &*kept.namespace).collect();
    }
    entries.append(&mut own);
    if !shared.is_empty() {
        let all: Vec<_> = [("DELETE", options.deletions), ("UPDATE", options.updates)]
            .into_iter()
            .filter_map(|(operation, limited)| limited.then_some(operation))
            .collect();
        if let Some(rule) = pods(&all) {
            let name = "pods.podunavailablebudgets".to_owned();
            entries.push(entry(name, LabelSelector::default(), &shared, rule, conditions(&all)));
        }
    }
    entries
}

/// Budgets that limit something.
fn kept<'a>(
    budgets: impl Iterator<Item = &'a BudgetKept> + Clone,
) -> impl Iterator<Item = &'a BudgetKept> + Clone {
    budgets.filter(|kept| kept.budget.is_ok() && !LEFT_OUT.contains(&&*kept.namespace))
}

fn of(name: String, pods: LabelSelector, namespaces: &BTreeSet<&str>, options: BudgetOptions) -> Entry {
    let names: Vec<&str> = namespaces.iter().copied().collect();
    let namespaces =
        LabelSelector { match_expressions: Some(vec![by_name("In", &names)]), match_labels: None };
    Entry { name, failure: if options.ignore { "Ignore" } else { "Fail" }, pods, namespaces }
}

fn limits(kept: &BudgetKept, operation: Operation) -> bool {
    kept.budget.as_ref().is_ok_and(|budget| budget.limits(operation))
}

fn operations(kept: &BudgetKept, options: BudgetOptions) -> Vec<&'static str> {
    let all =
        [("DELETE", Operation::Delete, options.deletions), ("UPDATE", Operation::Update, options.updates)];
    let limited = all.into_iter().filter(|(_, operation, on)| *on && limits(kept, *operation));
    limited.map(|(name, ..)| name).collect()
}

/// Pods and, where their updates count, the status that an update in place begins with.
fn pods(operations: &[&str]) -> Option<RuleWithOperations> {
    let mut rule = (!operations.is_empty()).then(|| rule("", "v1", "pods", operations, "Namespaced"))?;
    if operations.contains(&"UPDATE") {
        rule.resources.get_or_insert_default().push("pods/status".to_owned());
    }
    Some(rule)
}

/// Labels and controllers of its pods; `None` where an entry cannot say them.
fn covered(kept: &BudgetKept) -> Option<(LabelSelector, Option<MatchCondition>)> {
    let is_label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    if kept.name.len() > 120 || !kept.name.bytes().all(is_label) {
        return None;
    }
    match (kept.budget.as_ref().ok()?.workload(), &kept.selector) {
        (Some(workload), _) => Some((LabelSelector::default(), Some(controlled(workload)))),
        (None, Some(selector)) => Some((selectors::checked("spec.selector", selector).ok()?, None)),
        (None, None) => None,
    }
}

/// Pods of a workload, or of a ReplicaSet that may be its own: names have no letter that CEL would read.
fn controlled(workload: &Workload) -> MatchCondition {
    let Workload { kind, name, .. } = workload;
    let of_sets = match workload.replica_sets() {
        ReplicaSets::None => String::new(),
        ReplicaSets::OfItsName => format!(" || (o.kind == 'ReplicaSet' && o.name.startsWith('{name}-'))"),
        ReplicaSets::Any => " || o.kind == 'ReplicaSet'".to_owned(),
    };
    condition(
        "controlled",
        format!(
            "has(oldObject.metadata.ownerReferences) && oldObject.metadata.ownerReferences.exists(o, \
             has(o.controller) && o.controller && ((o.kind == '{kind}' && o.name == '{name}'){of_sets}))"
        ),
    )
}

/// Pods that go anyway, or are exempt, are not asked about; nor are updates that change nothing that counts.
fn conditions(operations: &[&str]) -> Vec<MatchCondition> {
    let mut conditions = vec![
        condition(
            "lives",
            "!has(oldObject.metadata.deletionTimestamp) && !(has(oldObject.status.phase) \
             && oldObject.status.phase in ['Succeeded', 'Failed'])"
                .to_owned(),
        ),
        condition(
            "limited",
            format!(
                "!has(oldObject.metadata.annotations) || !('{NO_PROTECT}' in oldObject.metadata.annotations) \
                 || oldObject.metadata.annotations['{NO_PROTECT}'] != 'true'"
            ),
        ),
    ];
    if operations.contains(&"UPDATE") {
        conditions.push(condition(
            "changes",
            format!(
                "request.operation != 'UPDATE' || (has(request.subResource) && request.subResource == 'status' \
                 ? has(oldObject.status.conditions) && has(object.status.conditions) \
                 && oldObject.status.conditions.exists(c, c.type == '{GATE}' && c.status == 'True') \
                 && object.status.conditions.exists(c, c.type == '{GATE}' && c.status == 'False') \
                 : object.spec != oldObject.spec || (has(object.metadata.labels) \
                 && object.metadata.labels.exists(k, k.startsWith('{UNAVAILABLE}') \
                 && !(has(oldObject.metadata.labels) && k in oldObject.metadata.labels))))"
            ),
        ));
    }
    conditions
}

fn condition(name: &str, expression: String) -> MatchCondition {
    MatchCondition { name: name.to_owned(), expression }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::{admission::budgets::BOUND, budgets::Budget};

    fn kept(namespace: &str, name: &str, spec: Value, operations: &str) -> BudgetKept {
        let spec: berth_proto::crd::PodUnavailableBudgetSpec = serde_json::from_value(spec).unwrap();
        let annotations =
            BTreeMap::from([("kruise.io/pub-protect-operations".to_owned(), operations.to_owned())]);
        BudgetKept {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            selector: spec.selector.clone(),
            budget: Budget::parse(&spec, &annotations),
        }
    }

    fn of(kind: &str) -> Value {
        json!({"targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": "web"}, "maxUnavailable": 1})
    }

    fn labelled() -> Value {
        json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1})
    }

    const ALL: BudgetOptions = BudgetOptions { deletions: true, updates: true, ignore: false };

    /// The entries for pods: name, operations, failure policy.
    fn computed(budgets: &[BudgetKept], options: BudgetOptions) -> Vec<(String, String, String)> {
        let service = Service { namespace: "berth-system".to_owned(), name: "berth-manager".to_owned() };
        let evictions = mutating(budgets.iter(), b"bundle", &service, options);
        let entries = validating(budgets.iter(), b"bundle", &service, options);
        assert_eq!(entries[0].name, "checks.podunavailablebudgets.berth.dev");
        let told = |name: String,
                    rules: Option<Vec<RuleWithOperations>>,
                    failure: Option<String>,
                    spaces: _| {
            let spaces: Option<LabelSelector> = spaces;
            let expressions = spaces.unwrap().match_expressions.unwrap();
            assert!(!expressions[0].values.as_ref().unwrap().iter().any(|one| LEFT_OUT.contains(&&**one)));
            let name = name.strip_suffix(".berth.dev").unwrap().to_owned();
            (name, rules.unwrap()[0].operations.as_ref().unwrap().join(","), failure.unwrap())
        };
        let evictions = evictions
            .map(|entry| told(entry.name, entry.rules, entry.failure_policy, entry.namespace_selector));
        let others = entries
            .into_iter()
            .skip(1)
            .map(|entry| told(entry.name, entry.rules, entry.failure_policy, entry.namespace_selector));
        evictions.into_iter().chain(others).collect()
    }

    fn entry(name: &str, operations: &str, failure: &str) -> (String, String, String) {
        (name.to_owned(), operations.to_owned(), failure.to_owned())
    }

    #[rstest]
    #[case::all(ALL, "", &["CREATE", "DELETE,UPDATE"])]
    #[case::as_by_default(BudgetOptions { updates: false, ..ALL }, "", &["CREATE", "DELETE"])]
    #[case::updates(BudgetOptions { deletions: false, ..ALL }, "", &["UPDATE"])]
    #[case::of_its_own(ALL, "EVICT", &["CREATE"])]
    #[case::of_both(BudgetOptions { deletions: false, ..ALL }, "DELETE,EVICT", &[])]
    fn operations_that_are_limited(
        #[case] options: BudgetOptions,
        #[case] own: &str,
        #[case] asked: &[&str],
    ) {
        let computed = computed(&[kept("shop", "b", of("CloneSet"), own)], options);
        let operations: Vec<_> = computed.iter().map(|(_, operations, _)| &**operations).collect();
        assert_eq!(operations, asked);
    }

    #[test]
    fn each_budget_has_its_pods() {
        let budgets = [
            kept("shop", "by-labels", labelled(), ""),
            kept("shop", "by-name", of("Deployment"), ""),
            kept("kube-system", "nobody", labelled(), ""),
            kept("shop", "broken", json!({"maxUnavailable": 1}), ""),
        ];
        let options = BudgetOptions { ignore: true, updates: false, ..ALL };
        assert_eq!(
            computed(&budgets, options),
            [
                entry("evictions.podunavailablebudgets", "CREATE", "Ignore"),
                entry("by-labels.shop.podunavailablebudget", "DELETE", "Ignore"),
                entry("by-name.shop.podunavailablebudget", "DELETE", "Ignore"),
            ]
        );
        let (labels, none) = covered(&budgets[0]).unwrap();
        assert_eq!(labels.match_labels.unwrap()["app"], "web");
        assert!(none.is_none());
        assert_eq!(covered(&budgets[1]).unwrap().0, LabelSelector::default());
    }

    /// Pods of other workloads are not asked about: they could not be deleted while no manager answers.
    #[rstest]
    #[case::deployment("apps/v1", "Deployment", " || (o.kind == 'ReplicaSet' && o.name.startsWith('web-'))")]
    #[case::stateful_set("apps/v1", "StatefulSet", "")]
    #[case::replica_set("apps/v1", "ReplicaSet", "")]
    #[case::replication_controller("v1", "ReplicationController", "")]
    #[case::clone_set("apps.kruise.io/v1alpha1", "CloneSet", "")]
    #[case::advanced_stateful_set("apps.kruise.io/v1beta1", "StatefulSet", "")]
    #[case::another_kind("example.com/v1", "Train", " || o.kind == 'ReplicaSet'")]
    fn pods_of_a_workload(#[case] api_version: &str, #[case] kind: &str, #[case] of_sets: &str) {
        let target = json!({"apiVersion": api_version, "kind": kind, "name": "web"});
        let kept = kept("shop", "b", json!({"targetRef": target, "maxUnavailable": 1}), "");
        let (_, condition) = covered(&kept).unwrap();
        let expression = condition.unwrap().expression;
        let which = format!(" && o.controller && ((o.kind == '{kind}' && o.name == 'web'){of_sets}))");
        assert!(expression.ends_with(&which), "{expression}");
    }

    /// Nobody knows its pods before it is read: all of its namespace are asked about.
    #[test]
    fn one_without_its_selector_has_all_pods() {
        let [one, other] = ["a", "b"].map(|name| kept("shop", name, labelled(), ""));
        let computed = computed(&[(BOUND.bare)(one), other], ALL);
        let expected =
            ["evictions.podunavailablebudgets", "b.shop.podunavailablebudget", "pods.podunavailablebudgets"];
        assert_eq!(computed.iter().map(|(name, ..)| &**name).collect::<Vec<_>>(), expected);
        assert_eq!(computed[2].1, "DELETE,UPDATE");
    }

    #[test]
    fn too_many_share_an_entry() {
        let budgets: Vec<_> = (0..=MOST).map(|at| kept("shop", &format!("b{at}"), labelled(), "")).collect();
        let names: Vec<_> = computed(&budgets, ALL).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["evictions.podunavailablebudgets", "pods.podunavailablebudgets"]);
        assert_eq!(computed(&budgets[1..], ALL).len(), MOST + 1);
    }
}
