//! The command line: every flag also as an environment variable, complete before anything is bound.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use berth_base::{
    ownership::{Ownership, SharedKind},
    telemetry::LogFormat,
};
use berth_workloads_policy::schedule;
use clap::{ArgAction, Parser};
use jiff::tz::TimeZone;
use tracing_subscriber::filter::Targets;

/// Berth's workloads: makes, updates and deletes the pods of CloneSets, StatefulSets and DaemonSets, runs
/// BroadcastJobs and AdvancedCronJobs, gives UnitedDeployments their workloads, orders the pods of
/// WorkloadSpreads, makes PersistentPodStates, files revisions of SidecarSets, and keeps a finalizer of
/// PodProbeMarkers. With --resource-distributions it copies Secrets and ConfigMaps instead, and does nothing
/// else.
#[derive(Clone, Debug, Parser)]
#[command(name = "berth-workloads", version)]
pub struct Config {
    /// Kubeconfig file; without it, the ServiceAccount of the pod it runs in
    #[arg(long, env = "BERTH_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the program, where its Lease is
    #[arg(long, env = "POD_NAMESPACE", default_value = "berth-system", value_parser = not_empty)]
    pub namespace: String,
    /// Name of the Lease by which the replicas elect their leader
    #[arg(long, env = "BERTH_LEASE_NAME", default_value = "berth-workloads", value_parser = not_empty)]
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
    /// Bring pods of a CloneSet back to its current revision when its partition is raised
    #[arg(long, env = "BERTH_CLONESET_PARTITION_ROLLBACK")]
    pub cloneset_partition_rollback: bool,
    /// Label pods of CloneSets with the hash of their revision alone
    #[arg(long, env = "BERTH_CLONESET_SHORT_HASH")]
    pub cloneset_short_hash: bool,
    /// Leave pods that wait for their deletion (PreparingDelete) out of the count of every CloneSet, as a
    /// label does for one
    #[arg(long, env = "BERTH_CLONESET_SCALING_EXCLUDE_PREPARING_DELETE")]
    pub cloneset_scaling_exclude_preparing_delete: bool,
    /// Let an update of a CloneSet make a pod anew, with its claims, where volumeClaimTemplates would give it
    /// other ones
    #[arg(long, env = "BERTH_CLONESET_RECREATE_ON_CLAIM_CHANGES")]
    pub cloneset_recreate_on_claim_changes: bool,
    /// Pull new images onto the nodes of a CloneSet's or StatefulSet's pods before these are updated in place
    #[arg(long, env = "BERTH_PREDOWNLOAD_IMAGES")]
    pub predownload_images: bool,
    /// Pull new images onto the nodes of a DaemonSet's pods before these are updated
    #[arg(long, env = "BERTH_PREDOWNLOAD_IMAGES_OF_DAEMONSETS")]
    pub predownload_images_of_daemonsets: bool,
    /// Run BroadcastJobs
    #[arg(long = "broadcastjobs", env = "BERTH_BROADCASTJOBS")]
    pub broadcast_jobs: bool,
    /// Let pods of BroadcastJobs name their nodes, and go past the scheduler
    #[arg(long = "broadcastjob-node-names", env = "BERTH_BROADCASTJOB_NODE_NAMES")]
    pub broadcast_job_node_names: bool,
    /// Run AdvancedCronJobs
    #[arg(long = "cronjobs", env = "BERTH_CRONJOBS")]
    pub cron_jobs: bool,
    /// Carry out WorkloadSpreads: costs of deletion, pods that were there before, and rescheduling
    #[arg(long, env = "BERTH_SPREADS")]
    pub spreads: bool,
    /// Make the PersistentPodStates that annotations of StatefulSets ask for
    #[arg(long = "pod-states", env = "BERTH_POD_STATES")]
    pub pod_states: bool,
    /// Keep OpenKruise's finalizer on PodProbeMarkers: a marker that is deleted stays until no node has its
    /// probes, 30 s at most
    #[arg(long, env = "BERTH_MARKER_FINALIZERS")]
    pub marker_finalizers: bool,
    /// Zone of schedules that name none, such as Europe/Berlin
    #[arg(long = "cronjob-time-zone", env = "BERTH_CRONJOB_TIME_ZONE", default_value = "UTC", value_parser = zone)]
    pub cron_job_time_zone: TimeZone,
    /// Give UnitedDeployments their workloads
    #[arg(long = "united-deployments", env = "BERTH_UNITED_DEPLOYMENTS")]
    pub united_deployments: bool,
    /// Namespace of the ControllerRevisions of SidecarSets, which say what status.revisions says.
    /// OpenKruise's clients look for them in kruise-system. Without it there are none
    #[arg(long = "sidecarset-revisions", env = "BERTH_SIDECARSET_REVISIONS", value_name = "NAMESPACE", value_parser = not_empty)]
    pub sidecar_set_revisions: Option<String>,
    /// MiB of memory for CloneSets, StatefulSets and DaemonSets with their revisions, of all namespaces
    /// together. When they take more, the largest ones of the namespaces that take most are set aside. Give
    /// it two fifths of the memory that the program may take, or less
    #[arg(long, env = "BERTH_WORKLOAD_MEMORY", default_value_t = 384, value_name = "MIB", value_parser = clap::value_parser!(u32).range(16..))]
    pub workload_memory: u32,
    /// Distribute Secrets and ConfigMaps, and do nothing else
    #[arg(long = "resource-distributions", env = "BERTH_RESOURCE_DISTRIBUTIONS", conflicts_with_all = ["broadcast_jobs", "cron_jobs", "united_deployments", "spreads", "pod_states", "marker_finalizers", "sidecar_set_revisions"])]
    pub resource_distributions: bool,
    /// Take kube-system and kube-public as all other namespaces, as OpenKruise 1.4 does: with allNamespaces,
    /// and by their labels. Where the policy does not let it, the namespace has to have the label
    /// berth.dev/takes-distributions
    #[arg(long, env = "BERTH_DISTRIBUTE_EVERYWHERE")]
    pub distribute_everywhere: bool,
    /// Format of log lines
    #[arg(long, env = "BERTH_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,
    /// Log level (error, warn, info, debug, trace), or a filter such as berth_workloads=debug,info
    #[arg(long, env = "BERTH_LOG_LEVEL", default_value = "info")]
    pub log_level: Targets,
    /// Log more of the program's own doing; -vv still more
    #[arg(short, action = ArgAction::Count, conflicts_with = "log_level")]
    pub verbose: u8,
}

