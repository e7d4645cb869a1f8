//! Wishes: images that somebody wants to have on this node, and what every other word about images means.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// Names a wish in the life of the process and beyond it: who wants it and which of that source's it is, for
/// example `job/<uid>` or `spec/<repository>:<tag>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WishId {
    /// Source that wants the image.
    pub source: WishSource,
    /// Which of that source's wishes.
    pub key: Arc<str>,
}

/// Where wishes come from. Each source lists its own anew without touching those of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WishSource {
    /// `NodeImage` of the API server: `spec.images` and `status.desiredImages`.
    Api,
    /// `NodeImage` files of the desired-state directory.
    File,
    /// `berthctl pull`, as long as it waits.
    Admin,
    /// The agent itself, before an update in place.
    Update,
}

impl WishSource {
    /// A constant word, for people and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::File => "file",
            Self::Admin => "admin",
            Self::Update => "update",
        }
    }
}

/// An image reference, parsed at the edge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageReference {
    /// As it was given: this is what the runtime is asked for, never anything made from the parts.
    pub given: Arc<str>,
    /// The whole name, nothing left to defaults: what the runtime calls it; two spellings of one image have
    /// one record.
    pub record: Arc<str>,
    /// Host and port of the registry, `docker.io` when none was given.
    pub registry: Arc<str>,
    /// The repository in it, `library/` included where the reference implies it.
    pub repository: Arc<str>,
}

/// Which credentials a pull has. Two pulls of one reference are the same pull only with the same credentials:
/// what one may have the other may not. Made by a keyed hash, so that it says nothing about them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CredentialKey(pub u64);

/// Where the credentials of a pull are found.
#[derive(Clone, Debug, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub enum Credentials {
    /// The node's own: the kubelet's docker configuration and credential providers, and without any of them
    /// none.
    #[default]
    Node,
    /// These, sealed to this node, and after them the node's own.
    Sealed(Arc<[Arc<str>]>),
}

/// One wanted image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Which wish.
    pub id: WishId,
    /// Image that is wanted.
    pub image: ImageReference,
    /// A larger one asks for it anew.
    pub version: i64,
    /// Pull it although it is there (`imagePullPolicy: Always`).
    pub always: bool,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// Attempts after the first one.
    pub retries: u32,
    /// How long all attempts together may take, from the first one's begin; `None` = as long as it takes.
    pub deadline: Option<Duration>,
    /// Labels of the pull's sandbox config.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pull's sandbox config.
    pub annotations: BTreeMap<String, String>,
    /// Credentials for the pull.
    pub credentials: Credentials,
    /// Keep the kubelet's image collection away from it so long, or until a container is made of it.
    pub pin: Option<Duration>,
    /// How it ended before this process, as its source remembers: it is not carried out again.
    pub settled: Option<Settled>,
}

/// How a wish ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The image is there.
    pub succeeded: bool,
    /// The runtime's identity of it (`Image.id`), where it is known.
    pub image_id: Option<String>,
    /// Why not, for people; empty for a success.
    pub message: String,
}

/// One pull of the agent. Never used twice in the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PullId(pub u64);

impl fmt::Debug for CredentialKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialKey")
    }
}

impl fmt::Display for WishId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source.name(), self.key)
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}
