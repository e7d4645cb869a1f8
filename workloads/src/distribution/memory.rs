//! Memory of a distribution between its plans; lost with the program, and made again by trying.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use berth_base::time::later;
use berth_proto::crd::ResourceDistribution;
use berth_workloads_policy::{
    distribution::{Rules, Trouble},
    fault::Fault,
};

use super::picture::Change;
use crate::{
    object::Aside,
    timing::{Backoff, StatusPace, Told},
    unkept::Unkept,
};

/// Namespaces with trouble that are tried again in a second.
const RETRIES_PER_SECOND: u64 = 10;

/// Spec of a distribution, read, or why it makes no sense.
type Read = Result<Arc<Rules>, Fault>;

/// Memory of one distribution.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) status: StatusPace,
    pub(super) unkept: Unkept,
    /// By namespace.
    pub(super) troubles: BTreeMap<String, Trouble>,
    backoff: Backoff,
    /// Namespaces with trouble wait until then.
    retry: Option<Instant>,
    /// Plans that have tried anything.
    plans: u64,
    /// The last one of them met errors of the API server.
    pub(super) met_errors: bool,
    generation: Option<i64>,
    rules: Option<(Option<i64>, Read)>,
    /// Term in which it was read: nothing is given out before.
    pub(super) read_in: Option<u64>,
    pub(super) told: Told,
    pub(super) aside: Aside,
}

impl Memory {
    /// Tells whether writes to its namespaces fail plan after plan.
    pub(super) const fn fails(&self) -> bool {
        self.backoff.fails()
    }

    /// Rules of the distribution; they are read once for each generation of it.
    pub(super) fn rules(
        &mut self,
        object: &ResourceDistribution,
        everywhere: bool,
    ) -> Result<Arc<Rules>, Fault> {
        let generation = object.metadata.generation;
        if let Some((of, rules)) = &self.rules
            && *of == generation
        {
            return rules.clone();
        }
        let rules = Rules::of(object).map(|rules| Arc::new(rules.everywhere(everywhere)));
        self.rules = Some((generation, rules.clone()));
        rules
    }

    /// Tells whether a change of a namespace may change anything for the distribution of this generation. One
    /// whose rules were not read yet is due by itself.
    pub(super) fn minds(&self, generation: Option<i64>, change: &Change) -> bool {
        match self.rules.as_ref().filter(|(of, _)| *of == generation) {
            Some((_, Ok(rules))) => rules.minds(&change.name, change.before.as_ref(), change.after.as_ref()),
            // Whatever namespaces there are, it makes no sense.
            Some((_, Err(_))) => false,
            None => true,
        }
    }

    /// Forgets the trouble of another generation: it may be mended.
    pub(super) fn sees(&mut self, generation: Option<i64>) {
        if std::mem::replace(&mut self.generation, generation) != generation {
            self.troubles.clear();
            self.retry = None;
            self.backoff = Backoff::default();
        }
    }

    /// Tells whether namespaces with trouble are tried again.
    pub(super) fn retries(&self, now: Instant) -> bool {
        self.retry.is_none_or(|at| at <= now)
    }

    /// Time at which they are.
    pub(super) fn retry(&self) -> Option<Instant> {
        self.retry
    }

    /// Takes in what became of namespaces: `None` is none of trouble.
    pub(super) fn tried(&mut self, outcomes: Vec<(String, Option<Trouble>)>, now: Instant) {
        let mut fails = false;
        self.plans = self.plans.saturating_add(1);
        for (namespace, trouble) in outcomes {
            fails |= trouble.is_some();
            match trouble {
                Some(trouble) => self.troubles.insert(namespace, Trouble { met: self.plans, ..trouble }),
                None => self.troubles.remove(&namespace),
            };
        }
        if self.troubles.is_empty() {
            self.backoff = Backoff::default();
            self.retry = None;
        } else if fails {
            // Many of them take their time: nobody else's requests wait for these.
            let count = u64::try_from(self.troubles.len()).unwrap_or(u64::MAX);
            let pause = self.backoff.ends(false).max(Duration::from_secs(count / RETRIES_PER_SECOND));
            self.retry = Some(later(now, pause));
        }
    }

    /// Keeps only the trouble of namespaces that are there.
    pub(super) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.troubles.retain(|namespace, _| is_there(namespace));
    }
}

#[cfg(test)]
mod tests {
    use berth_workloads_policy::distribution::Problem;

    use super::*;

    fn outcome(namespace: usize, fails: bool) -> (String, Option<Trouble>) {
        let trouble = Trouble {
            problem: Problem::Conflict,
            text: "taken".to_owned(),
            namespace: "u".to_owned(),
            met: 0,
        };
        (format!("ns-{namespace}"), fails.then_some(trouble))
    }

    /// Rows: the generation that was read and whether it makes sense, the one of now, and whether a namespace
    /// that is listed and one that is not are minded.
    #[test]
    fn a_namespace_is_minded_by_the_rules_that_were_read() {
        let change =
            |name: &str| Change { name: name.to_owned(), before: None, after: Some(Default::default()) };
        let table = [
            (None, 1, [true, true]),
            (Some((1, "v1")), 1, [true, false]),
            (Some((1, "v1")), 2, [true, true]),
            (Some((1, "v2")), 1, [false, false]),
        ];
        for (read, now, minded) in table {
            let mut memory = Memory::default();
            if let Some((generation, version)) = read {
                let object = serde_json::json!({
                    "metadata": { "name": "games", "uid": "rd", "generation": generation },
                    "spec": {
                        "resource": { "apiVersion": version, "kind": "ConfigMap", "metadata": { "name": "game" } },
                        "targets": { "includedNamespaces": { "list": [{ "name": "a" }] } },
                    },
                });
                let read = memory.rules(&serde_json::from_value(object).unwrap(), false);
                assert_eq!(read.is_ok(), version == "v1");
            }
            assert_eq!(
                ["a", "b"].map(|name| memory.minds(Some(now), &change(name))),
                minded,
                "{read:?} {now}"
            );
        }
    }

    #[test]
    fn trouble_is_tried_less_and_less_and_many_at_their_pace() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        memory.sees(Some(1));
        assert!(memory.retries(now));
        memory.tried(vec![outcome(0, true)], now);
        assert!(!memory.retries(now) && memory.retries(now + Duration::from_secs(1)));
        // What goes well elsewhere changes nothing of it.
        memory.tried(vec![outcome(1, false)], now);
        assert!(!memory.retries(now));
        memory.tried((0..3000).map(|number| outcome(number, true)).collect(), now);
        assert!(
            !memory.retries(now + Duration::from_secs(299)) && memory.retries(now + Duration::from_secs(300))
        );
        memory.sees(Some(2));
        assert!(memory.retries(now) && memory.troubles.is_empty(), "another spec may go");
        // Who is tried again is known by the plan that has met it last.
        for met in [[0, 1], [2, 0]] {
            memory.tried(met.map(|number| outcome(number, true)).into(), now);
        }
        let met = |number: usize| memory.troubles[&format!("ns-{number}")].met;
        assert!(met(1) < met(0) && met(0) == met(2));
    }
}
