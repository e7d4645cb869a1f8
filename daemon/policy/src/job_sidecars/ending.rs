//! Which sidecars are to end now, and what that takes.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{SidecarMark, state::Marked};
use crate::{
    announced::Announcement,
    config::Path,
    instances::InstanceView,
    model::{ContainerId, ContainerName, ContainerState, Pod, PodUid, RestartPolicy},
    node::Node,
    set_aside::Subject,
    step::{About, DirectStop, Notice, RuntimeEffect, Step, StoreEffect},
    time::later,
    verdict::{join, named},
};

/// On top of its grace: a sidecar that is not down by then does not hold up those that are to stop after it.
const LATE: Duration = Duration::from_secs(5);
/// The reason of the Events, as OpenKruise's users know it.
const REASON: &str = "SidecarTerminator";

/// A sidecar that has not ended yet.
struct Alive<'a> {
    name: &'a ContainerName,
    id: ContainerId,
    /// It runs, so it has to be stopped; else its exit has to be made its end.
    runs: bool,
    /// Lower ones stop first.
    level: i32,
}

impl Node {
    /// The steps that end sidecars now.
    pub(crate) fn sidecar_steps(&self, now: Instant) -> Vec<Step> {
        let mut steps = Vec::new();
        for uid in &self.sidecars.pods {
            if let Some(pod) = self.pods.get(uid) {
                let subject = || Subject::Pod(uid.clone());
                let own = self.set_aside.evaluate(subject, now, || self.end_sidecars_of(pod, now));
                steps.extend(own.unwrap_or_default());
            }
        }
        let gone: Vec<ContainerId> = self.sidecars_gone().cloned().collect();
        if !gone.is_empty() {
            steps.push(StoreEffect::ForgetSidecars(gone).into());
        }
        steps
    }

    /// Marks of containers that the runtime has no more.
    fn sidecars_gone(&self) -> impl Iterator<Item = &ContainerId> {
        self.sidecars.marks.keys().filter(|id| self.runtime_listed && !self.containers.contains_key(*id))
    }

    /// Tells whether something may have to be done with the next fact. The marks of a pod that has ended wait
    /// for nothing but their end.
    pub(crate) fn awaits_sidecars(&self) -> bool {
        self.sidecars.is_active() || self.sidecars_gone().next().is_some()
    }

