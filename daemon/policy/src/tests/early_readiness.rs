//! Conclusions of the gate from the agent's own runs of the probes of awaited containers.

use std::time::Duration;

use super::{
    probing::{SECOND, failure, probe, ready_by_probe, success},
    world::{World, latch, pod, waiting},
};
use crate::{
    Call, Config, ContainerName, Event, HoldReason, Path, Pod, Probe, ProbeResult, Readiness, Refusal,
    Verdict, View,
};

#[track_caller]
fn assert_held(verdict: &Verdict, names: &[&str]) {
    let Verdict::Hold { why: HoldReason::NotReady(waiting_for), .. } = verdict else {
        panic!("expected a hold for {names:?}, got {verdict:?}");
    };
    assert_eq!(waiting_for.iter().map(ContainerName::as_str).collect::<Vec<_>>(), names);
}

/// `a` runs, and `b`, which waits for it, asks in the same SyncPod.
fn started(pod: &Pod) -> (World, Call, Verdict) {
    let mut world = World::watching(pod, Config::default());
    world.launch(pod, "a");
    let (call, verdict) = world.create(pod, "b");
    (world, call, verdict)
}

#[test]
fn highest_first_three_levels_start_in_one_pass() {
    let pod = ready_by_probe(&[("a", "3"), ("b", "2"), ("c", "1")]);
    let mut world = World::watching(&pod, Config::default());
    world.launch(&pod, "a");
    for (name, above, priority) in [("b", "a", 2), ("c", "b", 1)] {
        let (call, verdict) = world.create(&pod, name);
        assert_held(&verdict, &[above]);
        world.probe(&failure());
        assert_held(&world.ask(&call), &[above]);
        world.pass(SECOND);
        world.probe(&success());
        assert_eq!(world.ask(&call), latch(priority), "{name}");
        world.start(&call, &format!("{name}-0"));
    }
    assert_eq!(world.owed(), [], "nobody waits any more");
}

#[test]
fn lowest_first_takes_one_relist_per_level() {
    let pod = ready_by_probe(&[("c", "1"), ("b", "2"), ("a", "3")]);
    let mut world = World::watching(&pod, Config::default());
    assert_eq!(world.create(&pod, "c").1, waiting(&["a", "b"]));
    assert_eq!(world.create(&pod, "b").1, waiting(&["a"]));
    world.launch(&pod, "a");
    world.probe(&success());
    world.relist();
    assert_eq!(world.create(&pod, "c").1, waiting(&["b"]), "the kubelet has not said that a is Ready");
    let (call, verdict) = world.create(&pod, "b");
    assert_eq!(verdict, latch(2));
    world.start(&call, "b-0");
    world.probe(&failure());
    world.relist();
    let (call, verdict) = world.create(&pod, "c");
    assert_held(&verdict, &["b"]);
    let Verdict::Hold { until, .. } = verdict else { panic!("{verdict:?}") };
    assert_eq!(until, world.now + 10 * SECOND, "longer than for the kubelet's word");
    world.pass(SECOND);
    world.probe(&success());
    assert_eq!(world.ask(&call), latch(1));
}

/// One letter a run, of whichever probe is due: what it says, and whether `b` may start after it.
#[test]
fn thresholds_and_the_startup_probe_count_as_in_the_kubelet() {
    let ready = || Some(probe("ready"));
    let start = || Some(probe("start"));
    let twice = || Some(Probe { success_threshold: 2, ..probe("ready") });
    let table = [
        (None, ready(), "S", "+"),
        (None, ready(), "FFFFS", "----+"),
        (start(), None, "FFFFS", "----+"),
        (start(), ready(), "FSFS", "---+"),
        (start(), ready(), "SFS", "--+"),
        (None, twice(), "SS", "-+"),
        (None, twice(), "SFSS", "---+"),
        (None, twice(), "SUS", "--+"),
        (start(), twice(), "SSS", "--+"),
        (None, ready(), "UUU", "---"),
        // Level-triggered until the barrier is passed: the third failure in a row takes it back.
        (None, ready(), "SFFFS", "+++-+"),
        (None, ready(), "SFFUFF", "++++--"),
        (None, ready(), "SFFSFF", "++++++"),
    ];
    for (startup, readiness, results, expected) in table {
        let pod = pod(&[("a", "2"), ("b", "1")]).probed("a", startup, readiness);
        let (mut world, call, _) = started(&pod);
        let mut seen = String::new();
        for letter in results.chars() {
            let result = match letter {
                'S' => success(),
                'F' => failure(),
                _ => ProbeResult::Unknown(String::new()),
            };
            assert_eq!(world.probe(&result), 1, "{results}");
            // After the startup probe the readiness probe is due at once.
            assert!(letter == 'S' || world.owed().is_empty(), "{results}: more than one run a period");
            world.inspect();
            let verdict = world.node.clone().admit(&call, world.now);
            let satisfied = matches!(verdict, Verdict::Latch(_));
            seen.push(if satisfied { '+' } else { '-' });
            world.pass(SECOND);
        }
        assert_eq!(seen, expected, "{results}");
    }
}

