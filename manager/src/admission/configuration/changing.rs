//! Sets whose reach is about to change: until such a set is stored, a second entry beside its own takes in
//! the pods that it is going to select. One entry could not: its selectors cannot say "or".
//!
//! The entry is called as one of a set `<name>.next`, which no set is. So replicas that know nothing of the
//! change leave it for a while, as the entry of a set that follows.

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::MutatingWebhook;

use super::{Entry, Service, of_set, pods_created, selectors};
use crate::{
    admission::{path::Route, sets::SetRules},
    size,
};

/// Name of the second entry, after that of the set; names of sets that have entries have no dots.
const NEXT: &str = ".next";
/// Bytes of selectors that have a second entry: many long ones must not make an object that is refused.
const MOST_BYTES: usize = 8 << 10;

/// Name that the second entry of a set is called by.
pub(in crate::admission) fn next_of(set: &str) -> String {
    format!("{set}{NEXT}")
}

/// Name of the set that an entry of this name is for.
pub(in crate::admission) fn set_of(entry: &str) -> &str {
    entry.strip_suffix(NEXT).unwrap_or(entry)
}

/// Sets on their way that are stored with another reach, by the names of their second entries.
pub(super) fn changing<'a>(
    coming: impl Iterator<Item = (&'a String, &'a SetRules)>,
    stored: impl Fn(&str) -> Option<&'a SetRules>,
) -> BTreeMap<String, &'a SetRules> {
    let changes = coming.filter(|(name, next)| stored(name).is_some_and(|now| now.reach != next.reach));
    changes.map(|(name, next)| (next_of(name), next)).collect()
}

/// Entries that they have until then.
pub(super) fn entries(
    changing: &BTreeMap<String, &SetRules>,
    bundle: &[u8],
    service: &Service,
) -> Vec<MutatingWebhook> {
    let entry = |(name, set): (&String, &&SetRules)| {
        let (pods, namespaces) = selectors::of(set_of(name), set).ok()?;
        if size::bytes(&pods).saturating_add(size::bytes(&namespaces)) > MOST_BYTES {
            return None;
        }
        let failure = if set.ignore { "Ignore" } else { "Fail" };
        let entry = Entry { name: of_set(name), failure, pods, namespaces };
        Some(entry.mutating(pods_created(), &Route::Pods(Some(name.clone())), bundle, service))
    };
    changing.iter().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::Reach;

    fn rules(values: &[&str]) -> SetRules {
        let expression = json!({ "key": "app", "operator": "In", "values": values });
        let selector = serde_json::from_value(json!({ "matchExpressions": [expression] })).unwrap();
        SetRules { reach: Reach { selector: Some(selector), ..Reach::default() }, ..SetRules::default() }
    }

    #[test]
    fn a_set_that_changes_has_two_entries() {
        let long: Vec<_> = (0..200).map(|at| format!("{at:0>60}")).collect();
        let long = rules(&long.iter().map(String::as_str).collect::<Vec<_>>());
        let stored: BTreeMap<_, _> =
            ["same", "other", "long"].into_iter().map(|name| (name, rules(&["a"]))).collect();
        let coming: BTreeMap<String, SetRules> = [
            ("same".to_owned(), rules(&["a"])),
            ("other".to_owned(), rules(&["b"])),
            ("long".to_owned(), long),
            ("new".to_owned(), rules(&["c"])),
        ]
        .into();
        let changing = changing(coming.iter(), |name| stored.get(name));
        assert_eq!(changing.keys().collect::<Vec<_>>(), ["long.next", "other.next"]);
        let service = Service { namespace: "berth-system".to_owned(), name: "berth-manager".to_owned() };
        let entries = entries(&changing, b"bundle", &service);
        let [entry] = entries.as_slice() else { panic!("{entries:?}") };
        assert_eq!(entry.name, "other.next.sidecarset.berth.dev");
        assert_eq!(
            entry.client_config.service.as_ref().unwrap().path.as_deref(),
            Some("/mutate/pods/other.next")
        );
        assert_eq!(entry.object_selector, coming["other"].reach.selector);
        assert_eq!((set_of("other.next"), set_of("other")), ("other", "other"));
    }
}
