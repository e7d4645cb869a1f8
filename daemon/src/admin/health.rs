//! Health of the agent: whether it is alive, and ready to do its work. One place, for HTTP and for
//! `berthctl status`.

use std::{sync::Arc, time::Duration};

use berth_policy::Size;
use tokio::{runtime::Handle, sync::watch};

use crate::{
    admin::{last_answer::LastAnswer, own::OwnMetrics},
    agent::Agent,
    base::causes::chain,
    cluster::identity::IdentityState,
    config::ViewMode,
    cri::Runtime,
    pods,
    succession::{heartbeat::Heartbeat, takeover::RuntimePlace},
};

/// A data path that stood still for so long is dead.
const STANDSTILL: Duration = Duration::from_secs(10);
/// An answer of the runtime counts for so long.
const FRESH: Duration = Duration::from_secs(1);

/// The parts whose health counts.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    /// The state.
    pub agent: Arc<Agent>,
    /// The runtime.
    pub runtime: Runtime,
    /// Last answer of it.
    pub answered: Answered,
    /// The data path's pulse.
    pub heartbeat: Arc<Heartbeat>,
    /// Which pod view.
    pub mode: ViewMode,
    /// The runtime's place, where it is taken.
    pub place: Option<Arc<RuntimePlace>>,
    /// Whether a `berth-shim` is connected, where it has the data path.
    pub shim: Option<watch::Receiver<bool>>,
    /// The watch, where there is one.
    pub api: Option<watch::Receiver<pods::api::Health>>,
    /// The threads that have tasks, by what they do.
    pub threads: Vec<(&'static str, Handle)>,
    /// Figures of the process.
    pub own: OwnMetrics,
    /// Identity of the agent at the API server, where there is one.
    pub identity: Option<watch::Receiver<IdentityState>>,
}

type Checks = Vec<(&'static str, Result<(), String>)>;

/// Last answer of the runtime. A clone is the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answered(Arc<LastAnswer<Result<(), String>>>);

impl Health {
    /// Tells whether a restart would help.
    pub(crate) fn live(&self) -> Checks {
        let turns = self.heartbeat.is_alive(STANDSTILL);
        vec![("data-path", if turns { Ok(()) } else { Err("its thread stands still".to_owned()) })]
    }

    /// Tells whether the node can be relied on: the runtime answers, and pods are seen.
    pub(crate) async fn ready(&self) -> Checks {
        let mut checks = self.live();
        let question = async { self.runtime.version().await.map(drop).map_err(|error| chain(&error)) };
        checks.push(("runtime", self.answered.0.turn().await.or_ask(FRESH, question).await));
        checks.push(("store", self.agent.remembers()));
        if let Some(place) = &self.place {
            checks.push(("place", place.health()));
        }
        if let Some(linked) = &self.shim {
            let linked = *linked.borrow();
            let away = || "no berth-shim is connected at shimSocket".to_owned();
            checks.push(("shim", linked.then_some(()).ok_or_else(away)));
        }
        let synced = |view: pods::api::Health| {
            if view.synced { Ok(()) } else { Err(view.error.unwrap_or_else(|| "not listed yet".to_owned())) }
        };
        if let Some(view) = self.api_health() {
            checks.push(("pod-view", synced(view)));
        }
        checks
    }

    /// Returns how the watch is, where there is one.
    pub(crate) fn api_health(&self) -> Option<pods::api::Health> {
        self.api.as_ref().map(|health| health.borrow().clone())
    }

    /// Returns how much is remembered.
    pub(crate) fn size(&self) -> Size {
        self.agent.read(|node, _| node.size())
    }

    /// Brings the gauges up to date that are only looked at now and then.
    pub(crate) fn refresh_metrics(&self) {
        self.agent.metrics().known(self.size());
        for (thread, handle) in &self.threads {
            self.agent.metrics().tasks(thread, handle.metrics().num_alive_tasks());
        }
        self.own.refresh();
        // Nothing is said of what nobody knows yet.
        if let Some(identity) = &self.identity
            && let IdentityState::Known(identity) = &*identity.borrow()
        {
            for feature in &identity.features {
                self.agent.metrics().feature(feature.name, feature.off.is_none());
            }
        }
    }
}
