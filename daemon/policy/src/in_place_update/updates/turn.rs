//! One pod's turn in a plan: what is known of it, what follows, and the actions that carry it out.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Updates, Wake,
    action::{InstanceQuestion, PodWrite, UpdateAction},
    clock::Clock,
    ends, env,
    pod::{Doubt, Step, UpdatedPod},
    resets::Patched,
    settled::SeenPod,
    shown::{Word, carried_out},
    snapshot::snapshot,
    view::UpdatePermission,
    writes::About,
};
use crate::{
    creation_env::CreationEnv,
    in_place_update::{Metadata, Next, PodPlan, Sight, UpdateRequest, Why, plan},
    instances::InstanceView,
    model::{ContainerId, ContainerName, ContainerState, PodUid},
    time::later,
};

/// Pause before a pod is planned for again whose state was kept and not written.
const AGAIN: Duration = Duration::from_millis(1);

/// The pod, and where what is owed to it goes.
struct Turn<'a> {
    uid: &'a PodUid,
    requests: &'a [UpdateRequest],
    clock: Clock,
    /// The node was told of all restarts of an earlier process.
    told: bool,
    actions: &'a mut Vec<UpdateAction>,
    wake: &'a mut Wake,
}

impl Updates {
    /// Looks at one pod and gives out what follows. Returns whether it is known what that is.
    pub(super) fn turn(
        &mut self,
        uid: &PodUid,
        requests: &[UpdateRequest],
        complete: &[UpdateRequest],
        clock: Clock,
        actions: &mut Vec<UpdateAction>,
    ) -> bool {
        // An end that the pod shows stays one, whatever comes before it is told.
        if self.ends.repeats(requests) {
            return true;
        }
        let pod = self.pods.entry(uid.clone()).or_default();
        let mut turn = Turn { uid, requests, clock, told: self.told, actions, wake: &mut self.wake };
        let sight = match &self.permission {
            UpdatePermission::Given => turn.see(pod),
            // Whoever may not write to pods must not even begin.
            UpdatePermission::Unknown => Sight::Unknown,
            UpdatePermission::Denied(why) => Sight::Forbidden(why.clone()),
        };
        let planned = match complete {
            [] => plan(requests, &sight, clock.now),
            complete => plan(&[requests, complete].concat(), &sight, clock.now),
        };
        let decided = is_decided(&planned);
        // Nobody looks again at one that is gone, or that may not be written to.
        let in_doubt = matches!(sight, Sight::Seen(_)) && pod.may_have_changed();
        let word = pod.shown.as_ref().filter(|_| requests.len() == 1);
        let is_shown = word.is_some_and(|word| requests.iter().any(|one| one.id == word.request.id));
        requests.iter().filter_map(UpdateRequest::limit).for_each(|limit| turn.wake.at(limit));
        turn.carry_out(pod, planned.next, decided);
        requests.iter().for_each(|request| drop(self.untold.remove(&request.id)));
        for (id, report) in planned.reports {
            if in_doubt && report.outcome.is_some() {
                continue;
            }
            let Some(request) = requests.iter().find(|request| request.id == id) else { continue };
            if request.rests() {
                // No answer to a report asks for the next plan.
                self.requests.rested(&id, report, clock.now);
                self.wake.at(later(clock.now, AGAIN));
                continue;
            }
            self.keep_untold(request, &report);
            if self.is_time_to_tell(request, &report, clock.now) {
                match ends::can_wait(request, &report) {
                    true if is_shown => {
                        self.forget_word(&request.id);
                        self.ends.push_shown(request, report);
                    }
                    true => self.ends.push(request, report),
                    false => self.report(request.clone(), report, About::Pod, clock.now, actions),
                }
            }
        }
        decided
    }
}

