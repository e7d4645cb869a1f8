//! Entries of the WorkloadSpreads: exactly the pods of their workloads are asked about, as far as the API
//! server can tell them apart. Pure.
//!
//! One entry for each spread, by the name of its workload as new pods have it in their controller; above
//! [`MOST`] of them one is for all pods of their namespaces. Deletions and evictions are told of in all
//! namespaces with a spread, and go whether somebody answers or not. The entry for evictions may change them,
//! as it ties each to the pod whose place it gives back.

use std::collections::BTreeSet;

use berth_spread::{MATCHED, Target};
use k8s_openapi::{
    api::admissionregistration::v1::{
        MatchCondition, MutatingWebhook, ValidatingWebhook, WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use super::{
    DOMAIN, Entry, LEFT_OUT, MOST_BYTES, OF_A_SPREAD, Service, by_name, client, is_named, pods_created, rule,
};
use crate::{
    admission::{path::Route, spreads::SpreadKept},
    size,
};

/// Most spreads with an entry for each: beyond, one entry is for all of them.
const MOST: usize = 100;
/// Name of the entry for all spreads, without the domain.
const OF_ALL: &str = "pods.workloadspreads";

/// Choices of the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::admission) struct SpreadOptions {
    /// They are carried out.
    pub(in crate::admission) on: bool,
    /// New pods come without a subset while no manager answers.
    pub(in crate::admission) ignore: bool,
}

/// Entries for new pods.
pub(super) fn mutating<'a>(
    spreads: impl Iterator<Item = &'a SpreadKept>,
    bundle: &[u8],
    service: &Service,
    options: SpreadOptions,
) -> Vec<MutatingWebhook> {
    let failure = if options.ignore { "Ignore" } else { "Fail" };
    let entry = |name: String, namespaces: &BTreeSet<&str>, condition: String| {
        let entry = Entry { name, failure, pods: LabelSelector::default(), namespaces: of(namespaces) };
        MutatingWebhook {
            match_conditions: Some(vec![named("controlled", condition)]),
            // A pod that is let in stands in the status.
            side_effects: "NoneOnDryRun".to_owned(),
            ..entry.mutating(pods_created(), &Route::Place, bundle, service)
        }
    };
    let kept: Vec<&SpreadKept> = kept(spreads, options).collect();
    let own = |kept: &&SpreadKept| {
        let name = format!("{}.{OF_A_SPREAD}", key(kept));
        let condition = controlled(&kept.spread.as_ref().ok()?.target);
        Some(entry(name, &BTreeSet::from([&*kept.namespace]), condition))
    };
    let is_label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let is_odd = |kept: &&SpreadKept| kept.name.len() > 120 || !kept.name.bytes().all(is_label);
    if kept.len() <= MOST && !kept.iter().any(is_odd) {
        let own: Vec<_> = kept.iter().filter_map(own).collect();
        if size::bytes(&own) <= MOST_BYTES / 2 {
            return own;
        }
    }
    let spaces = kept.iter().map(|kept| &*kept.namespace).collect();
    let any = owners("o.kind in ['CloneSet', 'StatefulSet', 'ReplicaSet', 'Job']");
    vec![entry(OF_ALL.to_owned(), &spaces, any)]
}

/// Name of the entry of a spread, without kind and domain.
pub(super) fn key(kept: &SpreadKept) -> String {
    format!("{}.{}", kept.name, kept.namespace)
}

/// Says whether one of the entries is for all spreads.
pub(in crate::admission) fn is_shared(entries: &[MutatingWebhook]) -> bool {
    entries.iter().any(is_of_all)
}

fn is_of_all(entry: &MutatingWebhook) -> bool {
    is_named(entry, OF_ALL)
}

/// Whom every entry for new pods asks.
pub(super) fn asks(bundle: &[u8], service: &Service) -> WebhookClientConfig {
    client(&Route::Place, bundle, service)
}

/// Says whether new pods of the spread are asked about, or never will be.
pub(in crate::admission) fn has_entry(standing: &[MutatingWebhook], kept: &SpreadKept) -> bool {
    let Ok(spread) = &kept.spread else { return true };
    if LEFT_OUT.contains(&kept.namespace.as_str()) {
        return true;
    }
    let own = format!("{}.{OF_A_SPREAD}.{DOMAIN}", key(kept));
    let condition = controlled(&spread.target);
    let is_own = |entry: &MutatingWebhook| {
        let conditions = entry.match_conditions.iter().flatten();
        entry.name == own && conditions.map(|one| &one.expression).eq([&condition])
    };
    standing.iter().any(is_own) || all_spreads_are_asked(standing, &kept.namespace)
}

