//! The keys and names that OpenKruise and Berth have in common: pods that one of them injected are those of
//! the other.

/// Hash of the sidecars: of a set the text, of a pod a JSON object by set.
pub const HASH: &str = "kruise.io/sidecarset-hash";
/// Hash of the sidecars without their images, as `kruise.io/sidecarset-hash` has it.
pub const HASH_WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";
/// Names of the sets that a pod got, sorted, with commas.
pub const INJECTED_LIST: &str = "kruise.io/sidecarset-injected-list";
/// Twin that works, by name of the sidecar; a JSON object.
pub const WORKING: &str = "kruise.io/sidecarset-working-hotupgrade-container";
/// Annotation of a set: the seconds that a new version of a sidecar with hot upgrades has to take over.
pub const MIGRATION_SECONDS: &str = "berth.dev/migration-seconds";
/// Label of a set: the version that its author gives the sidecars.
pub const CUSTOM_VERSION: &str = "apps.kruise.io/sidecarset-custom-version";
/// Annotation of a set that stands in for another one: `true`.
pub const CANARY: &str = "apps.kruise.io/sidecarset-canary";
/// Annotation of a set with `apps.kruise.io/sidecarset-canary`: the set that it stands in for.
pub const CANARY_BASE: &str = "apps.kruise.io/sidecarset-base";
/// Annotation of a set whose pods get a new revision even if no image of it differs: `true`.
pub const REFRESH_METADATA: &str = "berth.dev/refresh-metadata";
/// Annotation of the API's copy of a static pod.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
/// Label of a namespace in which nothing is injected, whatever its value.
pub const CONTROL_PLANE: &str = "control-plane";
/// Variable that every injected container has.
pub const IS_INJECTED: &str = "IS_INJECTED";
/// Label of a namespace with its own name.
pub(crate) const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// The annotation with the version of this twin.
pub fn version_key(twin: &str) -> String {
    format!("version.sidecarset.kruise.io/{twin}")
}

/// The annotation with the version of the other twin.
pub fn other_version_key(twin: &str) -> String {
    format!("versionalt.sidecarset.kruise.io/{twin}")
}

/// Names of the twins of a sidecar with hot upgrades.
pub fn twins(name: &str) -> [String; 2] {
    [format!("{name}-1"), format!("{name}-2")]
}
