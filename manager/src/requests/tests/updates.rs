//! ContainerUpdateRequests: assigned and ended as requests to recreate containers are, and what differs.

use std::time::Duration;

use berth_proto::crd::{
    ContainerUpdateRequestSpec, UpdateContainer, UpdateMetadata, UpdatePhase, UpdateStrategy,
};
use rstest::rstest;
use serde_json::json;

use super::world::*;
use crate::{
    requests::{FailureReason, RequestKind},
    store::{ContainerSeen, Kind, PodSeen, PodStage, Role, UpdateSeen},
    write::Write,
};

type Spec = ContainerUpdateRequestSpec;

const A_MOMENT: Duration = Duration::from_millis(1);

/// A world in which the update `u` of the pod `p` is assigned; the request as it is then.
fn begin(deadline: Option<i64>) -> (World, UpdateSeen) {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let mut wanted = update("u", "p", &["a"]);
    wanted.spec.as_mut().unwrap().active_deadline_seconds = deadline;
    let patches = world.update(wanted);
    assert_eq!(only(&patches), assigned(&[]));
    let request = world.write_update(&patches[0]);
    (world, request)
}

fn phase(mut request: UpdateSeen, phase: UpdatePhase) -> UpdateSeen {
    request.status.as_mut().unwrap().phase = Some(phase);
    changed(request)
}

// === assignment ===

#[test]
fn the_node_and_the_pod_are_all_that_is_written() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let patches = world.update(update("u", "p", &["a"]));
    let status = serde_json::to_value(patches[0].status()).unwrap();
    assert_eq!(status, json!({ "nodeName": "node-1", "podUID": "uid-of-p" }));
    world.write_update(&patches[0]);
    assert!(world.pass(seconds(59)).is_empty());
}

#[test]
fn a_container_that_has_never_started_may_be_what_it_is_for() {
    let mut world = World::new();
    world.pod(pod("p", &[ContainerSeen { id: None, ..container("a", 0) }]));
    assert_eq!(only(&world.update(update("u", "p", &["a"]))), assigned(&[]));
}

#[test]
fn metadata_alone_are_enough() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let mut wanted = update("u", "p", &[]);
    let labels = [("tier".to_owned(), String::new())].into();
    let metadata = UpdateMetadata { labels, ..Default::default() };
    wanted.spec.as_mut().unwrap().metadata = Some(metadata);
    assert_eq!(only(&world.update(wanted)), assigned(&[]));
}

/// The instances a recreation has replaced are history, and nothing to an update.
#[test]
fn a_pod_that_is_seen_with_an_instance_that_was_replaced_is_as_good() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let patches = world.request(request("r", "p", &["a"]));
    let first = world.write_only(&patches);
    world.request(succeeded(first));
    assert!(world.request(request("again", "p", &["a"])).is_empty(), "the pod is old news");
    assert_eq!(only(&world.update(update("u", "p", &["a"]))), assigned(&[]));
}

