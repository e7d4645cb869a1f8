//! Random histories against a model.

use proptest::prelude::*;

use super::*;

/// Deed around the index. Five pods on two nodes.
#[derive(Clone, Debug)]
enum Deed {
    Want {
        pod: u8,
        revision: u32,
    },
    Forget {
        pod: u8,
    },
    Gone {
        pod: u8,
    },
    Answer {
        pod: u8,
    },
    /// Orders are taken, and written only later, if at all.
    Ask {
        write: bool,
    },
    Show,
    Restart,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => (0..5u8, 1..4u32).prop_map(|(pod, revision)| Deed::Want { pod, revision }),
        2 => (0..5u8).prop_map(|pod| Deed::Forget { pod }),
        1 => (0..5u8).prop_map(|pod| Deed::Gone { pod }),
        2 => (0..5u8).prop_map(|pod| Deed::Answer { pod }),
        4 => any::<bool>().prop_map(|write| Deed::Ask { write }),
        3 => Just(Deed::Show),
        1 => Just(Deed::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// However writes, events and restarts fall: in the end each node has what is wanted of its pods, and
    /// nothing of pods that are gone or forgotten.
    #[test]
    fn in_the_end_each_node_has_what_is_wanted(deeds in proptest::collection::vec(deed(), 1..60)) {
        let mut world = World::new();
        let (mut wanted, mut gone) = (BTreeMap::new(), BTreeSet::new());
        let mut on_their_way = Vec::new();
        for deed in deeds {
            match deed {
                Deed::Want { pod, revision } => {
                    let uid = format!("p{pod}");
                    if !gone.contains(&uid) {
                        world.want(&uid, revision);
                        wanted.insert(uid, revision);
                    }
                }
                Deed::Forget { pod } => {
                    world.updates.forget(&id(&format!("p{pod}")));
                    wanted.remove(&format!("p{pod}"));
                }
                Deed::Gone { pod } => {
                    let uid = format!("p{pod}");
                    world.updates.gone(&id(&uid), node_of(&uid));
                    wanted.remove(&uid);
                    gone.insert(uid);
                }
                Deed::Answer { pod } => world.answer(&format!("p{pod}"), 1, UpdatePhase::Updating),
                Deed::Ask { write } => {
                    on_their_way.extend(world.owed());
                    if write {
                        std::mem::take(&mut on_their_way).iter().for_each(|order| world.write(order));
                    }
                }
                Deed::Show => ["even", "odd"].into_iter().for_each(|node| world.show(node)),
                Deed::Restart => {
                    // What was forgotten and never written is forgotten twice: its workload says so, as it
                    // says what it wants. Its writes have arrived before the lists, or never do: the lease
                    // comes free only after them.
                    on_their_way.clear();
                    world.updates = PodUpdates::default();
                    ["even", "odd"].into_iter().for_each(|node| world.show(node));
                    for pod in 0..5 {
                        let uid = format!("p{pod}");
                        world.want(&uid, wanted.get(&uid).copied().unwrap_or(1));
                        if !wanted.contains_key(&uid) {
                            world.updates.forget(&id(&uid));
                        }
                    }
                    world.updates.pods_listed(|pod| !gone.contains(&pod.uid));
                }
            }
        }
        on_their_way.iter().for_each(|order| world.write(order));
        ["even", "odd"].into_iter().for_each(|node| world.show(node));
        world.settle();
        let there = ["even", "odd"].into_iter().flat_map(|node| world.there(node));
        let there: BTreeMap<_, _> = there.map(|(uid, revision)| (uid.to_owned(), revision.parse().unwrap())).collect();
        prop_assert_eq!(there, wanted);
        prop_assert!(world.updates.nodes.values().all(|node| node.let_go.is_empty()));
    }
}
