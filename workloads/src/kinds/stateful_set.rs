//! Advanced StatefulSets as a kind of the common controller: how one is read, and what its plan is made of.

use berth_base::ownership::SharedKind;
use berth_proto::crd::{AdvancedStatefulSet, ClaimTemplate};
use berth_workloads_policy::stateful_set::{self, Input};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ObjectMeta;
use serde_json::{Map, Value, json};

use super::{Kind, Known, Plan, Workload, read};

pub(super) const KIND: Kind = Kind {
    name: stateful_set::KIND,
    shared: SharedKind::StatefulSet,
    version: "v1beta1",
    plural: "statefulsets",
    feature: "statefulsets/v1",
    read: read::<AdvancedStatefulSet>,
};

impl Workload for AdvancedStatefulSet {
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

    fn named_claims(&self) -> Vec<&str> {
        self.spec.volume_claim_templates.iter().map(ClaimTemplate::name).collect()
    }

    fn adopts(&self) -> bool {
        true
    }

    fn plan(&self, known: &Known<'_>, now: Timestamp) -> Plan {
        let input = Input {
            set: self,
            revisions: known.revisions,
            pods: known.pods,
            claims: known.claims,
            in_place: known.in_place,
            agents: known.agents,
            ahead: known.ahead(known.given.settings.predownload),
            rests_until: known.given.rests.until(),
            failures: known.given.failures,
            put_off: known.given.put_off,
            collisions: known.given.collisions,
            unadopted: known.given.unadopted,
        };
        stateful_set::plan(&input, now).map_status(|status| json!(status))
    }
}
