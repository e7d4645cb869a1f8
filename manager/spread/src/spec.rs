//! A WorkloadSpread as its author wrote it, read and checked.

use std::collections::BTreeSet;

use berth_proto::{
    crd::{SpreadSubset, SpreadTarget, WorkloadSpreadSpec},
    percent::part,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Map, Value, json};

use crate::terms;

/// Kinds of workloads that can be spread.
const KINDS: [(&str, &str); 6] = [
    ("apps.kruise.io", "CloneSet"),
    ("apps.kruise.io", "StatefulSet"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("batch", "Job"),
];
/// The largest patch of a subset: it is merged while an API server waits.
const MOST_PATCH: usize = 64 << 10;
/// Seconds that a pod may wait in all subsets together.
const MOST_WAIT: i64 = 295;

/// A WorkloadSpread that can be carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// Workload whose pods they are.
    pub target: Target,
    /// Subsets, in their order.
    pub subsets: Vec<Subset>,
    /// Seconds after which a pod that cannot be scheduled moves on.
    pub reschedule: Option<i64>,
    /// The strategy is Adaptive, with or without seconds.
    pub adaptive: bool,
}

/// A workload of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// API version, with the group.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// A subset of a WorkloadSpread.
#[derive(Clone, Debug, PartialEq)]
pub struct Subset {
    /// Its name.
    pub name: String,
    /// The most pods; `None`: as many as come.
    pub limit: Option<Amount>,
    /// Rule for nodes that is added to each required one.
    pub required: Option<Value>,
    /// Rules for nodes that its pods would rather have.
    pub preferred: Vec<Value>,
    /// Taints that its pods bear.
    pub tolerations: Vec<Value>,
    /// Piece of a pod.
    pub patch: Option<Map<String, Value>>,
}

/// A number of pods, or a share of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Number of pods.
    Pods(i32),
    /// A share of all; a part of a pod is one.
    Percent(i32),
}

/// The limits of all subsets, at one number of replicas.
pub type Limits = Vec<Option<i32>>;

impl Spread {
    /// Reads a spec, or says what is wrong with it: the field and the remedy.
    pub fn parse(spec: &WorkloadSpreadSpec) -> Result<Self, String> {
        let target = Target::of(&spec.target_ref)?;
        let filter = spec.target_filter.as_ref();
        if filter.is_some_and(|filter| filter.selector.is_some() || !filter.replicas_path_list.is_empty()) {
            return Err(
                "spec.targetFilter: would leave pods out, and all pods of the workload are spread; leave it out"
                    .to_owned(),
            );
        }
        if spec.subsets.is_empty() {
            return Err("spec.subsets: there are none; give at least one".to_owned());
        }
        let mut subsets = Vec::with_capacity(spec.subsets.len());
        let mut names = BTreeSet::new();
        for (at, subset) in spec.subsets.iter().enumerate() {
            let field = format!("spec.subsets[{at}]");
            if subset.name.is_empty() || !names.insert(subset.name.as_str()) {
                return Err(format!("{field}.name: is empty, or another subset has it; give another one"));
            }
            subsets.push(Subset::of(&field, subset)?);
        }
        check_limits(&target, &subsets)?;
        let strategy = spec.schedule_strategy.as_ref();
        let adaptive = match strategy.and_then(|strategy| strategy.type_.as_deref()) {
            None | Some("" | "Fixed") => false,
            Some("Adaptive") => true,
            Some(_) => {
                return Err(
                    "spec.scheduleStrategy.type: is neither Fixed nor Adaptive; give one of them".to_owned()
                );
            }
        };
        let details = strategy.and_then(|strategy| strategy.adaptive.as_ref());
        if details.is_some() && !adaptive {
            return Err(
                "spec.scheduleStrategy.adaptive: is for the type Adaptive; set the type, or leave it out"
                    .to_owned(),
            );
        }
        // As with OpenKruise, which asks for it only where there are details.
        if details.is_some() && subsets.len() > 1 && subsets.last().is_some_and(|last| last.limit.is_some()) {
            return Err("spec.subsets: with Adaptive the last one takes what the others cannot; leave out its maxReplicas".to_owned());
        }
        let seconds = details.and_then(|details| details.reschedule_critical_seconds).map(i64::from);
        let others = i64::try_from(subsets.len()).unwrap_or(i64::MAX).saturating_sub(1).max(1);
        if seconds.is_some_and(|seconds| !(0..=MOST_WAIT / others).contains(&seconds)) {
            return Err(format!(
                "spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds: give 0 to {} s with so many subsets",
                MOST_WAIT / others
            ));
        }
        Ok(Self { target, subsets, reschedule: seconds.filter(|seconds| *seconds > 0), adaptive })
    }