impl Turn<'_> {
    /// The pod as it is to be planned for. What is not known yet is asked for.
    fn see(&mut self, pod: &mut UpdatedPod) -> Sight {
        pod.followed = true;
        match &pod.seen {
            SeenPod::Gone => return Sight::Gone,
            SeenPod::Unseen => {
                if self.may_ask(pod) {
                    self.fetch(pod);
                }
                return Sight::Unknown;
            }
            SeenPod::There(..) => {
                if pod.doubt == Doubt::Unasked && self.may_ask(pod) {
                    self.fetch(pod);
                }
            }
        }
        let instances = pod.instances();
        self.remember(pod, &instances);
        let (SeenPod::There(view, settled), Some(node)) = (&pod.seen, &pod.node) else {
            return Sight::Unknown;
        };
        let unknown = unknown(pod, &instances);
        if !unknown.is_empty() {
            if self.may_ask(pod) {
                pod.asking = true;
                self.actions.push(UpdateAction::Inspect { pod: self.uid.clone(), instances: unknown });
            }
            return Sight::Unknown;
        }
        let picture = snapshot(pod, view, *settled, node, &instances, self.clock);
        if let Some(again) = picture.again {
            self.wake.at(again);
        }
        Sight::Seen(Box::new(picture.observed))
    }

    /// Tells whether something may be asked about the pod now.
    fn may_ask(&mut self, pod: &UpdatedPod) -> bool {
        let paused = pod.is_paused(self.clock.now);
        if let Some(until) = paused {
            self.wake.at(until);
        }
        paused.is_none() && !pod.asking
    }

    fn fetch(&mut self, pod: &mut UpdatedPod) {
        if let Some(request) = pod.first_of(self.requests) {
            pod.asking = true;
            if pod.doubt == Doubt::Unasked {
                pod.doubt = Doubt::Asked;
            }
            self.actions.push(UpdateAction::Fetch(request.pod.clone()));
        }
    }

    /// Keeps what is remembered of instances in step with those that there are.
    fn remember(&mut self, pod: &mut UpdatedPod, instances: &BTreeMap<ContainerName, InstanceView>) {
        let Some(relisted) = pod.node.as_ref().map(|node| node.relisted) else { return };
        let now = self.clock.now;
        let newest: BTreeMap<&ContainerId, ContainerState> =
            instances.values().map(|view| (&view.id, view.state)).collect();
        pod.created.retain(|id, _| newest.contains_key(id));
        pod.running.retain(|id, _| newest.contains_key(id));
        for (id, _) in newest.into_iter().filter(|(_, state)| *state == ContainerState::Running) {
            pod.running.entry(id.clone()).or_insert(now);
        }
        if let Some(removal) = &mut pod.removal {
            removal.look(relisted, now);
        }
    }

    /// Gives out what was planned.
    fn carry_out(&mut self, pod: &mut UpdatedPod, next: Option<Next>, decided: bool) {
        let keys = env::named(self.requests);
        if let (Some(view), None, false) = (pod.seen.view(), &pod.step, pod.is_unheard) {
            let values = env::values(view, &Metadata::new(), &keys);
            self.set_env(pod, values);
        }
        // What was asked for stands until it is known that it is not wanted any more.
        if decided {
            self.restart(pod, next.as_ref());
        }
        match next {
            Some(Next::Pull(images)) => {
                let mut open = self.requests.iter().filter(|request| request.ended.is_none());
                let leaves_pull = open.all(|request| request.leaves_pull);
                for image in images.into_iter().filter(|image| pod.images.insert(image.clone())) {
                    let pod = self.uid.clone();
                    self.actions.push(UpdateAction::WantImage { pod, image, leaves_pull });
                }
            }
            Some(Next::Wait { until, .. }) => until.into_iter().for_each(|until| self.wake.at(until)),
            Some(Next::Clear(exited)) => {
                if pod.step.is_none() {
                    pod.step = Some(Step::Clear);
                    self.actions.push(UpdateAction::Clear(self.uid.clone(), exited));
                }
            }
            Some(Next::Stop(held)) => {
                if self.may_ask(pod) && pod.step.is_none() {
                    pod.step = Some(Step::Stop);
                    let held = held.into_values().collect();
                    self.actions.push(UpdateAction::Stop(self.uid.clone(), held));
                }
            }
            Some(Next::SetNotReady) => self.write(pod, Step::Close, PodWrite::Close),
            Some(Next::SetReady) => {
                let view = pod.seen.view();
                let word = view.and_then(|view| carried_out(self.requests, view, &pod.instances()));
                let step = Step::Open(word.as_ref().and_then(|word| Word::on(self.requests, word)));
                self.write(pod, step, PodWrite::Open(word));
            }
            Some(Next::Patch(patch)) => {
                let Some(request) = pod.first_of(self.requests) else { return };
                let step = Step::Patch(Box::new(Patched::of(&request.pod, &patch)));
                self.write(pod, step, PodWrite::Patch(Box::new(patch)));
            }
            // The ends are reports, and nothing is left to do.
            Some(Next::Recreate(_) | Next::Done | Next::RollBack(..) | Next::Failed(_)) | None => {}
        }
    }

    fn restart(&mut self, pod: &mut UpdatedPod, next: Option<&Next>) {
        let wanted = match next {
            Some(Next::Recreate(wanted)) => wanted.clone(),
            _ => BTreeMap::new(),
        };
        let instances = pod.instances();
        let (Some(view), Some(request)) = (pod.seen.view(), pod.first_of(self.requests)) else { return };
        let point = &view.records;
        let restarts = &mut pod.restarts;
        let (actions, again) = restarts.want(request, point, &instances, wanted, self.clock.now, self.told);
        self.actions.extend(actions);
        again.into_iter().for_each(|again| self.wake.at(again));
    }

    fn write(&mut self, pod: &mut UpdatedPod, step: Step, write: PodWrite) {
        if !self.may_ask(pod) || pod.step.is_some() {
            return;
        }
        let (Some(view), Some(request)) = (pod.seen.view(), pod.first_of(self.requests)) else { return };
        let version = view.version;
        if let PodWrite::Patch(patch) = &write {
            // Before the kubelet can have it: what it starts from now on is not to be too old.
            let values = env::values(view, &patch.metadata, &env::named(self.requests));
            self.set_env(pod, values);
        }
        pod.step = Some(step);
        self.actions.push(UpdateAction::Write { pod: request.pod.clone(), version, write });
    }

    fn set_env(&mut self, pod: &mut UpdatedPod, values: CreationEnv) {
        if pod.env != values {
            pod.env.clone_from(&values);
            self.actions.push(UpdateAction::SetEnv(self.uid.clone(), values));
        }
    }
}

/// The newest instances of which the runtime has not told all it can.
fn unknown(pod: &UpdatedPod, instances: &BTreeMap<ContainerName, InstanceView>) -> Vec<InstanceQuestion> {
    let exited = |view: &InstanceView| matches!(view.state, ContainerState::Exited { .. });
    let is_known =
        |view: &InstanceView| pod.created.get(&view.id).is_some_and(|known| known.exited || !exited(view));
    let unknown = instances.iter().filter(|(_, view)| !is_known(view));
    unknown
        .map(|(name, view)| InstanceQuestion {
            container: name.clone(),
            instance: view.id.clone(),
            exited: exited(view),
        })
        .collect()
}

/// Tells whether it is known what is to be done next: not while something has to be reported first, or the
/// kubelet has to learn of it.
fn is_decided(planned: &PodPlan) -> bool {
    match &planned.next {
        None => false,
        Some(Next::Wait { why, .. }) => *why != Why::Kubelet,
        Some(_) => true,
    }
}
