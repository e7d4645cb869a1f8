//! The picture and the memories, and what is to be done next for one workload.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, Hasher, RandomState},
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use berth_base::time::later;
use berth_workloads_policy::{action::Note, clone_set::Settings, plan::Failures};
use jiff::Timestamp;
use tracing::error;

use crate::{
    cluster::Cluster,
    events::Events,
    kinds::{Given, Plan, Set},
    memory::Memory,
    metrics::Metrics,
};

/// The status of a workload is written at most once in it.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// All that the program knows.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) cluster: Cluster,
    /// When a workload is looked at, by UID.
    due: BTreeMap<String, Instant>,
    in_flight: BTreeSet<String>,
    memory: BTreeMap<String, Memory>,
}

/// Input of a look at a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    pub(crate) now: Instant,
    pub(crate) term: Option<u64>,
    pub(crate) settings: Settings,
    pub(crate) events: &'a Events,
    pub(crate) metrics: &'a Metrics,
}

/// Next step of a workload.
#[derive(Debug)]
pub(crate) enum Next {
    Nothing,
    /// Its objects are read: what the leader before this one wrote last may not have been shown yet.
    Read(Set),
    CarryOut(Set, Plan),
}

impl State {
    /// Workloads that are due, at most so many.
    pub(crate) fn take_due(&mut self, now: Instant, most: usize) -> Vec<String> {
        let due = self.due.iter().filter(|(uid, at)| **at <= now && !self.in_flight.contains(*uid));
        let due: Vec<String> =
            due.map(|(uid, _)| uid.clone()).take(most.saturating_sub(self.in_flight.len())).collect();
        for uid in &due {
            self.due.remove(uid);
        }
        due
    }

    /// Looks at a workload. What is to be done is on its way then.
    pub(crate) fn look(&mut self, uid: &str, look: Look<'_>) -> Next {
        let Some(set) = self.cluster.set(uid).cloned() else {
            self.memory.remove(uid);
            return Next::Nothing;
        };
        let meta = set.meta();
        let memory = self.memory.entry(uid.to_owned()).or_default();
        if memory.is_aside(meta.generation, look.now) {
            return Next::Nothing;
        }
        if memory.read_in != look.term && meta.deletion_timestamp.is_none() {
            self.in_flight.insert(uid.to_owned());
            return Next::Read(set);
        }
        memory.rests.begin(meta.generation);
        // A decision that panics would do so again, and it is about this object alone.
        let planned = catch_unwind(AssertUnwindSafe(|| {
            let plan = planned(&self.cluster, &set, memory, look.settings);
            if !plan.actions.is_empty() || memory.failures == Failures::default() {
                return plan;
            }
            // Nothing is left to be done of what could not be done.
            memory.failures = Failures::default();
            planned(&self.cluster, &set, memory, look.settings)
        }));
        let mut plan = match planned {
            Ok(plan) => plan,
            Err(panic) => {
                self.set_aside(uid, panic.as_ref(), look);
                return Next::Nothing;
            }
        };
        look.metrics.passed();
        for note in std::mem::take(&mut plan.notes) {
            memory.tell(look.now, &note, || look.events.tell(&set, note.clone()));
        }
        plan.ended_on.iter().for_each(|node| memory.rests.ended(node, Timestamp::now()));
        let mut again = plan.again.map(|again| later(look.now, again));
        let status_at = memory.status_at.map(|at| later(at, STATUS_EVERY)).filter(|at| *at > look.now);
        if let Some(at) = status_at.filter(|_| plan.status.is_some()) {
            // Counters change with every pod; whoever looks once a second sees the same.
            plan.status = None;
            again = Some(again.map_or(at, |again| again.min(at)));
        }
        if plan.status.is_some() {
            memory.status_at = Some(look.now);
        }
        if let Some(at) = again {
            self.set_due(uid.to_owned(), at);
        }
        if plan.actions.is_empty() && plan.status.is_none() {
            return Next::Nothing;
        }
        self.in_flight.insert(uid.to_owned());
        Next::CarryOut(set, plan)
    }

    /// Sets a workload aside: to decide on it or to write for it has failed in a way that it must not.
    pub(crate) fn set_aside(&mut self, uid: &str, panic: &(dyn std::any::Any + Send), look: Look<'_>) {
        let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        self.in_flight.remove(uid);
        look.metrics.set_aside();
        let Some(set) = self.cluster.set(uid).cloned() else { return };
        error!(kind = set.kind().name, set = set.name(), text, "A panic: the object is set aside");
        let text = format!(
            "set aside by a fault of berth-workloads ({text}): looked at again when its spec changes, or in 10 \
             minutes"
        );
        look.events.tell(&set, Note { warning: true, reason: "SetAside", text });
        let memory = self.memory.entry(uid.to_owned()).or_default();
        // Nobody knows what was written.
        memory.read_in = None;
        let until = memory.set_aside(set.meta().generation, look.now);
        self.set_due(uid.to_owned(), until);
    }

