//! Objects whose number and size their authors decide: what each is counted as, and how one looks of which
//! nothing is kept, as there is no room for it.

use super::{CustomSeen, Kind, Object, SidecarSetSeen};

/// Stands where the parts of such an object would be: to who decides on it, it is one that cannot be read.
const NO_ROOM: &str = "there is no room for it";
/// Bytes that an object takes beside its spec and its status, about: its names, and its places in maps.
const OBJECT: usize = 2 << 10;

/// An object as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weighed<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    /// Bytes that the indexes keep of it, about.
    pub(crate) bytes: usize,
}

impl Object {
    /// The object as it is counted; `None` of kinds of which little is kept, or that no author makes, and of
    /// PodProbeMarkers, whose probes would end without it: of those each namespace has its room.
    pub(crate) fn weighed(&self) -> Option<Weighed<'_>> {
        match self {
            Self::Request(seen) => Some(seen.weighed(Weight::of_names)),
            Self::Update(seen) => Some(seen.weighed(Weight::of_names)),
            Self::ImagePullJob(seen) => Some(seen.weighed(Weight::kept)),
            Self::Budget(seen) => Some(seen.weighed(Weight::kept)),
            Self::Spread(seen) => Some(seen.weighed(Weight::kept)),
            Self::PodState(seen) => Some(seen.weighed(Weight::kept)),
            Self::SidecarSet(seen) => Some(seen.weighed()),
            Self::Pod(_)
            | Self::Node(_)
            | Self::NodeImage(_)
            | Self::PodProbeMarker(_)
            | Self::NodePodProbe(_)
            | Self::Namespace(_)
            | Self::NodePodUpdate(_)
            | Self::StatefulSet(_) => None,
        }
    }

    /// The same without its parts.
    pub(crate) fn aside(self) -> Self {
        match self {
            Self::Request(seen) => Self::Request(Box::new(seen.aside())),
            Self::Update(seen) => Self::Update(Box::new(seen.aside())),
            Self::ImagePullJob(seen) => Self::ImagePullJob(Box::new(seen.aside())),
            Self::Budget(seen) => Self::Budget(Box::new(seen.aside())),
            Self::Spread(seen) => Self::Spread(Box::new(seen.aside())),
            Self::PodState(seen) => Self::PodState(Box::new(seen.aside())),
            Self::SidecarSet(seen) => Self::SidecarSet(Box::new(seen.aside())),
            other => other,
        }
    }

    /// An object that was shown before, without its parts; `None` of a kind that is not counted.
    pub(crate) fn absent(kind: Kind, namespace: &str, name: &str, uid: &str) -> Option<Self> {
        match kind {
            Kind::Request => Some(Self::Request(CustomSeen::boxed(namespace, name, uid))),
            Kind::Update => Some(Self::Update(CustomSeen::boxed(namespace, name, uid))),
            Kind::ImagePullJob => Some(Self::ImagePullJob(CustomSeen::boxed(namespace, name, uid))),
            Kind::Budget => Some(Self::Budget(CustomSeen::boxed(namespace, name, uid))),
            Kind::Spread => Some(Self::Spread(CustomSeen::boxed(namespace, name, uid))),
            Kind::PodState => Some(Self::PodState(CustomSeen::boxed(namespace, name, uid))),
            Kind::SidecarSet => Some(Self::SidecarSet(Box::new(SidecarSetSeen::absent(name, uid)))),
            _ => None,
        }
    }
}

/// Size of a part of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Bytes that it took in memory when it was read, about.
    pub memory: usize,
    /// Bytes of its text, as JSON.
    pub text: usize,
}

impl Weight {
    /// Weight of two parts together.
    fn and(self, other: Self) -> Self {
        let Self { memory, text } = other;
        Self { memory: self.memory.saturating_add(memory), text: self.text.saturating_add(text) }
    }

    /// Bytes that are kept of most kinds: all parts, as they are or as text, and as what is decided by.
    pub(crate) fn kept(self) -> usize {
        self.memory.max(self.text.saturating_mul(2))
    }

    /// Bytes that are kept of requests: only names. What is read of a list of small maps takes far more.
    fn of_names(self) -> usize {
        self.text.max(self.memory / 4)
    }
}

impl<S, T> CustomSeen<S, T> {
    fn weighed(&self, kept: fn(Weight) -> usize) -> Weighed<'_> {
        let Self { namespace, name, uid, spec_weight, status_weight, .. } = self;
        let bytes = OBJECT.saturating_add(kept(spec_weight.and(*status_weight)));
        Weighed { namespace, name, uid, bytes }
    }

    fn aside(self) -> Self {
        let Self { namespace, name, uid, created, deleting, .. } = self;
        Self { created, deleting, ..Self::absent(&namespace, &name, &uid) }
    }

    fn boxed(namespace: &str, name: &str, uid: &str) -> Box<Self> {
        Box::new(Self::absent(namespace, name, uid))
    }

    /// It has no version, so the next one that is shown is another.
    fn absent(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            resource_version: String::new(),
            generation: None,
            created: None,
            deleting: false,
            annotations: Default::default(),
            pod_uid: None,
            spec: Err(NO_ROOM.to_owned()),
            status: Err(NO_ROOM.to_owned()),
            spec_weight: Weight::default(),
            status_weight: Weight::default(),
            is_aside: true,
        }
    }
}

impl SidecarSetSeen {
    /// Its revisions are kept three times: as they are shown, as they are to stand, and as they were written.
    fn weighed(&self) -> Weighed<'_> {
        let Self { name, uid, spec_weight, status_weight, .. } = self;
        let revisions = status_weight.text.saturating_mul(2);
        let kept = spec_weight.and(*status_weight).kept();
        Weighed { namespace: "", name, uid, bytes: OBJECT.saturating_add(kept).saturating_add(revisions) }
    }

    fn aside(self) -> Self {
        let Self { name, uid, created, deleting, .. } = self;
        Self { created, deleting, ..Self::absent(&name, &uid) }
    }

    /// It has no version, so the next one that is shown is another.
    fn absent(name: &str, uid: &str) -> Self {
        Self {
            name: name.to_owned(),
            uid: uid.to_owned(),
            resource_version: String::new(),
            generation: None,
            created: None,
            deleting: false,
            custom_version: None,
            annotations: Default::default(),
            spec: Err(NO_ROOM.to_owned()),
            status: Err(NO_ROOM.to_owned()),
            spec_weight: Weight::default(),
            status_weight: Weight::default(),
        }
    }
}
