//! The paths that the API server calls; the configurations name them.

const PODS: &str = "/mutate/pods";
const DEFAULT_SETS: &str = "/mutate/sidecarsets";
const CHECK_SETS: &str = "/validate/sidecarsets";
const REQUESTS: &str = "/mutate/containerrecreaterequests";
const NAMESPACES: &str = "/validate/namespaces";
const BUDGETS: &str = "/validate/pods";
const CHECK_BUDGETS: &str = "/validate/podunavailablebudgets";
const PLACE: &str = "/mutate/placed-pods";
const LEAVE: &str = "/validate/placed-pods";
const CHECK_SPREADS: &str = "/validate/workloadspreads";
const RESTORE: &str = "/mutate/restored-pods";
const CHECK_STATES: &str = "/validate/persistentpodstates";
const DEFINITIONS: &str = "/validate/customresourcedefinitions";
const WORKLOADS: &str = "/mutate/workloads";
const CHECK_WORKLOADS: &str = "/validate/workloads";
const NODE_IMAGES: &str = "/mutate/nodeimages";
const CONVERT: &str = "/convert";
/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// Kind of decision that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// A new pod; with the set whose entry it is, if it is one's.
    Pods(Option<String>),
    /// A SidecarSet, completed.
    DefaultSets,
    /// A SidecarSet, checked.
    CheckSets,
    /// A new ContainerRecreateRequest.
    Requests,
    /// Deletion of a protected namespace.
    Namespaces,
    /// Deletion of a protected CustomResourceDefinition.
    Definitions,
    /// Eviction, deletion or update of a pod that a budget may cover.
    Budgets,
    /// A PodUnavailableBudget, checked.
    CheckBudgets,
    /// A workload, completed.
    Workloads,
    /// A job or a ResourceDistribution, checked.
    CheckWorkloads,
    /// A NodeImage, completed.
    NodeImages,
    /// StatefulSets in another version.
    Convert,
    /// A new pod of a WorkloadSpread.
    Place,
    /// Deletion or eviction of a pod of a WorkloadSpread.
    Leave,
    /// A WorkloadSpread, checked.
    CheckSpreads,
    /// A new pod of a PersistentPodState.
    Restore,
    /// A PersistentPodState, checked.
    CheckStates,
}

impl Route {
    /// Returns the path of the route.
    pub(super) fn path(&self) -> String {
        match self {
            Self::Pods(Some(set)) => format!("{PODS}/{set}"),
            other => other.name().to_owned(),
        }
    }

    /// Returns the path without names of objects.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Pods(_) => PODS,
            Self::DefaultSets => DEFAULT_SETS,
            Self::CheckSets => CHECK_SETS,
            Self::Requests => REQUESTS,
            Self::Namespaces => NAMESPACES,
            Self::Definitions => DEFINITIONS,
            Self::Budgets => BUDGETS,
            Self::CheckBudgets => CHECK_BUDGETS,
            Self::Workloads => WORKLOADS,
            Self::CheckWorkloads => CHECK_WORKLOADS,
            Self::NodeImages => NODE_IMAGES,
            Self::Convert => CONVERT,
            Self::Place => PLACE,
            Self::Leave => LEAVE,
            Self::CheckSpreads => CHECK_SPREADS,
            Self::Restore => RESTORE,
            Self::CheckStates => CHECK_STATES,
        }
    }

    /// Tells whether a decision may take long: it may ask the API server, or wait for somebody else.
    pub(super) fn is_slow(&self) -> bool {
        match self {
            Self::CheckSets
            | Self::Requests
            | Self::Namespaces
            | Self::Definitions
            | Self::Budgets
            | Self::Workloads
            | Self::Place
            | Self::Leave
            | Self::CheckSpreads
            | Self::Restore => true,
            // One of these asks only where a watch is behind.
            Self::Pods(_)
            | Self::DefaultSets
            | Self::CheckBudgets
            | Self::CheckWorkloads
            | Self::NodeImages
            | Self::Convert
            | Self::CheckStates => false,
        }
    }

    /// Reads a path.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let of_set =
            |name: &&str| !name.is_empty() && name.len() <= LONGEST_NAME && !name.contains(['/', '%']);
        match path {
            PODS => Some(Self::Pods(None)),
            DEFAULT_SETS => Some(Self::DefaultSets),
            CHECK_SETS => Some(Self::CheckSets),
            REQUESTS => Some(Self::Requests),
            NAMESPACES => Some(Self::Namespaces),
            DEFINITIONS => Some(Self::Definitions),
            BUDGETS => Some(Self::Budgets),
            CHECK_BUDGETS => Some(Self::CheckBudgets),
            WORKLOADS => Some(Self::Workloads),
            CHECK_WORKLOADS => Some(Self::CheckWorkloads),
            NODE_IMAGES => Some(Self::NodeImages),
            CONVERT => Some(Self::Convert),
            PLACE => Some(Self::Place),
            LEAVE => Some(Self::Leave),
            CHECK_SPREADS => Some(Self::CheckSpreads),
            RESTORE => Some(Self::Restore),
            CHECK_STATES => Some(Self::CheckStates),
            path => {
                let name = path.strip_prefix(PODS)?.strip_prefix('/').filter(of_set)?;
                Some(Self::Pods(Some(name.to_owned())))
            }
        }
    }
}

#[cfg(test)]
impl Route {
    /// Each of them, with the pods of one set.
    pub(super) fn all() -> [Self; 18] {
        [
            Self::Pods(None),
            Self::Pods(Some("s".into())),
            Self::DefaultSets,
            Self::CheckSets,
            Self::Requests,
            Self::Namespaces,
            Self::Definitions,
            Self::Budgets,
            Self::CheckBudgets,
            Self::Workloads,
            Self::CheckWorkloads,
            Self::NodeImages,
            Self::Convert,
            Self::Place,
            Self::Leave,
            Self::CheckSpreads,
            Self::Restore,
            Self::CheckStates,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_read_as_it_is_written() {
        for route in Route::all() {
            assert_eq!(Route::parse(&route.path()), Some(route));
        }
        for path in ["", "/", "/mutate/pods/", "/mutate/pods/a/b", "/mutate/podsx", "/mutate/pods/%2e"] {
            assert_eq!(Route::parse(path), None, "{path}");
        }
        assert_eq!(Route::parse(&format!("{PODS}/{}", "s".repeat(254))), None);
    }
}
