//! Ends that no agent can write.

use std::time::Duration;

use berth_proto::crd::RecreatePhase;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::world::*;
use crate::{
    requests::{FailureReason, RequestAct, RequestIndex},
    store::{Kind, Object, PodSeen, PodStage, RecreateSeen},
};

/// A world in which the request `r` for the pod `p` is assigned; the request as it is then.
fn begin(deadline: Option<i64>) -> (World, RecreateSeen) {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let wanted = request("r", "p", &["a"]);
    let patches = world.request(deadline.map_or(wanted.clone(), |seconds| with_deadline(wanted, seconds)));
    let request = world.write_only(&patches);
    (world, request)
}

const A_MOMENT: Duration = Duration::from_millis(1);

#[test]
fn a_silent_agent_ends_the_request_after_a_minute() {
    let (mut world, _) = begin(None);
    assert!(world.pass(seconds(60) - A_MOMENT).is_empty());
    let patches = world.pass(A_MOMENT);
    let text = "daemon has not responded for a long time";
    assert_eq!(only(&patches), Said::Failed(FailureReason::AgentSilent, text.to_owned()));
    // What was applied before is applied again: left out, it would be taken back.
    let RequestAct::Fail(_, Some(assignment)) = &patches[0].write else { panic!("{patches:?}") };
    assert_eq!(assignment.contexts.len(), 1);
    world.write_only(&patches);
    assert!(world.pass(seconds(3600)).is_empty());
}

#[test]
fn an_agent_that_has_answered_has_all_the_time_there_is() {
    for answer in [RecreatePhase::Pending, RecreatePhase::Recreating] {
        let (mut world, request) = begin(None);
        world.request(phase(request, answer));
        assert!(world.pass(seconds(86_400)).is_empty());
        assert_eq!(world.index.next_deadline(), None);
    }
}

#[test]
fn a_deadline_is_the_agents_to_keep_and_the_managers_10_s_later() {
    let (mut world, request) = begin(Some(30));
    world.request(phase(request, RecreatePhase::Recreating));
    assert!(world.pass(seconds(40) - A_MOMENT).is_empty());
    let text = "recreating has exceeded the activeDeadlineSeconds";
    assert_eq!(only(&world.pass(A_MOMENT)), Said::Failed(FailureReason::DeadlineExceeded, text.to_owned()));
}

#[test]
fn a_deadline_the_agent_keeps_is_not_written_again() {
    let (mut world, request) = begin(Some(30));
    world.request(phase(request, RecreatePhase::Completed));
    assert!(world.pass(seconds(86_400)).is_empty());
}

#[test]
fn a_deadline_beyond_all_clocks_is_none() {
    let (mut world, request) = begin(Some(i64::MAX));
    world.request(phase(request, RecreatePhase::Recreating));
    assert!(world.pass(seconds(86_400)).is_empty());
}

#[test]
fn a_pod_that_is_gone_ends_the_request_if_the_agent_does_not() {
    let (mut world, request) = begin(None);
    world.request(phase(request, RecreatePhase::Recreating));
    world.pass(seconds(100));
    assert!(world.no_pod("p").is_empty());
    assert!(world.pass(seconds(10) - A_MOMENT).is_empty());
    assert_eq!(only(&world.pass(A_MOMENT)), Said::Failed(FailureReason::PodGone, "pod has gone".to_owned()));
}

#[test]
fn a_pod_of_the_same_name_is_another_one() {
    let (mut world, request) = begin(None);
    world.request(phase(request, RecreatePhase::Recreating));
    world.pod(PodSeen { uid: "another".to_owned(), ..pod("p", &[container("a", 5)]) });
    assert_eq!(reason(&world.pass(seconds(10))), FailureReason::PodGone);
}

#[test]
fn a_pod_that_terminates_is_the_agents_business() {
    let (mut world, request) = begin(None);
    world.request(phase(request, RecreatePhase::Recreating));
    world.pod(PodSeen { stage: PodStage::Terminating, ..pod("p", &[container("a", 1)]) });
    assert!(world.pass(seconds(3600)).is_empty());
}

#[test]
fn a_node_that_is_gone_ends_the_request() {
    let (mut world, request) = begin(None);
    world.request(phase(request, RecreatePhase::Recreating));
    world.pass(seconds(100));
    assert!(world.no_node("node-1").is_empty());
    world.no_pod("p");
    assert!(world.pass(seconds(3) - A_MOMENT).is_empty());
    let patches = world.pass(A_MOMENT);
    assert_eq!(only(&patches), Said::Failed(FailureReason::NodeGone, "node \"node-1\" has gone".to_owned()));
    world.write_only(&patches);
    assert!(world.pass(seconds(3600)).is_empty());
}

