//! Costs, adoption, and pods that move on.

use berth_proto::crd::{SpreadSubsetCondition, SpreadSubsetStatus, WorkloadSpreadStatus as Status};
use rstest::rstest;
use serde_json::json;

use super::{adaptive, at, spread};
use crate::{Fit, Matched, Move, PodSeen, adopt, plan};

fn pod(number: usize, subset: Option<&str>) -> PodSeen {
    PodSeen {
        uid: format!("u{number:03}"),
        matched: subset.map(|subset| Matched { name: "ws".into(), subset: subset.into(), uid: None }),
        active: true,
        assigned: true,
        phase: 2,
        ready: true,
        ready_since: Some(0),
        created: at(0).as_second(),
        ..PodSeen::default()
    }
}

fn costs(moves: &[Move]) -> Vec<(usize, i32)> {
    moves
        .iter()
        .map(|one| if let Move::Cost(at, cost) = one { (*at, *cost) } else { panic!("{one:?}") })
        .collect()
}

#[test]
fn the_last_subset_goes_first_and_those_over_the_limit_before_it() {
    let three = spread(
        "CloneSet",
        json!([{"name": "a", "maxReplicas": 10}, {"name": "b", "maxReplicas": 1}, {"name": "c"}]),
    );
    let mut pods: Vec<_> = (0..20).map(|number| pod(number, Some("a"))).collect();
    pods.extend([pod(20, Some("b")), pod(21, Some("b")), pod(22, Some("c")), pod(23, Some("gone"))]);
    let costs = costs(&plan("ws", &three, &Status::default(), &pods, None, at(0)).moves);
    let of = |cost: i32| costs.iter().filter(|(_, known)| *known == cost).count();
    assert_eq!((of(300), of(-100)), (10, 10));
    assert_eq!((of(200), of(-200), of(100), of(-400)), (1, 1, 1, 1));
    // Written once.
    for (at, cost) in costs {
        pods[at].cost = Some(cost.to_string());
    }
    assert!(plan("ws", &three, &Status::default(), &pods, None, at(0)).moves.is_empty());
}

#[rstest]
#[case::no_node(PodSeen { assigned: false, ..pod(0, Some("a")) })]
#[case::pending(PodSeen { phase: 0, ..pod(0, Some("a")) })]
#[case::not_ready(PodSeen { ready: false, ..pod(0, Some("a")) })]
#[case::ready_later(PodSeen { ready_since: Some(9), ..pod(0, Some("a")) })]
#[case::restarts(PodSeen { restarts: 3, ..pod(0, Some("a")) })]
#[case::younger(PodSeen { created: at(9).as_second(), ..pod(0, Some("a")) })]
fn of_those_over_the_limit_the_worst_go(#[case] worst: PodSeen) {
    let one = spread("Deployment", json!([{"name": "a", "maxReplicas": 1}, {"name": "b"}]));
    let pods = [worst, pod(1, Some("a"))];
    assert_eq!(costs(&plan("ws", &one, &Status::default(), &pods, None, at(0)).moves), [(1, 200), (0, -100)]);
}

#[test]
fn who_obeys_no_costs_gets_none() {
    for kind in ["Job", "StatefulSet"] {
        let one = spread(kind, json!([{"name": "a", "maxReplicas": 1}]));
        assert!(plan("ws", &one, &Status::default(), &[pod(0, Some("a"))], None, at(0)).moves.is_empty());
        assert_eq!(one.cost_of_nobody(), None);
    }
    // Nobody knows of how many the shares are.
    let share = spread("CloneSet", json!([{"name": "a", "maxReplicas": "50%"}, {"name": "b"}]));
    let pods = [pod(0, Some("a")), pod(1, Some("a"))];
    assert!(plan("ws", &share, &Status::default(), &pods, None, at(0)).moves.is_empty());
    assert_eq!(
        costs(&plan("ws", &share, &Status::default(), &pods, Some(2), at(0)).moves),
        [(0, 200), (1, -100)]
    );
}

#[test]
fn pods_of_no_subset_are_asked_about_when_they_have_a_node() {
    let one = spread("CloneSet", json!([{"name": "a"}, {"name": "b"}]));
    let other =
        PodSeen { matched: Some(Matched { name: "other".into(), ..Matched::default() }), ..pod(3, None) };
    let pods = [
        pod(0, None),
        PodSeen { assigned: false, ..pod(1, None) },
        PodSeen { active: false, ..pod(2, None) },
        other,
    ];
    let plan = plan("ws", &one, &Status::default(), &pods, None, at(0));
    assert_eq!((plan.strangers, plan.moves.len()), (vec![0, 3], 0));
    assert_eq!(one.cost_of_nobody(), Some(-300));
}

