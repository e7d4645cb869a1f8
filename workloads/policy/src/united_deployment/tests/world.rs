//! A cluster of one UnitedDeployment: its status, revisions, workloads and pods, as the API server keeps
//! them.

use std::collections::BTreeMap;

use berth_proto::crd::UnitedDeployment;
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::ControllerRevision, core::v1::Pod};
use serde_json::{Value, json};

use super::super::{Action, ChildView, Input, Kind, Plan, PodView, plan, update};
use crate::revision::Revision;

pub(super) const UID: &str = "united";

pub(super) struct World {
    pub(super) united: UnitedDeployment,
    pub(super) revisions: Vec<Revision>,
    /// By name.
    pub(super) workloads: BTreeMap<String, (Kind, Value)>,
    pub(super) pods: Vec<Value>,
    pub(super) failure: Option<String>,
    /// Names of what was deleted.
    pub(super) deleted: Vec<String>,
    pub(super) seed: u64,
    clock: i64,
}

/// Pods of a template.
pub(super) fn pods(image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "shop" } },
        "spec": { "aFieldOfLater": 1, "containers": [{ "name": "main", "image": image }] },
    })
}

/// Template of a kind.
pub(super) fn template(kind: Kind, image: &str, spec: &Value) -> Value {
    let mut all = json!({ "aFieldOfLater": { "deep": [1] }, "template": pods(image) });
    all.as_object_mut().unwrap().extend(spec.as_object().cloned().unwrap());
    json!({ kind.member(): {
        "metadata": { "labels": { "team": "sales" }, "annotations": { "note": "n" } }, "spec": all,
    }})
}

pub(super) fn spec(kind: Kind, replicas: i64, subsets: &Value) -> Value {
    json!({
        "replicas": replicas,
        "selector": { "matchLabels": { "app": "shop" } },
        "template": template(kind, "a:1", &json!({})),
        "topology": { "subsets": subsets },
    })
}

pub(super) fn named(names: &[&str]) -> Value {
    names.iter().map(|name| json!({ "name": name })).collect()
}

