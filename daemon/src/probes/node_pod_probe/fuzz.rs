//! `NodePodProbe`s as an API server could show them.

use std::time::{Duration, Instant};

use berth_policy::{ProbeEvent, ProbeLimits, Probes};
use berth_proto::crd::NodePodProbe;

use super::convert;
use crate::base::clock::Clock;

/// A report that was read is written as the same; the policy plans with whatever is asked.
pub fn node_pod_probe(data: &[u8]) {
    let Ok(object) = serde_json::from_slice::<NodePodProbe>(data) else { return };
    let (clock, begin) = (Clock::read(), Instant::now());
    let reports = convert::reported(&object, &clock);
    let written = convert::statuses(&reports, &clock);
    let states = |count: usize, of: usize| assert_eq!(count, of, "reports come and go whole");
    states(written.len(), reports.len());
    for (status, report) in written.iter().zip(&reports) {
        states(status.probe_states.len(), report.probes.len());
    }
    let mut probes = Probes::new(ProbeLimits::default(), begin);
    probes.apply(ProbeEvent::Reported(reports), begin);
    let desired = object.status.iter().flat_map(|status| convert::wanted(&status.desired_pod_probes).pods);
    let asked = desired.chain(convert::wanted(&object.spec.pod_probes).pods).collect();
    probes.apply(ProbeEvent::Wanted(asked), begin);
    for now in [begin, begin + Duration::from_secs(3600)] {
        probes.plan(now);
        // Read without a panic.
        let _ = (probes.next_deadline(), probes.backlog());
    }
}
