//! Random pods, updates, replacements and deaths of whoever carries the steps out.

use proptest::prelude::*;

use super::world::{World, annotation, label, update};
use crate::in_place_update::{Gate, ImageMatch, Life, MetadataKey, Next, PodPatch, Update};

pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];

/// Something that happens to the pod or to the agent.
#[derive(Clone, Debug)]
enum Op {
    /// The agent looks and decides.
    Decide,
    /// It does what it decided, perhaps long ago.
    CarryOut,
    /// It dies before.
    Die,
    KubeletLearns,
    KubeletSyncs(usize),
    BecomesReady(usize),
    /// A container exits by itself.
    Exits(usize),
    /// Somebody wants something else.
    Replace(Box<Wanted>),
}

/// Images (0: none wanted) and values of the four keys (0: none).
#[derive(Clone, Debug)]
struct Wanted {
    images: [u8; 3],
    values: [u8; 4],
}

pub(super) fn keys() -> [MetadataKey; 4] {
    [annotation("k"), annotation("l"), label("k"), label("m")]
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let (images, values) = (prop::array::uniform3(0..4_u8), prop::array::uniform4(0..4_u8));
    (images, values).prop_map(|(images, values)| Wanted { images, values })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => Just(Op::Decide),
        6 => Just(Op::CarryOut),
        1 => Just(Op::Die),
        3 => Just(Op::KubeletLearns),
        6 => (0..3_usize).prop_map(Op::KubeletSyncs),
        4 => (0..3_usize).prop_map(Op::BecomesReady),
        1 => (0..3_usize).prop_map(Op::Exits),
        1 => wanted().prop_map(|wanted| Op::Replace(Box::new(wanted))),
    ]
}

/// Priorities, if the pod has an order, and which of the four keys each container reads.
pub(super) type Shape = (bool, [i32; 3], [[bool; 4]; 3]);

pub(super) fn shape() -> impl Strategy<Value = Shape> {
    let reads = prop::array::uniform3(prop::array::uniform4(any::<bool>()));
    (any::<bool>(), prop::array::uniform3(0..3_i32), reads)
}

/// The pod, what is wanted of it, and what was decided on which version of it.
struct Truth {
    world: World,
    update: Update,
    decided: Option<(Next, u64)>,
    revisions: u32,
}

/// A pod of three that run with the values they read.
pub(super) fn world((ordered, priorities, reads): Shape) -> World {
    let all: Vec<_> =
        NAMES.iter().zip(priorities).map(|(name, p)| (*name, ordered.then_some(p), &[][..])).collect();
    let mut world = World::of(&all);
    world.metadata = keys().into_iter().map(|key| (key, "1".to_owned())).collect();
    for (container, reads) in world.containers.iter_mut().zip(reads) {
        container.reads =
            keys().into_iter().zip(reads).filter_map(|(key, reads)| reads.then_some(key)).collect();
    }
    world.kubelet_learns();
    let envs: Vec<_> = world.observed().containers.iter().map(|container| container.env).collect();
    for (container, env) in world.containers.iter_mut().zip(envs) {
        container.instance.env = Some(env);
    }
    world
}

impl Truth {
    fn new(shape: Shape, wanted: &Wanted) -> Self {
        let world = world(shape);
        let mut truth = Self { world, update: update("", &[], &[]), decided: None, revisions: 0 };
        truth.want(wanted);
        truth
    }

