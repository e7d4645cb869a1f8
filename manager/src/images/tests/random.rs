//! Random histories: nodes, labels, pods, jobs and agents do what they like, writes are late, managers are
//! replaced. At every moment no job has more nodes asked than its parallelism; in the end every job is over
//! and each node was asked once by it, as the agents count.

use berth_proto::crd::ImagePhase;
use proptest::prelude::*;
use serde_json::json;

use super::world::*;

const NODES: u8 = 6;
const JOBS: u8 = 3;

#[derive(Clone, Debug)]
enum Deed {
    /// Somebody makes a job; the parallelism, and whether it is for all nodes.
    Job { job: u8, parallelism: u8, all: bool },
    /// A node gets the label that some jobs select by, or loses it.
    Label { node: u8, on: bool },
    /// The agent of a node ends what it was asked for.
    End { node: u8, job: u8, well: bool },
    /// It says how far it is.
    Tell { node: u8, job: u8 },
    /// It writes something of its own, so that an order for the version before is refused.
    Disturb { node: u8 },
    /// The API server does an order.
    Write,
    /// A moment passes.
    Pass { millis: u16 },
    /// Another manager.
    FailOver,
    /// The lists come anew.
    List,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        2 => (0..JOBS, 1..4u8, any::<bool>()).prop_map(|(job, parallelism, all)| Deed::Job { job, parallelism, all }),
        2 => (0..NODES, any::<bool>()).prop_map(|(node, on)| Deed::Label { node, on }),
        8 => (0..NODES, 0..JOBS, prop_oneof![4 => Just(true), 1 => Just(false)])
            .prop_map(|(node, job, well)| Deed::End { node, job, well }),
        3 => (0..NODES, 0..JOBS).prop_map(|(node, job)| Deed::Tell { node, job }),
        3 => (0..NODES).prop_map(|node| Deed::Disturb { node }),
        12 => Just(Deed::Write),
        4 => (0..2000u16).prop_map(|millis| Deed::Pass { millis }),
        1 => Just(Deed::FailOver),
        1 => Just(Deed::List),
    ]
}

/// Nodes that a job has asked and that have not ended.
fn in_flight(world: &World, job: &str) -> usize {
    world.asked(job).len()
}

fn parallelism(world: &World, job: &str) -> usize {
    match &world.jobs[job].spec.as_ref().unwrap().parallelism {
        Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(number)) => *number as usize,
        other => panic!("{other:?}"),
    }
}

fn act(world: &mut World, deed: &Deed) {
    let (node, job) = (|node: &u8| format!("n{node}"), |job: &u8| format!("j{job}"));
    let can = |world: &World, node: &str, job: &str| {
        world.jobs.contains_key(job) && world.asked(job).iter().any(|asked| asked == node)
    };
    match deed {
        Deed::Job { job: number, parallelism, all } => {
            // A spec is not changed here: fewer at once would leave more on their way for a while.
            if !world.jobs.contains_key(&job(number)) {
                let selector = if *all { json!({}) } else { json!({ "matchLabels": { "on": "yes" } }) };
                world.job(&job(number), json!({ "parallelism": parallelism, "selector": selector }));
            }
        }
        Deed::Label { node: number, on } => {
            world.node(&node(number), if *on { &[("on", "yes")] } else { &[] });
        }
        Deed::End { node: number, job: by, well } => {
            if can(world, &node(number), &job(by)) {
                let phase = if *well { ImagePhase::Succeeded } else { ImagePhase::Failed };
                world.answer(&node(number), &job(by), phase);
            }
        }
        Deed::Tell { node: number, job: by } => {
            if can(world, &node(number), &job(by)) {
                world.answer(&node(number), &job(by), ImagePhase::Pulling);
            }
        }
        Deed::Disturb { node: number } => world.agent(&node(number), None),
        Deed::Write => drop(world.write_one()),
        Deed::Pass { millis } => world.pass(std::time::Duration::from_millis(u64::from(*millis))),
        Deed::FailOver => world.fail_over(),
        Deed::List => world.list_all(),
    }
}

/// A node that loses its label before it has ended is asked again when it has it again, and rightly so.
fn may_be_asked_again(deeds: &[Deed]) -> bool {
    deeds.iter().any(|deed| matches!(deed, Deed::Label { on: false, .. }))
        && deeds.iter().any(|deed| matches!(deed, Deed::Job { all: false, .. }))
}

proptest! {
    #[test]
    fn every_node_once_and_never_too_many(deeds in proptest::collection::vec(deed(), 1..150)) {
        let mut world = World::with_nodes(NODES.into());
        world.waits = true;
        for deed in &deeds {
            act(&mut world, deed);
            for job in world.jobs.keys().cloned().collect::<Vec<_>>() {
                prop_assert!(in_flight(&world, &job) <= parallelism(&world, &job), "{deed:?}: {job}");
            }
        }
        // From here on everybody does what is asked of them.
        world.waits = false;
        world.carry_out(Vec::new());
        for _ in 0..200 {
            for job in world.jobs.keys().cloned().collect::<Vec<_>>() {
                if !world.is_over(&job) {
                    prop_assert!(in_flight(&world, &job) <= parallelism(&world, &job), "{job}");
                    world.succeed_all(&job);
                }
            }
            world.pass(seconds(1));
        }
        for (name, job) in &world.jobs {
            prop_assert!(world.is_over(name), "{name}: {:?}", job.status);
            let [desired, active, succeeded, failed] = world.counts(name);
            prop_assert_eq!((active, succeeded + failed), (0, desired));
        }
        if !may_be_asked_again(&deeds) {
            prop_assert!(world.asks.values().all(|times| *times == 1), "{:?}", world.asks);
            for (name, job) in &world.jobs {
                let asked = world.asks.keys().filter(|(_, uid)| *uid == job.uid).count();
                prop_assert!(asked >= world.counts(name)[0] as usize);
            }
        }
        world.pass(seconds(301));
        prop_assert!(world.images.values().all(|image| image.desired.is_empty()), "all is taken back in the end");
        let settled = (world.node_writes, world.job_writes);
        world.pass(seconds(100));
        prop_assert_eq!((world.node_writes, world.job_writes), settled, "a settled world owes nothing");
    }
}