/// Each of these may only not have been seen yet: they are waited for, and named when they do not come.
#[rstest]
#[case::no_pod(None, FailureReason::PodNotFound, "pod \"p\" is not in namespace \"default\"")]
#[case::not_scheduled(
    Some(PodSeen { node: None, ..pod("p", &[container("a", 1)]) }),
    FailureReason::PodNotScheduled,
    "pod \"p\" is not scheduled to a node yet"
)]
#[case::terminating(
    Some(PodSeen { stage: PodStage::Terminating, ..pod("p", &[container("a", 1)]) }),
    FailureReason::PodTerminating,
    "pod \"p\" is being deleted"
)]
#[case::finished(
    Some(PodSeen { stage: PodStage::Finished, ..pod("p", &[container("a", 1)]) }),
    FailureReason::PodFinished,
    "pod \"p\" has ended: its containers stay as they are"
)]
#[case::no_such_container(
    Some(pod("p", &[container("b", 1)])),
    FailureReason::ContainerNotFound,
    "container \"a\" is not in pod \"p\""
)]
#[case::init_container(
    Some(pod("p", &[ContainerSeen { role: Role::Init, ..container("a", 1) }])),
    FailureReason::InitContainer,
    "container \"a\" of pod \"p\" is an init container: only spec.containers are updated in place"
)]
#[case::sidecar(
    Some(pod("p", &[ContainerSeen { role: Role::Sidecar, ..container("a", 1) }])),
    FailureReason::InitContainer,
    "container \"a\" of pod \"p\" is an init container: only spec.containers are updated in place"
)]
fn what_is_missing(#[case] seen: Option<PodSeen>, #[case] reason: FailureReason, #[case] message: &str) {
    let begin = |world: &mut World| {
        if let Some(pod) = seen.clone() {
            world.pod(pod);
        }
        assert!(world.update(update("u", "p", &["a"])).is_empty());
        assert!(world.pass(seconds(3) - A_MOMENT).is_empty());
    };
    let mut world = World::new();
    begin(&mut world);
    let patches = world.pass(A_MOMENT);
    assert_eq!(only(&patches), Said::Failed(reason, message.to_owned()));
    let status = serde_json::to_value(patches[0].status()).unwrap();
    assert_eq!((&status["phase"], &status["message"]), (&json!("Completed"), &json!(message)));
    assert_eq!(status["completionTime"], status["conditions"][0]["lastTransitionTime"]);
    assert_eq!(status["conditions"][0]["type"], "Failed");
    assert_eq!(status["conditions"][0]["reason"], reason.name());
    world.write_update(&patches[0]);
    assert_eq!(world.index.next_deadline(), None);

    // The same, and it comes in time.
    let mut world = World::new();
    begin(&mut world);
    assert_eq!(only(&world.pod(pod("p", &[container("a", 5)]))), assigned(&[]));
}

#[test]
fn an_absence_proves_nothing_while_the_view_of_the_pods_is_behind() {
    let mut world = World::new();
    let now = world.now();
    world.index.view_broke(Kind::Pod, now);
    assert!(world.update(update("u", "p", &["a"])).is_empty());
    assert!(world.pass(seconds(9)).is_empty());
    assert_eq!(reason(&world.pass(seconds(1))), FailureReason::PodNotFound);
}

#[rstest]
#[case::no_pod(|spec: &mut Spec| spec.pod_name.clear(), &["spec.podName", "name a pod"])]
#[case::nothing(|spec: &mut Spec| spec.containers.clear(), &["asks for nothing", "containers", "metadata"])]
#[case::empty_metadata(
    |spec: &mut Spec| (spec.containers, spec.metadata) = (Vec::new(), Some(UpdateMetadata::default())),
    &["asks for nothing", "labels or annotations"]
)]
#[case::nameless(|spec: &mut Spec| spec.containers[0].name.clear(), &["spec.containers[0].name is empty"])]
#[case::twice(
    |spec: &mut Spec| spec.containers.push(spec.containers[0].clone()),
    &["spec.containers[1].name", "\"a\"", "once"]
)]
#[case::no_image(|spec: &mut Spec| spec.containers[0].image.clear(), &["spec.containers[0].image is empty"])]
#[case::odd_image(
    |spec: &mut Spec| spec.containers.push(UpdateContainer { name: "b".into(), image: "UPPER/case".into() }),
    &["spec.containers[1].image", "UPPER/case"]
)]
#[case::label_without_key(
    |spec: &mut Spec| spec.metadata.get_or_insert_default().labels = [(String::new(), "x".into())].into(),
    &["spec.metadata.labels", "empty key"]
)]
#[case::annotation_without_key(
    |spec: &mut Spec| spec.metadata.get_or_insert_default().annotations = [(String::new(), "x".into())].into(),
    &["spec.metadata.annotations", "empty key"]
)]
#[case::short_deadline(
    |spec: &mut Spec| spec.active_deadline_seconds = Some(2),
    &["spec.activeDeadlineSeconds is 2", "at least 3"]
)]
#[case::negative_ttl(
    |spec: &mut Spec| spec.ttl_seconds_after_finished = Some(-1),
    &["spec.ttlSecondsAfterFinished is -1", "0 or more"]
)]
#[case::negative_grace(
    |spec: &mut Spec| spec.strategy = Some(UpdateStrategy { grace_period_seconds: Some(-5), ..Default::default() }),
    &["spec.strategy.gracePeriodSeconds is -5", "0 or more"]
)]
fn a_fault_is_named(#[case] spoil: impl FnOnce(&mut Spec), #[case] words: &[&str]) {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1), container("b", 1)]));
    let mut bad = update("u", "p", &["a"]);
    spoil(bad.spec.as_mut().unwrap());
    let patches = world.update(bad);
    let Said::Failed(reason, message) = only(&patches) else { panic!("{patches:?}") };
    assert_eq!(reason, FailureReason::InvalidSpec);
    for word in words {
        assert!(message.contains(word), "no {word:?} in {message:?}");
    }
    world.write_update(&patches[0]);
}

