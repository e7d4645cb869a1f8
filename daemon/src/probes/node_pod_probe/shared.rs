//! The state of the probes, shared: [`berth_policy::Probes`] behind a lock that is never held over an await.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use berth_policy::{
    Backlog, ConditionStatus, PodRef, PodUid, ProbeEvent, ProbeStep, ProbeView, Probes, Shown,
    ShownCondition, WantedPod, time::later,
};
use tokio::sync::watch;

use super::{
    approval::{Approval, Decision},
    convert::WantedPods,
    verify::{LivePod, MarkerName, MarkerSeen},
};
use crate::{
    agent::{AFTER_PANIC, metrics::AgentMetrics, now},
    cluster::{target::version, v1 as core},
    config,
    pods::api::Onlooker,
};

/// The state of the probes and the way to it.
#[derive(Debug)]
pub(crate) struct SharedProbes {
    probes: Mutex<Probes>,
    /// Grows with every fact.
    changes: watch::Sender<u64>,
    /// The pods with probes, by the UID that the API has for them.
    wanted: watch::Sender<BTreeSet<PodUid>>,
    approval: Mutex<Approval>,
    /// Grows with whatever may change what is approved.
    doubts: watch::Sender<u64>,
    /// The markers that are to be followed.
    markers: watch::Sender<BTreeSet<MarkerName>>,
    /// Entries of `spec.podProbes` are carried out, which no marker has to ask for.
    accepts_spec: bool,
    metrics: AgentMetrics,
}

/// Steps that are due, and facts about them.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<ProbeStep>,
    /// Ask again then.
    pub(super) deadline: Option<Instant>,
    pub(super) backlog: Option<Backlog>,
}

impl SharedProbes {
    /// Knows nothing yet.
    pub(crate) fn new(config: &config::Probes, metrics: AgentMetrics) -> Self {
        Self {
            probes: Mutex::new(Probes::new(config.limits(), now())),
            changes: watch::Sender::default(),
            wanted: watch::Sender::default(),
            approval: Mutex::default(),
            doubts: watch::Sender::default(),
            markers: watch::Sender::default(),
            accepts_spec: config.accept_spec,
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

    pub(super) fn accepts_spec(&self) -> bool {
        self.accepts_spec
    }

    /// The object asks for these.
    pub(super) fn show(&self, desired: WantedPods, spec: WantedPods) {
        self.doubt(|approval| approval.show(desired, spec, now()));
    }

    /// A marker was seen so.
    pub(super) fn hear(&self, marker: &MarkerName, seen: MarkerSeen) {
        self.doubt(|approval| approval.hear(marker, seen));
    }

    /// Decision on what is asked.
    pub(super) fn decide(&self) -> Decision {
        let words = "Approval of probes panicked, what was approved goes on";
        let decided = self.metrics.guarded(words, || {
            let mut approval = self.approval.lock().unwrap_or_else(PoisonError::into_inner);
            (approval.follow(), approval.decide(now()))
        });
        let Some((followed, decision)) = decided else { return Decision::default() };
        self.markers.send_if_modified(|markers| {
            let new = *markers != followed;
            *markers = followed;
            new
        });
        self.metrics.probes_refused(decision.refused.len().saturating_add(decision.beyond));
        decision
    }

    /// The agent may do nothing of what is asked, and need not know whether it is asked for.
    pub(super) fn decline(&self) -> Decision {
        self.markers.send_if_modified(|markers| !std::mem::take(markers).is_empty());
        self.metrics.probes_refused(0);
        Decision { wanted: Some(Vec::new()), ..Decision::default() }
    }

    /// Notes that something else than object, markers and pods has changed.
    pub(super) fn doubted(&self) {
        self.doubt(|_| true);
    }

    /// A number that grows with whatever may change what is approved.
    pub(super) fn doubts(&self) -> watch::Receiver<u64> {
        self.doubts.subscribe()
    }

    /// The markers that are to be followed.
    pub(super) fn markers(&self) -> watch::Receiver<BTreeSet<MarkerName>> {
        self.markers.subscribe()
    }

    fn doubt(&self, news: impl FnOnce(&mut Approval) -> bool) {
        let words = "Approval of probes panicked, this fact is left out";
        let news = self
            .metrics
            .guarded(words, || news(&mut self.approval.lock().unwrap_or_else(PoisonError::into_inner)));
        if news.unwrap_or(true) {
            self.doubts.send_modify(|doubts| *doubts += 1);
        }
    }

    /// Tells whether something is asked for of this pod.
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
            Plan { steps, deadline: probes.next_deadline(), backlog: probes.backlog() }
        });
        plan.unwrap_or_else(|| Plan { deadline: Some(later(now(), AFTER_PANIC)), ..Plan::default() })
    }

    /// Standing of all probes, and how many runs are under way.
    pub(crate) fn explain(&self) -> (Vec<ProbeView>, usize) {
        self.guarded(|probes| (probes.explain(), probes.size().runs)).unwrap_or_default()
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

impl Onlooker for SharedProbes {
    fn seen(&self, pod: &core::Pod) {
        self.looked(pod);
        if let Some((uid, live)) = LivePod::of(pod) {
            self.doubt(|approval| approval.see(uid, live));
        }
    }

    fn gone(&self, pod: &PodUid) {
        self.doubt(|approval| approval.keep(|known| known != pod.as_str()));
    }

    fn listed(&self, is_there: &dyn Fn(&PodUid) -> bool) {
        self.doubt(|approval| approval.listed(|known| is_there(&known.into())));
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
