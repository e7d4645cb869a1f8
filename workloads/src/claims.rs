//! Claims: those that a set owns, and those that belong to a set by their names.
//!
//! A StatefulSet's claim outlives its pod and its set unless the set says otherwise, so nothing owns it; it
//! is found by its name, `<template>-<set>-<number>`.

use std::{collections::BTreeMap, ops::Bound};

use berth_workloads_policy::{clone_set::ClaimView, store::Stored};

use crate::{
    kinds::{Workload, is_number},
    owned::{Concerned, Owned},
    reading::Listed,
    watch::Shown,
};

/// Claims by UID, owner and name.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    owned: Owned<ClaimView>,
    /// UIDs of those without an owner, by `<namespace>/<name>`.
    by_name: BTreeMap<String, String>,
}

/// Namespace and name of a claim without an owner.
pub(crate) type Named = (String, String);

fn key(claim: &ClaimView) -> String {
    format!("{}/{}", claim.namespace, claim.name)
}

fn named(claim: &ClaimView) -> Option<Named> {
    claim.owner().is_empty().then(|| (claim.namespace.clone(), claim.name.clone()))
}

impl Claims {
    /// Takes in what the watch shows: sets that own it, and a claim that belongs to a set by its name.
    pub(crate) fn take(&mut self, shown: Shown<ClaimView>) -> (Concerned, Option<Named>) {
        let uid = match &shown {
            Shown::Applied(claim) => claim.uid.clone(),
            Shown::Gone(uid) => uid.clone(),
            Shown::ListBegins => return (self.owned.take(shown), None),
            Shown::ListEnds => {
                let concerned = self.owned.take(shown);
                let of = self.owned.iter().filter(|claim| claim.owner().is_empty());
                self.by_name = of.map(|claim| (key(claim), claim.uid.clone())).collect();
                return (concerned, None);
            }
        };
        let before = self.forget(&uid);
        let concerned = self.owned.take(shown);
        let after = self.remember(&uid);
        // The empty owner is nobody.
        let concerned = match concerned {
            Concerned::Some(mut sets) => {
                sets.retain(|set| !set.is_empty());
                Concerned::Some(sets)
            }
            Concerned::None => return (Concerned::None, None),
            all @ Concerned::All => all,
        };
        (concerned, after.or(before))
    }

    /// A write was answered with this claim.
    pub(crate) fn wrote(&mut self, claim: ClaimView) {
        let uid = claim.uid.clone();
        self.forget(&uid);
        self.owned.wrote(claim);
        self.remember(&uid);
    }

    /// A write has ended this claim.
    pub(crate) fn ended(&mut self, uid: &str) {
        self.forget(uid);
        self.owned.ended(uid);
    }

    /// Claims of these sets, all that there were at a version. What a set owns and is not among them is gone;
    /// of those that belong to it by name, the watch says so. Sets that something new was found for, and new
    /// claims that belong to a set by their names.
    pub(crate) fn found(&mut self, sets: &[&str], listed: Listed<ClaimView>) -> (Vec<String>, Vec<Named>) {
        let (by_name, owned): (Vec<_>, Vec<_>) =
            listed.objects.into_iter().partition(|claim| claim.owner().is_empty());
        let concerned = self.owned.found(sets, Listed { version: listed.version, objects: owned });
        let mut new = Vec::new();
        for claim in by_name {
            if self.owned.get(claim.uid()).is_none_or(|known| known.version() < claim.version()) {
                new.extend(named(&claim));
            }
            self.wrote(claim);
        }
        (concerned, new)
    }

    /// Claims of a set.
    pub(crate) fn of(&self, set: &dyn Workload) -> Vec<&ClaimView> {
        let templates = set.named_claims();
        if templates.is_empty() {
            return self.owned.of(set.uid()).collect();
        }
        let mut claims = Vec::new();
        for template in templates {
            let prefix = format!("{}/{template}-{}-", set.namespace(), set.name());
            let from = (Bound::Included(prefix.as_str()), Bound::Unbounded);
            let of = self.by_name.range::<str, _>(from).take_while(|(key, _)| key.starts_with(&prefix));
            let of = of.filter(|(key, _)| key.strip_prefix(&prefix).is_some_and(is_number));
            claims.extend(of.filter_map(|(_, uid)| self.owned.get(uid)));
        }
        claims
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.owned.listed
    }