impl World {
    pub(super) fn new(spec: Value) -> Self {
        let united = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedDeployment",
            "metadata": { "namespace": "ns", "name": "shop", "uid": UID, "generation": 1 },
            "spec": spec,
        });
        Self {
            united: serde_json::from_value(united).unwrap(),
            revisions: Vec::new(),
            workloads: BTreeMap::new(),
            pods: Vec::new(),
            failure: None,
            deleted: Vec::new(),
            seed: 7,
            clock: 0,
        }
    }

    /// Merges into the spec; `null` takes a field out.
    pub(super) fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        let mut united = json!(self.united);
        change(&mut united["spec"]);
        self.united = serde_json::from_value(united).unwrap();
        self.united.metadata.generation = self.united.metadata.generation.map(|one| one + 1);
    }

    pub(super) fn children(&self) -> Vec<ChildView> {
        let all = self.workloads.values();
        all.map(|(kind, object)| {
            let meta = serde_json::from_value(object["metadata"].clone()).unwrap();
            ChildView::of(*kind, &meta, object)
        })
        .filter(|child| child.owner == UID)
        .collect()
    }

    pub(super) fn plan(&self) -> Plan {
        let children = self.children();
        let children: Vec<&ChildView> = children.iter().collect();
        let pods: Vec<PodView> = self.pods.iter().map(pod_view).collect();
        let pods: Vec<&PodView> = pods.iter().collect();
        let revisions: Vec<&Revision> = self.revisions.iter().collect();
        let input = Input {
            united: &self.united,
            revisions: &revisions,
            children: &children,
            pods: &pods,
            failure: self.failure.as_deref(),
            collisions: 0,
            seed: self.seed,
        };
        plan(&input, Timestamp::constant(1_700_000_000, 0))
    }

    /// Carries out a plan, as the API server does.
    pub(super) fn carry_out(&mut self, plan: &Plan) {
        plan.actions.iter().for_each(|action| self.write(action));
        if plan.status.is_some() {
            self.united.status = plan.status.clone();
        }
    }

    pub(super) fn write(&mut self, action: &Action) {
        self.clock += 1;
        self.seed += 1;
        let clock = self.clock;
        match action {
            Action::CreateRevision(object, _) => {
                let mut object = object.clone();
                object["metadata"]["uid"] = format!("r{clock}").into();
                let revision: ControllerRevision = serde_json::from_value(object).unwrap();
                self.revisions.push(Revision::of(&revision).unwrap());
            }
            Action::RaiseRevision(target, number) => {
                let known = self.revisions.iter_mut().find(|one| one.uid == target.uid).unwrap();
                known.number = *number;
            }
            Action::DeleteRevision(target) => {
                self.revisions.retain(|one| one.uid != target.uid);
                self.deleted.push(target.name.clone());
            }
            Action::Create(kind, object) => {
                let mut object = object.clone();
                object["metadata"]["uid"] = format!("w{clock}").into();
                object["metadata"]["generation"] = 1.into();
                object["metadata"]["creationTimestamp"] =
                    Timestamp::from_second(clock).unwrap().to_string().into();
                object["status"] = json!({ "observedGeneration": 1 });
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                assert!(self.workloads.insert(name, (*kind, object)).is_none(), "the name is taken");
            }
            Action::Update(kind, target, wanted) => {
                let (known, object) = self.workloads.get_mut(&target.name).unwrap();
                assert_eq!((*known, object["metadata"]["uid"].as_str()), (*kind, Some(target.uid.as_str())));
                update(*kind, object, wanted);
                let generation = object["metadata"]["generation"].as_i64().unwrap();
                object["metadata"]["generation"] = (generation + 1).into();
                object["status"]["observedGeneration"] = (generation + 1).into();
            }
            Action::Delete(kind, target) => {
                let (known, object) = self.workloads.remove(&target.name).unwrap();
                assert_eq!((known, object["metadata"]["uid"].as_str()), (*kind, Some(target.uid.as_str())));
                self.deleted.push(target.name.clone());
            }
            Action::DeletePod(target) => {
                self.pods.retain(|pod| pod["metadata"]["name"].as_str() != Some(target.name.as_str()));
                self.deleted.push(target.name.clone());
            }
        }
    }

    /// Plans and carries out, until nothing is left to be done.
    pub(super) fn settle(&mut self) -> Plan {
        for _ in 0..20 {
            let plan = self.plan();
            if plan.actions.is_empty() && plan.status.is_none() {
                return plan;
            }
            self.carry_out(&plan);
        }
        panic!("it does not settle: {:?}", self.plan());
    }

    /// The workload of a subset.
    pub(super) fn of(&self, subset: &str) -> &Value {
        let mut all = self.workloads.values().filter(|(_, object)| {
            object["metadata"]["labels"]["apps.kruise.io/subset-name"] == *subset
                && object["metadata"]["ownerReferences"][0]["uid"] == *UID
        });
        let (Some((_, object)), None) = (all.next(), all.next()) else { panic!("not one of {subset}") };
        object
    }

    /// Replicas of each subset, and their partitions where they have one.
    pub(super) fn numbers(&self) -> String {
        let mut numbers: Vec<String> = self
            .children()
            .iter()
            .map(|child| format!("{}{}/{}", child.subset, child.wanted, child.partition.unwrap_or(-1)))
            .collect();
        numbers.sort();
        numbers.join(" ")
    }

    /// Makes the pods of each workload, as its own controller would.
    pub(super) fn run(&mut self, ready: bool) {
        self.pods.clear();
        for (name, (kind, object)) in &mut self.workloads {
            let replicas = object["spec"]["replicas"].as_i64().unwrap();
            for number in 0..replicas {
                let owner = match kind {
                    Kind::Deployment => json!({
                        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{name}-abc"), "uid": "rs",
                        "controller": true,
                    }),
                    _ => json!({
                        "apiVersion": format!("{}/{}", kind.group(), kind.version()), "kind": kind.name(),
                        "name": name, "uid": object["metadata"]["uid"], "controller": true,
                    }),
                };
                self.pods.push(json!({
                    "metadata": {
                        "namespace": "ns", "name": format!("{name}-{number}"), "uid": format!("{name}-{number}"),
                        "labels": object["spec"]["template"]["metadata"]["labels"], "ownerReferences": [owner],
                    },
                    "status": { "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }] },
                }));
            }
            object["status"]["replicas"] = replicas.into();
            object["status"]["readyReplicas"] = if ready { replicas } else { 0 }.into();
        }
    }
}

fn pod_view(pod: &Value) -> PodView {
    PodView::of(&serde_json::from_value::<Pod>(pod.clone()).unwrap())
}
