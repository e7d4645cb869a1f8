//! Fuzz targets of the manager's watches: objects as any API server and anybody's CRDs could let them in.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    effect::Effect,
    indexes::Indexes,
    store::{Kind, Now, Object},
    wire::{self, Watched},
    write::Write,
};

/// An array of objects, in the order in which they are seen. Whatever they say is read or passed over, and
/// the cores decide something about it, now and an hour later; what they decided, they do not decide again.
pub fn watched(data: &[u8]) {
    let Ok(objects) = serde_json::from_slice::<Vec<serde_json::Value>>(data) else { return };
    let begin = Now { instant: Instant::now(), wall: Timestamp::UNIX_EPOCH };
    let mut indexes = Indexes::default();
    indexes.all().leads(begin);
    for kind in Kind::ALL {
        indexes.all().list_begins(kind, begin);
    }
    let mut seen = Vec::new();
    for object in objects.into_iter().filter_map(read) {
        indexes.all().apply(&object, begin);
        seen.push(object);
    }
    for kind in Kind::ALL {
        indexes.all().list_ends(kind, begin);
    }
    for later in [0, 60, 3600] {
        let now = Now { instant: begin.instant + Duration::from_secs(later), ..begin };
        indexes.all().time_passed(now);
        let again = indexes.all().time_passed(now);
        let is_of_images = |effect: &Effect| {
            !matches!(
                effect,
                Effect::Note(_)
                    | Effect::Ask(_)
                    | Effect::Budget(_)
                    | Effect::Spread(_)
                    | Effect::PodState(_)
                    | Effect::Write(
                        Write::Request(_)
                            | Write::NodeProbes(_)
                            | Write::Marker(_)
                            | Write::SidecarSet(_)
                            | Write::PodUpdates(_)
                    )
            )
        };
        assert!(again.iter().all(is_of_images), "decided twice");
        // Read without a panic.
        let _ = indexes.all().next_deadline();
    }
    let sizes = |indexes: &Indexes| (indexes.pods.len(), indexes.requests.size().nodes);
    let before = sizes(&indexes);
    for object in seen {
        indexes.all().apply(&object, begin);
    }
    assert_eq!(sizes(&indexes), before, "seen again, it is the same");
}

fn read(object: serde_json::Value) -> Option<Object> {
    #[derive(Deserialize)]
    struct Head {
        kind: String,
    }
    fn of<W: wire::Watchable>(object: serde_json::Value) -> Option<Object>
    where
        Watched<W>: DeserializeOwned,
    {
        serde_json::from_value::<Watched<W>>(object).ok().map(Watched::into_object)
    }
    let Head { kind } = Head::deserialize(&object).ok()?;
    match kind.as_str() {
        "Pod" => of::<wire::Pods>(object),
        "Node" => of::<wire::Nodes>(object),
        "ContainerRecreateRequest" => of::<wire::Requests>(object),
        "ContainerUpdateRequest" => of::<wire::Updates>(object),
        "NodeImage" => of::<wire::NodeImages>(object),
        "ImagePullJob" => of::<wire::Jobs>(object),
        "PodProbeMarker" => of::<wire::Markers>(object),
        "NodePodProbe" => of::<wire::NodeProbes>(object),
        "Namespace" => of::<wire::Namespaces>(object),
        "SidecarSet" => of::<wire::SidecarSets>(object),
        "NodePodUpdate" => of::<wire::NodeUpdates>(object),
        "PodUnavailableBudget" => of::<wire::Budgets>(object),
        "PersistentPodState" => of::<wire::PodStates>(object),
        "StatefulSet" => of::<wire::AdvancedSets>(object),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_and_what_is_near_them() {
        let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/watched");
        let mut read_some = 0;
        for seed in std::fs::read_dir(seeds).unwrap() {
            let seed = std::fs::read(seed.unwrap().path()).unwrap();
            let objects: Vec<serde_json::Value> = serde_json::from_slice(&seed).unwrap();
            read_some += objects.into_iter().filter_map(read).count();
            watched(&seed);
            for at in (0..seed.len()).step_by(seed.len().div_ceil(40)) {
                for byte in *b"0\"9" {
                    let mut near = seed.clone();
                    near[at] = byte;
                    watched(&near);
                }
            }
        }
        assert!(read_some >= 8, "of each kind one");
    }
}
