//! Requests for the simulated pod, and an agent that writes down what is owed to them and carries out what is
//! owed to it.

use std::time::Duration;

use super::world::{NO_GRACE, World, told, update};
use crate::{
    PodRef,
    in_place_update::{
        Next, PodPlan, Reset, Sight, UpdateOutcome, UpdateOwner, UpdatePhase, UpdateReport, UpdateRequest,
        UpdateSource, plan,
    },
};

pub(super) struct Asking {
    pub(super) world: World,
    pub(super) requests: Vec<UpdateRequest>,
    /// Reports of another phase and steps, in short.
    pub(super) log: Vec<String>,
    /// Twins that were made empty.
    pub(super) resets: Vec<Reset>,
}

impl Asking {
    pub(super) fn of(world: World) -> Self {
        Self { world, requests: Vec::new(), log: Vec::new(), resets: Vec::new() }
    }

    /// A request that comes now; change what else it asks for.
    pub(super) fn ask(
        &mut self,
        id: &str,
        images: &[(&str, &str)],
        annotations: &[(&str, &str)],
    ) -> &mut UpdateRequest {
        let wanted = update(id, images, annotations);
        self.requests.push(UpdateRequest {
            id: id.into(),
            source: UpdateSource::Api,
            key: format!("ns/{id}"),
            created: self.world.now,
            pod: PodRef { uid: "uid".into(), namespace: "ns".into(), name: "pod".into() },
            revision: id.to_owned(),
            images: wanted.images,
            metadata: wanted.metadata,
            merges: Default::default(),
            defaults: Default::default(),
            owner: UpdateOwner::Workload,
            controller: None,
            injected_by: None,
            keeps_service: false,
            leaves_pull: false,
            shown_as: None,
            grace: NO_GRACE,
            ignore_failures: false,
            rollback_on_failure: false,
            swaps: Default::default(),
            deadline: None,
            rollback_limit: Duration::from_secs(600),
            delete_after: None,
            reported: UpdateReport::default(),
            ended: None,
        });
        self.world.pass(Duration::from_secs(1));
        self.requests.last_mut().unwrap()
    }

    pub(super) fn plan(&self) -> PodPlan {
        self.plan_of(&Sight::Seen(Box::new(self.world.observed())))
    }

    pub(super) fn plan_of(&self, sight: &Sight) -> PodPlan {
        plan(&self.requests, sight, self.world.now)
    }

    pub(super) fn request(&self, id: &str) -> &UpdateRequest {
        self.requests.iter().find(|request| request.id.as_str() == id).unwrap()
    }

    pub(super) fn report(&self, id: &str) -> &UpdateReport {
        &self.request(id).reported
    }

    /// Writes all of it down.
    pub(super) fn write(&mut self, planned: &PodPlan) {
        for (id, report) in &planned.reports {
            let now = self.world.now;
            let request = self.requests.iter_mut().find(|request| request.id == *id).unwrap();
            assert_ne!(request.reported, *report, "said twice");
            assert_eq!(request.ended, None, "said after the end");
            if request.reported.phase != report.phase {
                self.log.push(said(id.as_str(), report));
            }
            request.reported = report.clone();
            request.ended = (report.phase == Some(UpdatePhase::Ended)).then_some(now);
        }
    }

    /// Writes down and carries out until something is waited for or all has ended.
    pub(super) fn act(&mut self) {
        for _ in 0..100 {
            let planned = self.plan();
            self.write(&planned);
            if planned.next.is_some() {
                let quiet = PodPlan { reports: Vec::new(), next: planned.next.clone() };
                assert_eq!(self.plan(), quiet, "what was reported changes nothing");
            }
            match planned.next {
                None if planned.reports.is_empty() => return,
                None => {}
                Some(Next::Wait { .. }) => return,
                Some(step) => {
                    assert!(self.world.carry_out(&step, self.world.version));
                    let told = told(std::slice::from_ref(&step)).remove(0);
                    if self.log.last() != Some(&told) {
                        self.log.push(told);
                    }
                    if let Next::Patch(patch) = &step {
                        self.resets.extend(patch.resets.iter().cloned());
                    }
                    if matches!(step, Next::Recreate(_)) {
                        return;
                    }
                }
            }
        }
        panic!("never quiet: {:#?}", self.log);
    }

    /// As far as it goes with a kubelet that does its part, but for the containers that are not Ready with
    /// these images. Time passes only where nothing else is left.
    pub(super) fn play(&mut self, bad: &[&str]) {
        for _ in 0..100 {
            self.act();
            if self.requests.iter().all(|request| request.ended.is_some()) {
                assert_eq!(self.plan(), PodPlan::default());
                return;
            }
            let before = self.plan();
            self.world.settle(bad);
            if self.plan() == before {
                let until = match before.next {
                    Some(Next::Wait { until, .. }) => until,
                    _ => None,
                };
                let limits = self.requests.iter().filter(|request| request.ended.is_none());
                let limits = limits.filter_map(UpdateRequest::limit).chain(until);
                let next = limits.filter(|limit| *limit > self.world.now).min();
                let next = next.unwrap_or_else(|| panic!("waits for ever: {before:#?}, {:#?}", self.log));
                self.world.pass(next - self.world.now);
            }
        }
        panic!("never ends: {:#?}", self.log);
    }

    pub(super) fn outcome(&self, id: &str) -> UpdateOutcome {
        self.report(id).outcome.unwrap_or_else(|| panic!("{id} has not ended"))
    }

    pub(super) fn images(&self) -> Vec<&str> {
        self.world.containers.iter().map(|container| &*container.image).collect()
    }
}

fn said(id: &str, report: &UpdateReport) -> String {
    match (report.outcome, &report.rolling_back) {
        (Some(UpdateOutcome::Complete), _) => format!("{id}: complete"),
        (Some(UpdateOutcome::Failed(reason)), _) => format!("{id}: failed {reason:?}"),
        (None, Some((failure, _))) => format!("{id}: back {:?}", failure.reason),
        (None, None) => format!("{id}: {:?}", report.phase.unwrap()),
    }
}
