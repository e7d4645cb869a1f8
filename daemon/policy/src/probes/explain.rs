//! Where probes stand, in words, and how much is remembered.

use std::{sync::Arc, time::Instant};

use super::{
    Probes,
    watch::{Presence, ProbeState, Watch},
};
use crate::model::{ContainerName, PodRef};

/// Where one probe stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeView {
    /// The pod.
    pub pod: PodRef,
    /// The container.
    pub container: ContainerName,
    /// `<PodProbeMarker>#<its probe>`.
    pub name: Arc<str>,
    /// Its state.
    pub state: ProbeState,
    /// Since when.
    pub since: Instant,
    /// When its last run in this instance of the container began.
    pub last_run: Option<Instant>,
    /// When it should run next; in the past when it waits for its turn. `None`: not as things are.
    pub due: Option<Instant>,
    /// A run is under way.
    pub running: bool,
    /// Message of the last run, or the reason for which the probe waits.
    pub message: Arc<str>,
}

/// How much is remembered of probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbesSize {
    /// Pods with probes, or with marks that are to be taken away.
    pub pods: usize,
    /// Probes that are wanted.
    pub probes: usize,
    /// Containers of the node.
    pub containers: usize,
    /// Runs that have not ended.
    pub runs: usize,
    /// Runs whose end never came, since the start.
    pub lost: u64,
}

impl Probes {
    /// Says where all probes stand, by pod and name.
    pub fn explain(&self) -> Vec<ProbeView> {
        let pods = self.pods.values();
        pods.flat_map(|pod| pod.probes.values().map(|watch| watch.view(&pod.pod))).collect()
    }

    /// Returns how much is remembered.
    pub fn size(&self) -> ProbesSize {
        ProbesSize {
            pods: self.pods.len(),
            probes: self.pods.values().map(|pod| pod.probes.len()).sum(),
            containers: self.instances.values().map(|containers| containers.len()).sum(),
            runs: self.runs.len(),
            lost: self.lost,
        }
    }
}

impl Watch {
    fn view(&self, pod: &PodRef) -> ProbeView {
        ProbeView {
            pod: pod.clone(),
            container: self.container().clone(),
            name: self.wanted.name.clone(),
            state: self.state,
            since: self.since,
            last_run: self.began,
            due: self.due.filter(|_| self.run.is_none()),
            running: self.run.is_some(),
            message: self.words(),
        }
    }

    /// Returns the message of the last run, or the reason why there is no result yet.
    pub(super) fn words(&self) -> Arc<str> {
        if !self.is_blank() {
            return self.message.clone();
        }
        let container = &self.wanted.container;
        match self.place {
            Presence::Unheard => "the runtime has not told of the pod yet".into(),
            Presence::Absent => format!("Container({container}) has not been created").into(),
            Presence::Down(_) | Presence::Up { .. } => {
                format!("Container({container}) has no result yet since it started").into()
            }
        }
    }
}
