//! Rules of a StatefulSet: its spec, checked, with its defaults.

use berth_proto::crd::{
    AdvancedStatefulSet, ClaimTemplate, LifecycleHook, MOST_NUMBERED_PODS, MOST_ORDINAL_START, Numbers,
};
use serde_json::{Map, Value};

use crate::{
    amount::Amount,
    clone_set::{Priority, UpdateType},
    fault::Fault,
    selector::{Labels, Selector},
    unready::Hooks,
};

/// The longest time that a pod may have to be ready for, in seconds.
const MOST_READY_SECONDS: i64 = 300;

/// A StatefulSet's spec.
#[derive(Clone, Debug)]
pub struct Rules<'a> {
    pub(crate) replicas: i64,
    /// Number of the first pod.
    start: i64,
    /// Numbers that no pod gets.
    reserved: Numbers,
    pub(crate) selector: Selector,
    pub(crate) match_labels: Labels,
    pub(crate) template: &'a Map<String, Value>,
    pub(crate) claims: &'a [ClaimTemplate],
    pub(crate) service: &'a str,
    /// Pods are made, deleted and waited for one after the other.
    pub(crate) ordered: bool,
    /// Only pods that somebody deletes get the newest revision.
    pub(crate) on_delete: bool,
    /// Pods that keep the old revision, counted from the first number.
    pub(crate) partition: i64,
    pub(crate) max_unavailable: i64,
    /// Pods that may be unavailable while others are made; with `Parallel`.
    pub(crate) scale_max_unavailable: Option<i64>,
    pub(crate) update_type: UpdateType,
    pub(crate) paused: bool,
    /// Order that is not that of the numbers.
    pub(crate) unordered: Option<Priority>,
    pub(crate) grace_seconds: Option<i32>,
    pub(crate) min_ready_seconds: i64,
    pub(crate) history_limit: usize,
    /// Claims go with the set.
    pub(crate) deletes_with_set: bool,
    /// Claims go with a pod that is scaled away.
    pub(crate) deletes_with_pod: bool,
    pub(crate) pre_normal: Option<&'a LifecycleHook>,
    pub(crate) pre_delete: Option<&'a LifecycleHook>,
    pub(crate) in_place_update: Option<&'a LifecycleHook>,
}

