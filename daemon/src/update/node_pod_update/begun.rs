//! Swaps that were begun and whose entries are not there any more, by the answers that still stand in the
//! object. While the agent lives the policy keeps what is left to do of them; after a restart that follows
//! from the answer: which pod, which twins, and which image rests. That image is believed, as is what was
//! before an update that goes back: the policies `berth-manager-status` and `berth-workloads` leave answers
//! to the agent of the node. The owner, which would have to name it, may be gone.

use std::time::Instant;

use berth_policy::{
    ContainerName, PodRef, PodUid,
    in_place_update::{StoredRequest, twin_version, twins, version_key},
};
use berth_proto::crd::{DesiredPod, PodPull, PodService, PreviousState, TwinSwap, TwinSwapState, UpdatedPod};

use super::super::{convert, report};
use crate::base::clock::Clock;

/// Knowledge of the node of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::update) enum Sighting {
    /// It is this.
    There(PodRef),
    /// It is not there any more.
    Gone,
    /// Not all pods have been seen yet.
    Missing,
}

/// Source of that knowledge.
pub(super) type Sight<'a> = dyn Fn(&PodUid) -> Sighting + Sync + 'a;

/// Tells whether an answer says that swaps may have been begun, and have not ended.
pub(super) fn is_begun(said: &UpdatedPod) -> bool {
    // What the pod was is written down before the first change.
    !report::is_end(said) && !said.swaps.is_empty() && said.previous.is_some()
}