impl Config {
    /// Switches off what is only for kinds that this ownership leaves to OpenKruise.
    #[must_use]
    pub fn with(mut self, owner: Ownership) -> Self {
        self.ownership = owner;
        self.broadcast_jobs &= owner.has(SharedKind::BroadcastJob);
        self.cron_jobs &= owner.has(SharedKind::AdvancedCronJob);
        self.united_deployments &= owner.has(SharedKind::UnitedDeployment);
        self.spreads &= owner.has(SharedKind::WorkloadSpread);
        self.pod_states &= owner.has(SharedKind::PersistentPodState);
        self.marker_finalizers &= owner.has(SharedKind::PodProbeMarker);
        if !owner.has(SharedKind::SidecarSet) {
            self.sidecar_set_revisions = None;
        }
        self
    }

    /// Returns the filter of the log.
    pub fn log_filter(&self) -> Targets {
        match self.verbose {
            0 => self.log_level.clone(),
            1 => self.log_level.clone().with_target("berth_workloads", tracing::Level::DEBUG),
            _ => self.log_level.clone().with_target("berth_workloads", tracing::Level::TRACE),
        }
    }

    /// `--workload-memory`, in bytes.
    pub fn most_held(&self) -> usize {
        usize::try_from(self.workload_memory).unwrap_or(usize::MAX).saturating_mul(1 << 20)
    }

