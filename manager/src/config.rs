//! The command line: every flag also as an environment variable, complete before anything is bound.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use berth_base::ownership::Ownership;
use clap::{ArgAction, Parser};
use tracing_subscriber::filter::Targets;

use crate::{admission, telemetry::LogFormat};

/// Berth's manager: assigns requests to the agents of the nodes, and ends those that no agent can end. It
/// writes the status of Berth's kinds, its Lease and Events, and for its admission server one Secret, its
/// webhook configurations and the conversion of StatefulSets; it deletes jobs and requests whose time is
/// over, and keeps two marks of ContainerRecreateRequests: their label `active` goes when one has ended, and
/// an annotation comes while its pod is held not Ready.
#[derive(Clone, Debug, Parser)]
#[command(name = "berth-manager", version)]
pub struct Config {
    /// Kubeconfig file; without it, the ServiceAccount of the pod it runs in
    #[arg(long, env = "BERTH_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the manager, where its Lease is
    #[arg(long, env = "POD_NAMESPACE", default_value = "berth-system", value_parser = not_empty)]
    pub namespace: String,
    /// Name of the Lease by which the replicas elect their leader
    #[arg(long, env = "BERTH_LEASE_NAME", default_value = "berth-manager", value_parser = not_empty)]
    pub lease_name: String,
    /// Seconds without a sign of life after which a leader is followed by another replica
    #[arg(long, env = "BERTH_LEASE_DURATION", default_value_t = 15, value_parser = clap::value_parser!(u16).range(3..))]
    pub lease_duration: u16,
    /// Name of this replica in the Lease; no other may have it. Made up when left out
    #[arg(long, env = "POD_NAME")]
    pub identity: Option<String>,
    /// Address of /livez and /readyz
    #[arg(long, env = "BERTH_HEALTH_ADDRESS", default_value = "0.0.0.0:8000")]
    pub health_address: SocketAddr,
    /// Address of /metrics
    #[arg(long, env = "BERTH_METRICS_ADDRESS", default_value = "0.0.0.0:8080")]
    pub metrics_address: SocketAddr,
    /// Owner of the kinds that OpenKruise has as well: detect (OpenKruise while one decides, else Berth), or
    /// an owner of all and those of single kinds: berth,CloneSet=openkruise or
    /// openkruise,ResourceDistribution=berth
    #[arg(long, env = "BERTH_OWNERSHIP", default_value_t)]
    pub ownership: Ownership,
    /// Namespace where berth-workloads files the revisions of SidecarSets as ControllerRevisions. With it
    /// status.observedGeneration follows a new spec when they are there, or after 2 seconds; without it, at
    /// once
    #[arg(long, env = "BERTH_OBSERVE_FILED_REVISIONS", value_name = "NAMESPACE", value_parser = not_empty)]
    pub observe_filed_revisions: Option<String>,
    /// MiB of memory for requests, ImagePullJobs, PodUnavailableBudgets, WorkloadSpreads and
    /// PersistentPodStates, of all namespaces together. When they take more, the largest ones of the
    /// namespaces that take most are set aside. Give it two fifths of the memory that the program may take,
    /// or less
    #[arg(long, env = "BERTH_OBJECT_MEMORY", default_value_t = 192, value_name = "MIB", value_parser = clap::value_parser!(u32).range(16..))]
    pub object_memory: u32,
    /// Admission
    #[command(flatten)]
    pub admission: admission::Options,
    /// Format of log lines
    #[arg(long, env = "BERTH_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,
    /// Log level (error, warn, info, debug, trace), or a filter such as berth_manager=debug,info
    #[arg(long, env = "BERTH_LOG_LEVEL", default_value = "info")]
    pub log_level: Targets,
    /// Log more of the manager's own doing; -vv still more
    #[arg(short, action = ArgAction::Count, conflicts_with = "log_level")]
    pub verbose: u8,
}

impl Config {
    /// Returns the filter of the log.
    pub fn log_filter(&self) -> Targets {
        match self.verbose {
            0 => self.log_level.clone(),
            1 => self.log_level.clone().with_target("berth_manager", tracing::Level::DEBUG),
            _ => self.log_level.clone().with_target("berth_manager", tracing::Level::TRACE),
        }
    }

    /// `--object-memory`, in bytes.
    pub fn most_held(&self) -> usize {
        usize::try_from(self.object_memory).unwrap_or(usize::MAX).saturating_mul(1 << 20)
    }

    /// `--lease-duration`.
    pub fn lease_duration(&self) -> Duration {
        Duration::from_secs(self.lease_duration.into())
    }
}

fn not_empty(value: &str) -> Result<String, &'static str> {
    if value.is_empty() { Err("is empty") } else { Ok(value.to_owned()) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn defaults() {
        let config = Config::try_parse_from(["berth-manager"]).unwrap();
        assert_eq!(config.lease_duration(), Duration::from_secs(15));
        assert_eq!(config.health_address.port(), 8000);
        assert_eq!(config.metrics_address.port(), 8080);
        assert_eq!(config.most_held(), 192 << 20);
    }

    /// Parts of admission that stand behind gates in OpenKruise: those that are on there are on here.
    #[test]
    fn defaults_of_admission() {
        let admission = Config::try_parse_from(["berth-manager"]).unwrap().admission;
        assert!(admission.deletion_protection && admission.budget_deletions);
        assert!(admission.workload_spreads && admission.persistent_pod_states);
        assert!(admission.template_defaults);
        assert!(!admission.budget_updates && !admission.pod_readiness_gate && !admission.any_pod_metadata);
        let policies = [
            admission.budget_failure_policy,
            admission.spread_failure_policy,
            admission.pod_state_failure_policy,
        ];
        assert_eq!(policies, [admission::FailurePolicy::Fail; 3]);
    }

    #[rstest]
    #[case::no_address(&["--health-address", "8000"])]
    #[case::no_level(&["--log-level", "berth=loud"])]
    #[case::two_levels(&["-v", "--log-level", "warn"])]
    #[case::short_lease(&["--lease-duration", "2"])]
    #[case::no_namespace_of_files(&["--observe-filed-revisions", ""])]
    #[case::no_memory(&["--object-memory", "0"])]
    #[case::empty_name(&["--lease-name", ""])]
    #[case::unknown(&["--leader-elect"])]
    fn bad_usage(#[case] args: &[&str]) {
        assert!(Config::try_parse_from([&["berth-manager"], args].concat()).is_err());
    }
}
