//! An object whose evaluation panics is left alone, and everything else goes on.

use std::time::Duration;

use crate::tests::world::{NowForTests as _, World, effects, pod};
use crate::{
    Effect, Event, Origin, Pod, PodEffect, RecreateReport, RecreateRequest, RecreateStrategy, RecreateTarget,
    RestartPolicy, Step, StoreEffect, trap,
};

/// A job's pod whose main has ended, so that its sidecar is to be ended.
fn ended_job(world: &mut World, uid: &str) -> Pod {
    let mut job = pod(&[("m", "0"), ("s", "0")]).restarts(RestartPolicy::Never);
    (job.pod.uid, job.pod.name) = (uid.into(), uid.to_owned());
    job.containers.get_mut(&"s".into()).unwrap().ends_with_job = true;
    world.apply(job.seen());
    for name in ["m", "s"] {
        let sandbox = format!("{uid}-sandbox");
        let (call, _) = world.create_in(&job, &sandbox, name, crate::Declared::default());
        world.start(&call, &format!("{uid}-{name}"));
    }
    world.exit(&format!("{uid}-m"), 0);
    world.pass(Duration::from_secs(31));
    world.inspect();
    job
}

fn recreate(pod: &Pod, id: &str, container: &str) -> Event {
    Event::RecreateSeen(Box::new(RecreateRequest {
        id: id.into(),
        origin: Origin::Api,
        key: format!("ns/{id}"),
        created: std::time::Instant::now_for_tests(),
        pod: pod.pod.uid.clone(),
        named: None,
        containers: vec![RecreateTarget { name: "m".into(), instance: container.into() }],
        strategy: RecreateStrategy::default(),
        deadline: None,
        delete_after: None,
        reported: RecreateReport::default(),
        ended: None,
        unready_since: None,
    }))
}

fn marked(steps: &[Step]) -> Vec<&str> {
    let marks = effects(steps).filter_map(|effect| match effect {
        Effect::Store(StoreEffect::MarkSidecars(marks)) => Some(marks[0].container.as_str()),
        Effect::Store(StoreEffect::WriteMarks(marks)) => Some(marks[0].container.as_str()),
        _ => None,
    });
    marks.collect()
}

fn told(steps: &[Step]) -> Vec<String> {
    let told = effects(steps).filter_map(|effect| match effect {
        Effect::Pod(pod, PodEffect::Tell(notice)) => {
            Some(format!("{} {} {}", pod.name, notice.reason, notice.note))
        }
        _ => None,
    });
    told.collect()
}

#[test]
fn one_pods_panic_is_its_own() {
    let mut world = World::new();
    for uid in ["j1", "bad-pod", "j2"] {
        ended_job(&mut world, uid);
    }
    trap::set("bad-pod");
    let steps = world.node.plan(world.now);
    assert_eq!(marked(&steps), ["j1-s", "j2-s"]);
    let [told] = &told(&steps)[..] else { panic!("{steps:?}") };
    assert!(told.starts_with("bad-pod SetAside Berth has failed to evaluate pod ns/bad-pod"), "{told}");
    let set_aside = world.node.set_aside(world.now);
    assert_eq!(set_aside.len(), 1);
    assert_eq!(set_aside[0].object, "pod ns/bad-pod");
    assert_eq!(world.node.panics(), 1);

    // It is left alone for a while, and the node looks again by itself.
    world.node.plan(world.now);
    assert_eq!(world.node.panics(), 1);
    assert!(world.node.next_deadline().is_some_and(|next| next <= set_aside[0].again));

    trap::clear("bad-pod");
    world.now = set_aside[0].again;
    assert!(marked(&world.node.plan(world.now)).contains(&"bad-pod-s"));
    assert!(world.node.set_aside(world.now).is_empty());
}

#[test]
fn it_is_tried_again_less_and_less_and_forgotten_with_its_pod() {
    let mut world = World::new();
    let job = ended_job(&mut world, "worse-pod");
    trap::set("worse-pod");
    let mut pauses = Vec::new();
    for _ in 0..10 {
        world.node.plan(world.now);
        let again = world.node.set_aside(world.now)[0].again;
        pauses.push(again.saturating_duration_since(world.now).as_secs());
        world.now = again;
    }
    assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 600, 600, 600]);
    world.apply(Event::PodGone(job.pod.uid));
    world.node.plan(world.now);
    assert!(world.node.set_aside(world.now).is_empty());
    trap::clear("worse-pod");
}

#[test]
fn one_requests_panic_is_its_own_and_the_request_is_not_lost() {
    let mut world = World::new();
    let web = pod(&[("m", "0")]);
    world.apply(web.seen());
    world.launch(&web, "m");
    world.apply(recreate(&web, "bad-request", "m-0"));
    let mut other = web.clone();
    (other.pod.uid, other.pod.name) = ("other".into(), "other".to_owned());
    world.apply(other.seen());
    let (call, _) = world.create_in(&other, "other-sandbox", "m", crate::Declared::default());
    world.start(&call, "other-m");
    world.apply(recreate(&other, "good", "other-m"));

    trap::set("bad-request");
    let steps = world.node.plan(world.now);
    assert_eq!(marked(&steps), ["other-m"]);
    assert!(told(&steps)[0].contains("request ns/bad-request"), "{steps:?}");
    assert_eq!(world.node.set_aside(world.now)[0].object, "request ns/bad-request");
    assert!(world.node.next_deadline().is_some());

    trap::clear("bad-request");
    world.pass(Duration::from_secs(5));
    assert!(marked(&world.node.plan(world.now)).contains(&"m-0"));
}

#[test]
fn a_list_of_pods_with_a_bad_one_is_taken_in() {
    let mut world = World::new();
    let mut pods = vec![pod(&[("a", "0")]), pod(&[("a", "0")])];
    pods[0].pod.uid = "listed-badly".into();
    trap::set("listed-badly");
    world.apply(Event::PodsListed(pods));
    trap::clear("listed-badly");
    assert_eq!(world.node.size().pods, 1);
}
