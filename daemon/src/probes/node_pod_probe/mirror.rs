//! `spec.podProbes` as OpenKruise's clients read it: a copy of what the manager desires of the node.
//!
//! OpenKruise's controller writes that list, and its clients look for a pod's probes in it. Berth's manager
//! writes status alone, so the agent of the node makes the copy, in its own object. Nobody acts on the copy,
//! and a list that somebody else has written stays as it is: the API server says so, as a conflict.

use std::time::Duration;

use berth_proto::{
    crd::{ContainerProbe, NodePodProbe, PodProbe},
    size,
};
use serde_json::json;
use tokio::{sync::watch, time::sleep};
use tracing::warn;

use crate::{
    base::causes::chain,
    cluster::{client::Connection, node_object},
};

/// Owner of the list among the agent's fields.
const MANAGER: &str = "berth-agent-mirror";
/// Most bytes of a copy: the object has each list twice then, and etcd takes 1.5 MB.
const LARGEST: usize = 256 << 10;
/// Most bytes of memory of a copy when it is read: an object that takes 8 MiB is read by nobody here, and the
/// manager lets what it desires take 5 MiB.
const MOST_MEMORY: usize = 2 << 20;
/// Pause between two writes: pods of a node come and go in crowds.
const EVERY: Duration = Duration::from_secs(1);
/// Longest pause after writes that failed: it doubles with each.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Standing of `spec.podProbes`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mirror {
    /// It is as it should be.
    Right,
    /// This is to stand there, unless somebody else has written what does.
    Stale(Vec<PodProbe>),
    /// Somebody else has written it.
    Foreign,
}

/// List that is to be written into the object with this UID; `None`: none is.
pub(super) type Due = Option<(String, Vec<PodProbe>)>;

/// Writes the copy whenever it is due, and says which object has a list of somebody else's; for ever.
pub(super) async fn keep(
    connection: &Connection,
    node: &str,
    stale: &watch::Sender<Due>,
    foreign: impl Fn(&str),
) {
    let mut due = stale.subscribe();
    let mut pause = EVERY;
    loop {
        let Ok(shown) = due.wait_for(Option::is_some).await.map(|due| due.clone()) else { return };
        let Some((uid, list)) = &shown else { continue };
        let spec = json!({ "podProbes": list });
        let written = node_object::apply_spec::<NodePodProbe>(connection, node, uid, MANAGER, spec).await;
        let is_foreign = match &written {
            Ok(()) => false,
            // Nothing is taken back where nothing could be written.
            Err(error) => error.is_conflict() || list.is_empty() && error.refusal_or_forbidden().is_some(),
        };
        match written {
            Err(error) if !is_foreign => {
                warn!(node, error = %chain(&error), "What is desired not shown in spec.podProbes, trying again");
                pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
            }
            Ok(()) | Err(_) => {
                pause = EVERY;
                // The watch shows what was written, too, but later.
                stale.send_if_modified(|due| *due == shown && due.take().is_some());
            }
        }
        if is_foreign {
            foreign(uid);
        }
        sleep(pause).await;
    }
}

/// Compares `spec.podProbes` with what is desired, or with nothing where what stands there is `accepted`:
/// then there is no copy. `foreign`: it is known to be somebody else's. What is too large is not shown at
/// all: a part would say that the rest is not probed.
pub(super) fn compare(object: &NodePodProbe, accepted: bool, foreign: bool) -> Mirror {
    let desired = object.status.as_ref().filter(|_| !accepted);
    let desired = desired.map_or(&[][..], |status| &status.desired_pod_probes);
    let spec = &object.spec.pod_probes;
    if spec.len() == desired.len() && spec.iter().zip(desired).all(|(one, other)| is_copy(one, other)) {
        return Mirror::Right;
    }
    if foreign {
        return Mirror::Foreign;
    }
    let mut list = copy(desired);
    if size::bytes(&list) > LARGEST || size::memory(&list) > MOST_MEMORY {
        list.clear();
    }
    if spec.is_empty() && list.is_empty() { Mirror::Right } else { Mirror::Stale(list) }
}

