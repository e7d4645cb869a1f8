//! Not more than the node can bear, and nobody starves.

use std::{collections::BTreeMap, time::Duration};

use super::play::{Play, http, like, name_of, probe, secs, yes};
use crate::{ProbeLimits, RunId, WantedProbe};

/// No rate, so that only what goes on at once counts.
fn unrated(limits: ProbeLimits) -> ProbeLimits {
    ProbeLimits { exec_every: Duration::ZERO, ..limits }
}

fn many(prefix: &str, count: usize) -> Vec<WantedProbe> {
    (0..count).map(|number| probe(&format!("{prefix}{number:03}"))).collect()
}

fn running(play: &Play, pod: &str) -> usize {
    play.runs.values().filter(|run| run.pod.uid.as_str() == pod).count()
}

#[test]
fn so_many_execs_at_once_on_the_node_and_in_a_pod() {
    let limits = ProbeLimits { exec_concurrent: 5, exec_concurrent_per_pod: 2, ..ProbeLimits::default() };
    let mut play = Play::limited(unrated(limits));
    play.want(&[("p", many("p", 9)), ("q", many("q", 9)), ("r", many("r", 9))]);
    for pod in ["p", "q", "r"] {
        play.runs(pod, "main", 0);
    }
    play.settle();
    assert_eq!(["p", "q", "r"].map(|pod| running(&play, pod)), [2, 2, 1]);
    let one_of_p = *play.runs.iter().find(|(_, run)| run.pod.uid.as_str() == "p").unwrap().0;
    play.end(one_of_p, yes(""));
    play.settle();
    assert_eq!(["p", "q", "r"].map(|pod| running(&play, pod)), [1, 2, 2], "the turn of another pod");
}

#[test]
fn others_have_a_budget_of_their_own() {
    let limits = ProbeLimits {
        exec_concurrent: 1,
        other_concurrent: 3,
        other_concurrent_per_pod: 2,
        ..ProbeLimits::default()
    };
    let mut play = Play::limited(limits);
    let web = |prefix| many(prefix, 5).into_iter().map(http);
    play.want(&[("p", many("exec", 5).into_iter().chain(web("web")).collect()), ("q", web("q").collect())]);
    play.runs("p", "main", 0);
    play.runs("q", "main", 0);
    play.settle();
    let execs = play.runs.values().filter(|run| name_of(&run.action).starts_with("exec")).count();
    assert_eq!((execs, running(&play, "p"), running(&play, "q")), (1, 3, 1));
}

#[test]
fn so_many_execs_a_second_and_a_few_together() {
    let mut play = Play::limited(ProbeLimits {
        exec_concurrent: 100,
        exec_concurrent_per_pod: 100,
        exec_every: Duration::from_millis(200),
        exec_burst: 3,
        ..ProbeLimits::default()
    });
    play.want(&[("p", many("p", 20))]);
    play.runs("p", "main", 0);
    assert_eq!(play.settle().len(), 3);
    for _ in 0..17 {
        play.pass(Duration::from_millis(199));
        assert_eq!(play.settle(), [""; 0]);
        assert_eq!(play.wait(), Duration::from_millis(1));
        assert_eq!(play.settle_only(&["run"]).len(), 1);
    }
    // Nothing began for a while: a few together, not all that could have been.
    for run in play.runs.keys().copied().collect::<Vec<_>>() {
        play.end(run, yes(""));
    }
    play.pass(secs(60));
    assert_eq!(play.settle_only(&["run"]).len(), 3);
}

/// The next probe of the pod with one is never behind more than one probe of each other pod.
#[test]
fn a_pod_with_many_does_not_hold_back_a_pod_with_one() {
    let mut play = Play::limited(unrated(ProbeLimits { exec_concurrent: 1, ..ProbeLimits::default() }));
    let often = |wanted| like(wanted, |probe: &mut crate::Probe| probe.period = secs(1));
    play.want(&[("p", many("p", 100).into_iter().map(often).collect())]);
    play.runs("p", "main", 0);
    play.settle();
    play.want(&[("p", many("p", 100).into_iter().map(often).collect()), ("q", vec![often(probe("q"))])]);
    play.runs("q", "main", 0);
    let mut runs: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..600 {
        play.pass(Duration::from_millis(500));
        let (run, probe) =
            play.runs.iter().next().map(|(run, it)| (*run, name_of(&it.action).to_owned())).unwrap();
        *runs.entry(probe).or_default() += 1;
        play.end(run, yes(""));
        play.settle();
    }
    assert!(runs["q"] >= 295, "{runs:?}");
    // And of the hundred each had its turn as often as any other.
    assert_eq!(runs.len(), 101);
    assert!(runs.values().all(|times| (2..=4).contains(times) || *times >= 295), "{runs:?}");
}

#[test]
fn without_a_budget_one_still_runs() {
    let mut play = Play::limited(ProbeLimits {
        exec_concurrent: 0,
        exec_concurrent_per_pod: 0,
        exec_burst: 0,
        other_concurrent: 0,
        other_concurrent_per_pod: 0,
        longest_run: Duration::ZERO,
        write_burst: 0,
        ..ProbeLimits::default()
    });
    play.want(&[("p", vec![probe("a"), http(probe("b")), probe("c")])]);
    play.runs("p", "main", 0);
    assert_eq!(play.settle(), ["run a in p-main-0", "run b in p-main-0"]);
    play.end(RunId(1), yes(""));
    assert_eq!(play.runs[&RunId(2)].timeout, secs(1));
}