    /// `--lease-duration`.
    pub fn lease_duration(&self) -> Duration {
        Duration::from_secs(self.lease_duration.into())
    }
}

fn not_empty(value: &str) -> Result<String, &'static str> {
    if value.is_empty() { Err("is empty") } else { Ok(value.to_owned()) }
}

fn zone(name: &str) -> Result<TimeZone, String> {
    schedule::zone("the option", name).map_err(|fault| fault.why)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::cluster::MOST_HELD;

    #[test]
    fn defaults() {
        let config = Config::try_parse_from(["berth-workloads"]).unwrap();
        assert_eq!(config.lease_duration(), Duration::from_secs(15));
        assert_eq!(config.lease_name, "berth-workloads");
        assert!(!config.cloneset_partition_rollback && !config.cloneset_short_hash);
        assert!(!config.cloneset_recreate_on_claim_changes);
        assert!(!config.cloneset_scaling_exclude_preparing_delete);
        assert!(!config.predownload_images && !config.predownload_images_of_daemonsets);
        assert!(!config.broadcast_jobs && !config.cron_jobs && !config.broadcast_job_node_names);
        assert!(!config.united_deployments);
        assert!(!config.spreads && !config.pod_states && !config.marker_finalizers);
        assert!(!config.resource_distributions && !config.distribute_everywhere);
        assert_eq!(config.cron_job_time_zone.iana_name(), Some("UTC"));
        assert_eq!(config.most_held(), MOST_HELD);
    }

    #[test]
    fn what_is_left_is_off() {
        let all = [
            "--broadcastjobs",
            "--cronjobs",
            "--united-deployments",
            "--spreads",
            "--pod-states",
            "--marker-finalizers",
            "--sidecarset-revisions=kruise-system",
        ];
        let on = |ownership: &str| {
            let ownership = format!("--ownership={ownership}");
            let args = ["berth-workloads", &ownership].into_iter().chain(all);
            let config = Config::try_parse_from(args).unwrap();
            let ownership = config.ownership;
            let config = config.with(ownership);
            [
                config.broadcast_jobs,
                config.cron_jobs,
                config.united_deployments,
                config.spreads,
                config.pod_states,
                config.marker_finalizers,
                config.sidecar_set_revisions.is_some(),
            ]
        };
        assert_eq!(on("detect"), [true; 7]);
        assert_eq!(on("openkruise,CloneSet=berth"), [false; 7]);
        for (at, kind) in [
            "BroadcastJob",
            "AdvancedCronJob",
            "UnitedDeployment",
            "WorkloadSpread",
            "PersistentPodState",
            "PodProbeMarker",
            "SidecarSet",
        ]
        .into_iter()
        .enumerate()
        {
            let mut wanted = [true; 7];
            wanted[at] = false;
            assert_eq!(on(&format!("berth,{kind}=openkruise")), wanted, "{kind}");
        }
    }

    #[rstest]
    #[case::no_address(&["--health-address", "8000"])]
    #[case::two_levels(&["-v", "--log-level", "warn"])]
    #[case::short_lease(&["--lease-duration", "2"])]
    #[case::empty_name(&["--lease-name", ""])]
    #[case::unknown(&["--leader-elect"])]
    #[case::no_memory(&["--workload-memory", "0"])]
    #[case::no_owner(&["--ownership", "berth,CloneSet=nobody"])]
    #[case::no_zone(&["--cronjob-time-zone", "Mars/Olympus"])]
    #[case::distributions_and_jobs(&["--resource-distributions", "--cronjobs"])]
    #[case::distributions_and_markers(&["--resource-distributions", "--marker-finalizers"])]
    #[case::local_zone(&["--cronjob-time-zone", "Local"])]
    fn bad_usage(#[case] args: &[&str]) {
        assert!(Config::try_parse_from([&["berth-workloads"], args].concat()).is_err());
    }
}
