//! Random histories, shown to two indexes that differ in how the watches are interleaved: whatever the order,
//! each request ends up with one and the same write, and a converged world owes nothing.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::world::*;
use crate::{
    requests::{RequestId, RequestKind, StatusPatch},
    store::{Object, PodSeen, PodStage},
};

/// Deed of a user or a kubelet. Three pods, four requests of each kind.
#[derive(Clone, Debug)]
enum Deed {
    Run { pod: u8, instance: u32 },
    Terminate { pod: u8 },
    Remove { pod: u8 },
    Ask { kind: RequestKind, request: u8, pod: u8, container: &'static str },
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => (0..3u8, 1..50u32).prop_map(|(pod, instance)| Deed::Run { pod, instance }),
        1 => (0..3u8).prop_map(|pod| Deed::Terminate { pod }),
        1 => (0..3u8).prop_map(|pod| Deed::Remove { pod }),
        4 => (
            prop_oneof![Just(RequestKind::Recreate), Just(RequestKind::Update)],
            0..4u8,
            0..3u8,
            prop_oneof![9 => Just("a"), 1 => Just("b")],
        )
            .prop_map(|(kind, request, pod, container)| Deed::Ask { kind, request, pod, container }),
    ]
}

/// A request of either kind.
fn asked(kind: RequestKind, name: &str, pod: &str, container: &str) -> Object {
    match kind {
        RequestKind::Recreate => Object::Request(Box::new(request(name, pod, &[container]))),
        RequestKind::Update => Object::Update(Box::new(update(name, pod, &[container]))),
    }
}

/// Gives the events of the watch of the pods and of those of the requests, each in its own order; the latter
/// as lists that are mixed.
fn watches(deeds: &[Deed]) -> (Vec<Result<PodSeen, String>>, Vec<Object>) {
    let (mut pods, mut requests) = (Vec::new(), BTreeMap::new());
    for deed in deeds {
        let name = |pod: &u8| format!("p{pod}");
        match deed {
            Deed::Run { pod: number, instance } => {
                pods.push(Ok(pod(&name(number), &[container("a", *instance)])));
            }
            Deed::Terminate { pod: number } => {
                let terminating = pod(&name(number), &[container("a", 1)]);
                pods.push(Ok(PodSeen { stage: PodStage::Terminating, ..terminating }));
            }
            Deed::Remove { pod } => pods.push(Err(name(pod))),
            Deed::Ask { kind, request: number, pod, container } => {
                requests
                    .entry((*number, *kind))
                    .or_insert_with(|| asked(*kind, &format!("r{number}"), &name(pod), container));
            }
        }
    }
    (pods, requests.into_values().collect())
}

/// Shows both, interleaved as `first_pods` says; the last write that is owed to each request.
fn owed(deeds: &[Deed], interleaving: &[bool]) -> BTreeMap<RequestId, Said> {
    let (pods, requests) = watches(deeds);
    let (mut pods, mut requests) = (pods.into_iter(), requests.into_iter());
    let mut world = World::new();
    let mut writes = BTreeMap::new();
    let mut keep = |patches: Vec<StatusPatch>| {
        for patch in patches {
            writes.insert(patch.id.clone(), said(&patch));
        }
    };
    for pods_first in interleaving.iter().copied().chain([true; 64]).chain([false; 64]) {
        let patches = if pods_first {
            match pods.next() {
                Some(Ok(pod)) => world.pod(pod),
                Some(Err(name)) => world.no_pod(&name),
                None => continue,
            }
        } else {
            let Some(request) = requests.next() else { continue };
            world.show(request)
        };
        keep(patches);
    }
    keep(world.pass(seconds(30)));
    assert!(world.pass(seconds(600)).is_empty(), "a world in which nothing happens owes nothing new");
    writes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_order_of_the_watches_does_not_matter(
        deeds in proptest::collection::vec(deed(), 1..40),
        one in proptest::collection::vec(any::<bool>(), 0..60),
        other in proptest::collection::vec(any::<bool>(), 0..60),
    ) {
        // No write is carried out before the end, so that the last one is about the last state of both.
        let (one, other) = (owed(&deeds, &one), owed(&deeds, &other));
        prop_assert_eq!(one.len(), watches(&deeds).1.len(), "every request gets an answer");
        prop_assert_eq!(one, other);
    }

    /// The same, with every write carried out and shown at once: nothing is ever owed on top of it but the
    /// end of a request whose agent says nothing.
    #[test]
    fn a_write_that_is_carried_out_settles_it(
        deeds in proptest::collection::vec(deed(), 1..40),
        interleaving in proptest::collection::vec(any::<bool>(), 0..60),
    ) {
        let (pods, requests) = watches(&deeds);
        let (mut pods, mut requests) = (pods.into_iter(), requests.into_iter());
        let mut world = World::new();
        for pods_first in interleaving.into_iter().chain([true; 64]).chain([false; 64]) {
            let now = world.now();
            let patches = if pods_first {
                match pods.next() {
                    Some(Ok(pod)) => world.index.apply(Object::Pod(pod), now),
                    Some(Err(name)) => world.no_pod(&name),
                    None => continue,
                }
            } else {
                let Some(request) = requests.next() else { continue };
                world.show(request)
            };
            for patch in patches {
                world.write_any(&patch);
            }
        }
        for _ in 0..100 {
            for patch in world.pass(seconds(1)) {
                world.write_any(&patch);
            }
        }
        let size = world.index.size();
        prop_assert_eq!((size.unassigned, size.assigned), (0, 0), "every request has ended");
        prop_assert_eq!(world.index.next_deadline(), None);
    }
}