    fn end_sidecars_of(&self, pod: &Pod, now: Instant) -> Vec<Step> {
        let mut steps = Vec::new();
        let instances = self.instances(&pod.pod.uid);
        if !self.mains_are_over(pod, &instances) {
            return steps;
        }
        let level = |name: &ContainerName| match &pod.order {
            Ok(Some(order)) if self.config.exit_order => order.priority(name).unwrap_or(0),
            Ok(_) | Err(_) => 0,
        };
        let alive: Vec<Alive<'_>> = regular(pod, true)
            .filter(|name| !pod.restarts_completed(name))
            .filter_map(|name| {
                let instance = instances.get(name)?;
                let runs = match instance.state {
                    ContainerState::Running | ContainerState::Unknown => true,
                    // The kubelet would start it again.
                    ContainerState::Exited { code } => {
                        let again = code.is_some() && pod.restarts_exited(name, code);
                        if !again || self.sidecars.is_marked(&instance.id) {
                            return None;
                        }
                        false
                    }
                    // The kubelet is about to start it.
                    ContainerState::Created => return None,
                };
                Some(Alive { name, id: instance.id.clone(), runs, level: level(name) })
            })
            .collect();
        let on_time = |sidecar: &&Alive<'_>| {
            let began = self.sidecars.marks.get(&sidecar.id).and_then(|marked| marked.stop_began);
            began.is_none_or(|began| now < later(began, pod.grace.saturating_add(LATE)))
        };
        let running = || alive.iter().filter(|sidecar| sidecar.runs);
        let lowest = running().filter(on_time).map(|sidecar| sidecar.level).min();
        // All at once, whatever the order: one that gives up because another is gone has ended with the job
        // too.
        let marks = alive.iter().filter(|sidecar| !self.sidecars.is_marked(&sidecar.id)).map(|sidecar| {
            let (name, container) = (sidecar.name.clone(), sidecar.id.clone());
            SidecarMark { pod: pod.pod.uid.clone(), name, container, hooked: false }
        });
        let marks: Vec<SidecarMark> = marks.collect();
        let due = running().filter(|sidecar| lowest.is_none_or(|lowest| sidecar.level <= lowest));
        let due = due.filter_map(|sidecar| self.stop_of(pod, self.sidecars.marks.get(&sidecar.id)?));
        steps.extend(due);
        if !marks.is_empty() {
            steps.push(StoreEffect::MarkSidecars(marks).into());
        }
        steps
    }

    /// Owes the Event of sidecars that outlast their mains, once for a pod in a run of the agent. Not before
    /// the mains are over: it is to be there when somebody asks why the pod does not end.
    pub(crate) fn tell_of_endless_sidecars(&mut self, now: Instant) {
        let mut due = Vec::new();
        let untold = |uid: &&PodUid| !self.announced.has(uid, Announcement::EndlessSidecars);
        for uid in self.sidecars.pods.iter().filter(untold) {
            let Some(pod) = self.pods.get(uid) else { continue };
            let subject = || Subject::Pod(uid.clone());
            let note = self.set_aside.evaluate(subject, now, || self.note_of_endless(pod)).flatten();
            due.extend(note.map(|note| (pod.pod.clone(), note)));
        }
        for (pod, note) in due {
            self.announced.tell(&pod.uid, Announcement::EndlessSidecars);
            self.notices.push((pod, Notice { about: About::Pod, reason: REASON, warning: true, note }));
        }
    }

    /// Returns what is to be said of the sidecars of this pod that outlast their mains, once those are over.
    fn note_of_endless(&self, pod: &Pod) -> Option<String> {
        let mut endless = regular(pod, true).filter(|name| pod.restarts_completed(name)).peekable();
        endless.peek()?;
        if !self.mains_are_over(pod, &self.instances(&pod.pod.uid)) {
            return None;
        }
        Some(format!(
            "The main containers have ended, and the pod does not complete: by a restartPolicy or restartPolicyRules \
             of its own the kubelet starts sidecar {} again whatever it exits with, so it is left running. Give it \
             restartPolicy OnFailure, without rules that take in exit code 0",
            join(&named(endless))
        ))
    }

    /// Tells whether nothing of the mains will run any more.
    fn mains_are_over(&self, pod: &Pod, instances: &BTreeMap<ContainerName, InstanceView>) -> bool {
        regular(pod, false).all(|name| instances.get(name).is_some_and(|main| self.is_over(pod, name, main)))
    }

    /// Tells whether nothing of this main will run any more.
    fn is_over(&self, pod: &Pod, name: &ContainerName, main: &InstanceView) -> bool {
        let ContainerState::Exited { code } = main.state else { return false };
        let ended = pod.leaves_exited(name, &main.id, code);
        // One that was stopped may be about to be started again, whatever the policy: recreated, or with
        // another image. Only the kubelet knows, and it says so in the status.
        let was_stopped = self.config.path == Path::Beside || main.stopping || self.was_stopped(&main.id);
        let reported = || {
            let report = pod.statuses.get(name);
            report.is_some_and(|report| report.ended && report.id == main.id)
        };
        ended && !self.recreates_main(&main.id) && (!was_stopped || reported())
    }

    fn stop_of(&self, pod: &Pod, marked: &Marked) -> Option<Step> {
        let mark = &marked.mark;
        let sandbox = self.containers.get(&mark.container)?;
        let hook = pod.containers.get(&mark.name).and_then(|spec| spec.pre_stop.as_ref());
        let hook = hook.filter(|_| marked.hook_due).cloned();
        let stop = DirectStop {
            container: mark.container.clone(),
            name: mark.name.clone(),
            pod: pod.pod.clone(),
            sandbox: sandbox.clone(),
            ip: pod.ip.clone(),
            mark: hook.as_ref().map(|_| SidecarMark { hooked: true, ..mark.clone() }),
            hook,
            grace: pod.grace,
        };
        Some(RuntimeEffect::StopContainer(Box::new(stop)).into())
    }

    /// The kubelet is shown that this container ended well, should it have ended.
    pub fn is_completed(&self, container: &ContainerId) -> bool {
        self.sidecars.is_marked(container)
    }

    /// Notes that these marks are durable.
    pub(crate) fn sidecars_marked(&mut self, marks: &[SidecarMark], now: Instant) {
        for mark in marks {
            self.place_sidecar(mark, now);
        }
    }

    fn place_sidecar(&mut self, mark: &SidecarMark, now: Instant) {
        match self.sidecars.marks.get_mut(&mark.container) {
            Some(known) => known.mark = mark.clone(),
            None => {
                let unseen = self.has_exited(&mark.container);
                let marked =
                    Marked { since: now, hook_due: true, stop_began: None, unseen, mark: mark.clone() };
                self.sidecars.marks.insert(mark.container.clone(), marked);
                self.notice(mark);
            }
        }
    }

    fn notice(&mut self, mark: &SidecarMark) {
        let Some(pod) = self.pods.get(&mark.pod) else { return };
        let mut note = format!("The main containers have ended, terminating sidecar {}", mark.name);
        let notice = match self.config.path {
            Path::Inline => Notice { about: About::Pod, reason: REASON, warning: false, note },
            Path::Beside => {
                note.push_str(
                    "; the agent of this node stands beside the kubelet and cannot keep its exit code from it: unless \
                     that is 0, the sidecar ",
                );
                note.push_str(match pod.restart_policy_of(&mark.name) {
                    RestartPolicy::OnFailure => "is started again and the pod does not complete",
                    RestartPolicy::Never | RestartPolicy::Always => "fails the pod",
                });
                Notice { about: About::Pod, reason: REASON, warning: true, note }
            }
        };
        self.notices.push((pod.pod.clone(), notice));
    }

    /// Returns when a sidecar that does not stop makes way for the next one.
    pub(crate) fn sidecar_deadlines(&self) -> impl Iterator<Item = Instant> {
        self.sidecars.marks.values().filter_map(|marked| {
            Some(later(marked.stop_began?, self.pods.get(&marked.mark.pod)?.grace.saturating_add(LATE)))
        })
    }

    /// The pods that the kubelet is to look at again, with the time of what it has not seen.
    pub(crate) fn sidecars_unseen(&self) -> impl Iterator<Item = (&PodUid, Instant)> {
        let unseen = self
            .sidecars
            .marks
            .values()
            .filter(|marked| marked.unseen && self.has_exited(&marked.mark.container));
        unseen
            .filter(|marked| self.sidecars.pods.contains(&marked.mark.pod))
            .map(|marked| (&marked.mark.pod, marked.since))
    }
}

/// The regular containers that are sidecars, or those that are not.
fn regular(pod: &Pod, sidecars: bool) -> impl Iterator<Item = &ContainerName> {
    let all = pod.containers.iter().filter(|(_, spec)| !spec.sidecar);
    all.filter(move |(_, spec)| spec.ends_with_job == sidecars).map(|(name, _)| name)
}