    pub(crate) fn len(&self) -> usize {
        self.owned.len()
    }

    fn forget(&mut self, uid: &str) -> Option<Named> {
        let claim = self.owned.get(uid)?;
        let key = key(claim);
        if self.by_name.get(&key).is_some_and(|known| known == uid) {
            self.by_name.remove(&key);
        }
        named(claim)
    }

    fn remember(&mut self, uid: &str) -> Option<Named> {
        let claim = self.owned.get(uid)?;
        let named = named(claim)?;
        self.by_name.insert(key(claim), claim.uid().to_owned());
        Some(named)
    }
}

/// Names of sets that a claim of this name can belong to.
pub(crate) fn sets_of(claim: &str) -> Vec<&str> {
    let Some((base, _)) = claim.rsplit_once('-').filter(|(_, digits)| is_number(digits)) else {
        return Vec::new();
    };
    base.match_indices('-').filter_map(|(at, _)| base.get(at.saturating_add(1)..)).collect()
}

#[cfg(test)]
mod tests {
    use berth_proto::crd::AdvancedStatefulSet;
    use serde_json::json;

    use super::*;

    fn claim(name: &str, version: &str) -> ClaimView {
        let claim = json!({
            "metadata": { "namespace": "ns", "name": name, "uid": format!("uid-{name}"), "resourceVersion": version },
        });
        ClaimView::of(&serde_json::from_value(claim).unwrap())
    }

    fn set(name: &str) -> AdvancedStatefulSet {
        serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet",
            "metadata": { "namespace": "ns", "name": name, "uid": format!("set-{name}") },
            "spec": {
                "selector": {}, "template": {},
                "volumeClaimTemplates": [{ "metadata": { "name": "data" } }, { "metadata": { "name": "log" } }],
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_claim_is_found_by_its_name() {
        let mut claims = Claims::default();
        for name in
            ["data-db-0", "data-db-10", "log-db-0", "data-db-a-0", "data-dbs-0", "other-db-0", "data-db-x"]
        {
            let (concerned, named) = claims.take(Shown::Applied(claim(name, "1")));
            assert_eq!(concerned, Concerned::Some(vec![]), "nobody owns it");
            assert_eq!(named, Some(("ns".to_owned(), name.to_owned())));
        }
        let names = |claims: &Claims, set: &AdvancedStatefulSet| {
            claims.of(set).into_iter().map(|claim| claim.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&claims, &set("db")), ["data-db-0", "data-db-10", "log-db-0"]);
        assert_eq!(names(&claims, &set("db-a")), ["data-db-a-0"]);
        let gone = claims.take(Shown::Gone("uid-data-db-0".to_owned()));
        assert_eq!(gone.1, Some(("ns".to_owned(), "data-db-0".to_owned())), "its set hears of it");
        claims.ended("uid-log-db-0");
        assert_eq!(names(&claims, &set("db")), ["data-db-10"]);
        claims.found(&["set-db"], Listed { version: 5, objects: vec![claim("data-db-3", "5")] });
        assert_eq!(names(&claims, &set("db")), ["data-db-10", "data-db-3"]);
        claims.take(Shown::ListBegins);
        claims.take(Shown::Applied(claim("log-db-7", "9")));
        claims.take(Shown::ListEnds);
        // Written after the list began are none of these.
        assert_eq!(names(&claims, &set("db")), ["log-db-7"]);
        let set: &dyn Workload = &set("db");
        assert!(set.has_claim(&claim("log-db-7", "9")) && !set.has_claim(&claim("log-db-x-7", "9")));
    }

    #[test]
    fn names_of_sets_that_it_can_belong_to() {
        assert_eq!(sets_of("data-my-db-0"), ["my-db", "db"]);
        assert_eq!(sets_of("data-my-db"), [""; 0]);
        assert_eq!(sets_of("0"), [""; 0]);
    }
}