    /// Says whether the limits are shares of the replicas of the workload.
    pub fn is_by_share(&self) -> bool {
        self.subsets.iter().any(|subset| matches!(subset.limit, Some(Amount::Percent(_))))
    }

    /// Says whether there is nothing to count: one subset that takes all.
    pub fn is_unlimited(&self) -> bool {
        matches!(&self.subsets[..], [only] if only.limit.is_none())
    }

    /// Limits of the subsets, of so many replicas.
    pub fn limits(&self, replicas: i32) -> Limits {
        self.subsets.iter().map(|subset| subset.limit.map(|limit| limit.pods(replicas))).collect()
    }

    /// Position of a subset.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.subsets.iter().position(|subset| subset.name == name)
    }
}

fn check_limits(target: &Target, subsets: &[Subset]) -> Result<(), String> {
    let limits = || subsets.iter().filter_map(|subset| subset.limit);
    let shares =
        || limits().filter_map(|limit| if let Amount::Percent(share) = limit { Some(share) } else { None });
    if shares().count() == 0 {
        return Ok(());
    }
    if shares().count() != limits().count() {
        return Err("spec.subsets[].maxReplicas: give only numbers, or only shares".to_owned());
    }
    if target.kind == "StatefulSet" {
        return Err("spec.subsets[].maxReplicas: the subsets of a StatefulSet are by number; give no shares"
            .to_owned());
    }
    let sum = shares().fold(0_i32, i32::saturating_add);
    if sum > 100 {
        return Err(format!("spec.subsets[].maxReplicas: the shares are {sum}% together; give at most 100%"));
    }
    if sum < 100 && subsets.last().is_some_and(|last| last.limit.is_some()) {
        return Err(format!(
            "spec.subsets[].maxReplicas: the shares are {sum}% together; give 100%, or leave out that of the last subset"
        ));
    }
    Ok(())
}

impl Target {
    fn of(target: &SpreadTarget) -> Result<Self, String> {
        let SpreadTarget { api_version, kind, name } = target;
        let known = KINDS.iter().any(|(group, of)| *group == group_of(api_version) && of == kind);
        if !known {
            return Err(
                "spec.targetRef: give a CloneSet or StatefulSet of apps.kruise.io, a Deployment, ReplicaSet or \
                 StatefulSet of apps, or a Job of batch"
                    .to_owned(),
            );
        }
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err("spec.targetRef.name: is no name of a workload; give one".to_owned());
        }
        if !api_version.chars().all(|one| is_plain(one) || one == '/') {
            return Err("spec.targetRef.apiVersion: is none; give the one of the workload".to_owned());
        }
        Ok(Self { api_version: api_version.clone(), kind: kind.clone(), name: name.clone() })
    }

    /// Group of its API.
    pub fn group(&self) -> &str {
        group_of(&self.api_version)
    }

    /// Says whether it is this one, in whichever version.
    pub fn is(&self, api_version: &str, kind: &str, name: &str) -> bool {
        self.name == name && self.kind == kind && self.group() == group_of(api_version)
    }

    /// Says whether this may be one of its ReplicaSets: those of a Deployment have its name before theirs.
    pub fn may_have(&self, api_version: &str, kind: &str, name: &str) -> bool {
        self.kind == "Deployment"
            && kind == "ReplicaSet"
            && group_of(api_version) == "apps"
            // Owners of pods are not checked by the API server, and one that cannot be is not to be read.
            && name.strip_prefix(&self.name).is_some_and(|rest| rest.starts_with('-') && rest.chars().all(is_plain))
    }

    /// Says whether its pods have numbers, and with them their subsets.
    pub fn is_ordered(&self) -> bool {
        self.kind == "StatefulSet"
    }

    /// Says whether its controller obeys deletion costs.
    pub fn obeys_costs(&self) -> bool {
        matches!(self.kind.as_str(), "CloneSet" | "Deployment" | "ReplicaSet")
    }
}

