//! The calls of one round, and how long they took.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use berth_proto::cri::{
    ContainerConfig, ContainerMetadata, ContainerStatusRequest, CreateContainerRequest,
    ListContainersResponse, PodSandboxConfig, PodSandboxMetadata, StopContainerRequest, VersionResponse,
};
use berth_tests::fake::FakeKubelet;
use futures::future::try_join_all;
use prost::Message;

use super::stub::CONTAINERS;

/// One kind of call, over and over.
pub(super) struct Load {
    pub(super) case: &'static str,
    pub(super) call: Call,
    /// How many callers share the connection.
    pub(super) concurrency: usize,
    /// By each of them, one after another, in one round.
    pub(super) calls: usize,
}

/// A call and what is to come of it.
pub(super) struct Call {
    path: &'static str,
    message: fn() -> Vec<u8>,
    check: fn(&[u8]) -> Result<()>,
}

/// Measurements of one round.
pub(super) struct Round {
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) calls_per_s: f64,
}

/// The smallest call there is.
pub(super) const VERSION: Call = Call {
    path: "/runtime.v1.RuntimeService/Version",
    message: Vec::new,
    check: |body| {
        let answer = VersionResponse::decode(body)?;
        ensure!(answer.runtime_name == "stub", "another runtime answers: {answer:?}");
        Ok(())
    },
};

/// The largest one that comes often: every second.
pub(super) const fn list() -> Call {
    Call {
        path: "/runtime.v1.RuntimeService/ListContainers",
        message: Vec::new,
        check: |body| {
            let answer = ListContainersResponse::decode(body)?;
            ensure!(answer.containers.len() == CONTAINERS, "{} containers", answer.containers.len());
            Ok(())
        },
    }
}

/// A creation that nothing is known of.
pub(super) const CREATE: Call = Call {
    path: "/runtime.v1.RuntimeService/CreateContainer",
    message: || {
        let metadata = ContainerMetadata { name: "main".to_owned(), attempt: 0 };
        let pod = PodSandboxMetadata {
            name: "some-pod-5d8f7c6b9-x2x7q".to_owned(),
            uid: "3f1c3c5e-0d0e-4c3f-9f6b-2f5a4d1f9a11".to_owned(),
            namespace: "some-namespace".to_owned(),
            attempt: 0,
        };
        let request = CreateContainerRequest {
            pod_sandbox_id: format!("{:064x}", 7),
            config: Some(ContainerConfig { metadata: Some(metadata), ..Default::default() }),
            sandbox_config: Some(PodSandboxConfig { metadata: Some(pod), ..Default::default() }),
        };
        request.encode_to_vec()
    },
    check: |_| Ok(()),
};

/// The stop of a container that nothing is known of.
pub(super) const STOP: Call = Call {
    path: "/runtime.v1.RuntimeService/StopContainer",
    message: || StopContainerRequest { container_id: format!("{:064x}", 7), timeout: 30 }.encode_to_vec(),
    check: |_| Ok(()),
};

/// The status of one, which only the kubelet may be shown otherwise.
pub(super) const STATUS: Call = Call {
    path: "/runtime.v1.RuntimeService/ContainerStatus",
    message: || {
        ContainerStatusRequest { container_id: format!("{:064x}", 7), verbose: false }.encode_to_vec()
    },
    check: |_| Ok(()),
};

/// The first half of a relist.
pub(super) const SANDBOXES: Call =
    Call { path: "/runtime.v1.RuntimeService/ListPodSandbox", message: Vec::new, check: |_| Ok(()) };

// === impl Load ===

impl Load {
    pub(super) async fn round(&self, kubelet: &FakeKubelet) -> Result<Round> {
        let begun = Instant::now();
        let callers = (0..self.concurrency).map(|_| async {
            let mut took = Vec::with_capacity(self.calls);
            for _ in 0..self.calls {
                let begun = Instant::now();
                self.call.once(kubelet).await?;
                took.push(begun.elapsed());
            }
            anyhow::Ok(took)
        });
        let mut took = try_join_all(callers).await?.concat();
        let elapsed = begun.elapsed();
        took.sort();
        Ok(Round {
            p50_us: percentile(&took, 50),
            p99_us: percentile(&took, 99),
            calls_per_s: took.len() as f64 / elapsed.as_secs_f64(),
        })
    }
}

// === impl Call ===

impl Call {
    pub(super) async fn once(&self, kubelet: &FakeKubelet) -> Result<()> {
        let reply = kubelet.call(self.path, &(self.message)()).await?;
        ensure!(reply.status() == Some(0), "{}: {}", self.path, reply.message());
        (self.check)(reply.body().get(5..).unwrap_or_default())
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).map_or(f64::NAN, |took| took.as_secs_f64() * 1e6)
}
