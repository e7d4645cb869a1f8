//! The two kinds of requests that the manager assigns, and the names of requests.

use std::sync::Arc;

use crate::store::{Key, Kind};

/// Action that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestKind {
    /// New instances of containers, in place: ContainerRecreateRequests.
    Recreate,
    /// Other images, labels or annotations, in place: ContainerUpdateRequests.
    Update,
}

impl RequestKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Recreate, Self::Update];

    /// The kind of those requests.
    pub const fn object(self) -> Kind {
        match self {
            Self::Recreate => Kind::Request,
            Self::Update => Kind::Update,
        }
    }

    /// The kinds by which it is decided. The other kind of requests is none of them: it may not be installed.
    pub(super) const fn decided_by(self) -> &'static [Kind] {
        match self {
            Self::Recreate => &[Kind::Pod, Kind::Node, Kind::Request],
            Self::Update => &[Kind::Pod, Kind::Node, Kind::Update],
        }
    }
}

/// Names a request: there may be one of each kind with the same key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId {
    /// Its kind.
    pub kind: RequestKind,
    /// Its name.
    pub key: Key,
}

impl RequestId {
    /// The key of a pod in its namespace.
    pub(super) fn pod(&self, name: &Arc<str>) -> Key {
        self.key.sibling(name)
    }
}