/// Tells whether it may be in the name of an object.
fn is_plain(one: char) -> bool {
    one.is_ascii_lowercase() || one.is_ascii_digit() || "-.".contains(one)
}

fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

impl Subset {
    fn of(field: &str, subset: &SpreadSubset) -> Result<Self, String> {
        let limit = subset.max_replicas.as_ref().map(|amount| Amount::of(field, amount)).transpose()?;
        let patch = subset.patch.as_ref().map(|patch| patch.0.clone()).filter(|patch| !patch.is_empty());
        if patch.as_ref().is_some_and(|patch| json!(patch).to_string().len() > MOST_PATCH) {
            return Err(format!("{field}.patch: has more than 64 KiB; make it smaller"));
        }
        if patch.as_ref().is_some_and(|patch| patch.values().any(|part| !part.is_object())) {
            return Err(format!("{field}.patch: give a piece of a pod: metadata and spec"));
        }
        let required = subset.required_node_selector_term.as_ref();
        let empty = |term: &k8s_openapi::api::core::v1::NodeSelectorTerm| {
            term.match_expressions.iter().flatten().count() == 0
                && term.match_fields.iter().flatten().count() == 0
        };
        if required.is_some_and(empty) {
            return Err(format!(
                "{field}.requiredNodeSelectorTerm: asks for nothing, so no node has it; give matchExpressions"
            ));
        }
        if subset.preferred_node_selector_terms.iter().any(|one| !(1..=100).contains(&one.weight)) {
            return Err(format!("{field}.preferredNodeSelectorTerms[].weight: give 1 to 100"));
        }
        if let Some(term) = required {
            terms::check(&format!("{field}.requiredNodeSelectorTerm"), term)?;
        }
        for (at, one) in subset.preferred_node_selector_terms.iter().enumerate() {
            terms::check(&format!("{field}.preferredNodeSelectorTerms[{at}].preference"), &one.preference)?;
        }
        for (at, one) in subset.tolerations.iter().enumerate() {
            terms::tolerates(&format!("{field}.tolerations[{at}]"), one)?;
        }
        Ok(Self {
            name: subset.name.clone(),
            limit,
            required: required.map(|term| json!(term)),
            preferred: subset.preferred_node_selector_terms.iter().map(|term| json!(term)).collect(),
            tolerations: subset.tolerations.iter().map(|one| json!(one)).collect(),
            patch,
        })
    }
}

impl Amount {
    fn of(field: &str, value: &IntOrString) -> Result<Self, String> {
        let amount = match value {
            IntOrString::Int(pods) => Some(Self::Pods(*pods)).filter(|_| *pods >= 0),
            IntOrString::String(text) => part(text).map(|share| Self::Percent(share.into())),
        };
        amount.ok_or_else(|| {
            format!("{field}.maxReplicas: give a number of pods from 0, or a share from 0% to 100%")
        })
    }

    /// The number of pods; a share is rounded up.
    pub fn pods(self, replicas: i32) -> i32 {
        match self {
            Self::Pods(pods) => pods,
            Self::Percent(share) => {
                let product = i64::from(share).saturating_mul(i64::from(replicas.max(0)));
                i32::try_from(product.saturating_add(99) / 100).unwrap_or(i32::MAX)
            }
        }
    }
}
