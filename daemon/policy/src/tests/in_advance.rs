//! Answers that are foretold. That a call passes which was foretold to pass all tests try: their world looks.

use std::time::Duration;

use super::world::{World, latch, pod};
use crate::{
    CallId, Config, ConnectionId, Container, ContainerState, CreateContainer, CreationEnv, Creations,
    CredentialKey, Declared, EnvValues, Event, Foretold, HookTurn, InAdvance, Request, RestartPolicy,
    Showing, ShownInAdvance, StopContainer, UnknownPods, Verdict, View,
};

fn foretold(world: &World) -> InAdvance {
    world.node.in_advance(world.now)
}

fn creations(world: &World) -> Option<Creations> {
    foretold(world).sandboxes.get(&"sandbox".into()).cloned()
}

fn names(names: &[&str]) -> Option<Creations> {
    Some(Creations::Of(names.iter().map(|name| (*name).into()).collect()))
}

#[test]
fn creations_pass_where_nothing_is_ordered_and_where_a_barrier_is_open() {
    let mut world = World::new();
    let ordered = pod(&[("a", "2"), ("b", "1")]);
    world.apply(ordered.seen());
    assert_eq!(creations(&world), None, "what is not known is asked");
    world.launch(&ordered, "a");
    assert_eq!(creations(&world), names(&["a"]));
    let (_, verdict) = world.create(&ordered, "b");
    assert_eq!(verdict, latch(1));
    assert_eq!(creations(&world), names(&["a", "b"]));
    world.apply(ordered.clone().deleting(30).seen());
    assert_eq!(creations(&world), names(&["a"]), "only restarts, in a pod that ends");

    let mut world = World::new();
    let plain = pod(&[("a", "0"), ("b", "0")]);
    world.apply(plain.seen());
    world.launch(&plain, "a");
    assert_eq!(creations(&world), Some(Creations::All));
    world.apply(Event::PodGone(plain.pod.uid.clone()));
    assert_eq!(creations(&world), names(&["a"]), "a pod that is not seen may have any order");

    let mut world = World::with(Config { launch_order: false, ..Config::default() });
    world.apply(ordered.seen());
    world.launch(&ordered, "a");
    assert_eq!(creations(&world), Some(Creations::All));
}

#[test]
fn creations_of_strangers_pass_where_nobody_waits_for_their_pods() {
    let closed = Config { unknown_pods: UnknownPods::Closed, ..Config::default() };
    for (config, passes) in [
        (Config::default(), true),
        (Config { view: View::None, ..closed.clone() }, true),
        (Config { launch_order: false, ..closed.clone() }, true),
        (closed, false),
    ] {
        let mut world = World::with(config.clone());
        assert_eq!(foretold(&world).strangers_pass, passes, "{config:?}");
        let foreign = Declared { foreign: true, ..Declared::default() };
        let (_, verdict) = world.create_in(&pod(&[]), "sandbox", "a", foreign);
        assert_eq!(verdict == Verdict::Forward, passes, "{config:?}");
    }
}

#[test]
fn containers_of_an_order_and_of_none() {
    let truth = Some(ShownInAdvance { showing: Showing::Truth, only_to: None });
    for (priority, exit_order, stop_passes) in [("0", true, true), ("1", true, false), ("1", false, true)] {
        let mut world = World::with(Config { exit_order, ..Config::default() });
        let pod = pod(&[("a", priority), ("b", "0")]).restarts(RestartPolicy::Never);
        world.apply(pod.seen());
        world.launch(&pod, "a");
        let known = foretold(&world).containers;
        let row = known.values().next().unwrap();
        let hook = Some(HookTurn::Run);
        let quiet = priority == "0";
        let expected = Foretold { stop_passes, status: truth, hook, changing: false, quiet };
        assert_eq!(*row, expected, "{priority} {exit_order}");
    }
}

#[test]
fn env_values_are_told_and_the_number_grows_with_them() {
    let mut world = World::new();
    let before = world.node.foretold();
    let values = EnvValues(vec![("K".to_owned(), "V".to_owned())]);
    let env: CreationEnv = [("a".into(), values)].into();
    world.apply(Event::CreationEnvSet("u".into(), env.clone()));
    assert!(world.node.foretold() > before);
    assert_eq!(foretold(&world).env, [("u".into(), env)].into());
    let now = world.node.foretold();
    world.apply(Event::RelistAsked { call: CallId(1), connection: ConnectionId(1) });
    world.apply(Event::CallEnded(CallId(1)));
    assert_eq!(world.node.foretold(), now, "a list each second alters nothing");
}

/// Every test tries that nothing else is altered under the same number: their world looks.
#[test]
fn the_number_grows_with_a_pod_that_is_shown_only_where_something_follows() {
    let mut world = World::new();
    let ordered = pod(&[("a", "2"), ("b", "1")]);
    world.apply(ordered.seen());
    world.launch(&ordered, "a");
    let before = world.node.foretold();
    let ready = ordered.report("a", "a-0", true);
    world.apply(ready.seen());
    assert_eq!(world.node.foretold(), before, "its status");
    let (_, verdict) = world.create(&ready, "b");
    assert_eq!(verdict, latch(1));
    let before = world.node.foretold();
    world.apply(ready.deleting(30).seen());
    assert!(world.node.foretold() > before, "only restarts pass now");
}

