//! The command line of `berthd`. A flag overrides the file.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand};

use crate::{
    config::{ConfigError, Configuration, ContainersMeta, Endpoint, LogFormat, Reserve, SocketPath},
    succession::{
        handover::TakeOver,
        takeover::{guardian::GuardianFlags, outside::OutsideFlags},
    },
};

/// Version of the program, with what it was built with.
const VERSION: &str = if cfg!(feature = "otlp") {
    concat!(env!("CARGO_PKG_VERSION"), " (otlp)")
} else {
    env!("CARGO_PKG_VERSION")
};

/// Berth's node agent: sits on the CRI socket between kubelet and container runtime and makes the containers
/// of a pod start and stop in their declared order.
#[derive(Debug, Parser)]
#[command(name = "berthd", version = VERSION, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// Command; without it, run.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How to run.
    #[command(flatten)]
    pub run: RunFlags,
}

/// Tasks of `berthd` besides running.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Put the runtime's socket back when nobody answers in its place; started by a berthd with `path:
    /// takeover`
    #[command(hide = true)]
    Guardian(GuardianFlags),
    /// Leave berthd's container and become a program there; started by a berthd with `path: takeover`
    #[command(hide = true)]
    Outside(OutsideFlags),
    /// Look at configurations
    #[command(subcommand)]
    Config(ConfigCommand),
}

/// `berthd config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check a configuration file; exit code 64 and an error with line and field if it is not valid
    Validate {
        /// The file
        #[arg(long, short = 'c', env = "BERTH_CONFIG", default_value = "/etc/berth/berthd.yaml")]
        config: PathBuf,
    },
    /// Print every field with its default and its meaning
    PrintDefaults,
}

/// Flags of a run. Each overrides the field of the file that has its name.
#[derive(Debug, Default, Args)]
pub struct RunFlags {
    /// Configuration file; without it the defaults count
    #[arg(long, short = 'c', env = "BERTH_CONFIG")]
    pub config: Option<PathBuf>,
    /// CRI socket to listen on
    #[arg(long, env = "BERTH_SOCKET")]
    pub socket: Option<SocketPath>,
    /// Socket of a berth-shim, which has the CRI socket in berthd's place
    #[arg(long, env = "BERTH_SHIM_SOCKET")]
    pub shim_socket: Option<SocketPath>,
    /// Namespace of this berthd's own pod, where it is one and a berth-shim is in the runtime's place
    #[arg(long, env = "BERTH_AGENT_NAMESPACE")]
    pub agent_namespace: Option<String>,
    /// Endpoint of the runtime
    #[arg(long, short = 'r', env = "BERTH_RUNTIME_ENDPOINT")]
    pub runtime_endpoint: Option<Endpoint>,
    /// Socket for berthctl
    #[arg(long, env = "BERTH_ADMIN_SOCKET")]
    pub admin_socket: Option<SocketPath>,
    /// Directory of the store
    #[arg(long, env = "BERTH_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
    /// Directory of requests that are files
    #[arg(long, env = "BERTH_DESIRED_DIR")]
    pub desired_dir: Option<PathBuf>,
    /// Address of /healthz, /readyz and /metrics
    #[arg(long, env = "BERTH_HTTP_ADDRESS")]
    pub http_address: Option<SocketAddr>,
    /// Address of /metrics for scrapers of the cluster, by TLS and for who may read them
    #[arg(long, env = "BERTH_METRICS_ADDRESS")]
    pub metrics_address: Option<SocketAddr>,
    /// Name of this node in the API
    #[arg(long, env = "BERTH_NODE_NAME")]
    pub node_name: Option<String>,
    /// A level of the launch order starts in a later second of the wall clock than those above it
    #[arg(long, env = "BERTH_LAUNCH_ORDER_DISTINCT_SECONDS", value_name = "BOOL")]
    pub launch_order_distinct_seconds: Option<bool>,
    /// Space that stays free on the filesystem of images: a part such as 15%, or a size such as 10Gi
    #[arg(long, env = "BERTH_IMAGES_RESERVE")]
    pub images_reserve: Option<Reserve>,
    /// The NodeImage shows in spec.images what jobs want, as OpenKruise's controllers write it
    #[arg(long, env = "BERTH_IMAGES_JOBS_IN_SPEC", value_name = "BOOL")]
    pub images_jobs_in_spec: Option<bool>,
    /// Pods that get the annotation apps.kruise.io/runtime-containers-meta
    #[arg(long, env = "BERTH_UPDATES_CONTAINERS_META")]
    pub updates_containers_meta: Option<ContainersMeta>,
    /// Take the place of the berthd that listens on this handover.sock; if none does, start as usual
    #[arg(long, env = crate::succession::handover::TAKE_OVER, value_name = "PATH", hide_env_values = true)]
    pub take_over: Option<TakeOver>,
    /// Format of log lines
    #[arg(long, env = "BERTH_LOG_FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Log level or filter
    #[arg(long, env = "BERTH_LOG_LEVEL")]
    pub log_level: Option<String>,
}