    fn want(&mut self, wanted: &Wanted) {
        self.revisions += 1;
        self.update = update(&format!("r{}", self.revisions), &[], &[]);
        for (name, tag) in NAMES.iter().zip(wanted.images).filter(|(_, tag)| *tag > 0) {
            self.update.images.insert((*name).into(), format!("{name}:{tag}").into());
        }
        for (key, value) in keys().into_iter().zip(wanted.values).filter(|(_, value)| *value > 0) {
            self.update.metadata.insert(key, value.to_string());
        }
        // The agent decides for one update at a time.
        self.decided = None;
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Decide => {
                let step = self.world.next(&self.update);
                self.check(&step);
                self.decided = Some((step, self.world.version));
            }
            Op::CarryOut => {
                if let Some((step, version)) = self.decided.take() {
                    self.world.carry_out(&step, version);
                }
            }
            Op::Die => self.decided = None,
            Op::KubeletLearns => self.world.kubelet_learns(),
            Op::KubeletSyncs(index) => self.world.kubelet_syncs(*index),
            Op::BecomesReady(index) => self.world.becomes_ready(*index),
            Op::Exits(index) => self.world.containers[*index].instance.life = Life::Restarting,
            Op::Replace(wanted) => self.want(wanted),
        }
    }

    /// Checks the facts that must be so when a step is decided, read from the world itself.
    fn check(&self, step: &Next) {
        let closed = matches!(self.world.gate, Gate::NotReady { .. });
        match step {
            Next::Patch(patch) => self.check_patch(patch, closed),
            Next::Recreate(instances) => {
                assert!(closed, "restarted in service");
                for (name, id) in instances {
                    let seen = self.world.observed();
                    let container = seen.containers.iter().find(|container| container.name == *name).unwrap();
                    let instance = container.instance.as_ref().unwrap();
                    assert_eq!(instance.id, *id);
                    assert_eq!(instance.image, ImageMatch::Wanted, "the kubelet restarts it already");
                    assert_ne!(instance.env, Some(container.env), "restarted for nothing");
                    assert!(seen.kubelet_knows, "it would start with old values");
                }
            }
            Next::SetReady | Next::Done => {
                for container in &self.world.containers {
                    let target = self.update.images.get(&container.name).unwrap_or(&container.image);
                    assert_eq!(container.image, *target);
                    let stopped = container.instance.life == Life::Stopped;
                    let next_is_right = matches!(step, Next::SetReady) && stopped;
                    assert!(container.runs == *target || next_is_right, "{step:?}");
                    let asked = self.update.images.contains_key(&container.name)
                        || container.reads.iter().any(|key| self.update.metadata.contains_key(key));
                    // The gate is opened when nothing is stopped any more; whether it is Ready the container
                    // says itself.
                    let there = match step {
                        Next::Done => container.instance.life == Life::Running { ready: true },
                        _ => matches!(container.instance.life, Life::Running { .. } | Life::Stopped),
                    };
                    assert!(there || !asked, "{step:?}");
                }
            }
            Next::Failed(failure) => panic!("{failure:?}"),
            Next::Pull(_)
            | Next::Clear(_)
            | Next::Stop(_)
            | Next::SetNotReady
            | Next::Wait { .. }
            | Next::RollBack(..) => {}
        }
    }

    fn check_patch(&self, patch: &PodPatch, closed: bool) {
        let batches = &patch.record.container_batches_record;
        let old = self.world.record.as_ref().filter(|record| record.revision == patch.record.revision);
        let begun = old.map_or(0, |record| record.container_batches_record.len());
        let Some(batch) = batches.get(begun) else {
            assert!(patch.images.is_empty());
            return;
        };
        assert!(closed, "restarted in service");
        let containers = &self.world.containers;
        for container in containers {
            if let Some(image) = self.update.images.get(&container.name)
                && *image != container.image
            {
                assert!(self.world.on_node.contains(image), "stopped before {image} is there");
            }
        }
        let changed = |container: &super::world::Simulated| -> Vec<MetadataKey> {
            let keys = container.reads.iter().cloned();
            keys.filter(|key| {
                patch.metadata.get(key).is_some_and(|new| Some(new) != self.world.metadata.get(key))
            })
            .collect()
        };
        let highest =
            containers.iter().filter(|c| batch.containers.contains(&c.name)).filter_map(|c| c.priority).max();
        for container in containers {
            let goes = batch.containers.contains(&container.name);
            assert!(goes || changed(container).is_empty(), "reads a changed value and is left out");
            let shares = || {
                let others = containers
                    .iter()
                    .filter(|other| other.name != container.name && batch.containers.contains(&other.name));
                others.flat_map(changed).any(|key| container.reads.contains(&key))
            };
            assert!(!goes || container.priority == highest || shares(), "before its turn");
        }
        // Whatever is higher and was moved by this update is complete and Ready.
        for above in containers.iter().filter(|above| above.priority > highest && highest.is_some()) {
            let target = self.update.images.get(&above.name).unwrap_or(&above.image);
            assert_eq!(above.image, *target, "a higher one was not patched yet");
            if old.is_some_and(|record| {
                record.container_batches_record.iter().any(|b| b.containers.contains(&above.name))
            }) {
                assert_eq!(above.runs, above.image);
                assert_eq!(above.instance.life, Life::Running { ready: true }, "a higher one is not Ready");
            }
        }
    }

    /// From now on nothing dies and nobody changes his mind: it ends, and in the desired state.
    fn comes_to_rest(&mut self) {
        self.decided = None;
        for _ in 0..200 {
            let step = self.world.next(&self.update);
            self.check(&step);
            if step == Next::Done {
                // One that exited by itself and that nobody asked for is not waited for.
                self.world.settle(&[]);
                self.world.is_what_is_wanted(&self.update);
                return;
            }
            assert!(self.world.carry_out(&step, self.world.version));
            self.world.settle(&[]);
        }
        panic!("never ends: {:?}", self.world.next(&self.update));
    }
}