    /// Nothing is on its way for the workload any more.
    pub(crate) fn landed(&mut self, uid: &str) -> &mut Memory {
        self.in_flight.remove(uid);
        self.memory.entry(uid.to_owned()).or_default()
    }

    /// The workload is looked at then, or sooner.
    pub(crate) fn set_due(&mut self, uid: String, at: Instant) {
        let due = self.due.entry(uid).or_insert(at);
        *due = (*due).min(at);
    }

    pub(crate) fn all_due(&mut self) {
        let now = Instant::now();
        let sets: Vec<String> = self.cluster.sets().map(str::to_owned).collect();
        sets.into_iter().for_each(|uid| self.set_due(uid, now));
    }

    /// When the next one is due; `None`, when nothing can be begun.
    pub(crate) fn next_deadline(&self, most: usize) -> Option<Instant> {
        if self.in_flight.len() >= most {
            return None;
        }
        self.due.iter().filter(|(uid, _)| !self.in_flight.contains(*uid)).map(|(_, at)| *at).min()
    }
}

fn planned(cluster: &Cluster, set: &Set, memory: &Memory, settings: Settings) -> Plan {
    let given = Given {
        settings,
        failures: &memory.failures,
        rests: &memory.rests,
        collisions: memory.collisions,
        seed: RandomState::new().build_hasher().finish(),
    };
    cluster.plan(set, given, Timestamp::now())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_workloads_policy::action::Action;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    use kube::api::ObjectMeta;
    use serde_json::{Map, Value};

    use super::*;
    use crate::{
        cluster::Filed,
        events,
        kinds::{KINDS, Kind, Known, Workload},
        watch::{Input, Shown},
    };

    /// Makes a pod each time, or panics.
    #[derive(Debug)]
    struct Made {
        meta: ObjectMeta,
        panics: bool,
        none: (LabelSelector, Map<String, Value>),
    }

    impl Workload for Made {
        fn kind(&self) -> &'static Kind {
            KINDS[0]
        }

        fn meta(&self) -> &ObjectMeta {
            &self.meta
        }

        fn selector(&self) -> &LabelSelector {
            &self.none.0
        }

        fn template(&self) -> &Map<String, Value> {
            &self.none.1
        }

        fn plan(&self, _known: &Known<'_>, _now: Timestamp) -> Plan {
            assert!(!self.panics, "index out of bounds");
            Plan { actions: vec![Action::CreatePod(Value::Null)], ..Plan::default() }
        }
    }

    fn show(state: &mut State, uid: &str, generation: i64, panics: bool) {
        let meta = ObjectMeta {
            uid: Some(uid.to_owned()),
            name: Some(uid.to_owned()),
            generation: Some(generation),
            resource_version: Some(generation.to_string()),
            ..ObjectMeta::default()
        };
        let made = Arc::new(Made { meta, panics, none: Default::default() });
        state.cluster.take(Input::Set(KINDS[0], Shown::Applied(Filed::new(made))));
    }

    #[test]
    fn a_decision_that_panics_sets_its_object_aside_and_no_other() {
        let (mut state, metrics) = (State::default(), Metrics::default());
        let (events, mut told) = events::channel();
        let now = Instant::now();
        let look =
            |now| Look { now, term: None, settings: Settings::default(), events: &events, metrics: &metrics };
        show(&mut state, "bad", 1, true);
        show(&mut state, "good", 1, false);
        state.all_due();
        let later = now + Duration::from_secs(1);
        assert_eq!(state.take_due(later, 16), ["bad", "good"]);
        assert!(matches!(state.look("bad", look(now)), Next::Nothing));
        assert!(matches!(state.look("good", look(now)), Next::CarryOut(..)));
        let (set, note) = told.try_recv().unwrap();
        assert_eq!((set.name.as_deref(), note.reason), (Some("bad"), "SetAside"));
        assert!(note.text.contains("index out of bounds"), "{}", note.text);
        // It is not tried again and again.
        state.look("bad", look(later));
        assert!(told.try_recv().is_err());
        let after = state.next_deadline(16).unwrap();
        assert_eq!(after, now + Duration::from_secs(600));
        state.look("bad", look(after));
        assert!(told.try_recv().is_ok(), "looked at again");
        // Its author has mended it.
        show(&mut state, "bad", 2, false);
        assert!(matches!(state.look("bad", look(after)), Next::CarryOut(..)));
    }

    #[test]
    fn after_a_panic_of_a_write_the_objects_are_read_first() {
        let (mut state, metrics) = (State::default(), Metrics::default());
        let (events, _told) = events::channel();
        let now = Instant::now();
        let look = |now| Look {
            now,
            term: Some(1),
            settings: Settings::default(),
            events: &events,
            metrics: &metrics,
        };
        show(&mut state, "a", 1, false);
        assert!(matches!(state.look("a", look(now)), Next::Read(_)));
        state.landed("a").read_in = Some(1);
        assert!(matches!(state.look("a", look(now)), Next::CarryOut(..)));
        state.set_aside("a", &"slice index", look(now));
        show(&mut state, "a", 2, false);
        assert!(matches!(state.look("a", look(now)), Next::Read(_)));
    }
}
