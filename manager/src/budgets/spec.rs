//! A budget as its author wrote it: which pods, which operations, how many stay available.

use std::{collections::BTreeMap, sync::Arc};

use berth_proto::{
    crd::{BudgetTarget, PodUnavailableBudgetSpec},
    percent::part,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::{
    selector::Selector,
    store::{OPERATIONS, Owner, TOTAL},
};

/// The most values of a selector together: a new budget is compared with all of its namespace.
const MOST_VALUES: usize = 1024;

/// A budget that can be kept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Budget {
    pub(crate) cover: Cover,
    limit: Limit,
    /// Operations that it limits; empty for all.
    operations: Vec<Operation>,
    /// The number of pods where no workload says one.
    pub(crate) total: Option<i32>,
}

/// Which pods.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cover {
    /// Pods with these labels.
    Selector(Selector),
    /// Pods of a workload.
    Workload(Workload),
}

/// A workload of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Workload {
    pub(crate) api_version: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// ReplicaSets that a workload may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaSets {
    /// It makes its pods itself.
    None,
    /// ReplicaSets that have its name before theirs.
    OfItsName,
    /// Any: nothing is known of its kind.
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Unavailable(Amount),
    Available(Amount),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amount {
    Pods(i32),
    Percent(i32),
}

/// Operation that makes a pod unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Its spec changes.
    Update,
    /// It is deleted.
    Delete,
    /// It is evicted.
    Evict,
}

impl Budget {
    /// Parses the spec; the error names the field and the remedy.
    pub(crate) fn parse(
        spec: &PodUnavailableBudgetSpec,
        annotations: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let cover = match (&spec.selector, &spec.target_ref) {
            (Some(selector), None) => {
                let labels = selector.match_labels.clone().unwrap_or_default();
                let expressions = selector.match_expressions.as_deref().unwrap_or_default();
                if labels.is_empty() && expressions.is_empty() {
                    return Err("spec.selector: is empty and selects nothing; name labels".to_owned());
                }
                let values = expressions.iter().flat_map(|one| one.values.iter().flatten()).count();
                let values = values.saturating_add(labels.len());
                if values > MOST_VALUES {
                    return Err(format!(
                        "spec.selector: has {values} values; give at most {MOST_VALUES} together"
                    ));
                }
                let parsed = Selector::parse(&labels, expressions);
                Cover::Selector(parsed.map_err(|error| format!("spec.selector.{error}"))?)
            }
            (None, Some(target)) => Cover::Workload(Workload::of(target)?),
            _ => return Err("spec: give exactly one of selector and targetRef".to_owned()),
        };
        let limit = match (&spec.max_unavailable, &spec.min_available) {
            (Some(most), None) => Limit::Unavailable(amount("spec.maxUnavailable", most)?),
            (None, Some(least)) => Limit::Available(amount("spec.minAvailable", least)?),
            _ => return Err("spec: give exactly one of maxUnavailable and minAvailable".to_owned()),
        };
        Ok(Self { cover, limit, operations: operations(annotations)?, total: total(annotations)? })
    }

    /// The same limit for all pods of its namespace: whoever has no room for its selector asks about each of
    /// them.
    pub(crate) fn of_all_pods(self) -> Self {
        Self { cover: Cover::Selector(Selector::default()), ..self }
    }

    /// The number of pods that stay available, of so many that are wanted. Never more than there are to be: a
    /// workload that is gone leaves no pod behind that nobody can delete.
    pub(crate) fn desired(&self, total: i32) -> i32 {
        let total = total.max(0);
        match self.limit {
            Limit::Unavailable(most) => total.saturating_sub(most.of(total)).max(0),
            Limit::Available(least) => least.of(total).min(total),
        }
    }

    pub(crate) fn limits(&self, operation: Operation) -> bool {
        self.operations.is_empty() || self.operations.contains(&operation)
    }

    /// The workload, if it is one's pods.
    pub(crate) fn workload(&self) -> Option<&Workload> {
        match &self.cover {
            Cover::Workload(workload) => Some(workload),
            Cover::Selector(_) => None,
        }
    }
}

impl Workload {
    fn of(target: &BudgetTarget) -> Result<Self, String> {
        let BudgetTarget { api_version, kind, name } = target;
        for (field, value) in [("apiVersion", api_version), ("kind", kind), ("name", name)] {
            let is_one = if field == "apiVersion" { is_version(value) } else { is_name(value) };
            if !is_one {
                return Err(format!(
                    "spec.targetRef.{field}: {value:?} is none; name a workload that has a scale"
                ));
            }
        }
        let workload = Self {
            api_version: api_version.as_str().into(),
            kind: kind.as_str().into(),
            name: name.as_str().into(),
        };
        if workload.makes_workloads() {
            return Err(format!(
                "spec.targetRef: pods of a {kind} belong to the workloads that it makes; give a selector"
            ));
        }
        Ok(workload)
    }

