//! A cluster of one BroadcastJob: its status, its pods and nodes, as the API server keeps them.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use berth_proto::crd::BroadcastJob;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::super::{Input, NodeView, Plan, PodState, PodView, plan};
use crate::jobs::{Action, Kind};

pub(super) const BEGIN: Timestamp = Timestamp::constant(1_000_000, 0);

pub(super) struct World {
    pub(super) job: BroadcastJob,
    pub(super) nodes: BTreeMap<String, Value>,
    pub(super) pods: BTreeMap<String, PodView>,
    pub(super) now: Timestamp,
    /// Pods that were made, by node.
    pub(super) made: Vec<String>,
    pub(super) deleted: Vec<String>,
    /// Names of pods whose making has failed.
    pub(super) put_off: BTreeSet<String>,
    /// The job deleted itself.
    pub(super) is_gone: bool,
    uids: u64,
    /// Nodes as they were read.
    views: RefCell<BTreeMap<String, (Value, NodeView)>>,
}

pub(super) fn node(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "uid": name, "labels": { "zone": "a" } },
        "spec": {},
        "status": { "allocatable": { "cpu": "2", "memory": "4Gi", "pods": "110" } },
    })
}

impl World {
    pub(super) fn new(nodes: &[&str], spec: Value) -> Self {
        let mut given = json!({ "template": {
            "metadata": { "labels": { "app": "sweep" } },
            "spec": { "restartPolicy": "Never", "aFieldOfLater": 1, "containers": [
                { "name": "main", "resources": { "requests": { "cpu": "1" } } },
            ]},
        }});
        given.as_object_mut().unwrap().extend(spec.as_object().cloned().unwrap());
        let job = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "BroadcastJob",
            "metadata": { "namespace": "ns", "name": "sweep", "uid": "u", "resourceVersion": "1", "generation": 1 },
            "spec": given,
        });
        Self {
            job: serde_json::from_value(job).unwrap(),
            nodes: nodes.iter().map(|name| ((*name).to_owned(), node(name))).collect(),
            pods: BTreeMap::new(),
            now: BEGIN,
            made: Vec::new(),
            deleted: Vec::new(),
            put_off: BTreeSet::new(),
            is_gone: false,
            uids: 0,
            views: RefCell::default(),
        }
    }

    pub(super) fn plan(&self) -> Plan {
        let mut views = self.views.borrow_mut();
        views.retain(|name, (node, _)| self.nodes.get(name) == Some(node));
        for (name, node) in &self.nodes {
            let view = || NodeView::of(&serde_json::from_value::<Node>(node.clone()).unwrap());
            views.entry(name.clone()).or_insert_with(|| (node.clone(), view()));
        }
        let nodes: Vec<&NodeView> = views.values().map(|(_, view)| view).collect();
        let pods: Vec<&PodView> = self.pods.values().collect();
        let (job, put_off) = (&self.job, &self.put_off);
        plan(&Input { job, pods: &pods, nodes: &nodes, by_scheduler: true, put_off }, self.now)
    }

    fn write(&mut self, action: &Action) {
        match action {
            Action::Create(Kind::Pod, object) => {
                let mut object = object.clone();
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                if self.pods.contains_key(&name) {
                    return;
                }
                self.uids += 1;
                object["metadata"]["uid"] = format!("pod-{}", self.uids).into();
                let pod = PodView::of(&serde_json::from_value::<Pod>(object).unwrap());
                self.made.push(pod.node.clone());
                self.pods.insert(name, pod);
            }
            Action::Delete(Kind::Pod, target) => {
                let pod = self.pods.remove(&target.name).unwrap();
                assert_eq!(pod.uid, target.uid);
                self.deleted.push(pod.node);
            }
            Action::Delete(Kind::BroadcastJob, target) => {
                assert_eq!(target.uid, "u");
                self.is_gone = true;
            }
            other => panic!("{other:?}"),
        }
    }

    /// Carries out a plan, up to so many writes.
    pub(super) fn carry_out(&mut self, plan: &Plan, mut writes: usize) {
        let mut may_write = || {
            writes = writes.saturating_sub(1);
            writes > 0
        };
        if plan.status_first {
            if !may_write() {
                return;
            }
            self.job.status = plan.status.clone();
        }
        for action in &plan.actions {
            if !may_write() {
                return;
            }
            self.write(action);
        }
        if !plan.status_first && plan.status.is_some() && may_write() {
            self.job.status = plan.status.clone();
        }
    }

    /// Plans and carries out, until nothing is left to be done.
    pub(super) fn settle(&mut self) -> Plan {
        for _ in 0..10 {
            let plan = self.plan();
            if self.is_gone || (plan.actions.is_empty() && plan.status.is_none()) {
                return plan;
            }
            self.carry_out(&plan, usize::MAX);
        }
        panic!("it does not settle: {:?}", self.plan());
    }

    pub(super) fn later(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    /// The pod of a node.
    pub(super) fn pod(&mut self, node: &str) -> &mut PodView {
        self.pods.values_mut().find(|pod| pod.node == node).unwrap()
    }

    /// Pods of these nodes are given to them and end; `f` in front: they fail.
    pub(super) fn end(&mut self, nodes: &[&str]) {
        for node in nodes {
            let (name, state) = match node.strip_prefix("f:") {
                Some(name) => (name, PodState::Failed),
                None => (*node, PodState::Succeeded),
            };
            let pod = self.pod(name);
            (pod.bound, pod.state) = (true, state);
        }
    }

    /// Phase, and how many are desired, active, succeeded and failed.
    pub(super) fn status(&self) -> (String, i32, i32, i32, i32) {
        let status = self.job.status.clone().unwrap();
        let phase = status.phase.unwrap_or_default();
        (phase, status.desired, status.active, status.succeeded, status.failed)
    }

    pub(super) fn is(&self, phase: &str, desired: i32, active: i32, succeeded: i32, failed: i32) {
        assert_eq!(self.status(), (phase.to_owned(), desired, active, succeeded, failed));
    }

    pub(super) fn reason(&self) -> Option<String> {
        self.job.status.as_ref()?.conditions.first()?.reason.clone()
    }

    pub(super) fn message(&self) -> Option<String> {
        self.job.status.as_ref()?.conditions.first()?.message.clone()
    }
}