/// Rest of the entry that this answers; `None`: it does not tell which images rest.
pub(super) fn rest(said: &UpdatedPod, pod: &PodRef, version: u64, clock: &Clock) -> Option<StoredRequest> {
    let previous = said.previous.as_ref()?;
    let entry = DesiredPod {
        uid: said.uid.clone(),
        owner: said.owner.clone(),
        owner_uid: said.owner_uid.clone(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        revision: said.revision.clone(),
        attempt: said.attempt,
        service: PodService::Keep,
        pull: PodPull::BestEffort,
        swaps: said.swaps.iter().filter_map(|swap| before(swap, previous)).collect(),
        since: said.since.clone(),
        ..DesiredPod::default()
    };
    let reported = report::read_pod(said, clock);
    let (request, sound) = convert::desired(&entry, reported, None, Instant::now(), clock);
    sound.ok()?;
    Some(StoredRequest { request: request.to_rest()?, flaw: None, version })
}

/// The images of the twins before the swap: the one that served and the one that rests.
fn before(swap: &TwinSwapState, previous: &PreviousState) -> Option<TwinSwap> {
    let image = |twin: &ContainerName| {
        let mut containers = previous.containers.iter();
        Some(containers.find(|known| known.name == twin.as_str())?.image.clone())
    };
    let version = |twin: &ContainerName| {
        let text = previous.annotations.get(&version_key(twin));
        twin_version(text.map(String::as_str))
    };
    let [first, second] = twins(&swap.name);
    // A version of 0 rests. Where another swap was under way, the larger one had still to take over.
    let (serving, resting) = match (version(&first), version(&second)) {
        (one, other) if one == other => return None,
        (0, _) => (second, first),
        (_, 0) => (first, second),
        (one, other) if one < other => (first, second),
        _ => (second, first),
    };
    let (image, empty_image) = (image(&serving)?, image(&resting)?);
    Some(TwinSwap { name: swap.name.clone(), image, empty_image, ..TwinSwap::default() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use berth_proto::crd::{NodePodUpdate, NodePodUpdateStatus};
    use serde_json::json;

    use super::{super::object::Object, *};

    /// An answer to an entry that swaps `mesh`, of whose twins the second one rested, or as the versions say.
    fn answer(phase: &str, versions: Option<[&str; 2]>) -> UpdatedPod {
        let keys = ["mesh-1", "mesh-2"].map(|twin| format!("version.sidecarset.kruise.io/{twin}"));
        let versions = versions.into_iter().flat_map(|versions| keys.iter().cloned().zip(versions));
        let versions: BTreeMap<String, &str> = versions.collect();
        let images = [("mesh-1", "mesh:1"), ("mesh-2", "empty:1")];
        let images = images.map(|(name, image)| json!({ "name": name, "image": image }));
        serde_json::from_value(json!({
            "uid": "p", "owner": "SidecarSet/s", "ownerUid": "u", "revision": "r", "phase": phase,
            "swaps": [{ "name": "mesh", "step": "Pending" }],
            "previous": { "containers": images, "annotations": versions },
        }))
        .unwrap()
    }

    fn pod() -> PodRef {
        PodRef { uid: "p".into(), namespace: "shop".to_owned(), name: "web".to_owned() }
    }

    /// Rows: phase, versions before the swap, and the image that rests.
    #[test]
    fn an_answer_tells_which_image_rests() {
        let table = [
            ("Updating", Some(["1", "0"]), Some("empty:1")),
            ("RollingBack", Some(["7", "0"]), Some("empty:1")),
            ("Updating", Some(["0", "3"]), Some("mesh:1")),
            // It took the place of another one, in the middle of its swap.
            ("Updating", Some(["2", "3"]), Some("empty:1")),
            ("Updating", Some(["2", "2"]), None),
            ("Updating", Some(["many", "0"]), None),
            ("Updating", None, None),
        ];
        for (phase, versions, rests) in table {
            let said = answer(phase, versions);
            assert!(is_begun(&said), "{phase}");
            let rest = rest(&said, &pod(), 7, &Clock::read());
            let request = rest.as_ref().map(|rest| &rest.request);
            let swap = request.map(|request| request.swaps["mesh"].clone());
            assert_eq!(swap.as_ref().map(|swap| &*swap.empty_image), rests, "{versions:?}");
            assert!(swap.is_none_or(|swap| swap.image.is_none()), "no version is asked for");
            assert!(request.is_none_or(|request| request.pod == pod() && request.revision == "r"));
        }
        assert!(!is_begun(&answer("Succeeded", Some(["1", "0"]))));
        assert!(!is_begun(&answer("Failed", Some(["1", "0"]))));
        assert!(!is_begun(&UpdatedPod { previous: None, ..answer("Updating", None) }), "nothing was changed");
        assert!(!is_begun(&UpdatedPod { swaps: Vec::new(), ..answer("Updating", None) }));
    }

    /// A process that begins finds the answer of the one before, without its entry.
    #[test]
    fn an_answer_stands_until_its_twins_rest() {
        let said = answer("Updating", Some(["1", "0"]));
        let mut shown = NodePodUpdate::new("n", Default::default());
        shown.metadata.uid = Some("u".to_owned());
        shown.status = Some(NodePodUpdateStatus { pods: vec![said.clone()], ..Default::default() });
        let mut object = Object::shown(None, shown.clone());
        let clock = Clock::read();
        assert!(object.has_rests());
        assert!(object.take_begun(&|_: &PodUid| Sighting::Missing, &clock).is_empty(), "later");
        object.forget_rested(|_| false);
        assert!(object.has_rests(), "it was not taken");
        let rests = object.take_begun(&|_: &PodUid| Sighting::There(pod()), &clock);
        assert_eq!(rests.len(), 1);
        assert!(object.take_begun(&|_: &PodUid| Sighting::There(pod()), &clock).is_empty(), "once");
        let id = rests[0].request.id.clone();
        assert_eq!(id, convert::answered_id(&said));
        object.forget_rested(|rest| *rest == id);
        // Whatever the watch shows meanwhile.
        let mut object = Object::shown(Some(object), shown.clone());
        assert!(object.has_rests() && object.take_begun(&|_: &PodUid| Sighting::Gone, &clock).is_empty());
        object.forget_rested(|_| false);
        assert!(!object.has_rests());
        // One whose pod has gone is forgotten.
        let mut object = Object::shown(None, shown);
        assert!(object.take_begun(&|_: &PodUid| Sighting::Gone, &clock).is_empty());
        object.forget_rested(|_| false);
        assert!(!object.has_rests());
    }
}
