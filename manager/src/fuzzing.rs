//! What the manager's watches show, for the fuzz targets of `fuzz/`: objects as any API server and anybody's CRDs could let them
//! in.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    images::ImageIndex,
    probes::ProbeIndex,
    requests::RequestIndex,
    seen::{Kind, Now, Object},
    wire::{self, Watched},
};

/// An array of objects, in the order in which they are seen. Whatever they say is read or passed over, and the cores decide
/// something about it, now and an hour later; what they decided, they do not decide again.
pub fn watched(data: &[u8]) {
    let Ok(objects) = serde_json::from_slice::<Vec<serde_json::Value>>(data) else { return };
    let begin = Now { instant: Instant::now(), wall: Timestamp::UNIX_EPOCH };
    let (mut index, mut images, mut probes) =
        (RequestIndex::default(), ImageIndex::default(), ProbeIndex::default());
    index.owed(begin);
    images.owed(begin);
    probes.owed(begin);
    for kind in Kind::ALL {
        index.list_begins(kind, begin);
        images.list_begins(kind, begin);
        probes.list_begins(kind, begin);
    }
    let mut seen = Vec::new();
    for object in objects.into_iter().filter_map(read) {
        images.apply(&object, begin);
        probes.apply(&object, begin);
        index.apply(object.clone(), begin);
        seen.push(object);
    }
    for kind in Kind::ALL {
        index.list_ends(kind, begin);
        images.list_ends(kind, begin);
        probes.list_ends(kind, begin);
    }
    for later in [0, 60, 3600] {
        let now = Now { instant: begin.instant + Duration::from_secs(later), ..begin };
        index.due(now);
        images.due(now);
        probes.due(now);
        assert!(index.due(now).is_empty() && probes.due(now).is_empty(), "decided twice");
        // Read without a panic.
        let _ = (index.next_deadline(), images.next_deadline(), probes.next_deadline());
    }
    let sizes = (index.size().pods, index.size().nodes);
    for object in seen {
        images.apply(&object, begin);
        probes.apply(&object, begin);
        index.apply(object, begin);
    }
    assert_eq!((index.size().pods, index.size().nodes), sizes, "seen again, it is the same");
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
