//! Writes that are due: to each node that something has changed for, and to each marker.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use berth_proto::crd::PodProbeMarkerStatus;

use super::{
    ANSWERED_WITHIN, KINDS, ProbeIndex, SETTLE, WRITTEN_EVERY, Wake,
    marker::Marker,
    node::Node,
    room::{self, Choice},
    status::{shows, status},
    write::{MarkerWrite, NodeAct, NodeProbesWrite},
};
use crate::{
    store::{Key, Kind, Now},
    time::later,
    write::Write,
};

impl ProbeIndex {
    /// Thinks through all that was touched, and gives what is owed.
    pub(super) fn settle(&mut self, now: Now) -> Vec<Write> {
        if self.views.may_decide(self.leads, KINDS, Kind::PodProbeMarker) {
            if !self.decides {
                self.decides = true;
                self.look_at_all();
            }
            while let Some(name) = self.dirty.pop_first() {
                let at = self.write_node(&name, now);
                self.sweep_node(&name);
                self.timers.set(Wake::Node(name), at);
            }
            while let Some(key) = self.touched.pop_first() {
                let at = self.line_up(&key, now);
                self.timers.set(Wake::Marker(key), at);
            }
            while let Some(namespace) = self.turns.pop_first() {
                let at = self.write_markers(&namespace, now);
                self.timers.set(Wake::Turn(namespace), at);
            }
        } else {
            // Whoever decides from now on looks at everything.
            self.touched.clear();
            self.turns.clear();
            while let Some(name) = self.dirty.pop_first() {
                self.sweep_node(&name);
            }
        }
        std::mem::take(&mut self.orders)
    }

    /// Writes what is owed to a node; returns when, if not yet.
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
            let order = NodeProbesWrite { node: name.clone(), uid, resource_version, act };
            self.orders.push(Write::NodeProbes(order));
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

    /// Lines up a marker to which something is owed; else returns when something will be.
    fn line_up(&mut self, key: &Key, now: Now) -> Option<Instant> {
        #[cfg(test)]
        {
            self.looked_at += 1;
        }
        let space = self.spaces.get_mut(&key.namespace)?;
        let marker = space.markers.get_mut(&key.name)?;
        match owed(marker, now) {
            Some(Owed { at: None, .. }) => {
                if marker.ticket.is_none() {
                    marker.ticket = Some(space.line.join(key.name.clone()));
                }
                self.turns.insert(key.namespace.clone());
                None
            }
            not_now => {
                marker.ticket.take().into_iter().for_each(|ticket| space.line.leave(ticket));
                not_now?.at
            }
        }
    }

    /// Orders the statuses whose turn it is; returns when the next one has its turn.
    fn write_markers(&mut self, namespace: &Arc<str>, now: Now) -> Option<Instant> {
        let space = self.spaces.get_mut(namespace)?;
        loop {
            let name = space.line.first()?.clone();
            let marker = space.markers.get_mut(&name)?;
            if let Some(Owed { status, at: None }) = owed(marker, now) {
                if let Err(at) = space.pace.take(now.instant) {
                    return Some(at);
                }
                let (uid, resource_version) = (marker.uid.clone(), marker.resource_version.clone());
                marker.sent = Some((resource_version.clone(), status.clone()));
                marker.sent_at = Some(now.instant);
                let key = Key { namespace: namespace.clone(), name };
                let order = MarkerWrite { key, uid, resource_version, status: Box::new(status) };
                self.orders.push(Write::Marker(order));
            }
            marker.ticket.take().into_iter().for_each(|ticket| space.line.leave(ticket));
        }
    }

    fn look_at_all(&mut self) {
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
        for space in self.spaces.values_mut() {
            space.line.clear();
            for marker in space.markers.values_mut() {
                (marker.sent, marker.sent_at, marker.ticket) = (None, None, None);
            }
        }
    }

    fn sweep_node(&mut self, name: &str) {
        if self.nodes.get(name).is_some_and(|node| node.shown.is_none() && node.wanted.is_empty()) {
            self.nodes.remove(name);
        }
    }
}

/// A status that a marker does not show.
struct Owed {
    status: PodProbeMarkerStatus,
    /// When it may be written, if not now.
    at: Option<Instant>,
}

fn owed(marker: &mut Marker, now: Now) -> Option<Owed> {
    let shown = marker.shown.as_ref().filter(|_| !marker.deleting)?;
    let status = status(marker, now.wall);
    if shows(shown, &status) {
        marker.sent = None;
        return None;
    }
    let under_way = marker.sent.as_ref().is_some_and(|(version, _)| *version == marker.resource_version);
    if under_way && marker.sent.as_ref().is_some_and(|(_, sent)| *sent == status) {
        return None;
    }
    let at = next(marker.sent_at, WRITTEN_EVERY, under_way, now);
    Some(Owed { status, at })
}

/// Tells whether a write was asked for on the version that this one names too. If it was done, this one would
/// be refused.
fn is_under_way<T>(sent: &Option<(Box<str>, T)>, next: &(Box<str>, T)) -> bool {
    sent.as_ref().is_some_and(|(resource_version, _)| *resource_version == next.0)
}

/// Returns when the next write may be asked for, if not now.
fn next(sent_at: Option<Instant>, every: Duration, under_way: bool, now: Now) -> Option<Instant> {
    let pause = if under_way { ANSWERED_WITHIN } else { every };
    sent_at.map(|at| later(at, pause)).filter(|at| *at > now.instant)
}
