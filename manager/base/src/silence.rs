//! Silence of agents: which nodes have one that has given no sign of life for too long.
//!
//! An agent writes the time of its own clock into the object of its node. What counts is that it changes, and
//! how long ago that was by the clock here: no clocks of two machines are compared. While the watch itself is
//! broken, or this process is not running, nobody can be heard, so nobody's silence counts: an outage of the
//! API server is no outage of the nodes. One that has never given a sign is of an older version, and is not
//! judged.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use jiff::Timestamp;

use crate::time::later;

/// Silence that is too long; an agent gives a sign every two minutes.
pub const SILENT_AFTER: Duration = Duration::from_secs(600);

/// A look that comes so late shows that this process itself did not run: waiting signs are read first.
const LATE: Duration = Duration::from_secs(30);

/// Signs of life of the agents of all nodes.
#[derive(Debug, Default)]
pub struct Silence {
    /// Last sign of each, and when it becomes silent without another one.
    known: BTreeMap<String, (Timestamp, Instant)>,
    /// Nodes that are not silent, by that time.
    due: BTreeSet<(Instant, String)>,
    silent: BTreeSet<String>,
}

impl Silence {
    /// Takes in what the object of a node says now. True: its agent was silent, or counts no more.
    pub fn hear(&mut self, node: &str, sign: Option<Timestamp>, now: Instant) -> bool {
        let Some(sign) = sign else { return self.forget(node) };
        if self.known.get(node).is_some_and(|(known, _)| *known == sign) {
            return false;
        }
        let woke = self.forget(node);
        let until = later(now, SILENT_AFTER);
        self.known.insert(node.to_owned(), (sign, until));
        self.due.insert((until, node.to_owned()));
        woke
    }

    /// The object of the node is gone. True: its agent was silent.
    pub fn forget(&mut self, node: &str) -> bool {
        if let Some((_, until)) = self.known.remove(node) {
            self.due.remove(&(until, node.to_owned()));
        }
        self.silent.remove(node)
    }

    /// Takes in that no sign of life could be heard until then: silence is counted from there.
    pub fn was_deaf(&mut self, then: Instant) {
        let until = later(then, SILENT_AFTER);
        for (_, node) in std::mem::take(&mut self.due) {
            if let Some((_, known)) = self.known.get_mut(&node) {
                *known = until.max(*known);
                self.due.insert((*known, node));
            }
        }
    }

    /// Judgement begins anew: nobody is silent.
    pub fn begin(&mut self, now: Instant) {
        let until = later(now, SILENT_AFTER);
        for node in std::mem::take(&mut self.silent) {
            if let Some((_, known)) = self.known.get_mut(&node) {
                *known = until;
                self.due.insert((until, node));
            }
        }
        self.was_deaf(now);
    }

    /// Lets time pass. True: somebody has become silent.
    pub fn pass(&mut self, now: Instant) -> bool {
        if self.next().is_some_and(|next| now.saturating_duration_since(next) > LATE) {
            self.was_deaf(now);
        }
        let before = self.silent.len();
        while let Some((_, node)) = self.due.first().filter(|(until, _)| *until <= now).cloned() {
            self.due.pop_first();
            self.silent.insert(node);
        }
        self.silent.len() > before
    }

