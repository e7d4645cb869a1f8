//! How a pod is judged from what is shown of it.

use std::time::{Duration, Instant};

use super::{super::world::World, play::Play};
use crate::{
    ContainerState, InstanceView, RestartPolicy, RestartRule,
    in_place_update::{
        CreatedWith, DeclaredHook, GateView, ImageMatch, Life, MetadataKey, NodeView, PodView,
        updates::{clock::Clock, pod::UpdatedPod, settled::SeenPod, snapshot::snapshot},
    },
    tests::world::NowForTests,
};

fn one() -> Play {
    Play::of(World::of(&[("a", None, &["k"])]))
}

#[test]
fn where_the_runtime_is_not_watched_the_status_tells_of_a_restart() {
    let play = one();
    let mut node = play.node_view();
    let name = crate::ContainerName::from("a");
    let id = node.instances[&name].id.clone();
    for (attempt, state, reported, newest) in [
        (0, ContainerState::Running, 1, "new"),
        (1, ContainerState::Running, 1, "old"),
        (2, ContainerState::Running, 1, "old"),
    ] {
        let old = InstanceView { id: id.clone(), attempt, state, stopping: false, hooked: false };
        node.instances.insert(name.clone(), old);
        let mut view = play.view();
        let status = view.containers[0].status.as_mut().unwrap();
        (status.id, status.restarts) = (Some("new".into()), reported);
        let pod = pod_of(view, node.clone());
        let id = &pod.instances()[&name].id;
        assert_eq!(if id.as_str() == "new" { "new" } else { "old" }, newest, "{attempt}");
    }
    // The kubelet has not told of the next instance yet, and counts from more than the runtime.
    let mut later = node.clone();
    let next = InstanceView { id: "next".into(), attempt: 1, ..node.instances[&name].clone() };
    later.instances.insert(name.clone(), next);
    later.exited.entry(name.clone()).or_default().insert(id.clone());
    let mut view = play.view();
    let status = view.containers[0].status.as_mut().unwrap();
    (status.id, status.restarts) = (Some(id.clone()), 3);
    assert_eq!(pod_of(view, later).instances()[&name].id.as_str(), "next", "that one has exited");
    let created = InstanceView {
        id: id.clone(),
        attempt: 3,
        state: ContainerState::Created,
        stopping: false,
        hooked: false,
    };
    node.instances.insert(name.clone(), created);
    let mut view = play.view();
    let status = view.containers[0].status.as_mut().unwrap();
    (status.id, status.restarts) = (Some(id.clone()), 3);
    assert_eq!(
        pod_of(view.clone(), node.clone()).instances()[&name].state,
        ContainerState::Running,
        "started since"
    );
    // The runtime has lost count of what was there before.
    let exited = ContainerState::Exited { code: Some(1) };
    let again = InstanceView { id, attempt: 0, state: exited, stopping: false, hooked: false };
    node.instances.insert(name.clone(), again);
    assert_eq!(pod_of(view, node).instances()[&name].state, exited, "it has exited since");
}

/// A version that the kubelet has made by its status alone is not waited for.
#[test]
fn what_the_kubelet_writes_itself_it_knows() {
    let first = PodView { version: 1, generation: Some(1), gate: GateView::Ready, ..one().view() };
    let begin = Instant::now_for_tests();
    let [at, later] = [100, 900].map(|millis| begin + Duration::from_millis(millis));
    let with = |change: fn(&mut PodView)| {
        let mut next = PodView { version: 2, ..first.clone() };
        change(&mut next);
        next
    };
    let table: [(&str, PodView, Instant); 7] = [
        ("status", with(|next| next.containers[0].status = None), at),
        ("observed generation", with(|next| next.observed_generation = Some(1)), at),
        ("generation", with(|next| next.generation = Some(2)), later),
        ("no generation", with(|next| next.generation = None), later),
        ("gate", with(|next| next.gate = GateView::NotReady { since: None }), later),
        (
            "metadata",
            with(|next| drop(next.metadata.insert(MetadataKey::Label("l".to_owned()), "2".to_owned()))),
            later,
        ),
        ("the same version", first.clone(), at),
    ];
    for (what, next, expect) in table {
        let mut seen = SeenPod::There(Box::new(first.clone()), at);
        seen.take(Box::new(next), later, begin + Duration::from_millis(800));
        assert!(matches!(seen, SeenPod::There(_, settled) if settled == expect), "{what}");
    }
    // While it may not know the version before, it may know neither.
    let mut seen = SeenPod::There(Box::new(first.clone()), at);
    seen.take(Box::new(with(|_| {})), later, begin);
    assert!(matches!(seen, SeenPod::There(_, settled) if settled == later));
    let mut seen = SeenPod::There(Box::new(with(|_| {})), at);
    seen.take(Box::new(first), begin, later);
    assert!(
        matches!(seen, SeenPod::There(view, settled) if (view.version, settled) == (2, at)),
        "an older one"
    );
}