#[test]
fn a_probe_that_fails_costs_one_bounded_hold() {
    let pod = ready_by_probe(&[("a", "2"), ("b1", "1"), ("b2", "1")]);
    let mut world = World::watching(&pod, Config::default());
    world.launch(&pod, "a");
    world.probe(&failure());
    world.pass(4 * SECOND);
    let (call, verdict) = world.create(&pod, "b1");
    let Verdict::Hold { until, .. } = verdict else { panic!("{verdict:?}") };
    assert_eq!(until, world.now + 6 * SECOND, "ten seconds from when a began to run");
    world.pass(6 * SECOND);
    world.probe(&failure());
    world.inspect();
    assert_eq!(world.ask(&call), waiting(&["a"]));
    world.end(&call);
    assert_eq!(world.create(&pod, "b2").1, waiting(&["a"]), "the same SyncPod");
    assert_eq!(world.create(&pod, "b1").1, waiting(&["a"]), "the next one, before a relist");
    world.relist();
    let (_, verdict) = world.create(&pod, "b1");
    let Verdict::Hold { until, .. } = verdict else { panic!("{verdict:?}") };
    assert_eq!(until, world.now + Config::default().hold, "as without early readiness");
    world.pass(SECOND);
    assert_eq!(world.probe(&success()), 1);
    assert_eq!(world.create(&pod, "b2").1, latch(1), "late, and still before the kubelet said so");
}

#[test]
fn a_hold_leaves_half_of_the_calls_own_deadline() {
    let pod = ready_by_probe(&[("a", "2"), ("b", "1")]);
    let (mut world, mut call, _) = started(&pod);
    call.id = crate::CallId(77);
    call.deadline = Some(call.arrived + 8 * SECOND);
    let Verdict::Hold { until, .. } = world.ask(&call) else { panic!("not held") };
    assert_eq!(until, call.arrived + 4 * SECOND);
}

/// Whom nothing would release in time is not waited for in the SyncPod that started it.
#[test]
fn a_call_is_held_only_where_a_success_may_come_in_time() {
    let (readiness, seconds) = (|| probe("ready"), |count: u32| count * SECOND);
    let table = [
        (None, Probe { initial_delay: seconds(9), ..readiness() }, true),
        (None, Probe { initial_delay: seconds(10), ..readiness() }, false),
        (None, Probe { success_threshold: 3, period: seconds(4), ..readiness() }, true),
        (None, Probe { success_threshold: 3, period: seconds(5), ..readiness() }, false),
        (Some(Probe { initial_delay: seconds(6), ..probe("start") }), readiness(), true),
        (Some(probe("start")), Probe { initial_delay: seconds(10), ..readiness() }, false),
        (None, Probe { success_threshold: u32::MAX, period: Duration::MAX, ..readiness() }, false),
        (None, Probe { initial_delay: Duration::MAX, ..readiness() }, false),
    ];
    for (startup, readiness, held) in table {
        let row = format!("{startup:?} {readiness:?}");
        let pod = pod(&[("a", "2"), ("b", "1")]).probed("a", startup, Some(readiness));
        let (_, _, verdict) = started(&pod);
        assert_eq!(matches!(verdict, Verdict::Hold { .. }), held, "{row}: {verdict:?}");
    }
    let slow = pod(&[("a", "2"), ("b", "1")]);
    let slow = slow.probed("a", None, Some(Probe { period: seconds(10), ..readiness() }));
    let (mut world, call, verdict) = started(&slow);
    assert_held(&verdict, &["a"]);
    world.probe(&failure());
    assert_eq!(world.ask(&call), waiting(&["a"]), "its next run is too late");
    let thrice = pod(&[("a", "2"), ("b", "1")]);
    let slow = Probe { success_threshold: 3, period: seconds(4), ..readiness() };
    let (mut world, call, _) = started(&thrice.probed("a", None, Some(slow)));
    world.probe(&success());
    assert_held(&world.ask(&call), &["a"]);
    world.pass(seconds(4));
    world.probe(&failure());
    world.inspect();
    assert_eq!(world.ask(&call), waiting(&["a"]), "it has to begin again");
}

#[test]
fn a_late_success_still_has_time_to_ask_the_runtime() {
    let pod = ready_by_probe(&[("a", "2"), ("b", "1")]);
    let (mut world, call, _) = started(&pod);
    world.pass(9 * SECOND);
    let run = world.owed().remove(0);
    world.apply(Event::ProbeBegan(run.clone()));
    world.apply(Event::ProbeEnded(run, success()));
    let verdict = world.node.admit(&call, world.now);
    assert!(matches!(verdict, Verdict::Hold { why: HoldReason::Inspection, .. }), "{verdict:?}");
    assert_eq!(world.ask(&call), latch(1));
}

