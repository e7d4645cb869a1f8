//! Kinds of workloads that a subset can have.

use crate::names::REVISION_LABEL;

/// Label of a workload and its pods: the revision of the UnitedDeployment that they have.
pub const SUBSET_REVISION_LABEL: &str = "apps.kruise.io/controller-revision-hash";

/// Kind of the workload of a subset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An apps/v1 StatefulSet.
    StatefulSet,
    /// An Advanced StatefulSet.
    AdvancedStatefulSet,
    /// A CloneSet.
    CloneSet,
    /// An apps/v1 Deployment.
    Deployment,
}

/// All of them.
pub const KINDS: [Kind; 4] = [Kind::StatefulSet, Kind::AdvancedStatefulSet, Kind::CloneSet, Kind::Deployment];

impl Kind {
    /// Group of the API.
    pub const fn group(self) -> &'static str {
        match self {
            Self::StatefulSet | Self::Deployment => "apps",
            Self::AdvancedStatefulSet | Self::CloneSet => "apps.kruise.io",
        }
    }

    /// Version of the group.
    pub const fn version(self) -> &'static str {
        match self {
            Self::StatefulSet | Self::Deployment => "v1",
            Self::AdvancedStatefulSet => "v1beta1",
            Self::CloneSet => "v1alpha1",
        }
    }

    /// Name of the kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StatefulSet | Self::AdvancedStatefulSet => "StatefulSet",
            Self::CloneSet => "CloneSet",
            Self::Deployment => "Deployment",
        }
    }

    /// Name of the resource.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::StatefulSet | Self::AdvancedStatefulSet => "statefulsets",
            Self::CloneSet => "clonesets",
            Self::Deployment => "deployments",
        }
    }

    /// Member of the template that it is made of.
    pub(crate) const fn member(self) -> &'static str {
        match self {
            Self::StatefulSet => "statefulSetTemplate",
            Self::AdvancedStatefulSet => "advancedStatefulSetTemplate",
            Self::CloneSet => "cloneSetTemplate",
            Self::Deployment => "deploymentTemplate",
        }
    }

    /// Label of the workload itself that names its revision.
    pub(crate) const fn revision_label(self) -> &'static str {
        match self {
            Self::AdvancedStatefulSet => REVISION_LABEL,
            Self::StatefulSet | Self::CloneSet | Self::Deployment => SUBSET_REVISION_LABEL,
        }
    }

    /// Tells whether its pods have numbers.
    pub(crate) const fn is_numbered(self) -> bool {
        matches!(self, Self::StatefulSet | Self::AdvancedStatefulSet)
    }
}
