//! The one owner of what is known of probes: [`berth_policy::Probes`] behind a lock that is never held over an await.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use berth_policy::{
    ConditionStatus, PodRef, PodUid, ProbeEvent, ProbeLimits, ProbeStep, Probes, Shown, ShownCondition,
    Strain, WantedPod, time::later,
};
use k8s_openapi::api::core::v1 as core;
use tokio::sync::watch;

use crate::{
    agent::{AFTER_PANIC, now},
    cluster::target::version,
    metrics::AgentMetrics,
    pod_view::api::Onlooker,
};

/// The state of the probes and the way to it.
#[derive(Debug)]
pub struct Keeper {
    probes: Mutex<Probes>,
    /// Grows with every fact.
    changes: watch::Sender<u64>,
    /// The pods with probes, by the UID that the API has for them.
    wanted: watch::Sender<BTreeSet<PodUid>>,
    metrics: AgentMetrics,
}

/// What is owed, and what is to be known about it.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<ProbeStep>,
    /// Ask again then.
    pub(super) deadline: Option<Instant>,
    pub(super) strain: Option<Strain>,
}

impl Keeper {
    /// Knows nothing yet.
    pub fn new(limits: ProbeLimits, metrics: AgentMetrics) -> Self {
        Self {
            probes: Mutex::new(Probes::new(limits, now())),
            changes: watch::Sender::default(),
            wanted: watch::Sender::default(),
            metrics,
        }
    }

    pub(super) fn apply(&self, event: ProbeEvent) {
        self.guarded(|probes| probes.apply(event, now()));
        self.changes.send_modify(|changes| *changes += 1);
    }

    pub(super) fn want(&self, pods: Vec<WantedPod>) {
        let uids = pods.iter().map(|pod| pod.pod.uid.clone()).collect();
        self.apply(ProbeEvent::Wanted(pods));
        self.wanted.send_if_modified(|wanted| {
            let new = *wanted != uids;
            *wanted = uids;
            new
        });
    }

    /// Something is asked for of this pod.
    pub(super) fn wants(&self, pod: &PodUid) -> bool {
        self.wanted.borrow().contains(pod)
    }

    pub(super) fn wanted(&self) -> watch::Receiver<BTreeSet<PodUid>> {
        self.wanted.subscribe()
    }

    pub(super) fn plan(&self) -> Plan {
        let plan = self.guarded(|probes| {
            let steps = probes.plan(now());
            let named = |(pod, again): (PodRef, Instant)| {
                (format!("probes of pod {}/{}", pod.namespace, pod.name), again)
            };
            let set_aside = || probes.set_aside(now()).into_iter().map(named).collect();
            self.metrics.set_aside("probes", probes.panics(), set_aside);
            Plan { steps, deadline: probes.next_deadline(), strain: probes.strain() }
        });
        plan.unwrap_or_else(|| Plan { deadline: Some(later(now(), AFTER_PANIC)), ..Plan::default() })
    }

    /// A number that grows with every fact.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// A pod as it is now.
    pub(super) fn looked(&self, pod: &core::Pod) {
        let Some(uid) = pod.metadata.uid.as_deref().map(PodUid::from) else { return };
        let asked = self.guarded(|probes| probes.asked(&uid)).unwrap_or_default();
        if asked.conditions.is_empty() && asked.labels.is_empty() && asked.annotations.is_empty() {
            return;
        }
        let (labels, annotations) = (pod.metadata.labels.as_ref(), pod.metadata.annotations.as_ref());
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let conditions = conditions.filter(|condition| asked.conditions.contains(condition.type_.as_str()));
        self.apply(ProbeEvent::Shown(Shown {
            pod: uid,
            version: version(&pod.metadata),
            labels: picked(labels, &asked.labels),
            annotations: picked(annotations, &asked.annotations),
            conditions: conditions.map(condition).collect(),
        }));
    }

    fn guarded<T>(&self, work: impl FnOnce(&mut Probes) -> T) -> Option<T> {
        let work = || work(&mut self.probes.lock().unwrap_or_else(PoisonError::into_inner));
        self.metrics.guarded("Policy of probes panicked, this fact or step is left out", work)
    }
}

impl Onlooker for Keeper {
    fn seen(&self, pod: &core::Pod) {
        self.looked(pod);
    }
}

fn picked(
    all: Option<&BTreeMap<String, String>>,
    asked: &BTreeSet<Arc<str>>,
) -> BTreeMap<Arc<str>, Arc<str>> {
    let found = asked.iter().filter_map(|key| Some((key.clone(), all?.get(&**key)?.as_str().into())));
    found.collect()
}

fn condition(condition: &core::PodCondition) -> (Arc<str>, ShownCondition) {
    let status = match condition.status.as_str() {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    };
    let message = condition.message.as_deref().unwrap_or_default().into();
    (condition.type_.as_str().into(), ShownCondition { status, message })
}
