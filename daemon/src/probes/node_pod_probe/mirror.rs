//! `spec.podProbes` as OpenKruise's clients read it: a copy of what the manager desires of the node.
//!
//! OpenKruise's controller writes that list, and its clients look for a pod's probes in it. Berth's manager
//! writes status alone, so the agent of the node makes the copy, in its own object. Nobody acts on the copy,
//! and a list that somebody else has written stays as it is.

use std::time::Duration;

use berth_proto::crd::{ContainerProbe, NodePodProbe, PodProbe};
use serde_json::json;
use tokio::{sync::watch, time::sleep};
use tracing::warn;

use crate::{
    base::causes::chain,
    cluster::{client::Connection, node_object},
};

/// Owner of the list among the agent's fields.
pub(super) const MANAGER: &str = "berth-agent-mirror";
/// Most bytes of a copy: the object has each list twice then, and etcd takes 1.5 MB.
const LARGEST: usize = 256 << 10;
/// Between two writes: pods of a node come and go in crowds.
const EVERY: Duration = Duration::from_secs(1);
/// Longest pause after writes that failed: it doubles with each.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Standing of `spec.podProbes`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mirror {
    /// It is as it should be.
    Right,
    /// This is to stand there.
    Stale(Vec<PodProbe>),
    /// Somebody else has written it.
    Foreign,
}

/// List that is to be written into the object with this UID; `None`: what stands there is right.
pub(super) type Due = Option<(String, Vec<PodProbe>)>;

/// Writes the copy whenever it is due; for ever.
pub(super) async fn keep(connection: &Connection, node: &str, stale: &watch::Sender<Due>) {
    let mut due = stale.subscribe();
    let mut pause = EVERY;
    loop {
        let Ok(shown) = due.wait_for(Option::is_some).await.map(|due| due.clone()) else { return };
        let Some((uid, list)) = &shown else { continue };
        let spec = json!({ "podProbes": list });
        match node_object::apply_spec::<NodePodProbe>(connection, node, uid, MANAGER, spec).await {
            Ok(()) => {
                pause = EVERY;
                // The watch shows it, too, but later.
                stale.send_if_modified(|due| *due == shown && due.take().is_some());
            }
            Err(error) => {
                warn!(node, error = %chain(&error), "What is desired not shown in spec.podProbes, trying again");
                pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
            }
        }
        sleep(pause).await;
    }
}

/// Compares `spec.podProbes` with what is desired. What is too large is not shown at all: a part would say
/// that the rest is not probed.
pub(super) fn compare(object: &NodePodProbe) -> Mirror {
    let desired = object.status.as_ref().map_or(&[][..], |status| &status.desired_pod_probes);
    let spec = &object.spec.pod_probes;
    if spec.len() == desired.len() && spec.iter().zip(desired).all(|(one, other)| is_copy(one, other)) {
        return Mirror::Right;
    }
    let mut list = copy(desired);
    if serde_json::to_vec(&list).map_or(usize::MAX, |json| json.len()) > LARGEST {
        list.clear();
    }
    match (spec.is_empty(), list.is_empty()) {
        (true, true) => Mirror::Right,
        (true, false) => Mirror::Stale(list),
        (false, _) if is_own(object) => Mirror::Stale(list),
        (false, _) => Mirror::Foreign,
    }
}

/// Says whether the list in the object is the agent's.
pub(super) fn is_own(object: &NodePodProbe) -> bool {
    let managed = object.metadata.managed_fields.iter().flatten();
    managed.filter(|entry| entry.manager.as_deref() == Some(MANAGER)).any(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| fields.pointer("/f:spec/f:podProbes").is_some())
    })
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

    fn object(spec: &Value, desired: &Value, owner: &str) -> NodePodProbe {
        serde_json::from_value(json!({
            "metadata": { "name": "node", "managedFields": [{
                "manager": owner, "operation": "Apply", "fieldsType": "FieldsV1",
                "fieldsV1": { "f:spec": { "f:podProbes": {} } },
            }] },
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
        let of = |spec: &Value, desired: &Value, owner: &str| compare(&object(spec, desired, owner));
        for (what, found, expected) in [
            ("nothing is desired", of(&none, &none, "x"), Mirror::Right),
            ("nothing stands there", of(&none, &wanted, "x"), stale(&plain)),
            ("it stands there", of(&plain, &wanted, MANAGER), Mirror::Right),
            ("it stands there by somebody else", of(&plain, &wanted, "x"), Mirror::Right),
            ("with marks it is no copy", of(&wanted, &wanted, MANAGER), stale(&plain)),
            ("another one is desired", of(&other, &wanted, MANAGER), stale(&plain)),
            ("nothing is desired any more", of(&plain, &none, MANAGER), stale(&none)),
            ("somebody else asks for another", of(&other, &wanted, "x"), Mirror::Foreign),
            ("somebody else asks, and nothing is desired", of(&other, &none, "x"), Mirror::Foreign),
        ] {
            assert_eq!(found, expected, "{what}");
        }
    }

    #[test]
    fn a_list_that_is_too_large_is_not_shown() {
        let desired = |count: usize| (0..count).map(|at| entry(&at.to_string(), true)).collect::<Value>();
        let shown = |count| compare(&object(&json!([]), &desired(count), "x"));
        assert!(matches!(shown(1000), Mirror::Stale(list) if list.len() == 1000));
        assert_eq!(shown(10_000), Mirror::Right);
        // What stood there goes.
        let before = compare(&object(&json!([entry("a", false)]), &desired(10_000), MANAGER));
        assert_eq!(before, Mirror::Stale(Vec::new()));
    }
}
