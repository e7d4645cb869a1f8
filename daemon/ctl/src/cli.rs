//! The command line: what every command understands, and the list of commands.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use super::install::{InstallArgs, UninstallArgs, bypass::BypassArgs, doctor::DoctorArgs};
use super::{
    check, duration, events, explain, get, order, pages, play, pods, probes, ps, pull, recreate, status,
    stop, swap, sysdump, update, upgrade, version,
};

/// Plays, lists and stops pods on this node, recreates and updates their containers, and shows what berthd
/// does with them.
#[derive(Debug, Parser)]
#[command(name = "berthctl", version, subcommand_required = true)]
pub(crate) struct Cli {
    /// Flags of all commands.
    #[command(flatten)]
    pub global: Global,
    /// Command to carry out.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags of all commands.
#[derive(Args, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// CRI socket [default: berthd's /run/berth/cri.sock, else the container runtime's own]
    #[arg(
        short,
        long,
        env = "CONTAINER_RUNTIME_ENDPOINT",
        value_name = "ENDPOINT",
        global = true,
        hide_env_values = true
    )]
    pub runtime_endpoint: Option<String>,
    /// Admin socket of berthd
    #[arg(
        long,
        env = "BERTH_ADMIN_SOCKET",
        value_name = "PATH",
        default_value = "/run/berth/admin.sock",
        global = true,
        hide_env_values = true
    )]
    pub admin_socket: PathBuf,
    /// How long an ordinary call may take; give it before the command
    #[arg(short, long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub timeout: Duration,
    /// Log every call to stderr, with its duration
    #[arg(short = 'D', long, global = true)]
    pub debug: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Play a v1 Pod manifest without a kubelet
    ///
    /// Does what a kubelet would do with the manifest, once: sandbox, images, init containers, containers,
    /// probes until all are ready. Afterwards nobody restarts a container or acts on its probes. What needs a
    /// cluster (configMap and secret volumes, valueFrom of them, image pull secrets, ...) is refused before
    /// anything is created.
    ///
    /// Containers with an order (env KRUISE_CONTAINER_PRIORITY or annotation
    /// apps.kruise.io/container-launch-priority) start in that order when berthd is in between; the runtime
    /// alone knows no order.
    #[command(alias = "run")]
    Play(play::PlayArgs),
    /// Stop and remove a pod as the kubelet does
    ///
    /// All containers at once: preStop hook, stop signal, SIGKILL when the grace is over; then the sandbox.
    /// In what order they end is berthd's doing. The pod's emptyDir volumes go with it, its logs stay.
    #[command(alias = "stop")]
    StopPod(stop::StopArgs),
    /// List pods
    Pods(pods::PodsArgs),
    /// List containers
    Ps(ps::PsArgs),
    /// Restart containers of a running pod in place
    ///
    /// Each exactly once: preStop hook, stop signal, SIGKILL when the grace is over, then a new instance in
    /// the same pod, whatever its restartPolicy. berthd keeps the request and carries it out whether berthctl
    /// waits or not; Ctrl-C ends only the waiting. Without --ordered, each is stopped when the one before it
    /// has ended, in the order given. The exit code is 1 when the request fails.
    Recreate(recreate::RecreateArgs),
    /// Change images, labels and annotations of a running pod in place
    ///
    /// The pod stays, and its containers are replaced in the order of their launch priorities, each after its
    /// new image is on the node. berthd does it with its own identity and needs podView.mode api; no object
    /// is made at the API server. It keeps the request and carries it out whether berthctl waits or not;
    /// Ctrl-C ends only the waiting. A later update of the same pod replaces this one where the two differ.
    /// The exit code is 1 when the request fails.
    Update(update::UpdateArgs),
    /// Give a sidecar with twins (hot upgrade) another version, without a moment in which none serves
    Swap(swap::SwapArgs),
    /// Pull an image as the agent does
    ///
    /// With the node's own credentials (the kubelet's docker configuration and credential providers), within
    /// berthd's limits, and once if the kubelet is pulling the same. Ctrl-C ends the pull unless somebody
    /// else wants the image. The exit code is 1 when all attempts failed.
    Pull(pull::PullArgs),
    /// List the images that are wanted on this node, and how far they are
    Pulls(pull::PullsArgs),
    /// List what berthd was asked for
    #[command(subcommand)]
    Get(get::Get),
    /// Show the launch order of pods and who waits for whom
    Order(order::OrderArgs),
    /// Say why the containers of a pod are where they are, and what led there
    ///
    /// Which container waits for what and since when, what holds the pod, which request, update or pull is
    /// under way, and the newest entries of its timeline.
    ///
    /// With --file it asks nobody: it says in which order the containers of that pod would start and end,
    /// what ends with its job, and which declarations have no effect. The exit code is 1 when one cannot be
    /// followed.
    Explain(explain::ExplainArgs),
    /// List what was decided about the pods of this node, and what happened to them
    ///
    /// Calls that were held, refused and let go, launch levels that opened, containers that came and went,
    /// steps of requests and updates. berthd keeps the newest 48 entries of each pod and 1024 in all, in
    /// memory: they are gone when it starts anew.
    Events(events::EventsArgs),
    /// List the probes of PodProbeMarkers on this node, and where they stand
    ///
    /// The state of each and since when, its last words, and its next run.
    Probes(probes::ProbesArgs),
    /// Collect what a report of a bug needs into a directory, with secrets left out
    ///
    /// Words of berthd and of the runtime about themselves, doctor's checks, the configuration, the units and
    /// logs of berthd and berth-shim. Neither specs of pods nor their env are in it. Read it before you send
    /// it.
    Sysdump(sysdump::SysdumpArgs),
    /// Put Berth between the kubelet and the container runtime of this node
    ///
    /// Finds the kubelet (kubeadm or plain, k3s, RKE2) and its runtime, installs and starts berthd, and only
    /// when that serves, restarts the kubelet on its socket. If the node is not Ready through Berth in time,
    /// everything is put back. Running pods are not touched. Files that are there already stay; doing it
    /// again mends what is missing.
    Install(InstallArgs),
    /// Take Berth off this node and put everything back
    ///
    /// Works from what install has written down before each change, also after it was interrupted. Pods are
    /// not touched.
    Uninstall(UninstallArgs),
    /// Lead the kubelet past Berth, at once
    ///
    /// Removes the file that leads the kubelet to Berth and restarts the kubelet. Needs neither berthd nor
    /// the API server. Pods are not touched, and berthd goes on running.
    Bypass(BypassArgs),
    /// Check that everything is as Berth needs it, and say what to do if not
    ///
    /// The exit code is 1 when a check fails.
    Doctor(DoctorArgs),
    /// Check the whole cluster: definitions, programs, policies, agents, and parts of OpenKruise
    ///
    /// It asks the API server alone, as the user of the kubeconfig, and writes nothing. The exit code is 1
    /// when a check fails.
    Check(check::CheckArgs),
    /// Show what berthd is connected to and what it holds
    Status(status::StatusArgs),
    /// Put another berthd in the place of the one that runs, without a failed call
    ///
    /// The new program is started by the old one, takes its sockets and its store, and accepts before the old
    /// one stops; calls that are under way end in the old one. If the new program does not run, does not take
    /// the configuration, or is not ready in time, the old one goes on. Under systemd the unit's main process
    /// changes; what the unit starts after a crash is the file that it names, so put the new program there
    /// (and leave --to out).
    Upgrade(upgrade::UpgradeArgs),
    /// Let berthd end with its last open call
    ///
    /// It accepts no new connection and sends its clients away; held creations of containers go back at once.
    /// Under systemd it is then started again; to stop it there, use systemctl stop.
    Drain(upgrade::DrainArgs),
    /// Print the script by which a shell completes commands and flags of berthctl
    ///
    /// For bash: berthctl completion bash > /etc/bash_completion.d/berthctl
    Completion(pages::CompletionArgs),
    /// Write the man pages of berthctl and its commands into a directory
    Man(pages::ManArgs),
    /// Show the versions of berthctl and of the runtime
    Version(version::VersionArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_grace_of_stop_pod_is_not_the_deadline_of_calls() {
        let cli = Cli::try_parse_from(["berthctl", "-t", "3s", "stop-pod", "-t", "1m", "web"]).unwrap();
        assert_eq!(cli.global.timeout, Duration::from_secs(3));
        let Command::StopPod(args) = cli.command else { panic!("{:?}", cli.command) };
        assert_eq!(args.timeout, Some(Duration::from_secs(60)));
    }

    /// For scripts that were written for them; crictl's `run` and `stop` mean containers.
    #[test]
    fn the_old_names_of_play_and_stop_pod_are_understood_and_not_shown() {
        let cli = Cli::try_parse_from(["berthctl", "run", "pod.yaml"]).unwrap();
        assert!(matches!(cli.command, Command::Play(_)), "{:?}", cli.command);
        let cli = Cli::try_parse_from(["berthctl", "stop", "web"]).unwrap();
        assert!(matches!(cli.command, Command::StopPod(_)), "{:?}", cli.command);
        let help = Cli::command().render_long_help().to_string();
        assert!(
            help.contains("  stop-pod ") && !help.contains("  stop ") && !help.contains("  run "),
            "{help}"
        );
    }

    #[test]
    fn help_is_a_command_too() {
        let help = Cli::try_parse_from(["berthctl", "help", "stop-pod"]).unwrap_err();
        assert_eq!(help.kind(), clap::error::ErrorKind::DisplayHelp);
        assert!(help.to_string().contains("preStop hook"), "{help}");
    }

    #[test]
    fn lists_have_two_names() {
        for name in ["updates", "cur"] {
            let cli = Cli::try_parse_from(["berthctl", "get", name, "-o", "json"]).unwrap();
            assert!(matches!(cli.command, Command::Get(get::Get::Updates(_))), "{:?}", cli.command);
        }
        for name in ["requests", "crr"] {
            let cli = Cli::try_parse_from(["berthctl", "get", name, "shop/web-x", "-o", "yaml"]).unwrap();
            let Command::Get(get::Get::Requests(args)) = cli.command else { panic!("{:?}", cli.command) };
            assert_eq!(args.name.as_deref(), Some("shop/web-x"));
        }
        assert!(Cli::try_parse_from(["berthctl", "recreate", "web"]).is_err(), "which containers?");
        assert!(Cli::try_parse_from(["berthctl", "recreate", "web", "app", "--grace", "1.5s"]).is_err());
    }

    #[test]
    fn the_runtime_may_be_named_after_the_command_too() {
        let cli = Cli::try_parse_from(["berthctl", "ps", "-r", "unix:///x", "-o", "json"]).unwrap();
        assert_eq!(cli.global.runtime_endpoint.as_deref(), Some("unix:///x"));
        assert!(Cli::try_parse_from(["berthctl", "ps", "-l", "-n", "3"]).is_err());
        assert!(Cli::try_parse_from(["berthctl", "pods", "--label", "x"]).is_err());
    }
}