impl RunFlags {
    /// The configuration a run uses: defaults, then the file, then the flags, then checked as a whole.
    pub fn configuration(self) -> Result<Configuration, ConfigError> {
        let mut config = match &self.config {
            Some(path) => Configuration::read(path)?,
            None => Configuration::default(),
        };
        fn put<T>(field: &mut T, flag: Option<T>) {
            if let Some(value) = flag {
                *field = value;
            }
        }
        put(&mut config.socket, self.socket);
        put(&mut config.shim_socket, self.shim_socket.map(Some));
        put(&mut config.agent_namespace, self.agent_namespace.map(Some));
        put(&mut config.runtime_endpoint, self.runtime_endpoint.map(Some));
        put(&mut config.admin_socket, self.admin_socket);
        put(&mut config.state_dir, self.state_dir);
        put(&mut config.desired_dir, self.desired_dir);
        put(&mut config.http_address, self.http_address);
        put(&mut config.metrics.address, self.metrics_address.map(Some));
        put(&mut config.node_name, self.node_name.map(Some));
        put(&mut config.launch_order.distinct_seconds, self.launch_order_distinct_seconds);
        put(&mut config.images.reserve, self.images_reserve);
        put(&mut config.images.jobs_in_spec, self.images_jobs_in_spec);
        put(&mut config.updates.containers_meta, self.updates_containers_meta);
        put(&mut config.logging.format, self.log_format);
        put(&mut config.logging.level, self.log_level);
        config.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_override_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("berthd.yaml");
        let head = "apiVersion: berth.dev/v1alpha1\nkind: BerthdConfiguration";
        std::fs::write(&path, format!("{head}\nsocket: /a.sock\nstateDir: /state\n")).unwrap();
        let path = path.to_str().unwrap();
        let flags = [
            "--socket=/b.sock",
            "--launch-order-distinct-seconds=true",
            "--images-reserve=5%",
            "--images-jobs-in-spec=true",
            "--updates-containers-meta=all",
        ];
        let cli = Cli::parse_from(["berthd", "--config", path].into_iter().chain(flags));
        let config = cli.run.configuration().unwrap();
        assert_eq!(config.socket.to_string(), "/b.sock");
        assert_eq!(config.state_dir, PathBuf::from("/state"));
        assert!(config.launch_order.distinct_seconds);
        assert_eq!(config.images.reserve, Reserve::Percent(5));
        assert!(config.images.jobs_in_spec);
        assert_eq!(config.updates.containers_meta, ContainersMeta::All);
        for wrong in ["--images-reserve=half", "--launch-order-distinct-seconds=1"] {
            assert!(Cli::try_parse_from(["berthd", wrong]).is_err(), "{wrong}");
        }
    }
}
