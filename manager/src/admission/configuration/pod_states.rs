//! Entries of the PersistentPodStates: exactly the new pods of their StatefulSets are asked about. Pure.
//!
//! One entry for each state, by the name of its StatefulSet as pods have it in their controller; above
//! [`MOST`] of them one is for all pods of StatefulSets of their namespaces.

use std::collections::BTreeSet;

use berth_pod_state::TargetName;
use k8s_openapi::{
    api::admissionregistration::v1::{MatchCondition, MutatingWebhook, ValidatingWebhook},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use super::{Entry, LEFT_OUT, MOST_BYTES, Service, by_name, is_named, no_mirror, pods_created, rule};
use crate::{
    admission::{path::Route, pod_states::StateKept},
    size,
};

/// Most states with an entry for each: beyond, one entry is for all of them.
const MOST: usize = 100;
/// Name of the entry for all states, without the domain.
const OF_ALL: &str = "pods.persistentpodstates";
/// The longest name that an entry has in its own.
const LONGEST_NAME: usize = 120;

/// Choices of the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::admission) struct StateOptions {
    /// They are carried out.
    pub(in crate::admission) on: bool,
    /// New pods come as they are while no manager answers.
    pub(in crate::admission) ignore: bool,
}

/// Entries for new pods.
pub(super) fn mutating<'a>(
    states: impl Iterator<Item = &'a StateKept>,
    bundle: &[u8],
    service: &Service,
    options: StateOptions,
) -> Vec<MutatingWebhook> {
    let failure = if options.ignore { "Ignore" } else { "Fail" };
    let entry = |name: String, namespaces: &BTreeSet<&str>, which: &str| {
        let names: Vec<&str> = namespaces.iter().copied().collect();
        let namespaces =
            LabelSelector { match_expressions: Some(vec![by_name("In", &names)]), match_labels: None };
        let entry = Entry { name, failure, pods: LabelSelector::default(), namespaces };
        MutatingWebhook {
            match_conditions: Some(vec![no_mirror(), controlled(which)]),
            ..entry.mutating(pods_created(), &Route::Restore, bundle, service)
        }
    };
    let kept: Vec<(&StateKept, &TargetName)> = states
        .filter(|kept| options.on && !LEFT_OUT.contains(&kept.namespace.as_str()))
        .filter_map(|kept| Some((kept, kept.rules.as_ref().ok()?.target())))
        .collect();
    // A name that is longer, or has a letter that CEL would read, is that of no StatefulSet with pods.
    let is_plain = |name: &str| {
        let is_letter =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        name.len() <= LONGEST_NAME && name.bytes().all(is_letter)
    };
    let odd = kept.iter().any(|(kept, target)| !is_plain(&kept.name) || !is_plain(&target.name));
    let own = |(kept, target): &(&StateKept, &TargetName)| {
        let group = if target.advanced { "apps.kruise.io/" } else { "apps/" };
        let which = format!("o.name == '{}' && o.apiVersion.startsWith('{group}')", target.name);
        let name = format!("{}.{}.persistentpodstate", kept.name, kept.namespace);
        entry(name, &BTreeSet::from([&*kept.namespace]), &which)
    };
    if kept.len() <= MOST && !odd {
        let own: Vec<_> = kept.iter().map(own).collect();
        if size::bytes(&own) <= MOST_BYTES / 4 {
            return own;
        }
    }
    let spaces = kept.iter().map(|(kept, _)| &*kept.namespace).collect();
    vec![entry(OF_ALL.to_owned(), &spaces, "o.apiVersion.startsWith('apps')")]
}

/// Says whether one of the entries is for all states.
pub(in crate::admission) fn is_shared(entries: &[MutatingWebhook]) -> bool {
    entries.iter().any(|entry| is_named(entry, OF_ALL))
}

/// Entry for states that are written.
pub(super) fn validating(bundle: &[u8], service: &Service) -> ValidatingWebhook {
    let checks = Entry::everywhere("checks.persistentpodstates".to_owned(), "Fail");
    let written =
        rule("apps.kruise.io", "v1alpha1", "persistentpodstates", &["CREATE", "UPDATE"], "Namespaced");
    ValidatingWebhook {
        side_effects: "None".to_owned(),
        ..checks.validating(written, &Route::CheckStates, bundle, service)
    }
}

fn controlled(which: &str) -> MatchCondition {
    MatchCondition {
        name: "controlled".to_owned(),
        expression: format!(
            "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, \
             has(o.controller) && o.controller && o.kind == 'StatefulSet' && {which})"
        ),
    }
}

#[cfg(test)]
mod tests {
    use berth_pod_state::Rules;
    use serde_json::json;

    use super::*;

    fn state(namespace: &str, name: &str, set: &str) -> StateKept {
        let spec = json!({
            "targetRef": { "apiVersion": "apps/v1", "kind": "StatefulSet", "name": set },
            "requiredPersistentTopology": { "nodeTopologyKeys": ["zone"] },
        });
        let rules = Rules::of(&serde_json::from_value(spec).unwrap()).map_err(|fault| fault.to_string());
        StateKept { namespace: namespace.to_owned(), name: name.to_owned(), rules }
    }

    fn entries(states: &[StateKept], options: StateOptions) -> Vec<MutatingWebhook> {
        let service = Service { namespace: "berth-system".to_owned(), name: "berth-manager".to_owned() };
        mutating(states.iter(), b"bundle", &service, options)
    }

    fn names(entries: &[MutatingWebhook]) -> Vec<String> {
        let one = |entry: &MutatingWebhook| {
            format!("{} {}", entry.name, entry.failure_policy.as_deref().unwrap_or_default())
        };
        entries.iter().map(one).collect()
    }

    const ON: StateOptions = StateOptions { on: true, ignore: false };

    #[test]
    fn each_state_has_the_pods_of_its_set() {
        let mut broken = state("shop", "c", "web");
        broken.rules = Err("no".to_owned());
        let states = [state("shop", "a", "web"), state("kube-system", "b", "web"), broken];
        let own = entries(&states, ON);
        assert_eq!(names(&own), ["a.shop.persistentpodstate.berth.dev Fail"]);
        let conditions = own[0].match_conditions.as_ref().unwrap();
        let words = "o.kind == 'StatefulSet' && o.name == 'web' && o.apiVersion.startsWith('apps/')";
        assert!(conditions.iter().any(|one| one.expression.contains(words)), "{conditions:?}");
        let ignoring = entries(&states, StateOptions { ignore: true, ..ON });
        assert_eq!(names(&ignoring), ["a.shop.persistentpodstate.berth.dev Ignore"]);
        assert!(entries(&states, StateOptions::default()).is_empty());
    }

    #[test]
    fn too_many_or_odd_ones_share_an_entry() {
        let states: Vec<_> = (0..=MOST).map(|at| state("shop", &format!("s{at}"), "web")).collect();
        assert_eq!(names(&entries(&states, ON)), ["pods.persistentpodstates.berth.dev Fail"]);
        assert_eq!(entries(&states[1..], ON).len(), MOST);
        assert!(is_shared(&entries(&states, ON)) && !is_shared(&entries(&states[1..], ON)));
        let odd = [state("shop", "a", "x' || true || '")];
        assert_eq!(names(&entries(&odd, ON)), ["pods.persistentpodstates.berth.dev Fail"]);
    }
}
