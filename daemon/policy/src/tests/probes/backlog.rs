//! Being behind is said, but not of every hiccup.

use std::time::Instant;

use super::play::{Play, like, probe, secs, yes};
use crate::{Backlog, ProbeLimits};

/// A node that runs one exec a second, with so many probes each second.
struct Node(Play);

impl Node {
    fn with(probes: usize) -> Self {
        let mut play =
            Play::limited(ProbeLimits { exec_every: secs(1), exec_burst: 1, ..ProbeLimits::default() });
        Self::want(&mut play, probes);
        play.runs("p", "main", 0);
        Self(play)
    }

    fn want(play: &mut Play, probes: usize) {
        let often = |name| like(probe(&format!("{name:02}")), |probe| probe.period = secs(1));
        play.want(&[("p", (0..probes).map(often).collect())]);
    }

    /// Every run ends at once; where the node says something else than before, when and what.
    fn until(&mut self, end: Instant) -> Vec<(u64, Option<Backlog>)> {
        let mut said = Vec::new();
        let mut before = self.0.probes.backlog();
        while self.0.now < end {
            self.0.settle();
            for run in self.0.runs.keys().copied().collect::<Vec<_>>() {
                self.0.end(run, yes(""));
            }
            self.0.settle();
            if self.0.probes.backlog() != before {
                before = self.0.probes.backlog();
                said.push(((self.0.now - self.0.start).as_secs(), before));
            }
            let next = self.0.probes.next_deadline().unwrap_or(end);
            self.0.now = next.min(end);
        }
        said
    }
}

#[test]
fn a_node_that_keeps_up_says_nothing() {
    let mut node = Node::with(1);
    let end = node.0.start + secs(300);
    assert_eq!(node.until(end), []);
}

#[test]
fn one_that_is_behind_says_so_after_a_while_and_takes_it_back_after_a_while() {
    let mut node = Node::with(5);
    let end = node.0.start + secs(60);
    // Each of the five has its turn every 5 s, 4 s after it should.
    let said = node.until(end);
    let [(at, Some(backlog))] = said[..] else { panic!("{said:?}") };
    assert!((21..=23).contains(&at), "{said:?}");
    assert_eq!(backlog, Backlog { behind: 5, late: secs(4) });
    // What changes is not said anew all the time.
    Node::want(&mut node.0, 9);
    let end = node.0.start + secs(100);
    let said = node.until(end);
    let [(again, Some(backlog))] = said[..] else { panic!("{said:?}") };
    assert!(again >= at + 60 && backlog.behind == 9, "{said:?}");
    // The last turn of one that is behind counts for 5 s, then come 30 s of calm.
    Node::want(&mut node.0, 1);
    let end = node.0.start + secs(200);
    let said = node.until(end);
    let [(calm, None)] = said[..] else { panic!("{said:?}") };
    assert!((130..=145).contains(&calm), "{said:?}");
}

#[test]
fn a_burst_at_the_start_is_no_backlog() {
    let mut play =
        Play::limited(ProbeLimits { exec_every: secs(1), exec_burst: 1, ..ProbeLimits::default() });
    let seldom = |name| like(probe(&format!("{name}")), |probe| probe.period = secs(60));
    play.want(&[("p", (0..8).map(seldom).collect())]);
    play.runs("p", "main", 0);
    let mut node = Node(play);
    let end = node.0.start + secs(300);
    assert_eq!(node.until(end), []);
}

/// A run that takes long is late by its own doing; nobody else could change it.
#[test]
fn a_slow_probe_is_not_behind() {
    let mut play = Play::with(vec![like(probe("a"), |probe| {
        (probe.period, probe.timeout) = (secs(1), secs(30));
    })]);
    for _ in 0..20 {
        play.settle();
        play.pass(secs(5));
        play.ends("a", yes(""));
    }
    play.settle();
    assert_eq!(play.probes.backlog(), None);
}

/// All slots are taken by probes that hang, and nothing happens meanwhile.
#[test]
fn backlog_shows_without_an_event() {
    let mut play = Play::limited(ProbeLimits { exec_concurrent: 1, ..ProbeLimits::default() });
    let hangs = like(probe("a"), |probe| probe.timeout = secs(60));
    play.want(&[("p", vec![hangs, like(probe("b"), |probe| probe.period = secs(1))])]);
    play.runs("p", "main", 0);
    play.settle();
    while play.probes.backlog().is_none() {
        assert!(play.now < play.start + secs(25), "it is said late");
        play.wait();
        play.settle();
    }
    let backlog = play.probes.backlog().unwrap();
    assert!(backlog.behind == 1 && backlog.late > secs(20), "{backlog:?}");
    assert!(backlog.late < secs(23), "{backlog:?}");
}