/// Where the agent runs nothing, all is as without it.
#[test]
fn nothing_is_run_and_the_first_pass_refuses() {
    let ordered = ready_by_probe(&[("a", "2"), ("b", "1")]);
    let bare = |name| pod(&[("a", "2"), ("b", "1")]).becomes_ready_by(name, Readiness::ReadinessProbe);
    let on = Config::default;
    let table = [
        ("switched off", ordered.clone(), Config { early_readiness: false, ..on() }, waiting(&["a"])),
        ("a probe the agent cannot run", bare("a"), on(), waiting(&["a"])),
        ("a postStart hook", bare("a").becomes_ready_by("a", Readiness::PostStart), on(), waiting(&["a"])),
        ("a probe nobody waits for", bare("b").probed("b", None, Some(probe("ready"))), on(), latch(1)),
        // It runs already: of one that comes its users are told.
        (
            "beside",
            ordered.clone().report("a", "a-0", false),
            Config { path: Path::Beside, ..on() },
            waiting(&["a"]),
        ),
        ("no gate", ordered.clone(), Config { launch_order: false, ..on() }, Verdict::Forward),
        ("one level", ready_by_probe(&[("a", "1"), ("b", "1")]), on(), Verdict::Forward),
    ];
    for (what, pod, config, expected) in table {
        let mut world = World::watching(&pod, config);
        world.launch(&pod, "a");
        assert!(world.owed().is_empty() && !world.node.is_waiting(), "{what}");
        assert_eq!(world.create(&pod, "b").1, expected, "{what}");
        assert!(world.owed().is_empty(), "{what}");
    }
    let mut world = World::with(Config { view: View::None, ..Config::default() });
    world.launch(&ordered, "a");
    assert!(world.owed().is_empty() && !world.node.is_waiting(), "no specs, no probes");
}

#[test]
fn a_hold_ends_at_once() {
    let pod = ready_by_probe(&[("a", "2"), ("b", "1")]);
    type Change = fn(&mut World, &Pod);
    let table: &[(&str, Change, Verdict)] = &[
        ("our success", |world, _| assert_eq!(world.probe(&success()), 1), latch(1)),
        ("the kubelet's", |world, pod| world.apply(pod.clone().report("a", "a-0", true).seen()), latch(1)),
        (
            "deletion",
            |world, pod| world.apply(pod.clone().deleting(30).seen()),
            Verdict::Refuse(Refusal::Terminating),
        ),
        (
            "sandbox stop",
            |world, _| world.apply(Event::SandboxStopping("sandbox".into())),
            Verdict::Refuse(Refusal::Terminating),
        ),
        ("exit", |world, _| world.apply(Event::ContainerStopped("a-0".into())), waiting(&["a"])),
    ];
    for (what, change, expected) in table {
        let (mut world, call, verdict) = started(&pod);
        assert_held(&verdict, &["a"]);
        change(&mut world, &pod);
        assert_eq!(world.node.admit(&call, world.now), *expected, "{what}");
        assert!(*what == "the kubelet's" || world.owed().is_empty(), "{what}");
    }
}

#[test]
fn a_restarted_container_begins_anew() {
    let pod = ready_by_probe(&[("b", "1"), ("a", "2")]);
    let mut world = World::watching(&pod, Config::default());
    world.launch(&pod, "a");
    let run = world.owed().remove(0);
    world.probe(&success());
    world.pass(SECOND);
    world.apply(Event::ProbeBegan(run.clone()));
    world.exit("a-0", 1);
    world.apply(Event::ContainerStopped("a-0".into()));
    let (call, _) = world.create(&pod, "a");
    world.start(&call, "a-1");
    world.runtime.remove(&"a-0".into());
    let (call, verdict) = world.create(&pod, "b");
    assert_held(&verdict, &["a"]);
    world.apply(Event::ProbeEnded(run, success()));
    assert_held(&world.ask(&call), &["a"]);
    assert_eq!(world.owed()[0].container.as_str(), "a-1");
    world.probe(&success());
    assert_eq!(world.ask(&call), latch(1));
}

#[test]
fn a_restart_of_the_kubelet_takes_nothing_back() {
    let pod = ready_by_probe(&[("b", "1"), ("a", "2")]);
    let mut world = World::watching(&pod, Config::default());
    world.launch(&pod, "a");
    world.probe(&success());
    world.apply(Event::ConnectionClosed(world.connection));
    world.connection.0 += 1;
    assert_eq!(world.create(&pod, "b").1, latch(1));
}

#[test]
fn explain_says_who_is_ready_by_the_agents_own_probe() {
    let pod = ready_by_probe(&[("a", "2"), ("b", "1")]);
    let (mut world, ..) = started(&pod);
    let ready = |world: &World| world.node.explain(world.now, |_, _| true)[0].containers[0].ready;
    assert!(!ready(&world));
    world.probe(&success());
    assert!(ready(&world));
}
