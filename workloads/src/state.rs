//! The picture and the memories, and what is to be done next for one workload.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, Hasher, RandomState},
    time::Instant,
};

use berth_base::time::later;
use berth_workloads_policy::{
    action::{Action, Note},
    clone_set::Settings,
    plan::Failures,
};
use jiff::Timestamp;
use tracing::error;

use crate::{
    agenda::Share,
    cluster::Cluster,
    events::Events,
    kinds::{Given, Plan, Set},
    memory::Memory,
    metrics::Metrics,
    owned::Concerned,
    reading::Ended,
    timing::AT_ONCE,
    turns::{Turns, guarded},
    watch::Input,
    write::Report,
};

/// All that the program knows.
pub(crate) struct State {
    pub(crate) cluster: Cluster,
    pub(crate) turns: Turns<Input, Came>,
    memory: BTreeMap<String, Memory>,
}

/// Something that was on its way.
#[derive(Debug)]
pub(crate) enum Came {
    Report(Report),
    /// All objects, at the start of a term.
    Found(Ended),
}

/// Input of a look at a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    pub(crate) now: Instant,
    pub(crate) settings: Settings,
    pub(crate) events: &'a Events,
    pub(crate) metrics: &'a Metrics,
}

/// Next step of a workload.
#[derive(Debug)]
pub(crate) enum Next {
    Nothing,
    /// Its objects are read: nobody knows what was written for it last, here or by the leader before this
    /// one.
    Read(Set),
    CarryOut(Set, Plan),
}

impl State {
    pub(crate) fn new(turns: Turns<Input, Came>) -> Self {
        Self { cluster: Cluster::default(), turns, memory: BTreeMap::new() }
    }

    /// Tells whether all was listed once.
    pub(crate) fn is_listed(&self) -> bool {
        self.cluster.listed().iter().all(|(_, listed)| *listed)
    }

    /// Takes workloads that are due, as far as there are places for their plans.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<String> {
        let (cluster, memory) = (&self.cluster, &self.memory);
        self.turns.agenda.take(now, AT_ONCE, |uid| Share {
            namespace: cluster.set(uid).map(|set| set.namespace().to_owned()),
            fails: memory.get(uid).is_some_and(Memory::fails),
        })
    }

    /// Looks at a workload.
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
        if meta.deletion_timestamp.is_none() {
            if self.turns.is_missing(set.namespace()) {
                return Next::Nothing;
            }
            if memory.unread || self.turns.is_unread(set.namespace(), memory.read_in) {
                return Next::Read(set);
            }
        }
        memory.rests.begin(meta.generation);
        let planned = guarded(|| {
            let plan = planned(&self.cluster, &set, memory, look.settings, look.now);
            if !plan.actions.is_empty() || memory.failures == Failures::default() {
                return plan;
            }
            // Nothing is left to be done of what could not be done.
            memory.failures = Failures::default();
            planned(&self.cluster, &set, memory, look.settings, look.now)
        });
        let mut plan = match planned {
            Ok(plan) => plan,
            Err(text) => {
                self.set_aside(uid, &text, look);
                return Next::Nothing;
            }
        };
        look.metrics.passed();
        for note in std::mem::take(&mut plan.notes) {
            if memory.told.is_news(look.now, &note) {
                look.events.tell(&set, note);
            }
        }
        if let Some(held) = plan.held.take() {
            memory.held = held;
        }
        plan.ended_on.iter().for_each(|node| memory.rests.ended(node, Timestamp::now()));
        let mut again = plan.again.map(|again| later(look.now, again));
        if let Some(at) = memory.status.waits(look.now).filter(|_| plan.status.is_some()) {
            // Counters change with every pod; whoever looks once a second sees the same.
            plan.status = None;
            again = Some(again.map_or(at, |again| again.min(at)));
        }
        // A status that says of the new generation that it has no pods is taken at its word.
        let changes_counts = plan.actions.iter().any(Action::is_about_number);
        if plan.status.is_some() && memory.left_status.is_left(changes_counts) {
            plan.status = None;
        }
        if plan.status.is_some() {
            memory.status.written(look.now);
        }
        if let Some(at) = again {
            self.turns.agenda.add(uid.to_owned(), at);
        }
        if plan.actions.is_empty() && plan.status.is_none() {
            return Next::Nothing;
        }
        Next::CarryOut(set, plan)
    }

    /// Sets a workload aside: to decide on it or to write for it has failed in a way that it must not.
    pub(crate) fn set_aside(&mut self, uid: &str, text: &str, look: Look<'_>) {
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
        memory.unread = true;
        let until = memory.set_aside(set.meta().generation, look.now);
        self.turns.agenda.add(uid.to_owned(), until);
    }

    /// Memory of a workload.
    pub(crate) fn memory(&mut self, uid: &str) -> &mut Memory {
        self.memory.entry(uid.to_owned()).or_default()
    }

    pub(crate) fn all_due(&mut self) {
        self.turns.take(Concerned::All, || self.cluster.sets().map(str::to_owned).collect());
    }

    /// Makes the workloads of these namespaces due.
    pub(crate) fn due_in(&mut self, namespaces: &BTreeSet<String>) {
        let uids = self.cluster.sets_in(namespaces).map(str::to_owned).collect();
        self.turns.take(Concerned::Some(uids), Vec::new);
    }
}

