//! The containers of a pod, as far as probes need them, kept once for each distinct set: the pods of one
//! workload share theirs.

use std::{collections::HashSet, sync::Arc};

use crate::seen::{ContainerSeen, Role, Texts};

/// Containers that can be probed, in the order of the pod's spec.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape(Box<[Probed]>);

/// One of them.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Probed {
    name: Arc<str>,
    /// Ports that have a name.
    ports: Box<[(Arc<str>, u16)]>,
}

impl Shape {
    pub(super) fn has(&self, container: &str) -> bool {
        self.find(container).is_some()
    }

    /// The number of a port of that container.
    pub(super) fn port(&self, container: &str, name: &str) -> Option<u16> {
        let ports = &self.find(container)?.ports;
        ports.iter().find(|(known, _)| **known == *name).map(|(_, number)| *number)
    }

    fn find(&self, container: &str) -> Option<&Probed> {
        self.0.iter().find(|probed| *probed.name == *container)
    }
}

/// Below it a sweep frees nothing worth its time.
const SWEEP_FROM: usize = 1024;

/// All shapes that are in use.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    known: HashSet<Arc<Shape>>,
    /// Looked through for shapes nobody has any more when there are so many.
    sweep_at: usize,
}

impl Shapes {
    pub(super) fn one(&mut self, containers: &[ContainerSeen], texts: &mut Texts) -> Arc<Shape> {
        // An init container that runs once has ended before the pod counts.
        let probed = containers.iter().filter(|container| container.role != Role::Init);
        let probed = probed.map(|container| Probed {
            name: texts.one(&container.name),
            ports: container.ports.iter().map(|(name, number)| (texts.one(name), *number)).collect(),
        });
        let shape = Shape(probed.collect());
        if let Some(known) = self.known.get(&shape) {
            return known.clone();
        }
        if self.known.len() >= self.sweep_at.max(SWEEP_FROM) {
            self.known.retain(|shape| Arc::strong_count(shape) > 1);
            self.sweep_at = self.known.len() * 2;
        }
        let shape = Arc::new(shape);
        self.known.insert(shape.clone());
        shape
    }
}