#[test]
fn a_pull_passes_when_the_agent_has_none_that_it_could_wait_for() {
    let mut world = World::new();
    assert!(!foretold(&world).pulls_pass, "before anything is known of them");
    for (busy, passes) in [(false, true), (true, false), (false, true)] {
        let before = world.node.foretold();
        world.apply(Event::ImagesBusy(busy));
        assert_eq!(foretold(&world).pulls_pass, passes, "{busy}");
        assert!(world.node.foretold() > before, "{busy}");
    }
    let before = world.node.foretold();
    let (image, credential) = ("r.io/a:1".to_owned(), CredentialKey(1));
    world.apply(Event::PullPassed { call: CallId(1), image, credential });
    assert_eq!(world.node.foretold(), before, "the kubelet's own pulls alter nothing");
}

#[test]
fn a_request_that_names_what_is_not_there_foretells_nothing() {
    let mut world = World::new();
    let pod = pod(&[("a", "0")]);
    world.create_in(&pod, "imagined", "a", Declared::default());
    assert!(foretold(&world).sandboxes.is_empty());
}

#[test]
fn a_call_that_goes_on_already_is_known_and_waits_for_nobody() {
    let mut world = World::new();
    let ordered = pod(&[("a", "2"), ("b", "1")]);
    world.apply(ordered.seen());
    world.launch(&ordered, "a");
    // An agent before this one has let it go.
    let request = CreateContainer {
        sandbox: "sandbox".into(),
        pod: ordered.pod.clone(),
        container: "b".into(),
        attempt: 0,
        declared: Declared::default(),
        images: Vec::new(),
    };
    let create = world.call(Request::CreateContainer(request));
    world.node.passed(&create);
    assert!(!world.node.is_waiting() && world.node.size().calls == 1);
    world.apply(Event::ContainerCreated { call: create.id, container: "b-0".into() });
    world.apply(Event::CallEnded(create.id));
    assert_eq!(creations(&world), names(&["a", "b"]), "it is there");
    // The stop of the lower container is the sign that the whole pod ends.
    let stop = |container: &str| {
        Request::StopContainer(StopContainer {
            container: container.into(),
            timeout: Duration::from_secs(30),
        })
    };
    let lower = world.call(stop("b-0"));
    world.node.passed(&lower);
    world.apply(Event::ContainerStarted("b-0".into()));
    let container =
        Container { id: "b-0".into(), name: "b".into(), attempt: 0, state: ContainerState::Running };
    world.runtime.insert("b-0".into(), ("sandbox".into(), container));
    let id = foretold(&world).containers.keys().find(|id| id.as_str() != "b-0").unwrap().clone();
    let (higher, verdict) = world.stop(id.as_str(), 30);
    let Verdict::Hold { why, .. } = &verdict else { panic!("{verdict:?}") };
    assert_ne!(why.label(), "pod-kill-unclear", "the other stop is known");
    assert!(world.node.is_waiting());
    // Nobody waited for the agent's answer any more.
    world.node.passed(&higher);
    assert!(!world.node.is_waiting() && world.node.next_deadline().is_none());
    world.end(&higher);
    world.end(&lower);
    assert_eq!(world.node.size().calls, 0);
}

/// Rows: whether the runtime tells of ends, the priority of a container, whether the pod is a Job's with a
/// sidecar, whether it is probed, and whether looks at it mean nothing.
#[test]
fn looks_mean_nothing_where_no_end_and_no_order_hangs_on_them() {
    for (ends_told, priority, of_job, probed, quiet) in [
        (true, "0", false, false, true),
        // Nobody asks to be told where no end counts.
        (false, "0", false, false, true),
        (true, "0", false, true, true),
        (false, "0", false, true, false),
        (true, "1", false, false, false),
        (false, "1", false, false, false),
        (true, "0", true, false, false),
        (false, "0", true, false, false),
    ] {
        let what = format!("{ends_told} {priority} {of_job} {probed}");
        let mut world = World::new();
        let mut seen = pod(&[("a", priority), ("b", "0")]).restarts(RestartPolicy::Never);
        seen.containers.get_mut(&"b".into()).unwrap().ends_with_job = of_job;
        world.apply(Event::EndsTold(ends_told));
        world.apply(seen.seen());
        world.launch(&seen, "a");
        if probed {
            world.apply(Event::ProbedPods([seen.pod.uid.clone()].into()));
        }
        let known = foretold(&world).containers;
        let row = known.values().next().unwrap();
        assert_eq!(row.quiet, quiet, "{what}");
        if quiet {
            let id = known.keys().next().unwrap().clone();
            let before = (world.node.plan(world.now), world.node.next_deadline());
            world.apply(Event::StatusAsked { container: id, connection: ConnectionId(1) });
            assert_eq!((world.node.plan(world.now), world.node.next_deadline()), before, "{what}");
            assert!(world.node.has_only_asked(), "{what}");
        }
    }
}

#[test]
fn the_number_grows_with_the_pods_that_are_probed() {
    let mut world = World::new();
    let pod = pod(&[("a", "0")]);
    world.apply(pod.seen());
    world.launch(&pod, "a");
    for probed in [true, false] {
        let before = world.node.foretold();
        let pods = probed.then(|| pod.pod.uid.clone()).into_iter().collect();
        world.apply(Event::ProbedPods(pods));
        assert!(world.node.foretold() > before, "{probed}");
        assert_eq!(foretold(&world).containers[&"a-0".into()].quiet, !probed);
    }
}