#[test]
fn a_spec_that_cannot_be_read_is_a_fault_and_such_a_status_is_left_alone() {
    let mut world = World::new();
    let mut bad = update("bad", "p", &["a"]);
    bad.spec = Err("missing field `podName`".to_owned());
    assert_eq!(reason(&world.update(bad)), FailureReason::InvalidSpec);
    let mut odd = update("odd", "p", &["a"]);
    odd.status = Err("unknown variant".to_owned());
    assert!(world.update(odd).is_empty());
}

// === deadlines ===

#[test]
fn a_silent_agent_ends_the_update_after_a_minute() {
    let (mut world, _) = begin(None);
    assert!(world.pass(seconds(60) - A_MOMENT).is_empty());
    let patches = world.pass(A_MOMENT);
    assert_eq!(reason(&patches), FailureReason::AgentSilent);
    // What was applied before is applied again: left out, it would be taken back.
    let status = serde_json::to_value(patches[0].status()).unwrap();
    assert_eq!((&status["nodeName"], &status["podUID"]), (&json!("node-1"), &json!("uid-of-p")));
    world.write_update(&patches[0]);
    assert!(world.pass(seconds(3600)).is_empty());
}

#[rstest]
#[case(UpdatePhase::Pending)]
#[case(UpdatePhase::Updating)]
#[case(UpdatePhase::RollingBack)]
#[case(UpdatePhase::Completed)]
fn an_agent_that_has_answered_has_all_the_time_there_is(#[case] answer: UpdatePhase) {
    let (mut world, request) = begin(None);
    world.update(phase(request, answer));
    assert!(world.pass(seconds(86_400)).is_empty());
    assert_eq!(world.index.next_deadline(), None);
}

#[test]
fn a_deadline_is_the_agents_to_keep_and_the_managers_10_s_later() {
    let (mut world, request) = begin(Some(30));
    world.update(phase(request, UpdatePhase::Updating));
    assert!(world.pass(seconds(40) - A_MOMENT).is_empty());
    let text = "updating has exceeded the activeDeadlineSeconds".to_owned();
    assert_eq!(only(&world.pass(A_MOMENT)), Said::Failed(FailureReason::DeadlineExceeded, text));
}

#[test]
fn a_deadline_without_an_agent_is_the_managers_at_once() {
    let mut world = World::new();
    let mut wanted = update("u", "p", &["a"]);
    wanted.spec.as_mut().unwrap().active_deadline_seconds = Some(3);
    world.pass(seconds(2));
    assert!(world.update(wanted).is_empty());
    assert_eq!(reason(&world.pass(seconds(1))), FailureReason::DeadlineExceeded);
}

/// The agent has kept the deadline by turning back, and the way back takes as long as it takes.
#[test]
fn an_update_on_its_way_back_has_no_deadline() {
    let (mut world, request) = begin(Some(30));
    world.update(phase(request, UpdatePhase::RollingBack));
    assert!(world.pass(seconds(3600)).is_empty());
    world.no_pod("p");
    assert_eq!(reason(&world.pass(seconds(10))), FailureReason::PodGone);
}

