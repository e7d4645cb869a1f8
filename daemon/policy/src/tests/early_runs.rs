//! When the agent owes a run of a probe of an awaited container, and when not.

use std::time::Duration;

use super::{
    probing::{SECOND, probe, ready_by_probe, success},
    world::{World, latch, pod, waiting},
};
use crate::{Config, Declared, Event, Latch, ListedSandbox, Probe};

#[test]
fn a_container_whose_start_nobody_saw_is_found_by_the_first_question() {
    let pod = ready_by_probe(&[("a", "2"), ("b", "1")]);
    let mut old = World::watching(&pod, Config::default());
    old.launch(&pod, "a");
    let mut world = World::watching(&pod, Config::default());
    world.runtime = old.runtime;
    world.create(&pod, "b");
    assert_eq!(world.owed().len(), 1);
}

#[test]
fn the_first_run_is_due_after_the_initial_delay_and_no_call_need_ask() {
    let late = Probe { initial_delay: 2 * SECOND, ..probe("ready") };
    let pod = pod(&[("a", "2"), ("b", "1")]).probed("a", None, Some(late));
    let mut world = World::watching(&pod, Config::default());
    world.launch(&pod, "a");
    assert!(world.node.is_waiting() && world.owed().is_empty());
    assert_eq!(world.node.next_deadline(), Some(world.now + 2 * SECOND));
    world.pass(2 * SECOND);
    let [run] = &world.owed()[..] else { panic!("not due") };
    assert_eq!((run.container.as_str(), run.sandbox.as_str(), run.timeout), ("a-0", "sandbox", SECOND));
    world.probe(&success());
    assert_eq!(world.node.next_deadline(), Some(world.now + SECOND), "not sooner than its period");
    assert_eq!(world.create(&pod, "b").1, latch(1));
    assert!(world.owed().is_empty() && !world.node.is_waiting(), "the last barrier is open");
    assert_eq!(world.node.next_deadline(), None);
}

#[test]
fn runs_never_overlap_and_a_lost_one_is_given_up() {
    let pod = ready_by_probe(&[("a", "2"), ("b", "1")]);
    let mut world = World::watching(&pod, Config::default());
    world.launch(&pod, "a");
    let run = world.owed().remove(0);
    world.apply(Event::ProbeBegan(run.clone()));
    for _ in 0..109 {
        assert_eq!(world.owed(), []);
        world.pass(SECOND / 10);
    }
    assert_eq!(world.node.next_deadline(), Some(world.now + SECOND / 10));
    world.pass(SECOND / 10);
    assert_eq!(world.owed().first(), Some(&run), "eleven seconds: its timeout and ten more");
    world.apply(Event::ProbeEnded(run, success()));
    assert_eq!(world.create(&pod, "b").1, waiting(&["a"]), "nobody waited for that end any more");
}

#[test]
fn the_late_end_of_a_lost_run_is_not_taken_for_that_of_another_probe() {
    let start = Probe { timeout: 2 * SECOND, ..probe("start") };
    let pod = pod(&[("a", "2"), ("b", "1")]).probed("a", Some(start), Some(probe("ready")));
    let mut world = World::watching(&pod, Config::default());
    world.launch(&pod, "a");
    let lost = world.owed().remove(0);
    world.apply(Event::ProbeBegan(lost.clone()));
    world.pass(12 * SECOND);
    assert_eq!(world.probe(&success()), 1, "the startup probe once more");
    let run = world.owed().remove(0);
    world.apply(Event::ProbeBegan(run.clone()));
    world.apply(Event::ProbeEnded(lost, success()));
    assert_eq!(world.create(&pod, "b").1, waiting(&["a"]));
    world.apply(Event::ProbeEnded(run, success()));
    assert_eq!(world.create(&pod, "b").1, latch(1));
}

#[test]
fn the_node_has_sixteen_runs_in_flight_at_most() {
    let mut world = World::watching(&pod(&[]), Config::default());
    for index in 0..20 {
        let mut pod = ready_by_probe(&[("a", "2"), ("b", "1")]);
        pod.pod.uid = format!("uid-{index}").into();
        world.apply(pod.seen());
        let (call, _) = world.create_in(&pod, &format!("sandbox-{index}"), "a", Declared::default());
        world.start(&call, &format!("a-{index}"));
        world.pass(Duration::from_millis(1));
    }
    let runs = world.owed();
    assert_eq!(runs.len(), 16);
    assert_eq!(runs[0].container.as_str(), "a-0", "first come");
    runs.iter().for_each(|run| world.apply(Event::ProbeBegan(run.clone())));
    assert_eq!(world.owed(), []);
    assert!(world.node.next_deadline() > Some(world.now), "no spinning while all slots are taken");
    world.apply(Event::ProbeEnded(runs[3].clone(), success()));
    assert_eq!(world.owed().len(), 1);
}

#[test]
fn after_a_restart_of_the_agent_probes_are_run_again_and_only_where_they_matter() {
    let pod = ready_by_probe(&[("a", "2"), ("b", "1")]);
    let mut old = World::watching(&pod, Config::default());
    old.launch(&pod, "a");
    let listed =
        ListedSandbox { sandbox: "sandbox".into(), pod: pod.pod.clone(), declared: Declared::default() };
    for (b_ran, view_first) in [(false, false), (false, true), (true, false), (true, true)] {
        if b_ran {
            old.runtime.insert("b-0".into(), {
                let (sandbox, mut container) = old.runtime[&"a-0".into()].clone();
                (container.id, container.name) = ("b-0".into(), "b".into());
                (sandbox, container)
            });
        }
        let mut world = World::new();
        let containers = old.runtime.values().cloned().collect();
        let list = Event::RuntimeListed { sandboxes: vec![listed.clone()], containers };
        let facts = if view_first { [pod.seen(), list] } else { [list, pod.seen()] };
        facts.into_iter().for_each(|fact| world.apply(fact));
        assert_eq!(world.node.is_waiting(), !b_ran);
        assert_eq!(world.owed().len(), usize::from(!b_ran), "b was created: nothing gates it any more");
    }
}

#[test]
fn the_highest_level_waits_for_nobody() {
    let pod = ready_by_probe(&[("a", "2"), ("a2", "2"), ("b", "1")]);
    let mut world = World::watching(&pod, Config::default());
    world.launch(&pod, "a");
    assert_eq!(world.owed().len(), 1, "b waits for a");
    world.apply(Event::LatchesLoaded(vec![Latch { sandbox: "sandbox".into(), priority: 1 }]));
    world.apply(Event::RuntimeListed { sandboxes: vec![], containers: vec![] });
    assert_eq!(world.owed(), [], "and a2 does not");
}