/// An image and values for it are patched while the container restarts by itself; before the kubelet has
/// learned of the values, another update takes the place of this one, and the container starts with the old
/// ones.
#[test]
fn values_that_were_to_come_are_owed_by_the_update_that_follows() {
    use Op::{CarryOut, Decide, Exits, KubeletLearns, KubeletSyncs};
    let want = |images, values| Op::Replace(Box::new(Wanted { images: [images, 0, 0], values }));
    let reads = [[true, false, false, false], [false, false, false, true], [false; 4]];
    let mut truth = Truth::new((false, [0; 3], reads), &Wanted { images: [0; 3], values: [0; 4] });
    for op in [
        want(0, [0, 0, 0, 2]),
        Decide,
        CarryOut,
        want(2, [0; 4]),
        Decide,
        CarryOut,
        Decide,
        CarryOut,
        Exits(0),
        want(2, [2, 0, 0, 0]),
        KubeletLearns,
        Decide,
        CarryOut,
        want(0, [0, 0, 2, 0]),
        Decide,
        CarryOut,
        KubeletSyncs(0),
    ] {
        truth.run(&op);
    }
    truth.comes_to_rest();
}

/// Another image and a value are patched; the kubelet stops the container for the image, the value is changed
/// once more and that update is replaced, and the container starts with the value of the first.
#[test]
fn a_value_that_changes_twice_while_the_container_restarts_is_owed() {
    use Op::{CarryOut, Decide, KubeletLearns, KubeletSyncs};
    let want = |images, values| Op::Replace(Box::new(Wanted { images: [0, 0, images], values }));
    let reads = [[false; 4], [false; 4], [false, false, true, false]];
    let mut truth = Truth::new((false, [0; 3], reads), &Wanted { images: [0; 3], values: [0; 4] });
    for op in [
        want(2, [0, 0, 2, 0]),
        Decide,
        CarryOut,
        Decide,
        CarryOut,
        Decide,
        CarryOut,
        KubeletLearns,
        want(0, [0, 0, 1, 0]),
        KubeletSyncs(2),
        Decide,
        CarryOut,
        want(0, [0, 0, 0, 2]),
        Decide,
        CarryOut,
        KubeletSyncs(2),
    ] {
        truth.run(&op);
    }
    truth.comes_to_rest();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_it_ends_in_the_desired_state(
        shape in shape(),
        first in wanted(),
        ops in proptest::collection::vec(op(), 1..120),
    ) {
        let mut truth = Truth::new(shape, &first);
        for op in &ops {
            truth.run(op);
        }
        truth.comes_to_rest();
    }

    /// One update, whose executor dies at any point: each container is restarted once if it needs it, and not
    /// otherwise.
    #[test]
    fn restarts_are_exactly_those_needed(
        shape in shape(),
        wanted in wanted(),
        ops in proptest::collection::vec(op(), 1..120),
    ) {
        let mut truth = Truth::new(shape, &wanted);
        let update = truth.update.clone();
        let differs = |key: &MetadataKey| update.metadata.get(key).is_some_and(|value| value != "1");
        let needed: Vec<u32> = truth
            .world
            .containers
            .iter()
            .map(|container| {
                let image = update.images.get(&container.name).is_some_and(|image| *image != container.image);
                u32::from(image || container.reads.iter().any(differs))
            })
            .collect();
        for op in ops.iter().filter(|op| !matches!(op, Op::Replace(_) | Op::Exits(_))) {
            truth.run(op);
        }
        truth.comes_to_rest();
        prop_assert_eq!(truth.world.restarts(), needed);
    }
}

/// The model can fail: a patch that takes a lower one along is caught.
#[test]
#[should_panic(expected = "before its turn")]
fn the_model_catches_a_batch_out_of_order() {
    let wanted = Wanted { images: [2, 2, 2], values: [0; 4] };
    let mut truth = Truth::new((true, [2, 1, 0], [[false; 4]; 3]), &wanted);
    loop {
        let mut step = truth.world.next(&truth.update);
        if let Next::Patch(patch) = &mut step {
            patch.record.container_batches_record[0].containers.insert("c".into());
        }
        truth.check(&step);
        truth.world.carry_out(&step, truth.world.version);
    }
}
