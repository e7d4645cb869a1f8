//! Rules of a DaemonSet: its spec, checked, with its defaults.

use berth_proto::crd::{AdvancedDaemonSet, LifecycleHook};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Map, Value};

use super::fit;
use crate::{amount::Amount, clone_set::template_labels, fault::Fault, selector::Selector, unready::Hooks};

/// Annotation of a DaemonSet: only as many pods are made as the partition lets go.
const PROGRESSIVE: &str = "daemonset.kruise.io/progressive-create-pod";

/// A DaemonSet's spec. Shares are of the nodes that should have a pod.
#[derive(Clone, Debug)]
pub struct Rules<'a> {
    pub(crate) selector: Selector,
    pub(crate) template: &'a Map<String, Value>,
    pub(crate) on_delete: bool,
    pub(crate) paused: bool,
    pub(crate) in_place: bool,
    /// Only these nodes are updated.
    pub(crate) nodes: Option<Selector>,
    pub(crate) partition: Amount,
    pub(crate) max_unavailable: Amount,
    pub(crate) max_surge: Amount,
    pub(crate) burst: Amount,
    pub(crate) min_ready_seconds: i64,
    pub(crate) history_limit: usize,
    pub(crate) progressive: bool,
    pub(crate) pre_delete: Option<&'a LifecycleHook>,
}

impl<'a> Rules<'a> {
    /// Reads and checks the spec.
    pub fn of(set: &'a AdvancedDaemonSet) -> Result<Self, Fault> {
        let spec = &set.spec;
        let selector = Selector::parse("spec.selector", &spec.selector)?;
        if selector.is_empty() {
            return Err(Fault::new("spec.selector", "selects all pods: give it labels of the template"));
        }
        if !selector.takes(&template_labels(&spec.template.0)) {
            return Err(Fault::new(
                "spec.template.metadata.labels",
                "are not those of spec.selector: give the template the labels that are selected",
            ));
        }
        fit::check(&spec.template.0)?;
        let strategy = spec.update_strategy.as_ref();
        let rolling = strategy.and_then(|one| one.rolling_update.as_ref());
        let field = "spec.updateStrategy.rollingUpdate";
        let kind = rolling.and_then(|one| one.rolling_update_type.as_deref()).unwrap_or_default();
        let surging = kind == "Surging";
        let amount = |name: &str, given: Option<&IntOrString>, default: i64| {
            Amount::parse(&format!("{field}.{name}"), given, Amount::Number(default))
        };
        let surge = rolling.and_then(|one| one.max_surge.as_ref());
        // Where a surge alone is given, nothing is taken out of service for it.
        let most_out = i64::from(!surging && surge.is_none());
        let unavailable =
            amount("maxUnavailable", rolling.and_then(|one| one.max_unavailable.as_ref()), most_out)?;
        let surge = amount("maxSurge", surge, i64::from(surging))?;
        let partition = amount("partition", rolling.and_then(|one| one.partition.as_ref()), 0)?;
        let nodes = rolling.and_then(|one| one.selector.as_ref());
        let nodes = nodes.map(|nodes| Selector::parse(&format!("{field}.selector"), nodes)).transpose()?;
        let in_place = match kind {
            "" | "Standard" | "Surging" => false,
            "InPlaceIfPossible" => true,
            other => {
                let why = format!("is {other:?}: give Standard, Surging or InPlaceIfPossible");
                return Err(Fault::new(format!("{field}.rollingUpdateType"), why));
            }
        };
        let annotations = set.metadata.annotations.as_ref();
        Ok(Self {
            selector,
            template: &spec.template.0,
            on_delete: strategy.and_then(|one| one.type_.as_deref()) == Some("OnDelete"),
            paused: rolling.and_then(|one| one.paused).unwrap_or(false),
            in_place,
            nodes,
            partition,
            max_unavailable: unavailable,
            max_surge: surge,
            burst: Amount::parse("spec.burstReplicas", spec.burst_replicas.as_ref(), Amount::Number(250))?,
            min_ready_seconds: i64::from(spec.min_ready_seconds.unwrap_or(0)).max(0),
            history_limit: usize::try_from(spec.revision_history_limit.unwrap_or(10)).unwrap_or(0),
            progressive: annotations
                .and_then(|all| all.get(PROGRESSIVE))
                .is_some_and(|value| value == "true"),
            pre_delete: spec.lifecycle.as_ref().and_then(|one| one.pre_delete.as_ref()),
        })
    }

    pub(crate) fn hooks(&self) -> Hooks<'a> {
        Hooks { pre_delete: self.pre_delete, in_place_update: None }
    }
}
