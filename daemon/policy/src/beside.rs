//! Events on a pod that declares an order on a node that cannot keep it, and on that node: beside the kubelet
//! no call passes through the agent, and nothing else would say why the containers start at once.

use crate::{
    announced::Announcement,
    config::Path,
    model::Pod,
    node::Node,
    step::{About, Notice},
};

/// The reason of the Events.
const REASON: &str = "LaunchOrderNotKept";

impl Node {
    /// Owes the Event, once for a pod, before its first container is there. Later the order is past, and an
    /// agent that starts anew would say it again. The node has one with the first such pod of a run.
    pub(crate) fn tell_of_lost_order(&mut self, pod: &Pod) {
        let declared = !matches!(pod.order, Ok(None));
        let begins = pod.statuses.is_empty() && pod.deletion.is_none() && !pod.ended;
        let beside = self.config.path == Path::Beside;
        if !beside || !declared || !begins || !self.announced.tell(&pod.pod.uid, Announcement::LostOrder) {
            return;
        }
        let mut tell = |about, note: String| {
            self.notices.push((pod.pod.clone(), Notice { about, reason: REASON, warning: true, note }));
        };
        let note = "The containers of this pod declare a launch order, and the agent of this node stands beside the \
                    kubelet and cannot keep it: they start and stop in any order. Give the pod nodeSelector \
                    berth.dev/order: \"true\", or have the node's administrator put Berth between the kubelet and its \
                    runtime (berthctl install)";
        tell(About::Pod, note.to_owned());
        if !std::mem::replace(&mut self.node_told_of_lost_order, true) {
            // No pod is named: who reads this may not be allowed to see it.
            let note = "Pods that declare a launch order come to this node, and its agent stands beside the kubelet \
                        and cannot keep it. Put Berth between the kubelet and its runtime (berthctl install), or have \
                        such pods ask for nodeSelector berth.dev/order: \"true\"; each of them has an Event of its own";
            tell(About::Node, note.to_owned());
        }
    }
}