impl<'a> Rules<'a> {
    /// Reads and checks the spec.
    pub fn of(set: &'a AdvancedStatefulSet) -> Result<Self, Fault> {
        let spec = &set.spec;
        let replicas = i64::from(spec.replicas.unwrap_or(1)).max(0);
        if replicas > MOST_NUMBERED_PODS {
            return Err(Fault::new(
                "spec.replicas",
                format!("is {replicas}: give at most {MOST_NUMBERED_PODS}"),
            ));
        }
        let start = i64::from(spec.ordinals.as_ref().and_then(|one| one.start).unwrap_or(0)).max(0);
        if start > MOST_ORDINAL_START {
            let why = format!("is {start}: give at most {MOST_ORDINAL_START}");
            return Err(Fault::new("spec.ordinals.start", why));
        }
        let selector = Selector::parse("spec.selector", &spec.selector)?;
        if selector.is_empty() {
            return Err(Fault::new("spec.selector", "selects all pods: give it labels of the template"));
        }
        if !selector.takes(&crate::clone_set::template_labels(&spec.template.0)) {
            return Err(Fault::new(
                "spec.template.metadata.labels",
                "are not those of spec.selector: give the template the labels that are selected",
            ));
        }
        let strategy = spec.update_strategy.as_ref();
        let rolling = strategy.and_then(|one| one.rolling_update.as_ref());
        let ordered = match spec.pod_management_policy.as_deref().unwrap_or_default() {
            "" | "OrderedReady" => true,
            "Parallel" => false,
            other => {
                let why = format!("is {other:?}: give OrderedReady or Parallel");
                return Err(Fault::new("spec.podManagementPolicy", why));
            }
        };
        let field = "spec.updateStrategy.rollingUpdate";
        let unavailable = Amount::parse(
            &format!("{field}.maxUnavailable"),
            rolling.and_then(|one| one.max_unavailable.as_ref()),
            Amount::Number(1),
        )?;
        let scale = spec.scale_strategy.as_ref().and_then(|one| one.max_unavailable.as_ref());
        let scale = scale
            .map(|given| Amount::parse("spec.scaleStrategy.maxUnavailable", Some(given), Amount::Number(1)))
            .transpose()?;
        let update_type = match rolling.and_then(|one| one.pod_update_policy.as_deref()).unwrap_or_default() {
            "" | "ReCreate" => UpdateType::ReCreate,
            "InPlaceIfPossible" => UpdateType::InPlaceIfPossible,
            "InPlaceOnly" => UpdateType::InPlaceOnly,
            other => {
                let why = format!("is {other:?}: give ReCreate, InPlaceIfPossible or InPlaceOnly");
                return Err(Fault::new(format!("{field}.podUpdatePolicy"), why));
            }
        };
        let unordered = rolling
            .and_then(|one| one.unordered_update.as_ref())
            .map(|unordered| unordered.priority_strategy.as_ref().map_or(Ok(Priority::None), Priority::of));
        let retention = spec.persistent_volume_claim_retention_policy.as_ref();
        let deletes = |given: Option<&String>| given.is_some_and(|given| given == "Delete");
        Ok(Self {
            replicas,
            start,
            reserved: Numbers::of(&spec.reserve_ordinals),
            match_labels: spec.selector.match_labels.clone().unwrap_or_default(),
            selector,
            template: &spec.template.0,
            claims: &spec.volume_claim_templates,
            service: spec.service_name.as_deref().unwrap_or_default(),
            ordered,
            on_delete: strategy.and_then(|one| one.type_.as_deref()) == Some("OnDelete"),
            partition: i64::from(rolling.and_then(|one| one.partition).unwrap_or(0)).max(0),
            max_unavailable: unavailable.down(replicas).max(1),
            scale_max_unavailable: scale.filter(|_| !ordered).map(|amount| amount.down(replicas).max(1)),
            update_type,
            paused: rolling.is_some_and(|one| one.paused),
            unordered: unordered.transpose()?,
            grace_seconds: rolling
                .and_then(|one| one.in_place_update_strategy.as_ref())
                .and_then(|one| one.grace_period_seconds),
            min_ready_seconds: i64::from(rolling.and_then(|one| one.min_ready_seconds).unwrap_or(0))
                .clamp(0, MOST_READY_SECONDS),
            history_limit: usize::try_from(spec.revision_history_limit.unwrap_or(10)).unwrap_or(0),
            deletes_with_set: deletes(retention.and_then(|one| one.when_deleted.as_ref())),
            deletes_with_pod: deletes(retention.and_then(|one| one.when_scaled.as_ref())),
            pre_normal: spec.lifecycle.as_ref().and_then(|one| one.pre_normal.as_ref()),
            pre_delete: spec.lifecycle.as_ref().and_then(|one| one.pre_delete.as_ref()),
            in_place_update: spec.lifecycle.as_ref().and_then(|one| one.in_place_update.as_ref()),
        })
    }

    pub(crate) fn hooks(&self) -> Hooks<'a> {
        Hooks { pre_delete: self.pre_delete, in_place_update: self.in_place_update }
    }

    /// Numbers of the pods that there are to be, ascending: reserved ones are left out.
    pub(crate) fn slots(&self) -> Vec<i64> {
        self.reserved.others(self.start).take(usize::try_from(self.replicas).unwrap_or(0)).collect()
    }

    /// Tells whether the partition keeps the pod of a number as it is, where numbers count.
    pub(crate) fn keeps(&self, ordinal: i64) -> bool {
        ordinal < self.start.saturating_add(self.partition)
    }
}
