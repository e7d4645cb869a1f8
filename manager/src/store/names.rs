//! Names of labels and annotations that objects are kept with, and that more than one room reads.

/// Label of a request to recreate: UID of the pod.
pub(crate) const POD_UID: &str = "crr.apps.kruise.io/pod-uid";
/// Annotation of a budget: the operations that a budget limits, separated by commas; without it all of them.
pub(crate) const OPERATIONS: &str = "kruise.io/pub-protect-operations";
/// Annotation of a budget: the number of pods that counts where no workload says one.
pub(crate) const TOTAL: &str = "pub.kruise.io/protect-total-replicas";