fn planned(cluster: &Cluster, set: &Set, memory: &Memory, settings: Settings, now: Instant) -> Plan {
    let given = Given {
        settings,
        failures: &memory.failures,
        rests: &memory.rests,
        held: &memory.held,
        collisions: memory.collisions,
        predownload_rests: memory.predownload_rests(now),
        unadopted: &memory.unadopted,
        put_off: memory.put_off.names(),
        seed: RandomState::new().build_hasher().finish(),
    };
    cluster.plan(set, given, Timestamp::now())
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use berth_base::lease::Tenure;
    use berth_workloads_policy::action::Action;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    use kube::api::ObjectMeta;
    use serde_json::{Map, Value};
    use tokio::sync::mpsc;

    use super::*;
    use crate::{
        events,
        kinds::{KINDS, Kind, Known, Workload},
        object::Filed,
        reading::Reading,
        watch::Shown,
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

    fn state() -> State {
        State::new(Turns::with_reading(mpsc::channel(1).1, Tenure::of_test().1))
    }

    fn reading(state: &mut State) -> &mut Reading {
        state.turns.reading.as_mut().unwrap()
    }

    fn show(state: &mut State, uid: &str, generation: i64, panics: bool) {
        let meta = ObjectMeta {
            uid: Some(uid.to_owned()),
            name: Some(uid.to_owned()),
            generation: Some(generation),
            resource_version: Some(generation.to_string()),
            ..ObjectMeta::default()
        };
        let made: Set = Arc::new(Made { meta, panics, none: Default::default() });
        state.cluster.take(Input::Set(KINDS[0], Shown::Applied(Filed::new(made))));
    }

    #[test]
    fn a_decision_that_panics_sets_its_object_aside_and_no_other() {
        let (mut state, metrics) = (state(), Metrics::default());
        let (events, mut told) = events::channel();
        let now = Instant::now();
        let look = |now| Look { now, settings: Settings::default(), events: &events, metrics: &metrics };
        show(&mut state, "bad", 1, true);
        show(&mut state, "good", 1, false);
        state.all_due();
        let later = now + Duration::from_secs(1);
        assert_eq!(state.due(later), ["bad", "good"]);
        assert!(matches!(state.look("bad", look(now)), Next::Nothing));
        assert!(matches!(state.look("good", look(now)), Next::CarryOut(..)));
        let (set, note) = told.try_recv().unwrap();
        assert_eq!((set.name.as_deref(), note.reason), (Some("bad"), "SetAside"));
        assert!(note.text.contains("index out of bounds"), "{}", note.text);
        // It is not tried again and again.
        state.look("bad", look(later));
        assert!(told.try_recv().is_err());
        let after = state.turns.agenda.next(AT_ONCE).unwrap();
        assert_eq!(after, now + Duration::from_secs(600));
        assert!(matches!(state.look("bad", look(after)), Next::Read(_)));
        state.memory("bad").unread = false;
        state.look("bad", look(after));
        assert!(told.try_recv().is_ok(), "looked at again");
        // Its author has mended it.
        show(&mut state, "bad", 2, false);
        state.memory("bad").unread = false;
        assert!(matches!(state.look("bad", look(after)), Next::CarryOut(..)));
    }

    /// The leader before this one may have seen it sooner, and made pods that no watch has shown here yet.
    #[test]
    fn a_set_in_a_namespace_that_was_not_read_is_read_first() {
        let (mut state, metrics) = (state(), Metrics::default());
        let (events, _told) = events::channel();
        let now = Instant::now();
        let look = || Look { now, settings: Settings::default(), events: &events, metrics: &metrics };
        reading(&mut state).ends(1, ["others".to_owned()].into(), BTreeSet::new(), now);
        show(&mut state, "late", 1, false);
        assert!(matches!(state.look("late", look()), Next::Read(_)));
        state.memory("late").read_in = Some(1);
        assert!(matches!(state.look("late", look()), Next::CarryOut(..)));
        state.memory("late");
        reading(&mut state).ends(2, ["others".to_owned()].into(), BTreeSet::new(), now);
        assert!(matches!(state.look("late", look()), Next::Read(_)), "another term");
        state.memory("late");
        // Its namespace, as sets of tests have none.
        reading(&mut state).ends(2, BTreeSet::new(), [String::new()].into(), now);
        assert!(matches!(state.look("late", look()), Next::Nothing), "it could not be read");
        reading(&mut state).ends(2, [String::new()].into(), BTreeSet::new(), now);
        assert!(matches!(state.look("late", look()), Next::CarryOut(..)));
    }

    /// Another namespace may have something to do as well.
    #[test]
    fn the_sets_of_one_namespace_have_half_of_the_places() {
        let mut state = state();
        (0..40).for_each(|at| show(&mut state, &format!("{at:02}"), 1, false));
        state.all_due();
        assert_eq!(state.due(later(Instant::now(), Duration::from_secs(1))).len(), AT_ONCE / 2);
    }

    /// A program runs for months, and sets come and go.
    #[test]
    fn nothing_is_remembered_of_a_set_that_is_gone() {
        let (mut state, metrics) = (state(), Metrics::default());
        let (events, _told) = events::channel();
        let now = Instant::now();
        let look = || Look { now, settings: Settings::default(), events: &events, metrics: &metrics };
        show(&mut state, "a", 1, false);
        state.look("a", look());
        let gone = state.cluster.take(Input::Set(KINDS[0], Shown::Gone("a".to_owned())));
        state.turns.take(gone, Vec::new);
        for uid in state.due(later(now, Duration::from_secs(1))) {
            state.look(&uid, look());
        }
        assert!(state.memory.is_empty());
    }

    #[test]
    fn after_a_panic_of_a_write_the_objects_are_read_first() {
        let (mut state, metrics) = (state(), Metrics::default());
        let (events, _told) = events::channel();
        let now = Instant::now();
        let look = |now| Look { now, settings: Settings::default(), events: &events, metrics: &metrics };
        show(&mut state, "a", 1, false);
        assert!(matches!(state.look("a", look(now)), Next::CarryOut(..)));
        state.set_aside("a", "slice index", look(now));
        show(&mut state, "a", 2, false);
        assert!(matches!(state.look("a", look(now)), Next::Read(_)));
        state.memory("a").unread = false;
        assert!(matches!(state.look("a", look(now)), Next::CarryOut(..)));
    }
}
