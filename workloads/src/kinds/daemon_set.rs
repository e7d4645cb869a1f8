//! Advanced DaemonSets as a kind of the common controller: how one is read, and what its plan is made of.

use berth_base::ownership::SharedKind;
use berth_proto::crd::AdvancedDaemonSet;
use berth_workloads_policy::{
    daemon_set::{self, Input},
    plan::NodeView,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ObjectMeta;
use serde_json::{Map, Value, json};

use super::{Kind, Known, Plan, Workload, read};

pub(super) const KIND: Kind = Kind {
    name: daemon_set::KIND,
    shared: SharedKind::DaemonSet,
    version: "v1alpha1",
    plural: "daemonsets",
    feature: "daemonsets/v1",
    read: read::<AdvancedDaemonSet>,
};

impl Workload for AdvancedDaemonSet {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn selector(&self) -> &LabelSelector {
        &self.spec.selector
    }

    fn template(&self) -> &Map<String, Value> {
        &self.spec.template.0
    }

    fn adopts(&self) -> bool {
        true
    }

    fn minds(&self, before: Option<&NodeView>, after: Option<&NodeView>) -> bool {
        daemon_set::minds(self, before, after)
    }

    fn plan(&self, known: &Known<'_>, now: Timestamp) -> Plan {
        let given = known.given;
        let input = Input {
            set: self,
            revisions: known.revisions,
            pods: known.pods,
            nodes: known.nodes,
            in_place: known.in_place,
            agents: known.agents,
            ahead: known.ahead(given.settings.predownload_daemon_sets),
            rests_until: given.rests.until(),
            held: given.held,
            failures: given.failures,
            collisions: given.collisions,
            seed: given.seed,
            unadopted: given.unadopted,
            put_off: given.put_off,
        };
        daemon_set::plan(&input, now).map_status(|status| json!(status))
    }
}
