//! The part of the command line that is about admission.

use std::net::SocketAddr;

use clap::{ArgAction, Args, ValueEnum};

pub use super::certificates::Maker;

/// How pods, SidecarSets and requests are admitted; nothing is without `--admission-address`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Address of the admission server. Without it there is none: no sidecars are injected
    #[arg(long, env = "BERTH_ADMISSION_ADDRESS")]
    pub admission_address: Option<SocketAddr>,
    /// Maker of the certificates: the manager (own), or somebody else who writes the Secret (secret)
    #[arg(long, env = "BERTH_ADMISSION_CERTIFICATES", value_enum, default_value_t)]
    pub admission_certificates: Maker,
    /// Name of the Secret with the certificates, in the namespace of the manager
    #[arg(long, env = "BERTH_ADMISSION_SECRET", default_value = "berth-manager-admission")]
    pub admission_secret: String,
    /// Name of the Service by which the API server reaches the admission server
    #[arg(long, env = "BERTH_ADMISSION_SERVICE", default_value = "berth-manager")]
    pub admission_service: String,
    /// Give every new pod the readiness gate KruisePodReady
    #[arg(long, env = "BERTH_POD_READINESS_GATE", requires = "admission_address")]
    pub pod_readiness_gate: bool,
    /// Let a SidecarSet that no rule of the white list is for give any annotation to pods
    #[arg(long, env = "BERTH_ANY_POD_METADATA", requires = "admission_address")]
    pub any_pod_metadata: bool,
    /// Fill defaults into the templates of new workloads
    #[arg(long, env = "BERTH_TEMPLATE_DEFAULTS", action = ArgAction::Set, default_value_t = true)]
    pub template_defaults: bool,
    /// Refuse the deletion of namespaces and CRDs that policy.kruise.io/delete-protection: Cascading protects
    #[arg(long, env = "BERTH_DELETION_PROTECTION", action = ArgAction::Set, default_value_t = true)]
    pub deletion_protection: bool,
    /// Limit evictions and deletions of pods that have a PodUnavailableBudget
    #[arg(long, env = "BERTH_BUDGET_DELETIONS", action = ArgAction::Set, default_value_t = true)]
    pub budget_deletions: bool,
    /// Limit updates in place, and requests to recreate containers, of pods that have a PodUnavailableBudget
    #[arg(long, env = "BERTH_BUDGET_UPDATES", action = ArgAction::Set, default_value_t = false)]
    pub budget_updates: bool,
    /// While no manager answers, pods with a PodUnavailableBudget stay (fail), or go (ignore)
    #[arg(long, env = "BERTH_BUDGET_FAILURE_POLICY", value_enum, default_value_t)]
    pub budget_failure_policy: FailurePolicy,
    /// Put new pods into the subsets of their WorkloadSpread
    #[arg(long, env = "BERTH_WORKLOAD_SPREADS", action = ArgAction::Set, default_value_t = true)]
    pub workload_spreads: bool,
    /// While no manager answers, new pods with a WorkloadSpread wait (fail), or come without it (ignore)
    #[arg(long, env = "BERTH_SPREAD_FAILURE_POLICY", value_enum, default_value_t)]
    pub spread_failure_policy: FailurePolicy,
    /// Send pods of StatefulSets that are made anew back to where their PersistentPodState says they ran
    #[arg(long, env = "BERTH_PERSISTENT_POD_STATES", action = ArgAction::Set, default_value_t = true)]
    pub persistent_pod_states: bool,
    /// While no manager answers, new pods with a PersistentPodState wait (fail), or come without it (ignore)
    #[arg(long, env = "BERTH_POD_STATE_FAILURE_POLICY", value_enum, default_value_t)]
    pub pod_state_failure_policy: FailurePolicy,
}

impl Options {
    /// Tells whether budgets are asked before containers of a pod are made anew.
    pub(crate) const fn asks_budgets(&self) -> bool {
        self.admission_address.is_some() && self.budget_updates
    }
}

/// Answer in the place of a manager that gives none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FailurePolicy {
    /// The operation is refused.
    #[default]
    Fail,
    /// It is let through.
    Ignore,
}
