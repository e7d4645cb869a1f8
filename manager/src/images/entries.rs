//! Entries that the NodeImage of a node is to contain.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    ImageIndex, KEPT, UNKNOWN_KEPT,
    job::Stage,
    rollout::Standing,
    write::{NodeImageWrite, Seal, Wish},
};
use crate::{effect::Effect, store::Now, time::later, write::Write};

impl ImageIndex {
    /// Orders the write that is owed to a node, if there is one.
    pub(super) fn write_node(&mut self, name: &Arc<str>, now: Now) {
        let Some(image) =
            self.nodes.get(name).filter(|state| state.usable()).and_then(|state| state.image.as_ref())
        else {
            return;
        };
        let uids: Vec<Arc<str>> = image.entries.keys().cloned().collect();
        let mut wishes: BTreeMap<Arc<str>, Wish> = BTreeMap::new();
        let mut dropped = false;
        for uid in uids {
            if self.keeps(&uid, name, now) {
                if let Some(entry) = self.entry(name, &uid) {
                    wishes.insert(uid, entry);
                }
            } else {
                dropped = true;
            }
        }
        let Some(image) = self.nodes.get_mut(name).and_then(|state| state.image.as_mut()) else { return };
        for (uid, asked) in image.asked() {
            let Some(rollout) = self.rollouts.get(uid) else { continue };
            let seal = if rollout.plan.sealed { Seal::Owed } else { Seal::Present(Arc::default()) };
            let (content, since) = (rollout.plan.content.clone(), Some(Time(asked.since)));
            wishes.insert(uid.clone(), Wish { content, since, seal });
        }
        if !dropped && image.asked().is_empty() {
            image.sent = None;
            return;
        }
        let sent = (image.resource_version.clone(), wishes.keys().cloned().collect());
        if image.sent.as_ref() == Some(&sent) {
            return;
        }
        image.sent = Some(sent);
        let order = NodeImageWrite {
            node: name.clone(),
            uid: image.uid.clone(),
            resource_version: image.resource_version.clone(),
            sealing_key: image.key.clone(),
            wishes: wishes.into_values().collect(),
        };
        self.effects.push(Effect::Write(Write::Node(order)));
    }

    fn entry(&self, name: &str, uid: &str) -> Option<Wish> {
        self.nodes.get(name)?.image.as_ref()?.entries.get(uid).map(super::node::Entry::wish)
    }

    /// Tells whether an entry that is shown is still wanted.
    fn keeps(&mut self, uid: &Arc<str>, name: &Arc<str>, now: Now) -> bool {
        if let Some(rollout) = self.rollouts.get(uid) {
            let standing = rollout.standing(name);
            return matches!(standing, Some(Standing::Asked(_) | Standing::Ended(_) | Standing::Former(_)));
        }
        let over = match self.jobs.get(uid).map(|job| job.stage) {
            Some(Stage::Over(ended)) => Some(ended),
            // A job that cannot be carried out, or read, any more: what it asked for stays.
            Some(Stage::Open | Stage::Unreadable) => return true,
            None => None,
        };
        let until = match (self.expiry.get(uid), over) {
            (Some(until), _) => *until,
            (None, Some(ended)) => later(now.instant, kept(ended, now)),
            (None, None) => later(now.instant, UNKNOWN_KEPT),
        };
        self.expire(uid, until, now);
        // What had not ended with its job is not pulled after it.
        let ended = || {
            let image = self.nodes.get(name).and_then(|state| state.image.as_ref());
            image.and_then(|image| image.entries.get(uid)?.end()).is_some()
        };
        now.instant < until && (over.is_none() || ended() && !self.gives_way(uid, name))
    }

    /// Tells whether another job of the namespace waits for the room of this entry. For an entry whose job is
    /// over and remembers its end.
    fn gives_way(&self, uid: &str, name: &str) -> bool {
        let Some(state) = self.nodes.get(name) else { return false };
        let entry = state.image.as_ref().and_then(|image| image.entries.get(uid));
        let namespace = entry.and_then(|entry| entry.content.wanted_by.as_ref()).map(|by| &*by.namespace);
        namespace.is_some_and(|namespace| state.crowded.contains_key(namespace))
    }
}

/// Returns how long the entries of a job stay that ended then.
pub(super) fn kept(ended: Timestamp, now: Now) -> Duration {
    let passed = now.wall.as_second().saturating_sub(ended.as_second());
    KEPT.saturating_sub(Duration::from_secs(u64::try_from(passed).unwrap_or(0)))
}
