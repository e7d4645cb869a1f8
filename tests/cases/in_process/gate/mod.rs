//! Decisions of the gate are what happens, and what happens is what the gate hears.

mod held;
mod passed;

use std::time::Duration;

use berth_policy::{Call, Event, HoldReason, Verdict};
use berth_proto::cri as proto;
use berth_tests::fake::{FakeKubelet, OpenCall, framed};
use prost::Message;

use crate::world::{World, cri};

pub(crate) fn create(name: &str) -> Vec<u8> {
    let metadata = proto::PodSandboxMetadata {
        uid: "uid-1".to_owned(),
        namespace: "default".to_owned(),
        name: "pod".to_owned(),
        attempt: 0,
    };
    proto::CreateContainerRequest {
        pod_sandbox_id: "sandbox-1".to_owned(),
        config: Some(proto::ContainerConfig {
            metadata: Some(proto::ContainerMetadata { name: name.to_owned(), attempt: 0 }),
            ..Default::default()
        }),
        sandbox_config: Some(proto::PodSandboxConfig { metadata: Some(metadata), ..Default::default() }),
    }
    .encode_to_vec()
}

fn stop(timeout: i64) -> Vec<u8> {
    proto::StopContainerRequest { container_id: "container-1".to_owned(), timeout }.encode_to_vec()
}

/// A hold until `after` from the call's arrival.
fn hold(call: &Call, after: Duration) -> Verdict {
    Verdict::Hold { until: call.arrived + after, why: HoldReason::Inspection }
}

fn hold_for_ever(call: &Call) -> Verdict {
    hold(call, Duration::from_secs(3600))
}

async fn begin(kubelet: &FakeKubelet, method: &str, message: &[u8]) -> OpenCall {
    begin_with(kubelet, method, message, &[]).await
}

async fn begin_with(
    kubelet: &FakeKubelet,
    method: &str,
    message: &[u8],
    headers: &[(&str, &str)],
) -> OpenCall {
    let mut call = kubelet.open(&cri(method), headers).await.unwrap();
    call.send.send_data(framed(message), true).unwrap();
    call
}

/// Waits until the gate was told of so many ends, and fails for more: over a line it is told a moment later.
async fn ended(world: &World, times: usize) {
    while ends(world).len() < times {
        tokio::task::yield_now().await;
    }
    assert_eq!(ends(world).len(), times);
}

/// How often each call ended, by what the gate was told.
fn ends(world: &World) -> Vec<u64> {
    let events = world.gate.events();
    events
        .iter()
        .filter_map(|event| if let Event::CallEnded(call) = event { Some(call.0) } else { None })
        .collect()
}