/// Its agent does so at once, if there is one.
#[test]
fn a_request_that_no_agent_deletes_is_deleted_10_s_after_its_time() {
    let ended = |request: RecreateSeen, kept| {
        let mut request = phase(request, RecreatePhase::Completed);
        request.spec.as_mut().unwrap().ttl_seconds_after_finished = kept;
        request.status.as_mut().unwrap().completion_time = Some(Time(World::BEGUN));
        request
    };
    let (mut world, request) = begin(None);
    assert!(world.request(ended(request, None)).is_empty());
    assert!(world.pass(seconds(3600)).is_empty());

    let (mut world, request) = begin(None);
    assert!(world.request(ended(request, Some(20))).is_empty());
    assert!(world.pass(seconds(30) - A_MOMENT).is_empty());
    assert_eq!(only(&world.pass(A_MOMENT)), Said::Deleted);
    assert!(world.pass(seconds(3600)).is_empty(), "asked for once");
    world.no_request("r");
    assert_eq!(world.index.next_deadline(), None);

    // The clock of its node is an hour behind; what is seen anew changes nothing.
    let (mut world, request) = begin(None);
    let mut behind = ended(request, Some(20));
    let hour = SignedDuration::from_hours(1);
    behind.status.as_mut().unwrap().completion_time = Some(Time(World::BEGUN - hour));
    assert!(world.request(behind.clone()).is_empty());
    assert!(world.pass(seconds(15)).is_empty());
    assert!(world.request(changed(behind)).is_empty());
    assert!(world.pass(seconds(15) - A_MOMENT).is_empty());
    assert_eq!(only(&world.pass(A_MOMENT)), Said::Deleted);

    let (mut world, request) = begin(None);
    let going = RecreateSeen { deleting: true, ..ended(request, Some(0)) };
    assert!(world.request(going).is_empty());
    assert!(world.pass(seconds(3600)).is_empty());
}

#[test]
fn a_node_that_comes_back_at_once_was_never_gone() {
    let (mut world, request) = begin(None);
    world.request(phase(request, RecreatePhase::Recreating));
    world.no_node("node-1");
    world.pass(seconds(2));
    assert!(world.node("node-1").is_empty());
    assert!(world.pass(seconds(3600)).is_empty());
}

#[test]
fn a_request_that_is_deleted_is_owed_nothing() {
    let (mut world, _) = begin(Some(30));
    world.no_node("node-1");
    world.no_request("r");
    assert!(world.pass(seconds(3600)).is_empty());
    assert_eq!(world.index.next_deadline(), None);
}

/// Checks that agents get their time anew: the counts of the manager that ran before are lost with it.
#[test]
fn a_manager_that_has_just_started_counts_from_its_own_first_sight() {
    let (old, request) = begin(Some(30));
    let mut world = World::unlisted();
    world.requests = old.requests;
    world.pass(seconds(1000));
    let now = world.now();
    for kind in Kind::ALL {
        world.index.list_begins(kind, now);
    }
    world.request(request);
    assert!(world.pass(seconds(5)).is_empty(), "nothing is decided while lists are incomplete");
    let now = world.now();
    assert!(world.index.apply(Object::Node(node("node-1")), now).is_empty());
    assert!(world.pod(pod("p", &[container("a", 1)])).is_empty());
    let patches: Vec<_> = Kind::ALL.into_iter().flat_map(|kind| world.index.list_ends(kind, now)).collect();
    assert!(patches.is_empty(), "{patches:?}");
    // Its deadline was over long ago: 1 s from first sight, and the agent's 10 s. The lists took 5 of them.
    assert!(world.pass(seconds(6) - A_MOMENT).is_empty());
    assert_eq!(reason(&world.pass(A_MOMENT)), FailureReason::DeadlineExceeded);
}

#[test]
fn silence_is_counted_from_first_sight_too() {
    let (_, request) = begin(None);
    let mut world = World::new();
    world.pass(seconds(1000));
    world.pod(pod("p", &[container("a", 1)]));
    assert!(world.request(request).is_empty());
    assert!(world.pass(seconds(60) - A_MOMENT).is_empty());
    assert_eq!(reason(&world.pass(A_MOMENT)), FailureReason::AgentSilent);
}

#[test]
fn an_absence_while_a_view_is_behind_is_doubted() {
    let (mut world, request) = begin(None);
    world.request(phase(request, RecreatePhase::Recreating));
    let now = world.now();
    world.no_node("node-1");
    world.index.view_broke(Kind::Node, now);
    assert!(world.pass(seconds(3)).is_empty() || unreachable(&world.index));
    assert_eq!(reason(&world.pass(seconds(7))), FailureReason::NodeGone);
}

fn unreachable(index: &RequestIndex) -> bool {
    panic!("decided in doubt: {:?}", index.size())
}
