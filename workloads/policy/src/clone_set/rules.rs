//! Rules of a CloneSet: its spec, checked, with its defaults.

use std::collections::BTreeSet;

use berth_proto::crd::{
    ClaimTemplate, CloneSet, LifecycleHook, UpdatePriorityStrategy, UpdateScatterTerm, WorkloadLifecycle,
};
use serde_json::{Map, Value};

use crate::{
    amount::Amount,
    fault::Fault,
    names::{EXCLUDE_PREPARING_DELETE_LABEL, KEEP_CLAIMS_ANNOTATION},
    selector::{Labels, Selector},
    unready::Hooks,
};

/// The most pods that a set may have; what is beyond is no number that anybody means.
const MOST_REPLICAS: i64 = 1_000_000;
/// The most requirements of all weights together: each is looked at for each pod.
const MOST_REQUIREMENTS: usize = 1024;
/// Share of pods that may be unavailable where nothing is said: 20 %.
const MAX_UNAVAILABLE: Amount = Amount::Share(200_000);

/// How a pod gets a new revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateType {
    /// By a new pod.
    ReCreate,
    /// In place where that is possible, else by a new pod.
    InPlaceIfPossible,
    /// In place, or not at all.
    InPlaceOnly,
}

/// Pods that come first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// None.
    #[default]
    None,
    /// Pods with the largest sum of weights.
    Weights(Vec<(i32, Selector)>),
    /// Pods with none of these labels, then those with the first of them and the largest number at its end.
    Labels(Vec<String>),
}

/// A CloneSet's spec.
#[derive(Clone, Debug)]
pub struct Rules<'a> {
    pub(crate) replicas: i64,
    pub(crate) selector: Selector,
    pub(crate) match_labels: Labels,
    pub(crate) template: &'a Map<String, Value>,
    pub(crate) claims: &'a [ClaimTemplate],
    pub(crate) update_type: UpdateType,
    /// Pods that keep the current revision.
    pub(crate) partition: i64,
    pub(crate) max_surge: i64,
    pub(crate) max_unavailable: i64,
    /// Pods that may be unavailable while others are made.
    pub(crate) scale_max_unavailable: i64,
    pub(crate) paused: bool,
    pub(crate) priority: Priority,
    pub(crate) scatter: &'a [UpdateScatterTerm],
    pub(crate) grace_seconds: Option<i32>,
    pub(crate) min_ready_seconds: i64,
    pub(crate) pods_to_delete: BTreeSet<&'a str>,
    pub(crate) reuses_claims: bool,
    /// Claims of a pod that is replaced go to the pod that replaces it.
    pub(crate) keeps_claims: bool,
    /// Pods that are held before their deletion do not count.
    pub(crate) excludes_preparing: bool,
    pub(crate) history_limit: usize,
    lifecycle: Option<&'a WorkloadLifecycle>,
}