/// Says whether one of the entries is for all spreads, and those of this namespace among them.
pub(in crate::admission) fn all_spreads_are_asked(standing: &[MutatingWebhook], namespace: &str) -> bool {
    standing.iter().filter(|entry| is_of_all(entry)).any(|entry| {
        let spaces = entry.namespace_selector.iter().flat_map(|selector| &selector.match_expressions);
        spaces.flatten().flat_map(|one| &one.values).flatten().any(|name| name == namespace)
    })
}

/// Entry for pods that are evicted. It comes after that of the budgets: a pod that they keep has its place.
pub(super) fn evictions<'a>(
    spreads: impl Iterator<Item = &'a SpreadKept>,
    bundle: &[u8],
    service: &Service,
    options: SpreadOptions,
) -> Option<MutatingWebhook> {
    let spaces = spaces(spreads, options);
    let rule = rule("", "v1", "pods/eviction", &["CREATE"], "Namespaced");
    (!spaces.is_empty()).then(|| MutatingWebhook {
        // A place that is given back stands in the status.
        side_effects: "NoneOnDryRun".to_owned(),
        ..going("evictions", &spaces).mutating(rule, &Route::Leave, bundle, service)
    })
}

/// Entries for pods that are deleted, and for spreads that are written.
pub(super) fn validating<'a>(
    spreads: impl Iterator<Item = &'a SpreadKept>,
    bundle: &[u8],
    service: &Service,
    options: SpreadOptions,
) -> Vec<ValidatingWebhook> {
    let checks = Entry::everywhere("checks.workloadspreads".to_owned(), "Fail");
    let written = rule("apps.kruise.io", "v1alpha1", "workloadspreads", &["CREATE", "UPDATE"], "Namespaced");
    let mut entries = vec![ValidatingWebhook {
        side_effects: "None".to_owned(),
        ..checks.validating(written, &Route::CheckSpreads, bundle, service)
    }];
    let spaces = spaces(spreads, options);
    if spaces.is_empty() {
        return entries;
    }
    let placed = format!(
        "has(oldObject.metadata.annotations) && '{MATCHED}' in oldObject.metadata.annotations \
         && !has(oldObject.metadata.deletionTimestamp)"
    );
    let rule = rule("", "v1", "pods", &["DELETE"], "Namespaced");
    entries.push(ValidatingWebhook {
        match_conditions: Some(vec![named("placed", placed)]),
        ..going("deletions", &spaces).validating(rule, &Route::Leave, bundle, service)
    });
    entries
}

/// A pod goes, whoever answers.
fn going(what: &str, spaces: &BTreeSet<&str>) -> Entry {
    Entry {
        name: format!("{what}.workloadspreads"),
        failure: "Ignore",
        pods: LabelSelector::default(),
        namespaces: of(spaces),
    }
}

/// Namespaces with a spread.
fn spaces<'a>(spreads: impl Iterator<Item = &'a SpreadKept>, options: SpreadOptions) -> BTreeSet<&'a str> {
    kept(spreads, options).map(|kept| &*kept.namespace).collect()
}

fn kept<'a>(
    spreads: impl Iterator<Item = &'a SpreadKept>,
    options: SpreadOptions,
) -> impl Iterator<Item = &'a SpreadKept> {
    spreads
        .filter(move |kept| options.on && kept.spread.is_ok() && !LEFT_OUT.contains(&kept.namespace.as_str()))
}

fn of(namespaces: &BTreeSet<&str>) -> LabelSelector {
    let names: Vec<&str> = namespaces.iter().copied().collect();
    LabelSelector { match_expressions: Some(vec![by_name("In", &names)]), match_labels: None }
}

/// Pods of a workload, or of a ReplicaSet that may be its own: names have no letter that CEL would read.
fn controlled(target: &Target) -> String {
    let Target { kind, name, .. } = target;
    match kind.as_str() {
        "Deployment" => owners(&format!("o.kind == 'ReplicaSet' && o.name.startsWith('{name}-')")),
        _ => owners(&format!("o.kind == '{kind}' && o.name == '{name}'")),
    }
}

fn owners(which: &str) -> String {
    format!(
        "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, \
         has(o.controller) && o.controller && {which})"
    )
}

fn named(name: &str, expression: String) -> MatchCondition {
    MatchCondition { name: name.to_owned(), expression }
}

