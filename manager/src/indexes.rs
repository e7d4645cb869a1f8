//! List of all indexes. Each is a folder, and a line here.

use crate::{index::Set, store::Pods};

/// Makes [`Indexes`] of the lines: a field for each, and one number of them.
macro_rules! indexes {
    ($($(#[$doc:meta])* $name:ident: $index:ty,)+) => {
        /// All indexes, and the pods they share.
        #[derive(Debug, Default)]
        pub struct Indexes {
            pub(crate) pods: Pods,
            $($(#[$doc])* pub(crate) $name: $index,)+
        }

        /// Number of the indexes.
        const COUNT: usize = [$(stringify!($name)),+].len();

        impl Indexes {
            /// All of them, to be told something.
            pub(crate) fn all(&mut self) -> Set<'_, COUNT> {
                let Self { pods, $($name),+ } = self;
                Set { pods, indexes: [$($name),+] }
            }
        }
    };
}

indexes! {
    /// Requests to recreate containers and to update pods.
    requests: crate::requests::RequestIndex,
    /// Images.
    images: crate::images::ImageIndex,
    /// Probes.
    probes: crate::probes::ProbeIndex,
    /// Sidecars.
    sidecarsets: crate::sidecarsets::SidecarIndex,
    /// Limits of how many pods are unavailable.
    budgets: crate::budgets::BudgetIndex,
    /// Spreads of the pods of workloads.
    spreads: crate::spreads::SpreadIndex,
    /// Records of where the pods of StatefulSets run.
    pod_states: crate::podstates::PodStateIndex,
}
