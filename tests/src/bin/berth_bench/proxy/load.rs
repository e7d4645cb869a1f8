//! The calls of one round, and how long they took.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use berth_proto::cri::{ListContainersResponse, VersionResponse};
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
        check: |body| {
            let answer = ListContainersResponse::decode(body)?;
            ensure!(answer.containers.len() == CONTAINERS, "{} containers", answer.containers.len());
            Ok(())
        },
    }
}

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
        let reply = kubelet.call(self.path, &[]).await?;
        ensure!(reply.status() == Some(0), "{}: {}", self.path, reply.message());
        (self.check)(reply.body().get(5..).unwrap_or_default())
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).map_or(f64::NAN, |took| took.as_secs_f64() * 1e6)
}
