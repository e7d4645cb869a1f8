//! The API server of the cluster: carries out what is owed, and shows it.

use std::collections::BTreeSet;

use super::*;
use crate::images::{JobAct, NodeImageWrite, Seal};

impl World {
    pub(in crate::images::tests) fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Write(order) => {
                    match self.orders.iter_mut().find(|one| one.target() == order.target()) {
                        Some(waiting) => *waiting = order,
                        None => self.orders.push_back(order),
                    }
                }
                Effect::Fetch(fetch) => self.fetches.push(fetch),
                Effect::Forget(uid) => self.forgotten.push(uid),
                Effect::Note(note) => self.notes.push(note),
                Effect::Ask(ask) => panic!("not of this index: {ask:?}"),
                Effect::Budget(step) => panic!("not of this index: {step:?}"),
                Effect::Spread(step) => panic!("not of this index: {step:?}"),
                Effect::PodState(step) => panic!("not of this index: {step:?}"),
            }
        }
        while !self.waits && self.write_one() {}
    }

    /// Carries out the oldest order, if there is one. On another version than it was decided on it does
    /// nothing.
    pub(in crate::images::tests) fn write_one(&mut self) -> bool {
        let Some(order) = self.orders.pop_front() else { return false };
        match order {
            Write::Node(order) => self.write_node(&order),
            Write::Job(order) => {
                let name = order.key.name.to_string();
                let version = self.next_version();
                let Some(job) = self.jobs.get_mut(&name) else { return true };
                if *job.resource_version != *order.resource_version || *job.uid != *order.uid {
                    return true;
                }
                match order.act {
                    JobAct::Delete => self.no_job(&name),
                    JobAct::Status(status) => {
                        let before = job.status.clone().unwrap_or_default();
                        if *status != before {
                            (job.status, job.resource_version) = (Ok(*status), version);
                            self.job_writes += 1;
                            let job = job.clone();
                            self.show(&Object::ImagePullJob(Box::new(job)));
                        }
                    }
                }
            }
            order => panic!("{order:?}"),
        }
        true
    }

    fn write_node(&mut self, order: &NodeImageWrite) {
        let (name, version) = (order.node.to_string(), self.next_version());
        let Some(image) = self.images.get_mut(&name) else { return };
        if *image.resource_version != *order.resource_version || *image.uid != *order.uid {
            return;
        }
        let before: BTreeSet<String> = image.desired.iter().map(|entry| entry.uid.clone()).collect();
        let entries = order.wishes.iter().map(|wish| {
            let mut entry = wish.entry();
            entry.sealed_credentials = match &wish.seal {
                Seal::Present(sealed) => sealed.to_vec(),
                Seal::Owed => {
                    vec![format!("sealed to {} {version}", order.sealing_key.as_ref().expect("a key"))]
                }
            };
            entry
        });
        image.desired = entries.collect();
        assert!(image.desired.is_sorted_by_key(|entry| entry.uid.clone()), "{:?}", image.desired);
        for entry in image.desired.iter().filter(|entry| !before.contains(&entry.uid)) {
            *self.asks.entry((name.clone(), entry.uid.clone())).or_default() += 1;
        }
        // As agents do: no answer without a question.
        let wanted: BTreeSet<_> = image.desired.iter().map(|entry| entry.uid.clone()).collect();
        image.pulls.retain(|pull| wanted.contains(&pull.uid));
        image.resource_version = version;
        self.node_writes += 1;
        self.show_image(&name);
    }
}