/// Statuses of requests have the UID that their writer likes. Rows: the pod as it was seen, and
/// the request by whose name it is asked for and written to.
#[test]
fn what_is_done_to_a_pod_is_done_by_a_request_that_names_it() {
    let mut play = one();
    let id = play.ask(&[("a", "a:2")], &[]);
    let own = play.requests[&id].clone();
    let mut another = own.clone();
    (another.id, another.pod.name) = ("another".into(), "other".to_owned());
    let requests = [another, own];
    for (named, first) in [
        (Some("ns/pod"), "r0"),
        (Some("ns/other"), "another"),
        // It is not known, or no request names it.
        (None, "another"),
        (Some("other/pod"), "another"),
    ] {
        let view = PodView { named: named.map(str::to_owned), ..play.view() };
        let pod = pod_of(view, play.node_view());
        assert_eq!(pod.first_of(&requests).map(|request| request.id.as_str()), Some(first), "{named:?}");
    }
    let unseen = UpdatedPod::default();
    assert!(unseen.first_of(&requests).is_some() && unseen.first_of(&[]).is_none());
}

fn pod_of(view: PodView, node: NodeView) -> UpdatedPod {
    let settled = Instant::now_for_tests();
    UpdatedPod {
        seen: SeenPod::There(Box::new(view), settled),
        node: Some(Box::new(node)),
        ..Default::default()
    }
}

/// The runtime was looked at while it ran, and it has fallen over since: the kubelet's word is newer.
#[test]
fn one_from_which_the_kubelet_backs_off_has_ended() {
    let play = one();
    let node = play.node_view();
    let name = crate::ContainerName::from("a");
    let newest = node.instances[&name].id.clone();
    for (told, life) in [
        (Some(newest), Life::Crashing),
        // The word is about the one before.
        (Some("old".into()), Life::Running { ready: false }),
        (None, Life::Running { ready: false }),
    ] {
        let mut view = play.view();
        let status = view.containers[0].status.as_mut().unwrap();
        (status.id, status.runs, status.ready, status.backs_off) = (told, false, false, true);
        let pod = pod_of(view.clone(), node.clone());
        let clock = Clock { now: play.world.now, wall: play.wall() };
        let picture = snapshot(&pod, &view, clock.now, &node, &pod.instances(), clock);
        assert_eq!(
            picture.observed.containers[0].instance.as_ref().map(|instance| instance.life),
            Some(life)
        );
    }
}

/// A hook that was seen to end counts at once, which the swaps of twins go by; batches also ask whether there
/// is one.
#[test]
fn a_hook_is_seen_to_end_and_known_to_be_there() {
    for (hook, ended, early_ready, hooked) in [
        (DeclaredHook::None, false, false, false),
        (DeclaredHook::Command, false, false, true),
        (DeclaredHook::Command, true, true, true),
        (DeclaredHook::Other, true, false, true),
    ] {
        let play = one();
        let mut node = play.node_view();
        let newest = node.instances.get_mut(&"a".into()).unwrap();
        (newest.attempt, newest.hooked) = (1, ended);
        let mut view = play.view();
        view.containers[0].hook = hook;
        let status = view.containers[0].status.as_mut().unwrap();
        (status.id, status.restarts, status.runs, status.ready) = (Some("old".into()), 0, true, true);
        let pod = pod_of(view.clone(), node.clone());
        let clock = Clock { now: play.world.now, wall: play.wall() };
        let picture = snapshot(&pod, &view, clock.now, &node, &pod.instances(), clock);
        let instance = picture.observed.containers[0].instance.as_ref().unwrap();
        assert_eq!((instance.early_ready, instance.hooked), (early_ready, hooked), "{hook:?} {ended}");
    }
}

