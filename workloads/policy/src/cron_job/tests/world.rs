//! A cluster of one AdvancedCronJob: its status and its jobs, as the API server keeps them.

use std::collections::BTreeMap;

use berth_proto::crd::AdvancedCronJob;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use super::super::{ChildState, ChildView, Input, Plan, SCHEDULED_AT, plan};
use crate::jobs::Action;

pub(super) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Seconds after a time.
pub(super) fn after(time: Timestamp, seconds: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_secs(seconds)).unwrap()
}

pub(super) struct World {
    pub(super) job: AdvancedCronJob,
    pub(super) children: BTreeMap<String, ChildView>,
    pub(super) now: Timestamp,
    /// Times of jobs, as they were made.
    pub(super) made: Vec<Timestamp>,
    /// Jobs that were deleted.
    pub(super) deleted: Vec<String>,
    pub(super) refused: Option<String>,
    uids: u64,
}

impl World {
    /// Merges what is given into the spec.
    pub(super) fn new(created: &str, schedule: &str, spec: Value) -> Self {
        let mut given = json!({
            "schedule": schedule,
            "template": { "jobTemplate": {
                "metadata": { "labels": { "app": "report" } },
                "spec": { "aFieldOfLater": 1, "template": { "spec": { "restartPolicy": "Never" } } },
            }},
        });
        let fields = spec.as_object().cloned().unwrap_or_default();
        given.as_object_mut().unwrap().extend(fields);
        let job = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "AdvancedCronJob",
            "metadata": {
                "namespace": "ns", "name": "report", "uid": "u", "generation": 1, "creationTimestamp": created,
            },
            "spec": given,
        });
        Self {
            job: serde_json::from_value(job).unwrap(),
            children: BTreeMap::new(),
            now: at(created),
            made: Vec::new(),
            deleted: Vec::new(),
            refused: None,
            uids: 0,
        }
    }

    pub(super) fn plan(&self) -> Plan {
        let children: Vec<&ChildView> = self.children.values().collect();
        let zone = TimeZone::UTC;
        let refused = self.refused.as_deref();
        plan(&Input { job: &self.job, children: &children, zone: &zone, refused }, self.now)
    }

    /// Carries out an action, as the API server does.
    pub(super) fn write(&mut self, action: &Action) {
        match action {
            Action::Create(_, object) => {
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                if self.children.contains_key(&name) {
                    return;
                }
                let mut object = object.clone();
                self.uids += 1;
                object["metadata"]["uid"] = format!("child-{}", self.uids).into();
                object["metadata"]["creationTimestamp"] = after(self.now, 0).to_string().into();
                let scheduled = object["metadata"]["annotations"][SCHEDULED_AT].as_str().unwrap().to_owned();
                self.made.push(at(&scheduled));
                let job: Job = serde_json::from_value(object).unwrap();
                self.children.insert(name, ChildView::of_job(&job));
            }
            Action::Delete(_, target) | Action::Forget(_, target) => {
                assert_eq!(self.children.get(&target.name).map(|child| &child.uid), Some(&target.uid));
                self.children.remove(&target.name);
                self.deleted.push(target.name.clone());
            }
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
            if plan.actions.is_empty() && plan.status.is_none() {
                return plan;
            }
            self.carry_out(&plan, usize::MAX);
        }
        panic!("it does not settle: {:?}", self.plan());
    }

    /// Settles at a time; returns the times of jobs made then, as seconds since the one given first.
    pub(super) fn at(&mut self, time: &str) -> Vec<String> {
        let before = self.made.len();
        self.now = at(time);
        self.settle();
        self.made[before..].iter().map(|time| time.strftime("%d %H:%M").to_string()).collect()
    }

    pub(super) fn end(&mut self, name: &str, state: ChildState) {
        self.children.get_mut(name).unwrap().state = state;
    }
}
