//! Random requests for one pod, and an agent that dies at any point: it knows again what was written down and
//! what is in the pod.

mod ends;
mod op;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use proptest::prelude::*;

use self::op::{Op, Wish, op, wish};
use super::{
    asking::Asking,
    model::{NAMES, Shape, keys, shape, world},
};
use crate::{
    ContainerName, RequestId,
    in_place_update::{
        ContainerUpdatePhase, Gate, ImageMatch, Life, MetadataKey, Next, PodPlan, UpdateOutcome, UpdatePhase,
        UpdateReport, UpdateRequest,
    },
};

/// Falls over whenever it is started.
const BAD: u8 = 4;
/// Cannot be pulled.
const MISSING: u8 = 5;
const MOST_REQUESTS: usize = 5;

/// Facts about the pod that are known for certain. `None`: a failed request without a way back was about it.
type Known<K, V> = BTreeMap<K, Option<V>>;

struct Truth {
    asking: Asking,
    reports: Vec<(RequestId, UpdateReport)>,
    step: Option<(Next, u64)>,
    /// How often a patch changed what a container runs with.
    changes: BTreeMap<ContainerName, u32>,
    images: Known<ContainerName, Arc<str>>,
    values: Known<MetadataKey, String>,
}

impl Truth {
    fn new(shape: Shape) -> Self {
        let mut world = world(shape);
        for name in NAMES {
            world.refused.insert(format!("{name}:{MISSING}").into(), "no".to_owned());
        }
        let images = world.containers.iter().map(|each| (each.name.clone(), Some(each.image.clone())));
        let values = world.metadata.iter().map(|(key, value)| (key.clone(), Some(value.clone())));
        let (images, values) = (images.collect(), values.collect());
        let asking = Asking::of(world);
        Self { asking, reports: Vec::new(), step: None, changes: BTreeMap::new(), images, values }
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Ask(wish) => self.ask(wish),
            Op::Plan => {
                let planned = self.plan();
                self.step = planned.next.map(|step| (step, self.asking.world.version));
                // One write at a time for each request.
                for (id, report) in planned.reports {
                    if self.reports.iter().all(|(known, _)| *known != id) {
                        self.reports.push((id, report));
                    }
                }
            }
            Op::Written(index) if *index < self.reports.len() => {
                let (id, report) = self.reports.remove(*index);
                let mut all = vec![(id, report)];
                // Ends are written together; what is lost between two of them is nobody's fault.
                if all[0].1.outcome.is_some() {
                    let ends = |(_, report): &(RequestId, UpdateReport)| report.outcome.is_some();
                    all.extend(self.reports.extract_if(.., |report| ends(report)));
                }
                self.write(all);
            }
            Op::Written(_) => {}
            Op::CarriedOut => {
                if let Some((step, version)) = self.step.take() {
                    self.carry_out(&step, version);
                }
            }
            Op::Die => (self.reports, self.step) = (Vec::new(), None),
            Op::KubeletLearns => self.asking.world.kubelet_learns(),
            Op::KubeletSyncs(index) => self.asking.world.kubelet_syncs(*index),
            Op::ComesUp(index) => self.comes_up(*index),
            Op::Exits(index) => self.asking.world.containers[*index].instance.life = Life::Restarting,
            Op::Pass(seconds) => self.asking.world.pass(Duration::from_secs((*seconds).into())),
        }
    }

    fn ask(&mut self, wish: &Wish) {
        let number = self.asking.requests.len();
        if number == MOST_REQUESTS {
            return;
        }
        let now = self.asking.world.now;
        let request = self.asking.ask(&format!("r{number}"), &[], &[]);
        for (name, tag) in NAMES.iter().zip(wish.images).filter(|(_, tag)| *tag > 0) {
            request.images.insert((*name).into(), format!("{name}:{tag}").into());
        }
        for (key, value) in keys().into_iter().zip(wish.values).filter(|(_, value)| *value > 0) {
            request.metadata.insert(key, value.to_string());
        }
        request.source = wish.source;
        request.rollback_on_failure = wish.rollback;
        request.ignore_failures = wish.ignore;
        request.deadline = wish.deadline.map(|deadline| now + Duration::from_secs(deadline.into()));
        // What was decided without it counts no more.
        self.step = None;
    }

    /// Returns the owed plan, and checks what must be so then.
    fn plan(&self) -> PodPlan {
        let planned = self.asking.plan();
        let open = || self.asking.requests.iter().filter(|request| request.ended.is_none());
        if planned.next.is_some() {
            let said = open().all(|request| request.reported.previous.is_some());
            assert!(said || open().all(UpdateRequest::is_one_way), "begun before it was said");
        }
        for (_, report) in &planned.reports {
            assert_eq!(report.outcome.is_some(), report.phase == Some(UpdatePhase::Ended));
        }
        let ends = |request: &UpdateRequest| {
            planned.reports.iter().any(|(id, report)| *id == request.id && report.outcome.is_some())
        };
        let world = &self.asking.world;
        let seen = world.observed();
        let at_rest = seen.containers.iter().all(|container| {
            let instance = container.instance.as_ref().unwrap();
            let ready = instance.life == Life::Running { ready: true };
            ready && instance.image == ImageMatch::Wanted && instance.env == Some(container.env)
        });
        if open().next().is_some() && open().all(ends) && at_rest {
            assert_eq!(world.gate, Gate::Ready, "left out of service: {planned:#?}");
        }
        match &planned.next {
            Some(Next::Patch(patch)) if !patch.images.is_empty() => {
                assert!(matches!(world.gate, Gate::NotReady { .. }), "restarted in service");
                for image in patch.images.values().chain(patch.record.next_container_images.values()) {
                    assert!(world.on_node.contains(image), "stopped before {image} is there");
                }
            }
            Some(Next::Recreate(_)) => {
                assert!(matches!(world.gate, Gate::NotReady { .. }), "restarted in service");
            }
            Some(next @ (Next::Done | Next::Failed(_) | Next::RollBack(..))) => panic!("{next:?}"),
            _ => {}
        }
        planned
    }

    /// Writes the reports. A write that arrives after somebody else has written in the meantime is refused.
    fn write(&mut self, reports: Vec<(RequestId, UpdateReport)>) {
        let mut ended: Vec<UpdateRequest> = Vec::new();
        for (id, report) in reports {
            let request = self.asking.requests.iter_mut().find(|request| request.id == id).unwrap();
            if request.ended.is_some() {
                continue;
            }
            request.reported = report;
            if request.reported.phase == Some(UpdatePhase::Ended) {
                request.ended = Some(self.asking.world.now);
                ended.push(request.clone());
            }
        }
        ended.sort_by_key(|request| (request.source, request.created));
        ended.iter().for_each(|request| self.has_ended(request));
    }

    fn has_ended(&mut self, request: &UpdateRequest) {
        let report = &request.reported;
        let certain = match report.outcome.unwrap() {
            UpdateOutcome::Complete => true,
            UpdateOutcome::Failed(_) if report.message.ends_with("the pod is what it was before") => return,
            // Newer ones are about the same.
            UpdateOutcome::Failed(_) if report.message.contains("replaced by") && !request.is_one_way() => {
                return;
            }
            // Nobody returns to what was before an update that never goes back: what it brought about may
            // stay.
            UpdateOutcome::Failed(_) => false,
        };
        let state = |name: &ContainerName| {
            report.containers.iter().find(|state| state.name == *name).map(|state| state.phase)
        };
        // With it newer ones were carried out that asked for something else.
        let newer = |other: &&UpdateRequest| {
            (other.source, other.created) > (request.source, request.created)
                && other.reported.rolling_back.is_none()
                && other.ended.is_none_or(|ended| Some(ended) == request.ended)
        };
        let replaced = |name: &ContainerName, image: &Arc<str>| {
            let mut others = self.asking.requests.iter().filter(newer);
            others.any(|other| other.images.get(name).is_some_and(|other| other != image))
        };
        for (name, image) in &request.images {
            let known = match state(name) {
                Some(ContainerUpdatePhase::Pending) if certain && replaced(name, image) => continue,
                Some(ContainerUpdatePhase::Failed) => None,
                _ => certain.then(|| image.clone()),
            };
            self.images.insert(name.clone(), known);
        }
        for (key, value) in &request.metadata {
            self.values.insert(key.clone(), certain.then(|| value.clone()));
        }
    }

    fn carry_out(&mut self, step: &Next, version: u64) {
        if let Next::Patch(patch) = step
            && version == self.asking.world.version
        {
            for container in &self.asking.world.containers {
                let image = patch.images.contains_key(&container.name);
                let reads = |key| {
                    patch
                        .metadata
                        .get(key)
                        .is_some_and(|new| Some(new) != self.asking.world.metadata.get(key))
                };
                if image || container.reads.iter().any(reads) {
                    *self.changes.entry(container.name.clone()).or_default() += 1;
                }
            }
        }
        self.asking.world.carry_out(step, version);
    }

    fn comes_up(&mut self, index: usize) {
        let container = &mut self.asking.world.containers[index];
        let (instance, runs) = (&mut container.instance, &container.runs);
        match instance.life {
            Life::Running { .. } if runs.ends_with(&BAD.to_string()) => {
                instance.life = Life::Crashing;
            }
            // The back-off is over.
            Life::Crashing => instance.life = Life::Restarting,
            _ => self.asking.world.becomes_ready(index),
        }
    }

    fn is_crashing(&self, index: usize) -> bool {
        self.asking.world.containers[index].instance.life == Life::Crashing
    }

    /// From now on nothing goes wrong but what has to.
    fn comes_to_rest(&mut self) {
        (self.reports, self.step) = (Vec::new(), None);
        for _ in 0..400 {
            if self.asking.requests.iter().all(|request| request.ended.is_some()) {
                assert_eq!(self.asking.plan(), PodPlan::default());
                return;
            }
            let before = self.plan();
            self.write(before.reports.clone());
            if let Some(step) = &before.next {
                self.carry_out(step, self.asking.world.version);
            }
            self.asking.world.kubelet_learns();
            for index in 0..NAMES.len() {
                (0..3).for_each(|_| self.asking.world.kubelet_syncs(index));
                if !self.is_crashing(index) {
                    self.comes_up(index);
                }
            }
            if before.reports.is_empty() && self.plan() == before {
                let Some(Next::Wait { until, .. }) = before.next else { panic!("{before:#?}") };
                let open = self.asking.requests.iter().filter(|request| request.ended.is_none());
                let limits = open.filter_map(UpdateRequest::limit).chain(until);
                let now = self.asking.world.now;
                let next = limits.filter(|limit| *limit > now).min();
                let crashing: Vec<usize> =
                    (0..NAMES.len()).filter(|index| self.is_crashing(*index)).collect();
                assert!(next.is_some() || !crashing.is_empty(), "waits for ever: {before:#?}");
                self.asking.world.pass(next.map_or(Duration::from_secs(10), |next| next - now));
                crashing.into_iter().for_each(|index| self.comes_up(index));
            }
        }
        panic!("never ends: {:#?}", self.asking.plan());
    }

    fn is_as_it_should_be(&self) {
        let world = &self.asking.world;
        for container in &world.containers {
            if let Some(image) = &self.images[&container.name] {
                assert_eq!(container.image, *image, "{}", container.name);
            }
            let needed = self.changes.get(&container.name).copied().unwrap_or_default();
            assert!(container.restarted <= needed, "{} {} > {needed}", container.name, container.restarted);
        }
        for (key, value) in &self.values {
            if let Some(value) = value {
                assert_eq!(world.metadata.get(key), Some(value), "{key:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whoever_asks_for_whatever_it_ends_as_it_was_said(
        shape in shape(),
        first in wish(),
        ops in proptest::collection::vec(op(), 1..150),
    ) {
        let mut truth = Truth::new(shape);
        truth.ask(&first);
        for op in &ops {
            truth.run(op);
        }
        truth.comes_to_rest();
        truth.is_as_it_should_be();
    }
}
