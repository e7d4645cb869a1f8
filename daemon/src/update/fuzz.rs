//! `ContainerUpdateRequest`s, the entries of a `NodePodUpdate`, and the annotations of a pod that is updated.

mod sequences;

use std::time::{Duration, Instant};

use berth_policy::in_place_update::{Sight, UpdateRequest, plan};
use berth_proto::crd::{ContainerUpdateRequestSpec, ContainerUpdateRequestStatus, NodePodUpdate};

pub use self::sequences::updates;
use super::{
    convert::{self, Flaw},
    env, report, requests, state,
};
use crate::{
    base::clock::Clock,
    cluster::{object::Object, raw::Raw, v1 as core},
};

/// Checks that a sound request names a pod and a change, and can be planned; that a flawed one says why. A
/// record of progress that was read is written and read again as the same.
pub fn update(data: &[u8]) {
    let clock = Clock::read();
    if let Ok(object) = serde_json::from_slice::<Raw>(data)
        && let Some(object) = Object::<ContainerUpdateRequestSpec, ContainerUpdateRequestStatus>::read(object)
    {
        judge(requests::asked_by(&object, &clock));
    }
    if let Ok(node_pod_update) = serde_json::from_slice::<NodePodUpdate>(data) {
        let status = node_pod_update.status.unwrap_or_default();
        let reports = status.pods.iter().map(|pod| report::read_pod(pod, &clock)).chain([Default::default()]);
        for reported in reports {
            for entry in &status.desired_pods {
                judge(convert::desired(entry, reported.clone(), None, Instant::now(), &clock));
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Some(record) = state::read(text)
    {
        assert_eq!(state::read(&state::text(&record)), Some(record));
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let sets = state::read_sets(text);
        if let Some(written) = state::with_sets(Some(text), &sets) {
            assert_eq!(state::read_sets(&written), sets);
        }
    }
    if let Ok(container) = serde_json::from_slice::<core::Container>(data) {
        for name in env::references(&container).keys() {
            // Read without a panic.
            let _ = env::is_expanded(&container, name);
        }
    }
}

fn judge((request, sound): (UpdateRequest, Result<(), Flaw>)) {
    if let Err(flaw) = sound {
        return assert!(!flaw.to_string().is_empty());
    }
    assert!(request.ended.is_some() || !request.pod.uid.as_str().is_empty());
    let begin = Instant::now();
    for now in [begin, begin + Duration::from_secs(3600)] {
        let _ = request.limit();
        plan(std::slice::from_ref(&request), &Sight::Gone, now);
    }
}
