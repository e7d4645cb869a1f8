//! The containers of a pod as its spec has them, kept once for each distinct set: the pods of one workload
//! share theirs.

use std::{collections::HashSet, sync::Arc};

use super::{
    key::Texts,
    object::{ContainerSeen, Role},
};

/// Init containers and containers, in the order of the pod's spec.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape(Box<[Declared]>);

/// One of them.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Declared {
    name: Arc<str>,
    role: Role,
    /// Ports that have a name.
    ports: Box<[(Arc<str>, u16)]>,
}

impl Shape {
    /// Names and roles.
    pub(crate) fn containers(&self) -> impl Iterator<Item = (&Arc<str>, Role)> {
        self.0.iter().map(|container| (&container.name, container.role))
    }

    /// Tells whether it has a container of that name that can be probed.
    pub(crate) fn has(&self, container: &str) -> bool {
        self.find(container).is_some()
    }

    /// The number of a port of that container.
    pub(crate) fn port(&self, container: &str, name: &str) -> Option<u16> {
        let ports = &self.find(container)?.ports;
        ports.iter().find(|(known, _)| **known == *name).map(|(_, number)| *number)
    }

    /// An init container that runs once has ended before a pod is probed.
    fn find(&self, container: &str) -> Option<&Declared> {
        self.0.iter().find(|known| *known.name == *container && known.role != Role::Init)
    }
}

/// Below it a sweep frees nothing worth its time.
const SWEEP_FROM: usize = 1024;

/// All shapes that are in use.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    known: HashSet<Arc<Shape>>,
    /// Looked through for shapes nobody has any more when there are so many.
    sweep_at: usize,
}

impl Shapes {
    pub(crate) fn one(&mut self, containers: &[ContainerSeen], texts: &mut Texts) -> Arc<Shape> {
        let declared = containers.iter().map(|container| Declared {
            name: texts.one(&container.name),
            role: container.role,
            ports: container.ports.iter().map(|(name, number)| (texts.one(name), *number)).collect(),
        });
        let shape = Shape(declared.collect());
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