/// An instance that has exited may come again, for a while, whatever the restart policy says.
#[test]
fn an_end_is_an_end_after_a_while() {
    use RestartPolicy::{Always, Never, OnFailure};
    let rule = |rule| (Always, Some(Never), vec![rule], 0);
    for ((policy, own, rules, finished), life) in [
        ((Always, None, vec![], 0), Life::Restarting),
        ((Never, None, vec![], 0), Life::Ended),
        ((Never, None, vec![], 3), Life::Restarting),
        ((OnFailure, None, vec![], 0), Life::Restarting),
        // The container's own takes the place of the pod's.
        ((Always, Some(Never), vec![], 0), Life::Ended),
        ((Never, Some(Always), vec![], 0), Life::Restarting),
        // By a rule it comes again, whenever that is: its image may have to be pulled first.
        (rule(RestartRule::NotIn(vec![0])), Life::Restarting),
        (rule(RestartRule::In(vec![0])), Life::Ended),
        (rule(RestartRule::Unknown), Life::Ended),
    ] {
        let mut play = one();
        play.world.container("a").instance.life = Life::Restarting;
        let mut view = play.view();
        view.restart_policy = policy;
        (view.containers[0].restart_policy, view.containers[0].restart_rules) = (own, rules.clone());
        let node = play.node_view();
        let mut pod = pod_of(view.clone(), node.clone());
        let clock = Clock { now: play.world.now, wall: play.wall() };
        let created = CreatedWith {
            definition: Some(view.containers[0].definition),
            env: None,
            // So many seconds before it counts as an end.
            finished: Some(play.wall() - Duration::from_secs(10 - finished)),
            exited: true,
        };
        let instances = pod.instances();
        pod.created.insert(instances[&"a".into()].id.clone(), created);
        let picture = snapshot(&pod, &view, play.world.now, &node, &instances, clock);
        let instance = picture.observed.containers[0].instance.as_ref().unwrap();
        assert_eq!(instance.life, life, "{policy:?} {own:?} {rules:?} {finished}");
        let again = (finished > 0).then(|| play.world.now + Duration::from_secs(finished));
        assert_eq!(picture.again, again, "{policy:?} {own:?} {rules:?} {finished}");
    }
}

/// One that fell over after its batch was patched is Ready only when it has run for a while.
#[test]
fn one_that_has_fallen_over_has_to_prove_itself() {
    use crate::in_place_update::{Batch, Record};
    for (batch, last, ran, ready) in [
        (990, Some(985), 1, true),
        (990, Some(990), 1, true),
        (990, Some(991), 1, false),
        (990, Some(991), 10, true),
        (990, None, 1, true),
    ] {
        let play = one();
        let mut view = play.view();
        let containers = [crate::ContainerName::from("a")].into();
        let record = Record {
            container_batches_record: vec![Batch { timestamp: batch, containers, migration: None }],
            ..Record::default()
        };
        view.records.insert(crate::in_place_update::UpdateOwner::Workload, record);
        let status = view.containers[0].status.as_mut().unwrap();
        status.last_started = last.map(Duration::from_secs);
        status.started = Some(play.wall() - Duration::from_secs(ran));
        let node = play.node_view();
        let pod = pod_of(view.clone(), node.clone());
        let clock = Clock { now: play.world.now, wall: play.wall() };
        let picture = snapshot(&pod, &view, play.world.now, &node, &pod.instances(), clock);
        let instance = picture.observed.containers[0].instance.as_ref().unwrap();
        assert_eq!(instance.life, Life::Running { ready }, "{batch} {last:?} {ran}");
        let again = (!ready).then(|| play.world.now + Duration::from_secs(10 - ran));
        assert_eq!(picture.again, again, "{batch} {last:?} {ran}");
    }
}

#[test]
fn an_image_is_known_by_the_hash_of_its_definition() {
    let play = one();
    let (view, node) = (play.view(), play.node_view());
    let wanted = view.containers[0].definition;
    for (definition, image) in [
        (None, ImageMatch::Unknown),
        (Some(wanted), ImageMatch::Wanted),
        (Some(wanted ^ 1), ImageMatch::Other),
    ] {
        let mut pod = pod_of(view.clone(), node.clone());
        let instances = pod.instances();
        let created = CreatedWith { definition, env: None, finished: None, exited: false };
        pod.created.insert(instances[&"a".into()].id.clone(), created);
        let clock = Clock { now: play.world.now, wall: play.wall() };
        let picture = snapshot(&pod, &view, play.world.now, &node, &instances, clock);
        let instance = picture.observed.containers[0].instance.as_ref().unwrap();
        assert_eq!(instance.image, image, "{definition:?}");
    }
}
