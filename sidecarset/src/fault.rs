//! The two ways to say no: faults of a set that is written, and the refusal of a pod that is made.

/// A flaw of one field of a set. `Display` names the field, what is wrong with it and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Fault {
    /// Path of the field, such as `spec.containers[0].name`.
    pub field: String,
    /// Flaw and remedy.
    pub message: String,
}

/// Reasons why a pod cannot get its sidecars. `Display` names the set, the field and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The pod is none that the API server would have sent.
    #[error("{field} of the pod is not {wanted}: correct it")]
    Shape {
        /// Path of the field in the pod.
        field: String,
        /// Type that it has to have.
        wanted: &'static str,
    },
    /// An annotation of Berth's own, from a copied manifest, cannot be read.
    #[error("annotation {key} of the pod is no JSON object of SidecarSets: remove it from the manifest")]
    Annotation {
        /// Key of the annotation.
        key: &'static str,
    },
    /// The pod's value is no JSON, and the set is to be merged into it.
    #[error(
        "SidecarSet {set}, spec.patchPodMetadata: the pod's annotation {key} is no JSON, so nothing can be merged \
         into it: make it a JSON object, or give patchPolicy Overwrite"
    )]
    Merge {
        /// Name of the set.
        set: String,
        /// Key of the annotation.
        key: String,
    },
    /// The revision that new pods are to get is not in the history.
    #[error(
        "SidecarSet {set}, spec.injectionStrategy.revision: there is no revision {revision} in its history: name \
         one of status.revisions, or remove the field"
    )]
    Revision {
        /// Name of the set.
        set: String,
        /// Name or custom version of the revision.
        revision: String,
    },
    /// Two containers would have one name.
    #[error(
        "SidecarSet {set}, container {container}: {other} has that name too: rename one of them, or narrow a \
         selector"
    )]
    Name {
        /// Name of the set.
        set: String,
        /// Name of the container as it would be in the pod.
        container: String,
        /// The other container.
        other: String,
    },
    /// A container of a hot upgrade has nothing for its second twin to run.
    #[error(
        "SidecarSet {set}, container {container}: upgradeStrategy.hotUpgradeEmptyImage is required for HotUpgrade"
    )]
    EmptyImage {
        /// Name of the set.
        set: String,
        /// Name of the container.
        container: String,
    },
    /// Two twins would listen on one port of the node.
    #[error(
        "SidecarSet {set}, container {container}: both twins of a HotUpgrade claim its ports on the node: remove \
         ports from it, or give upgradeType ColdUpgrade"
    )]
    HostPorts {
        /// Name of the set.
        set: String,
        /// Name of the container.
        container: String,
    },
    /// The pod would become larger than the API server takes.
    #[error(
        "SidecarSet {set}: the pod would get more than {most} {thing}: inject less, or narrow the selector"
    )]
    TooLarge {
        /// Name of the set.
        set: String,
        /// The most that is allowed.
        most: usize,
        /// Kind of thing that is counted.
        thing: &'static str,
    },
}

impl Fault {
    /// Fault of a field: flaw and remedy.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}
