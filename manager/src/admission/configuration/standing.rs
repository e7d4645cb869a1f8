//! Comparison of the entries that stand with those that are wanted: which sets are injected into new pods.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhook;

use super::{Desired, OF_ALL_SETS, is_named, of_set};
use crate::{
    admission::sets::SetRules,
    store::{Entries, Entry},
};

/// Entries of all sets, by what stands.
pub(super) fn entries<'a>(
    sets: impl Iterator<Item = (&'a String, &'a SetRules)>,
    desired: &Desired,
    standing: &[MutatingWebhook],
) -> Entries {
    let stands = |name: &str| {
        let find = |entries: &[MutatingWebhook]| entries.iter().position(|entry| is_named(entry, name));
        let (wanted, found) = (find(&desired.mutating), find(standing));
        let wanted = wanted.and_then(|at| desired.mutating.get(at));
        wanted.is_some() && wanted == found.and_then(|at| standing.get(at))
    };
    let shared_stands = desired.shared && stands(OF_ALL_SETS);
    let of = |name: &String, rules: &SetRules| {
        let left_out = desired.left_out.iter().find(|(set, _)| set == name);
        if let Some((_, reason)) = left_out {
            Entry::LeftOut(reason.clone())
        } else if shared_stands || (!desired.shared && stands(&of_set(name))) {
            Entry::Stands(rules.reach.clone())
        } else {
            Entry::Pending
        }
    };
    Entries {
        sets: sets.map(|(name, rules)| (name.clone(), of(name, rules))).collect(),
        shared: desired.shared,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::admission::configuration::{MOST_SETS, Options, Service, desired};
    use crate::store::Reach;

    fn rules(name: &str) -> (String, SetRules) {
        let selector = serde_json::from_value(json!({ "matchLabels": { "app": name } })).ok();
        (name.to_owned(), SetRules { reach: Reach { selector, ..Reach::default() }, ..SetRules::default() })
    }

    fn wanted(sets: &BTreeMap<String, SetRules>) -> Desired {
        let service = Service { namespace: "berth-system".to_owned(), name: "berth-manager".to_owned() };
        desired(sets.iter(), b"bundle", &service, Options::default())
    }

    #[test]
    fn each_set_is_told_of_its_own_entry() {
        let mut sets = BTreeMap::from([rules("a"), rules("b"), rules("c")]);
        sets.insert("none".to_owned(), SetRules::default());
        let desired = wanted(&sets);
        let mut standing = desired.mutating.clone();
        standing.remove(1);
        if let Some(last) = standing.get_mut(1) {
            last.client_config.ca_bundle = None;
        }
        let told = entries(sets.iter(), &desired, &standing);
        assert_eq!(told.sets["a"], Entry::Stands(sets["a"].reach.clone()));
        assert_eq!((&told.sets["b"], &told.sets["c"]), (&Entry::Pending, &Entry::Pending));
        assert!(matches!(&told.sets["none"], Entry::LeftOut(why) if why.contains("spec.selector")));
        let told = entries(sets.iter(), &desired, &desired.mutating);
        assert!(["a", "b", "c"].iter().all(|name| matches!(told.sets[*name], Entry::Stands(_))));
        // No configuration is there.
        let told = entries(sets.iter(), &Desired::default(), &[]);
        assert_eq!(told.sets["a"], Entry::Pending);
    }

    #[test]
    fn one_entry_is_for_too_many() {
        let sets: BTreeMap<_, _> = (0..=MOST_SETS).map(|at| rules(&format!("s{at}"))).collect();
        let desired = wanted(&sets);
        let told = entries(sets.iter(), &desired, &desired.mutating);
        assert!(told.shared && told.sets.values().all(|entry| matches!(entry, Entry::Stands(_))));
        let told = entries(sets.iter(), &desired, &[]);
        assert!(told.shared && told.sets.values().all(|entry| *entry == Entry::Pending));
    }
}