/// OpenKruise has no marks in a probe: its controller writes them itself.
fn is_copy(one: &PodProbe, desired: &PodProbe) -> bool {
    let same = |one: &ContainerProbe, desired: &ContainerProbe| {
        one.name == desired.name
            && one.container_name == desired.container_name
            && one.probe == desired.probe
            && one.pod_condition_type.is_none()
            && one.marker_policy.is_empty()
    };
    (&one.uid, &one.namespace, &one.name, &one.ip)
        == (&desired.uid, &desired.namespace, &desired.name, &desired.ip)
        && one.probes.len() == desired.probes.len()
        && one.probes.iter().zip(&desired.probes).all(|(one, desired)| same(one, desired))
}

fn copy(desired: &[PodProbe]) -> Vec<PodProbe> {
    let plain = |probe: &ContainerProbe| ContainerProbe {
        pod_condition_type: None,
        marker_policy: Vec::new(),
        ..probe.clone()
    };
    let entry = |pod: &PodProbe| PodProbe { probes: pod.probes.iter().map(plain).collect(), ..pod.clone() };
    desired.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(uid: &str, marks: bool) -> Value {
        let mut probe =
            json!({ "name": "m#p", "containerName": "main", "probe": { "exec": { "command": ["true"] } } });
        if marks {
            probe["podConditionType"] = json!("example.com/up");
            probe["markerPolicy"] = json!([{ "state": "Succeeded", "labels": { "up": "yes" } }]);
        }
        json!({ "name": "pod", "namespace": "shop", "uid": uid, "IP": "10.0.0.1", "probes": [probe] })
    }

    fn object(spec: &Value, desired: &Value) -> NodePodProbe {
        serde_json::from_value(json!({
            "metadata": { "name": "node" },
            "spec": { "podProbes": spec },
            "status": { "desiredPodProbes": desired },
        }))
        .expect("an object")
    }

    #[test]
    fn the_list_is_what_is_desired_or_somebodys() {
        let (none, wanted, plain) = (json!([]), json!([entry("a", true)]), json!([entry("a", false)]));
        let other = json!([entry("b", false)]);
        let stale = |list: &Value| Mirror::Stale(serde_json::from_value(list.clone()).expect("a list"));
        let of = |spec: &Value, desired: &Value, foreign| compare(&object(spec, desired), false, foreign);
        for (what, found, expected) in [
            ("nothing is desired", of(&none, &none, false), Mirror::Right),
            ("nothing stands there", of(&none, &wanted, false), stale(&plain)),
            ("somebody else has emptied it", of(&none, &wanted, true), Mirror::Foreign),
            ("it stands there", of(&plain, &wanted, false), Mirror::Right),
            ("it stands there by somebody else", of(&plain, &wanted, true), Mirror::Right),
            ("with marks it is no copy", of(&wanted, &wanted, false), stale(&plain)),
            ("another one is desired", of(&other, &wanted, false), stale(&plain)),
            ("nothing is desired any more", of(&plain, &none, false), stale(&none)),
            ("somebody else asks for another", of(&other, &wanted, true), Mirror::Foreign),
            ("somebody else asks, and nothing is desired", of(&other, &none, true), Mirror::Foreign),
        ] {
            assert_eq!(found, expected, "{what}");
        }
    }

    /// A copy from before would be run without a marker.
    #[test]
    fn where_the_list_is_accepted_there_is_no_copy() {
        let (none, wanted, plain) = (json!([]), json!([entry("a", true)]), json!([entry("a", false)]));
        assert_eq!(compare(&object(&none, &wanted), true, false), Mirror::Right);
        assert_eq!(compare(&object(&plain, &wanted), true, false), Mirror::Stale(Vec::new()));
        assert_eq!(compare(&object(&plain, &wanted), true, true), Mirror::Foreign);
    }

    #[test]
    fn a_list_that_is_too_large_is_not_shown() {
        let desired = |count: usize| (0..count).map(|at| entry(&at.to_string(), true)).collect::<Value>();
        let shown = |count| compare(&object(&json!([]), &desired(count)), false, false);
        assert!(matches!(shown(500), Mirror::Stale(list) if list.len() == 500));
        assert_eq!(shown(1000), Mirror::Right, "it takes too much memory");
        assert_eq!(shown(10_000), Mirror::Right);
        // What stood there goes.
        let before = compare(&object(&json!([entry("a", false)]), &desired(10_000)), false, false);
        assert_eq!(before, Mirror::Stale(Vec::new()));
    }
}
