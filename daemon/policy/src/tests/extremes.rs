//! The largest and smallest numbers that anybody can write, in each field that has one.

use std::time::Duration;

use crate::tests::world::{KUBELET, World, pod};
use crate::{
    Deletion, Effect, Event, Hook, Origin, Pod, Probe, ProbeAction, Readiness, RecreateReport,
    RecreateRequest, RecreateStrategy, RecreateTarget, RestartPolicy, RuntimeEffect, Step, StepOutcome,
    Unready,
};

const EXTREMES: [Duration; 4] =
    [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(i64::MAX as u64), Duration::MAX];

/// A pod with this length of time wherever a pod has one, and all that makes somebody look at it.
fn extreme(length: Duration, policy: RestartPolicy) -> Pod {
    let mut pod = pod(&[("m", "2"), ("s", "1")]).restarts(policy);
    pod.grace = length;
    pod.unready = Some(Unready::default());
    let probe = Probe {
        action: ProbeAction::Exec { command: vec!["x".to_owned()] },
        initial_delay: length,
        period: length,
        timeout: length,
        success_threshold: u32::MAX,
        failure_threshold: u32::MAX,
    };
    for spec in pod.containers.values_mut() {
        spec.pre_stop = Some(Hook::Sleep(length));
        spec.readiness = Readiness::ReadinessProbe;
        spec.readiness_probe = Some(probe.clone());
        spec.startup_probe = Some(probe.clone());
    }
    pod.containers.get_mut(&"s".into()).unwrap().ends_with_job = true;
    pod
}

fn request(world: &World, pod: &Pod, container: &str, length: Duration) -> RecreateRequest {
    RecreateRequest {
        id: "r".into(),
        origin: Origin::Api,
        key: "ns/r".to_owned(),
        created: world.now,
        pod: pod.pod.uid.clone(),
        named: None,
        containers: vec![RecreateTarget { name: "s".into(), instance: container.into() }],
        strategy: RecreateStrategy {
            grace: Some(length),
            unready_grace: Some(length),
            min_started: length,
            ..RecreateStrategy::default()
        },
        deadline: world.now.checked_add(length),
        delete_after: Some(length),
        reported: RecreateReport::default(),
        ended: None,
        unready_since: Some(world.now),
    }
}

/// Plans, and says that every step has begun, so that whatever counts from there does; hooks and stops never
/// end.
fn begin_all(world: &mut World) {
    for step in world.node.plan(world.now) {
        let Step::Effect(effect) = step else { continue };
        world.apply(Event::EffectBegan(effect.clone()));
        if !matches!(effect, Effect::Runtime(RuntimeEffect::StopContainer(_))) {
            world.apply(Event::EffectEnded(effect, StepOutcome::Done));
        }
    }
    let _ = world.node.next_deadline();
}

fn play(length: Duration, policy: RestartPolicy) {
    let mut world = World::new();
    let mut odd = extreme(length, policy);
    world.apply(Event::ViewFresh(true));
    world.apply(odd.seen());
    for name in ["m", "s"] {
        let (call, _) = world.create(&odd, name);
        world.start(&call, &format!("{name}-0"));
        odd = odd.report(name, &format!("{name}-0"), true);
        world.apply(odd.seen());
    }
    let asked = request(&world, &odd, "s-0", length);
    world.apply(Event::RecreatesListed(Origin::Api, vec![asked]));
    for _ in 0..5 {
        begin_all(&mut world);
        world.pass(Duration::from_secs(1));
        let _ = world.node.restate(KUBELET, &"s-0".into(), world.now);
    }
    world.exit("m-0", 0);
    world.pass(Duration::from_secs(31));
    world.inspect();
    for _ in 0..5 {
        begin_all(&mut world);
        world.pass(Duration::from_secs(600));
    }
    let (_, _) = world.stop("s-0", u64::MAX);
    odd.deletion = Some(Deletion { grace: length });
    world.apply(odd.seen());
    begin_all(&mut world);
    assert_eq!(world.node.panics(), 0, "{length:?} {policy:?}");

    // Somebody else's pod is served as if that one were not there.
    let mut web = pod(&[("a", "2"), ("b", "1")]);
    (web.pod.uid, web.pod.name) = ("web".into(), "web".to_owned());
    world.apply(web.seen());
    let (call, verdict) = world.create_in(&web, "web-sandbox", "a", crate::Declared::default());
    assert!(matches!(verdict, crate::Verdict::Latch(_) | crate::Verdict::Forward), "{verdict:?}");
    world.start(&call, "web-a");
    world.apply(web.clone().report("a", "web-a", true).seen());
    world.relist();
    let (_, verdict) = world.create_in(&web, "web-sandbox", "b", crate::Declared::default());
    assert!(matches!(verdict, crate::Verdict::Latch(_) | crate::Verdict::Forward), "{verdict:?}");
}

#[test]
fn no_length_of_time_stops_the_node() {
    for length in EXTREMES {
        for policy in [RestartPolicy::Never, RestartPolicy::OnFailure, RestartPolicy::Always] {
            play(length, policy);
        }
    }
}
