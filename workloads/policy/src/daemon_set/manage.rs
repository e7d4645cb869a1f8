//! Nodes: pods that are missing are made, and those that are too many or do not fit any more are deleted.

use std::collections::BTreeSet;

use serde_json::json;

use super::{
    Pass, build,
    nodes::{Member, Place},
};
use crate::{
    action::{Action, Note},
    lifecycle::{State, entering, holds},
    pod::Phase,
    revision::Revision,
};

impl<'a> Pass<'a> {
    /// Makes and deletes pods, node by node.
    pub(super) fn manage(&mut self) {
        let held = self.held_back();
        let of_held = self.of_held(&held);
        self.plan.held = self.had(&held);
        let mut progress = self.progress();
        let mut names: Vec<String> = self.places.keys().cloned().collect();
        names.sort_by_key(|name| self.is_off(name));
        let before = self.plan.actions.len();
        for name in names {
            let Some(place) = self.places.get(&name) else { continue };
            let is_gone = place.node.is_none();
            let active: Vec<Member<'a>> = place.active().copied().collect();
            let ended: Vec<Member<'a>> = place
                .members
                .iter()
                .filter(|one| one.pod.phase == Phase::Ended && !one.pod.terminating)
                .copied()
                .collect();
            let terminating = place.members.iter().any(|one| one.pod.terminating);
            let (should_run, may_go_on) = (place.should_run, place.may_go_on);
            let is_taken = place.orphan.is_some() || !active.is_empty() || !ended.is_empty();
            if !may_go_on {
                // A node that is gone may come back: its pods are the garbage collector's, as of Kubernetes.
                let is_ours = |one: &&Member<'_>| !is_gone || one.pod.node.is_empty();
                active.iter().chain(&ended).filter(is_ours).for_each(|one| self.delete(one));
                continue;
            }
            let rests = self.input.rests_until.get(&name).is_some_and(|until| *until > self.now);
            for one in ended.iter().filter(|_| !rests) {
                let left = self.deletes_left;
                self.delete(one);
                // Beyond the burst it stays for now. That counts as no end: its node would rest for it, and
                // longer each time, until its turn comes.
                if self.deletes_left < left {
                    let text = format!("pod {} on node {name} has ended, and is made anew", one.pod.name);
                    self.plan.notes.push(Note { warning: true, reason: "FailedDaemonPod", text });
                    self.plan.ended_on.push((name.clone(), one.pod.uid.clone()));
                }
            }
            // One that is going is waited for, unless there may be two.
            let is_empty = !is_taken && (!terminating || self.surge > 0);
            if should_run && is_empty && !rests {
                match &mut progress {
                    // As of OpenKruise, on the first nodes by name: those with a new pod are the ones let go.
                    Some(left) if *left > 0 => {
                        *left -= 1;
                        self.create(&name, self.live.update);
                    }
                    Some(_) => {}
                    None => {
                        let known = held.contains(&name).then(|| self.known_of(&name).unwrap_or(of_held));
                        self.create(&name, known.unwrap_or(self.live.update));
                    }
                }
            }
            // What is begun goes on: whoever let go of the pod expects it gone, though nobody would choose it
            // now.
            let (free, rest): (Vec<Member<'a>>, Vec<Member<'a>>) =
                active.iter().partition(|one| one.is_going() && !holds(self.rules.pre_delete, one.pod));
            free.iter().for_each(|one| self.delete(one));
            self.delete_surplus(&rest);
        }
        let all = self.plan.actions.split_off(before);
        let (new, rest): (Vec<Action>, Vec<Action>) =
            all.into_iter().partition(|action| matches!(action, Action::CreatePod(_)));
        self.plan.actions.extend(new);
        self.plan.begin_part();
        self.plan.actions.extend(rest);
    }

    /// Tells whether a pod could not be made on the node, or one of it not be written to.
    pub(super) fn is_off(&self, node: &str) -> bool {
        let mut pods = self.places.get(node).into_iter().flat_map(|place| &place.members);
        self.input.put_off.contains(node) || pods.any(|one| self.input.put_off.contains(&one.pod.uid))
    }

    /// Nodes whose pods this pass makes or writes to.
    pub(super) fn busy(&self) -> BTreeSet<String> {
        let written = self.plan.written();
        let is_busy = |(name, place): &(&String, &Place<'_>)| {
            self.made.contains(*name) || place.members.iter().any(|one| written.contains(&one.pod.uid))
        };
        self.places.iter().filter(is_busy).map(|(name, _)| name.clone()).collect()
    }

    /// Tells whether pods may be updated beside what this pass writes already: it is nothing, or could not be
    /// written before.
    pub(super) fn may_update(&self) -> bool {
        let mut written = self.plan.actions.iter();
        let is_off = |action: &Action| action.key().is_some_and(|key| self.input.put_off.contains(key));
        self.input.failures.scale.is_some() || written.all(is_off)
    }

    /// Leaves one of several pods on a node; while pods surge, one of each template, and rather one that
    /// serves. One that is held before its deletion is none that is left.
    fn delete_surplus(&mut self, active: &[Member<'a>]) {
        let mut active = active.to_vec();
        // Stable: the oldest ones stay.
        active.sort_by_key(Member::is_going);
        if self.surge == 0 {
            active.iter().skip(1).for_each(|one| self.delete(one));
            return;
        }
        active.sort_by_key(|one| !one.available);
        let (new, old): (Vec<Member<'a>>, Vec<Member<'a>>) = active.iter().partition(|one| one.updated);
        new.iter().skip(1).chain(old.iter().skip(1)).for_each(|one| self.delete(one));
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (new.available || !old.pod.is_ready())
        {
            self.delete(old);
        }
    }

    /// Pods that may be made while they are made progressively; `None`: as many as are missing.
    pub(super) fn progress(&self) -> Option<i64> {
        let partition = self.rules.partition.up(self.desired).min(self.desired);
        if !self.rules.progressive || partition == 0 {
            return None;
        }
        let new = self.places.values().filter(|place| place.active().any(|one| one.updated)).count();
        Some((self.desired - i64::try_from(new).unwrap_or(i64::MAX) - partition).max(0))
    }

    /// Makes a pod of a node.
    pub(super) fn create(&mut self, node: &str, revision: &Revision) {
        if self.creates_left <= 0 {
            return;
        }
        self.creates_left -= 1;
        let taken = |name: &str| self.input.pods.iter().any(|pod| pod.name == name);
        let name = loop {
            let name = format!("{}-{}", self.owner.name, self.suffixes.next());
            if !taken(&name) {
                break name;
            }
        };
        self.made.insert(node.to_owned());
        let pod = build::pod(self.rules, self.owner, revision, &name, node);
        self.plan.actions.push(Action::CreatePod(pod));
    }

    /// Deletes a pod, or has it wait for its hook.
    pub(super) fn delete(&mut self, member: &Member<'a>) {
        if self.deletes_left <= 0 {
            return;
        }
        let is_held = holds(self.rules.pre_delete, member.pod);
        if is_held && member.is_going() {
            // It is waited for; the others are not.
            return;
        }
        self.deletes_left -= 1;
        if !is_held {
            if let Some(known) = member.in_place {
                let (node, uid) = (known.node.clone(), member.pod.uid.clone());
                self.plan.actions.push(Action::ForgetInPlace { node, uid });
            }
            self.plan.actions.push(Action::DeletePod(member.pod.target()));
        } else {
            let patch = json!({ "metadata": entering(State::PreparingDelete, self.now) });
            self.plan.actions.push(Action::PatchPod(member.pod.target(), patch));
        }
    }
}
