//! Faults: a sandbox that is made anew, or loses all its containers, an agent that is killed, a pod that is
//! stopped as a whole.

use std::time::Duration;

use super::{NAMES, Prober, Truth};
use crate::{Call, Config, Declared, Event, ListedSandbox, Node, Verdict};

impl Truth {
    pub(super) fn new_sandbox(&mut self) {
        let old = std::mem::take(&mut self.sandbox);
        self.world.runtime.retain(|_, (home, _)| home.as_str() != old);
        self.world.apply(Event::SandboxStopping(old.as_str().into()));
        self.world.apply(Event::SandboxRemoved(old.as_str().into()));
        self.sandboxes += 1;
        self.sandbox = format!("sandbox-{}", self.sandboxes);
        self.running.clear();
        self.created.clear();
        self.passed.clear();
        self.ready.clear();
        self.position = NAMES.len();
    }

    /// All containers are removed, and the pod begins anew in its sandbox. The runtime was asked before, and
    /// its answer comes after.
    pub(super) fn restart_all(&mut self) {
        let sandbox = crate::SandboxId::from(self.sandbox.as_str());
        self.world.apply(Event::InspectionStarted(sandbox.clone()));
        let runtime = std::mem::take(&mut self.world.runtime);
        for id in runtime.keys() {
            self.world.apply(Event::ContainerRemoved(id.clone()));
        }
        let containers = runtime.into_values().map(|(_, container)| container).collect();
        self.world.apply(Event::SandboxInspected { sandbox, containers });
        // As its step says to the store.
        self.latches.retain(|latch| latch.sandbox.as_str() != self.sandbox);
        self.running.clear();
        self.created.clear();
        self.passed.clear();
        self.ready.clear();
        self.position = NAMES.len();
    }

    /// `kill -9` and a new process: what was in flight fails, latches and the runtime's lists are what is
    /// left.
    pub(super) fn kill_agent(&mut self) {
        self.held = None;
        let now = self.world.now;
        self.world.node = Node::new(Config::default());
        self.world.connection.0 += 1;
        self.of_old_kubelet = self.running.keys().copied().collect();
        self.prober = Prober::default();
        self.since = self.running.keys().map(|name| (*name, now)).collect();
        self.world.apply(Event::LatchesLoaded(self.latches.clone()));
        self.world.apply(Event::ListingStarted);
        let containers = self.world.runtime.values().cloned().collect();
        self.world.apply(Event::RuntimeListed { sandboxes: self.listed(), containers });
        self.world.apply(self.pod.seen());
        self.world.apply(Event::ViewFresh(true));
        assert_eq!(now, self.world.now);
        // The new process cannot know in which SyncPod anything was started; neither may it pretend to.
        self.running.values_mut().for_each(|(_, seen)| *seen = false);
    }

    fn listed(&self) -> Vec<ListedSandbox> {
        vec![ListedSandbox {
            sandbox: self.sandbox.as_str().into(),
            pod: self.pod.pod.clone(),
            declared: Declared::default(),
        }]
    }

    /// The kubelet stops all at once; whatever is held must go on when its time is up, and never later.
    pub(super) fn stop_all(&mut self) {
        let ids: Vec<String> = self.running.keys().map(|name| self.id(name)).collect();
        let calls: Vec<Call> = ids.iter().map(|id| self.world.stop(id, 10).0).collect();
        for call in &calls {
            if let Verdict::Hold { until, .. } = self.world.node.admit(call, self.world.now) {
                assert!(until <= call.arrived + Duration::from_secs(8));
            }
        }
        self.world.pass(Duration::from_secs(8));
        for call in &calls {
            let verdict = self.world.node.admit(call, self.world.now);
            assert!(matches!(verdict, Verdict::Forward | Verdict::Amend(_)), "{verdict:?}");
        }
        for (call, id) in calls.iter().zip(&ids) {
            self.world.apply(Event::ContainerStopped(id.as_str().into()));
            self.world.exit(id, 143);
            self.world.end(call);
        }
        self.running.clear();
        self.ready.clear();
    }
}