    /// Time at which the next one becomes silent.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|(until, _)| *until)
    }

    /// Nodes whose agents are silent.
    pub fn silent(&self) -> &BTreeSet<String> {
        &self.silent
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sign(number: i64) -> Option<Timestamp> {
        Some(Timestamp::constant(number, 0))
    }

    fn names(silence: &Silence) -> Vec<&str> {
        silence.silent().iter().map(String::as_str).collect()
    }

    #[test]
    fn one_that_gives_no_sign_for_ten_minutes_is_silent() {
        let (mut silence, start) = (Silence::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!silence.hear("a", sign(1), start) && !silence.hear("b", sign(7), start));
        assert_eq!(silence.next(), Some(at(600)));
        // The object of b changes, and its sign does not; a's clock goes backwards.
        assert!(!silence.hear("b", sign(7), at(599)) && !silence.hear("a", sign(0), at(599)));
        assert!(!silence.pass(at(599)) && silence.pass(at(600)) && !silence.pass(at(601)));
        assert_eq!((names(&silence), silence.next()), (vec!["b"], Some(at(1199))));
        assert!(silence.hear("b", sign(8), at(700)), "it is back");
        assert_eq!(names(&silence), [""; 0]);
        // One of an older version, and one whose node is gone.
        assert!(silence.pass(at(1210)) && silence.pass(at(1301)), "first a, then b");
        assert!(silence.hear("a", None, at(1302)) && silence.forget("b"));
        assert!(!silence.pass(at(9000)) && silence.next().is_none());
    }

    #[test]
    fn while_nobody_can_be_heard_nobody_is_silent() {
        let (mut silence, start) = (Silence::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        silence.hear("a", sign(1), start);
        silence.hear("b", sign(1), start);
        silence.hear("b", sign(2), at(500));
        silence.was_deaf(at(550));
        silence.hear("b", sign(3), at(1100));
        assert!(!silence.pass(at(1149)) && silence.pass(at(1150)));
        assert_eq!(names(&silence), ["a"]);
        // One that was silent before stays so; the process itself stood still for a while.
        silence.was_deaf(at(1701));
        assert!(!silence.pass(at(2400)) && !silence.pass(at(2999)) && silence.pass(at(3000)));
        assert_eq!(names(&silence), ["a", "b"]);
        // Another one judges from now on.
        silence.begin(at(3100));
        assert_eq!((names(&silence), silence.next()), (vec![], Some(at(3700))));
        assert!(silence.pass(at(3700)));
        assert_eq!(names(&silence), ["a", "b"]);
    }

    proptest! {
        /// Against the plain words: silent is who has a sign that did not change while ten minutes passed in
        /// which it could be heard.
        #[test]
        fn random_signs(ops in proptest::collection::vec((0..3_usize, 0..5_u8, 0..200_u64), 0..80)) {
            const NODES: [&str; 3] = ["a", "b", "c"];
            let (mut silence, start) = (Silence::default(), Instant::now());
            let mut now = start;
            let mut model: BTreeMap<&str, (Option<Timestamp>, Instant, bool)> = BTreeMap::new();
            for (which, op, seconds) in ops {
                now += Duration::from_secs(seconds);
                silence.pass(now);
                let heard = model.values_mut().filter(|(.., silent)| !silent);
                let mut heard: Vec<_> = heard.map(|(_, since, silent)| (since, silent)).collect();
                let late = heard.iter().any(|(since, _)| now - **since > SILENT_AFTER + LATE);
                for (since, silent) in &mut heard {
                    if late {
                        **since = now;
                    }
                    **silent = now - **since >= SILENT_AFTER;
                }
                let node = NODES[which];
                match op {
                    0 => {
                        silence.forget(node);
                        model.remove(node);
                    }
                    1 => {
                        silence.was_deaf(now);
                        model.values_mut().filter(|(.., silent)| !silent).for_each(|(_, since, _)| *since = now);
                    }
                    2 => {
                        let same = model.get(node).and_then(|(sign, ..)| *sign);
                        if same.is_some() {
                            prop_assert!(!silence.hear(node, same, now));
                        }
                    }
                    _ => {
                        let new = sign(i64::try_from((now - start).as_nanos() % 1_000_003).unwrap() + i64::from(op));
                        let known = model.get(node);
                        if known.and_then(|(sign, ..)| *sign) != new {
                            let was_silent = known.is_some_and(|(.., silent)| *silent);
                            prop_assert_eq!(silence.hear(node, new, now), was_silent);
                            model.insert(node, (new, now, false));
                        }
                    }
                }
                let wanted: Vec<&str> =
                    model.iter().filter(|(_, (.., silent))| *silent).map(|(node, _)| *node).collect();
                prop_assert_eq!(names(&silence), wanted);
                let next = model.values().filter(|(.., silent)| !silent).map(|(_, since, _)| *since + SILENT_AFTER).min();
                prop_assert_eq!(silence.next(), next);
            }
        }
    }
}