impl<'a> Rules<'a> {
    /// Reads and checks the spec.
    pub fn of(set: &'a CloneSet) -> Result<Self, Fault> {
        let spec = &set.spec;
        let replicas = i64::from(spec.replicas.unwrap_or(1)).clamp(0, MOST_REPLICAS);
        let selector = Selector::parse("spec.selector", &spec.selector)?;
        if selector.is_empty() {
            return Err(Fault::new("spec.selector", "selects all pods: give it labels of the template"));
        }
        let labels = template_labels(&spec.template.0);
        if !selector.takes(&labels) {
            return Err(Fault::new(
                "spec.template.metadata.labels",
                "are not those of spec.selector: give the template the labels that are selected",
            ));
        }
        let scale = spec.scale_strategy.as_ref();
        let update = spec.update_strategy.as_ref();
        let field = |name: &str| format!("spec.updateStrategy.{name}");
        let amount = |name: &str, given, default| Amount::parse(&field(name), given, default);
        let none = Amount::Number(0);
        let surge = amount("maxSurge", update.and_then(|one| one.max_surge.as_ref()), none)?;
        let unavailable =
            amount("maxUnavailable", update.and_then(|one| one.max_unavailable.as_ref()), MAX_UNAVAILABLE)?;
        let partition = amount("partition", update.and_then(|one| one.partition.as_ref()), none)?;
        let scale_unavailable = Amount::parse(
            "spec.scaleStrategy.maxUnavailable",
            scale.and_then(|one| one.max_unavailable.as_ref()),
            Amount::Number(i64::from(i32::MAX)),
        )?;
        let update_type = match update.and_then(|one| one.type_.as_deref()).unwrap_or_default() {
            "" | "ReCreate" => UpdateType::ReCreate,
            "InPlaceIfPossible" => UpdateType::InPlaceIfPossible,
            "InPlaceOnly" => UpdateType::InPlaceOnly,
            other => {
                let why = format!("is {other:?}: give ReCreate, InPlaceIfPossible or InPlaceOnly");
                return Err(Fault::new(field("type"), why));
            }
        };
        let max_surge = surge.up(replicas).min(MOST_REPLICAS);
        let priority = update.and_then(|one| one.priority_strategy.as_ref());
        let to_delete = scale.map(|one| one.pods_to_delete.as_slice()).unwrap_or_default();
        let set_labels = set.metadata.labels.as_ref();
        let reuses_claims = !scale.is_some_and(|one| one.disable_pvc_reuse);
        let annotations = set.metadata.annotations.as_ref();
        let noted = |key: &str| annotations.and_then(|all| all.get(key)).is_some_and(|value| value == "true");
        Ok(Self {
            replicas,
            match_labels: spec.selector.match_labels.clone().unwrap_or_default(),
            selector,
            template: &spec.template.0,
            claims: &spec.volume_claim_templates,
            update_type,
            partition: partition.partition(replicas),
            max_unavailable: if max_surge == 0 {
                unavailable.up(replicas)
            } else {
                unavailable.down(replicas)
            },
            max_surge,
            scale_max_unavailable: scale_unavailable.up(replicas),
            paused: update.is_some_and(|one| one.paused),
            priority: priority.map_or(Ok(Priority::None), Priority::of)?,
            scatter: update.map(|one| one.scatter_strategy.as_slice()).unwrap_or_default(),
            grace_seconds: update
                .and_then(|one| one.in_place_update_strategy.as_ref())
                .and_then(|one| one.grace_period_seconds),
            min_ready_seconds: i64::from(spec.min_ready_seconds.unwrap_or(0)).max(0),
            pods_to_delete: to_delete.iter().map(String::as_str).collect(),
            reuses_claims,
            keeps_claims: reuses_claims && noted(KEEP_CLAIMS_ANNOTATION),
            excludes_preparing: set_labels
                .and_then(|labels| labels.get(EXCLUDE_PREPARING_DELETE_LABEL))
                .is_some_and(|value| value == "true"),
            history_limit: usize::try_from(spec.revision_history_limit.unwrap_or(10)).unwrap_or(0),
            lifecycle: spec.lifecycle.as_ref(),
        })
    }

    pub(crate) fn has_lifecycle(&self) -> bool {
        self.lifecycle.is_some()
    }

    pub(crate) fn pre_delete(&self) -> Option<&'a LifecycleHook> {
        self.lifecycle?.pre_delete.as_ref()
    }

    pub(crate) fn in_place_update(&self) -> Option<&'a LifecycleHook> {
        self.lifecycle?.in_place_update.as_ref()
    }

    pub(crate) fn hooks(&self) -> Hooks<'a> {
        Hooks { pre_delete: self.pre_delete(), in_place_update: self.in_place_update() }
    }

    pub(crate) fn pre_normal(&self) -> Option<&'a LifecycleHook> {
        self.lifecycle?.pre_normal.as_ref()
    }
}

impl Priority {
    pub(crate) fn of(given: &UpdatePriorityStrategy) -> Result<Self, Fault> {
        let field = "spec.updateStrategy.priorityStrategy";
        if !given.weight_priority.is_empty() && !given.order_priority.is_empty() {
            return Err(Fault::new(field, "has both orderPriority and weightPriority: give one of them"));
        }
        if !given.weight_priority.is_empty() {
            let terms = given.weight_priority.iter().map(|term| {
                let selector =
                    Selector::parse(&format!("{field}.weightPriority.matchSelector"), &term.match_selector)?;
                Ok((term.weight, selector))
            });
            let terms: Vec<(i32, Selector)> = terms.collect::<Result<_, Fault>>()?;
            let all = terms.iter().map(|(_, selector)| selector.len()).fold(0, usize::saturating_add);
            if all > MOST_REQUIREMENTS {
                let why = format!("asks for {all} labels: give at most {MOST_REQUIREMENTS} together");
                return Err(Fault::new(format!("{field}.weightPriority"), why));
            }
            return Ok(Self::Weights(terms));
        }
        let keys: Vec<_> = given.order_priority.iter().map(|term| term.ordered_key.clone()).collect();
        Ok(if keys.is_empty() { Self::None } else { Self::Labels(keys) })
    }
}

/// Labels of a template.
pub(crate) fn template_labels(template: &Map<String, Value>) -> Labels {
    let labels = template.get("metadata").and_then(|metadata| metadata.get("labels"));
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