    /// Tells whether it makes other workloads, and no pods of its own.
    fn makes_workloads(&self) -> bool {
        self.group() == "apps.kruise.io" && matches!(&*self.kind, "UnitedDeployment" | "AdvancedCronJob")
    }

    pub(crate) fn group(&self) -> &str {
        group(&self.api_version)
    }

    /// Tells whether there can be one: owners of pods are not checked by the API server, and a word that is
    /// none of the API would make another path of its request, or none.
    pub(crate) fn can_be(&self) -> bool {
        is_version(&self.api_version) && is_name(&self.kind) && is_name(&self.name)
    }

    /// Custom kinds without a scale: the API server answers of theirs as of objects that are not there.
    pub(crate) fn never_scales(&self) -> bool {
        self.group() == "apps.kruise.io" && matches!(&*self.kind, "DaemonSet" | "BroadcastJob")
    }

    /// Tells which ReplicaSets may be its own.
    pub(crate) fn replica_sets(&self) -> ReplicaSets {
        match (self.group(), &*self.kind) {
            (_, "Deployment") => ReplicaSets::OfItsName,
            ("apps", "ReplicaSet" | "StatefulSet")
            | ("", "ReplicationController")
            | ("apps.kruise.io", "CloneSet" | "StatefulSet") => ReplicaSets::None,
            _ => ReplicaSets::Any,
        }
    }

    /// Tells whether a ReplicaSet of this name may be its own.
    pub(crate) fn may_have(&self, replica_set: &str) -> bool {
        let rest = || replica_set.strip_prefix(&*self.name);
        match self.replica_sets() {
            ReplicaSets::None => false,
            ReplicaSets::OfItsName => rest().is_some_and(|rest| rest.starts_with('-')),
            ReplicaSets::Any => true,
        }
    }

    /// The same workload, in whichever version.
    pub(crate) fn is(&self, owner: &Owner) -> bool {
        *self.name == owner.name && *self.kind == owner.kind && self.group() == group(&owner.api_version)
    }
}

impl From<&Owner> for Workload {
    fn from(owner: &Owner) -> Self {
        Self {
            api_version: owner.api_version.as_str().into(),
            kind: owner.kind.as_str().into(),
            name: owner.name.as_str().into(),
        }
    }
}

/// Says whether this is a ReplicaSet, whose pods may be those of what it belongs to.
pub(crate) fn is_replica_set(owner: &Owner) -> bool {
    owner.kind == "ReplicaSet" && group(&owner.api_version) == "apps"
}

/// Tells whether it can be the name of an object or a kind, which is one part of a path.
pub(crate) fn is_name(word: &str) -> bool {
    let of_name = |one: char| one.is_ascii_alphanumeric() || "-._".contains(one);
    word.starts_with(|one: char| one.is_ascii_alphanumeric()) && word.chars().all(of_name)
}

fn is_version(api_version: &str) -> bool {
    api_version.splitn(2, '/').all(is_name)
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

impl Amount {
    /// A share is rounded up.
    fn of(self, total: i32) -> i32 {
        match self {
            Self::Pods(pods) => pods,
            Self::Percent(percent) => {
                let product = i64::from(percent).saturating_mul(i64::from(total));
                i32::try_from(product.saturating_add(99) / 100).unwrap_or(i32::MAX)
            }
        }
    }
}

fn amount(field: &str, value: &IntOrString) -> Result<Amount, String> {
    let amount = match value {
        IntOrString::Int(pods) if *pods >= 0 => Some(Amount::Pods(*pods)),
        IntOrString::Int(_) => None,
        IntOrString::String(text) => part(text).map(|percent| Amount::Percent(percent.into())),
    };
    amount.ok_or_else(|| format!("{field}: give a number of pods from 0, or a share from 0% to 100%"))
}

fn operations(annotations: &BTreeMap<String, String>) -> Result<Vec<Operation>, String> {
    let text = annotations.get(OPERATIONS).map(String::as_str).unwrap_or_default();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut operations = Vec::new();
    for word in text.split(',') {
        let operation = match word.trim() {
            "UPDATE" => Operation::Update,
            "DELETE" => Operation::Delete,
            "EVICT" => Operation::Evict,
            _ => {
                return Err(format!(
                    "annotation {OPERATIONS}: give some of UPDATE, DELETE and EVICT, separated by commas"
                ));
            }
        };
        // Once each: a text may name one many thousand times.
        if !operations.contains(&operation) {
            operations.push(operation);
        }
    }
    Ok(operations)
}

fn total(annotations: &BTreeMap<String, String>) -> Result<Option<i32>, String> {
    let Some(text) = annotations.get(TOTAL).filter(|text| !text.is_empty()) else { return Ok(None) };
    let number = text.parse::<i32>().ok().filter(|number| *number >= 0);
    number
        .map(Some)
        .ok_or_else(|| format!("annotation {TOTAL}: give a number of pods from 0 to {}", i32::MAX))
}