#[rstest]
#[case::none(&[Fit { holds: false, weight: 9, merged: true, room: true }], None)]
#[case::preferred(&[Fit { holds: true, weight: 1, merged: true, room: true }, Fit { holds: true, weight: 2, merged: false, room: false }], Some(1))]
#[case::merged(&[Fit { holds: true, room: true, ..Fit::default() }, Fit { holds: true, merged: true, ..Fit::default() }], Some(1))]
#[case::room(&[Fit { holds: true, ..Fit::default() }, Fit { holds: true, room: true, ..Fit::default() }], Some(1))]
#[case::first_of_equals(&[Fit { holds: true, ..Fit::default() }, Fit { holds: true, ..Fit::default() }], Some(0))]
fn adoption(#[case] fits: &[Fit], #[case] expected: Option<usize>) {
    assert_eq!(adopt(fits), expected);
}

/// Places of a subset are taken one by one, by pods that were there before and are alike.
#[rstest]
#[case::one_after_the_other(json!([{"name": "a", "maxReplicas": 2}, {"name": "b", "maxReplicas": 2}]), None, &[], &[0, 0, 1, 1])]
#[case::without_a_limit(json!([{"name": "a", "maxReplicas": 1}, {"name": "b"}]), None, &[], &[0, 1, 1, 1])]
#[case::some_have_one(json!([{"name": "a", "maxReplicas": 2}, {"name": "b"}]), None, &["a", "a"], &[1, 1, 1, 1])]
#[case::shares(json!([{"name": "a", "maxReplicas": "25%"}, {"name": "b"}]), Some(4), &[], &[0, 1, 1, 1])]
#[case::shares_of_nobody_knows_what(json!([{"name": "a", "maxReplicas": "25%"}, {"name": "b"}]), None, &[], &[])]
#[case::none_has_a_place(json!([{"name": "a", "maxReplicas": 0}, {"name": "b", "maxReplicas": 0}]), None, &[], &[0, 0, 0, 0])]
fn each_takes_a_place(
    #[case] subsets: serde_json::Value,
    #[case] replicas: Option<i32>,
    #[case] there: &[&str],
    #[case] taken: &[usize],
) {
    let two = spread("CloneSet", subsets);
    let pods = there.iter().enumerate().map(|(number, subset)| pod(number, Some(*subset)));
    let pods: Vec<_> = pods.chain((there.len()..there.len() + 4).map(|number| pod(number, None))).collect();
    let plan = plan("ws", &two, &Status::default(), &pods, replicas, at(0));
    let mut room = plan.room.clone();
    let mut place = |_: &usize| {
        let fit = |at: usize| Fit { holds: true, room: room.has(at), ..Fit::default() };
        let at = adopt(&[fit(0), fit(1)]).unwrap();
        room.take(at);
        at
    };
    assert_eq!(plan.strangers.iter().map(&mut place).collect::<Vec<_>>(), taken);
    room.take(9);
    assert!(!room.has(9));
}

#[test]
fn pods_move_on_when_their_subset_is_closed() {
    let two = adaptive(30, json!([{"name": "a"}, {"name": "b"}]));
    let stuck = |number, subset| PodSeen {
        unschedulable: true,
        assigned: false,
        phase: 0,
        ..pod(number, Some(subset))
    };
    let pods = [stuck(0, "a"), stuck(1, "b"), pod(2, Some("a"))];
    let deleted = |status: &Status, seconds| {
        let plan = plan("ws", &two, status, &pods, None, at(seconds));
        let gone =
            plan.moves.iter().filter_map(|one| if let Move::Delete(at) = one { Some(*at) } else { None });
        (gone.collect::<Vec<_>>(), plan.again)
    };
    assert_eq!(deleted(&Status::default(), 60), (vec![], None), "the next one would be put there again");
    let closed =
        SpreadSubsetCondition { type_: "Schedulable".into(), status: "False".into(), ..Default::default() };
    let entry =
        SpreadSubsetStatus { name: "a".into(), conditions: vec![closed], ..SpreadSubsetStatus::default() };
    let status = Status { subset_statuses: vec![entry], ..Status::default() };
    assert_eq!(deleted(&status, 10), (vec![], Some(20)));
    assert_eq!(deleted(&status, 30), (vec![0], None), "not in the last one");
}