#[cfg(test)]
mod tests {
    use berth_spread::Spread;
    use serde_json::json;

    use super::*;

    fn spread(namespace: &str, name: &str, kind: &str) -> SpreadKept {
        let spec = json!({"targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": "web"}, "subsets": [{"name": "a"}]});
        let spec = serde_json::from_value(spec).map_err(|error| error.to_string());
        SpreadKept {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            spread: spec.and_then(|spec| Spread::parse(&spec)),
            is_bare: false,
            bytes: 0,
        }
    }

    fn names(spreads: &[SpreadKept], options: SpreadOptions) -> (Vec<String>, Vec<String>) {
        let service = Service { namespace: "berth-system".to_owned(), name: "berth-manager".to_owned() };
        let mut mutating = mutating(spreads.iter(), b"bundle", &service, options);
        mutating.extend(evictions(spreads.iter(), b"bundle", &service, options));
        let validating = validating(spreads.iter(), b"bundle", &service, options);
        let name = |name: &String, failure: &Option<String>| {
            format!("{} {}", name.strip_suffix(".berth.dev").unwrap(), failure.as_deref().unwrap())
        };
        (
            mutating.iter().map(|one| name(&one.name, &one.failure_policy)).collect(),
            validating.iter().map(|one| name(&one.name, &one.failure_policy)).collect(),
        )
    }

    const ON: SpreadOptions = SpreadOptions { on: true, ignore: false };

    #[test]
    fn each_spread_has_its_pods_and_no_deletion_waits() {
        let spreads = [
            spread("shop", "a", "Deployment"),
            spread("shop", "b", "Pod"),
            spread("kube-system", "c", "Job"),
        ];
        let (mutating, validating) = names(&spreads, ON);
        assert_eq!(mutating, ["a.shop.workloadspread Fail", "evictions.workloadspreads Ignore"]);
        assert_eq!(validating, ["checks.workloadspreads Fail", "deletions.workloadspreads Ignore"]);
        let (mutating, _) = names(&spreads, SpreadOptions { ignore: true, ..ON });
        assert_eq!(mutating, ["a.shop.workloadspread Ignore", "evictions.workloadspreads Ignore"]);
        let off = names(&spreads, SpreadOptions::default());
        assert_eq!(off, (vec![], vec!["checks.workloadspreads Fail".to_owned()]));
        let target = spreads[0].spread.as_ref().map(|spread| controlled(&spread.target));
        assert!(target.unwrap().contains("o.name.startsWith('web-')"));
    }

    #[test]
    fn a_spread_has_an_entry_when_its_own_stands_or_that_of_all() {
        let service = Service { namespace: "berth-system".to_owned(), name: "berth-manager".to_owned() };
        let of = |spreads: &[SpreadKept]| mutating(spreads.iter(), b"bundle", &service, ON);
        let kept = spread("shop", "a", "ReplicaSet");
        let own = of(std::slice::from_ref(&kept));
        assert!(has_entry(&own, &kept) && !has_entry(&[], &kept));
        // The one of a spread of this name that was there before, and those of others.
        for other in [
            spread("shop", "a", "Deployment"),
            spread("shop", "b", "ReplicaSet"),
            spread("store", "a", "ReplicaSet"),
        ] {
            assert!(!has_entry(&of(&[other]), &kept));
        }
        let all: Vec<_> = (0..=MOST).map(|at| spread("shop", &format!("s{at}"), "ReplicaSet")).collect();
        assert!(is_shared(&of(&all)) && has_entry(&of(&all), &kept) && !is_shared(&own));
        let asked =
            |entries: &[MutatingWebhook]| ["shop", "store"].map(|name| all_spreads_are_asked(entries, name));
        assert_eq!([asked(&of(&all)), asked(&own)], [[true, false], [false, false]]);
        assert!(!has_entry(&of(&all), &spread("store", "a", "ReplicaSet")));
        assert!(has_entry(&[], &spread("kube-system", "a", "ReplicaSet")), "never");
    }

    #[test]
    fn too_many_share_an_entry() {
        let spreads: Vec<_> = (0..=MOST).map(|at| spread("shop", &format!("s{at}"), "ReplicaSet")).collect();
        assert_eq!(names(&spreads, ON).0, ["pods.workloadspreads Fail", "evictions.workloadspreads Ignore"]);
        assert_eq!(names(&spreads[1..], ON).0.len(), MOST + 1);
    }
}
