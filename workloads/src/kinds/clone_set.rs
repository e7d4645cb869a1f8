//! CloneSets as a kind of the common controller: how one is read, and what its plan is made of.

use berth_base::ownership::SharedKind;
use berth_proto::crd::CloneSet;
use berth_workloads_policy::clone_set::{self, Input};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ObjectMeta;
use serde_json::{Map, Value, json};

use super::{Kind, Known, Plan, Workload, read};

pub(super) const KIND: Kind = Kind {
    name: clone_set::KIND,
    shared: SharedKind::CloneSet,
    version: "v1alpha1",
    plural: "clonesets",
    feature: "clonesets/v1",
    read: read::<CloneSet>,
};

impl Workload for CloneSet {
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

    fn plan(&self, known: &Known<'_>, now: Timestamp) -> Plan {
        let given = known.given;
        let input = Input {
            set: self,
            revisions: known.revisions,
            pods: known.pods,
            claims: known.claims,
            in_place: known.in_place,
            nodes: known.nodes,
            agents: known.agents,
            ahead: known.ahead(given.settings.predownload),
            settings: given.settings,
            failures: given.failures,
            put_off: given.put_off,
            collisions: given.collisions,
            seed: given.seed,
        };
        clone_set::plan(&input, now).map_status(|status| json!(status))
    }
}
