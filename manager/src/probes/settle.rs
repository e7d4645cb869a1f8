//! What is owed: to each node that something has changed for, and to each marker.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    ANSWERED_WITHIN, KINDS, ProbeIndex, SETTLE, WRITTEN_EVERY, Wake,
    node::Node,
    order::{MarkerOrder, NodeAct, NodeProbesOrder},
    room::{self, Choice},
    status::{shows, status},
};
use crate::{
    order::Order,
    seen::{Key, Now},
    time::later,
};

impl ProbeIndex {
    /// Everything that was touched is thought through; what is owed.
    pub(super) fn settle(&mut self, now: Now) -> Vec<Order> {
        if self.leads && self.views.complete_since(KINDS).is_some() {
            while let Some(name) = self.dirty.pop_first() {
                let at = self.write_node(&name, now);
                self.sweep_node(&name);
                self.timers.set(Wake::Node(name), at);
            }
            while let Some(key) = self.touched.pop_first() {
                let at = self.write_marker(&key, now);
                self.timers.set(Wake::Marker(key), at);
            }
        } else {
            // Whoever leads from now on looks at everything.
            self.touched.clear();
            while let Some(name) = self.dirty.pop_first() {
                self.sweep_node(&name);
            }
        }
        std::mem::take(&mut self.orders)
    }

    /// If something is owed to a node, and not yet: when.
    fn write_node(&mut self, name: &Arc<str>, now: Now) -> Option<Instant> {
        self.choose(name);
        let Node { wanted, chosen, shown, sent_at, .. } = self.nodes.get_mut(name)?;
        let wanted = chosen.as_ref().unwrap_or(wanted);
        let shown = shown.as_mut().filter(|shown| !shown.deleting)?;
        let act = if !shown.agrees(wanted) {
            NodeAct::Desired(wanted.values().cloned().collect())
        } else if shown.noticed {
            NodeAct::TakeNoticeBack
        } else {
            shown.sent = None;
            return None;
        };
        let sent = (shown.resource_version.clone(), act);
        if shown.sent.as_ref() == Some(&sent) {
            return None;
        }
        let at = next(*sent_at, SETTLE, is_under_way(&shown.sent, &sent), now);
        if at.is_none() {
            let (uid, (resource_version, act)) = (shown.uid.clone(), sent.clone());
            (shown.sent, *sent_at) = (Some(sent), Some(now.instant));
            let order = NodeProbesOrder { node: name.clone(), uid, resource_version, act };
            self.orders.push(Order::NodeProbes(order));
        }
        at
    }

    /// Chooses what of all that is wanted of a node has room there; markers whose probes have none are told.
    fn choose(&mut self, name: &Arc<str>) {
        let Some(node) = self.nodes.get_mut(name).filter(|node| node.stale) else { return };
        node.stale = false;
        let choice = room::choose(&node.wanted);
        let (chosen, left_out) = match choice {
            None => (None, BTreeMap::new()),
            Some(Choice { pods, left_out }) => {
                let mut chosen = BTreeMap::new();
                for (uid, parts) in pods {
                    let Some(pod) = node.wanted.get(&uid) else { continue };
                    let has = if parts.len() == pod.resolved.shares.len() {
                        pod.clone()
                    } else {
                        Arc::new(pod.only(&parts, &mut self.texts))
                    };
                    chosen.insert(uid, has);
                }
                (Some(chosen), left_out)
            }
        };
        node.chosen = chosen;
        let before = std::mem::replace(&mut node.left_out, left_out.clone());
        for key in before.into_keys().chain(left_out.keys().cloned()) {
            let marker =
                self.spaces.get_mut(&key.namespace).and_then(|space| space.markers.get_mut(&key.name));
            let Some(marker) = marker else { continue };
            let told = match left_out.get(&key) {
                Some(pods) => marker.crowded.insert(name.clone(), *pods) != Some(*pods),
                None => marker.crowded.remove(name).is_some(),
            };
            if told {
                self.touched.insert(key);
            }
        }
    }

    /// The same of a marker.
    fn write_marker(&mut self, key: &Key, now: Now) -> Option<Instant> {
        let marker = self.spaces.get_mut(&key.namespace)?.markers.get_mut(&key.name)?;
        let shown = marker.shown.as_ref().filter(|_| !marker.deleting)?;
        let status = status(marker, now.wall);
        if shows(shown, &status) {
            marker.sent = None;
            return None;
        }
        let sent = (marker.resource_version.clone(), status);
        if marker.sent.as_ref() == Some(&sent) {
            return None;
        }
        let at = next(marker.sent_at, WRITTEN_EVERY, is_under_way(&marker.sent, &sent), now);
        if at.is_none() {
            let (uid, (resource_version, status)) = (marker.uid.clone(), sent.clone());
            (marker.sent, marker.sent_at) = (Some(sent), Some(now.instant));
            let order = MarkerOrder { key: key.clone(), uid, resource_version, status: Box::new(status) };
            self.orders.push(Order::Marker(order));
        }
        at
    }

    pub(super) fn look_at_all(&mut self) {
        self.dirty.extend(self.nodes.keys().cloned());
        for (namespace, space) in &self.spaces {
            let key = |name: &Arc<str>| Key { namespace: namespace.clone(), name: name.clone() };
            self.touched.extend(space.markers.keys().map(key));
        }
    }

    pub(super) fn forget_orders(&mut self) {
        for node in self.nodes.values_mut() {
            node.sent_at = None;
            if let Some(shown) = &mut node.shown {
                shown.sent = None;
            }
        }
        for marker in self.spaces.values_mut().flat_map(|space| space.markers.values_mut()) {
            (marker.sent, marker.sent_at) = (None, None);
        }
    }

    fn sweep_node(&mut self, name: &str) {
        if self.nodes.get(name).is_some_and(|node| node.shown.is_none() && node.wanted.is_empty()) {
            self.nodes.remove(name);
        }
    }
}

/// Something was asked to be written on the version that this one names too. If it was done, this one would be refused.
fn is_under_way<T>(sent: &Option<(Box<str>, T)>, next: &(Box<str>, T)) -> bool {
    sent.as_ref().is_some_and(|(resource_version, _)| *resource_version == next.0)
}

/// When the next write may be asked for, if not now.
fn next(sent_at: Option<Instant>, every: Duration, under_way: bool, now: Now) -> Option<Instant> {
    let pause = if under_way { ANSWERED_WITHIN } else { every };
    sent_at.map(|at| later(at, pause)).filter(|at| *at > now.instant)
}