#[test]
fn a_pod_or_a_node_that_is_gone_ends_the_update() {
    let (mut world, request) = begin(None);
    world.update(phase(request.clone(), UpdatePhase::Updating));
    world.pod(PodSeen { uid: "another".to_owned(), ..pod("p", &[container("a", 5)]) });
    assert!(world.pass(seconds(10) - A_MOMENT).is_empty());
    assert_eq!(reason(&world.pass(A_MOMENT)), FailureReason::PodGone);

    let (mut world, request) = begin(None);
    world.update(phase(request, UpdatePhase::Updating));
    assert!(world.no_node("node-1").is_empty());
    assert_eq!(reason(&world.pass(seconds(3))), FailureReason::NodeGone);
}

// === both kinds at once ===

#[test]
fn both_kinds_of_one_name_for_one_pod_are_two_requests() {
    let mut world = World::new();
    assert!(world.request(request("same", "p", &["a"])).is_empty());
    assert!(world.update(update("same", "p", &["a"])).is_empty());
    let patches = world.pod(pod("p", &[container("a", 1)]));
    let asks: Vec<RequestKind> = patches.iter().map(|patch| patch.id.kind).collect();
    assert_eq!(asks, RequestKind::ALL);
    assert_eq!((said(&patches[0]), said(&patches[1])), (assigned(&[("a", 1)]), assigned(&[])));
    patches.iter().for_each(|patch| world.write_any(patch));
    let size = world.index.size();
    assert_eq!((size.requests, size.updates, size.unassigned, size.assigned), (1, 1, 0, 2));

    world.no_request("same");
    let size = world.index.size();
    assert_eq!((size.requests, size.updates, size.assigned), (0, 1, 1));
    assert_eq!(reason(&world.pass(seconds(60))), FailureReason::AgentSilent);
    world.no_update("same");
    assert_eq!((world.index.size().updates, world.index.next_deadline()), (0, None));
}

/// A kind that is not installed is never listed: a watch of it only breaks, again and again.
#[rstest]
#[case::updates(RequestKind::Update, RequestKind::Recreate)]
#[case::recreations(RequestKind::Recreate, RequestKind::Update)]
fn neither_kind_waits_for_the_other(#[case] missing: RequestKind, #[case] there: RequestKind) {
    let mut world = World::unlisted();
    let now = world.now();
    Kind::ALL.into_iter().for_each(|kind| world.index.list_begins(kind, now));
    world.index.view_broke(missing.object(), now);
    world.node("node-1");
    let show = |world: &mut World, name: &str, pod: &str| match there {
        RequestKind::Recreate => world.request(request(name, pod, &["a"])),
        RequestKind::Update => world.update(update(name, pod, &["a"])),
    };
    world.pod(pod("p", &[container("a", 1)]));
    assert!(show(&mut world, "listed", "p").is_empty());
    assert!(world.index.list_ends(Kind::Pod, now).is_empty());
    assert!(world.index.list_ends(Kind::Node, now).is_empty());
    let patches = world.index.list_ends(there.object(), now);
    assert!(matches!(only(&patches), Said::Assigned(_)));
    patches.iter().for_each(|patch| world.write_any(patch));

    let now = world.now();
    world.index.list_begins(missing.object(), now);
    assert!(show(&mut world, "later", "none").is_empty());
    world.index.view_broke(missing.object(), now);
    assert_eq!(reason(&world.pass(seconds(3))), FailureReason::PodNotFound);
}

#[test]
fn a_list_of_one_kind_says_nothing_of_the_other() {
    let (mut world, _) = begin(None);
    world.request(request("r", "p", &["a"]));
    let now = world.now();
    world.index.list_begins(Kind::Request, now);
    world.index.list_ends(Kind::Request, now);
    let size = world.index.size();
    assert_eq!((size.requests, size.updates, size.assigned), (0, 1, 1));
    world.index.list_begins(Kind::Update, now);
    world.index.list_ends(Kind::Update, now);
    assert_eq!((world.index.size().updates, world.index.next_deadline()), (0, None));
}

#[test]
fn a_new_leader_owes_everything_once_more_and_a_lost_write_soon() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let patches = world.update(update("u", "p", &["a"]));
    let now = world.now();
    assert_eq!(only(&world.index.owed(now)), assigned(&[]));
    world.index.lost(&Write::Request(patches[0].clone()).target(), now);
    assert!(world.pass(seconds(4)).is_empty());
    assert_eq!(only(&world.pass(seconds(1))), assigned(&[]));
}
