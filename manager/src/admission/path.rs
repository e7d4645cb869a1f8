//! The paths that the API server calls; the configurations name them.

/// New pods.
pub(super) const PODS: &str = "/mutate/pods";
/// SidecarSets, completed.
pub(super) const DEFAULT_SETS: &str = "/mutate/sidecarsets";
/// SidecarSets, checked.
pub(super) const CHECK_SETS: &str = "/validate/sidecarsets";
/// New ContainerRecreateRequests.
pub(super) const REQUESTS: &str = "/mutate/containerrecreaterequests";

/// The path, if something is decided there.
pub(super) fn known(path: &str) -> Option<&'static str> {
    [PODS, DEFAULT_SETS, CHECK_SETS, REQUESTS].into_iter().find(|known| *known == path)
}
