//! Flags of `recreate` and `update`, with the names that `berthctl` has for the same things.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::{
    cli::{DryRun, Printing, duration},
    object::Sort,
};

/// Commands that make a request for a pod.
#[derive(Debug, Subcommand)]
pub(crate) enum RequestArgs {
    /// Restart containers of a running pod in place
    ///
    /// Makes a ContainerRecreateRequest. Each container is restarted exactly once: preStop hook, stop signal,
    /// SIGKILL when the grace is over, then a new instance in the same pod. The request goes on whether it is
    /// waited for or not; with --wait the exit code is 1 when it fails.
    Recreate(Recreate),
    /// Change images, labels and annotations of a running pod in place
    ///
    /// Makes a ContainerUpdateRequest. The pod stays, and its containers are replaced in the order of their
    /// launch priorities, each after its new image is on the node. The request goes on whether it is waited
    /// for or not; with --wait the exit code is 1 when it fails.
    Update(Update),
}

/// Flags of `recreate`.
#[derive(Args, Debug)]
pub(crate) struct Recreate {
    /// The pod: its name, or pod/NAME
    #[arg(value_name = "POD")]
    pub(crate) pod: String,
    /// Name of a container; may be given several times [default: all but init containers]
    #[arg(short, long = "container", value_name = "NAME")]
    pub(crate) containers: Vec<String>,
    /// One after another in the order of the pod, the next only after the one before it is Ready again
    #[arg(long)]
    pub(crate) ordered: bool,
    /// Restart also a container that is replaced for another reason meanwhile
    #[arg(long)]
    pub(crate) force: bool,
    /// Grace from the beginning of preStop to SIGKILL [default: the pod's terminationGracePeriodSeconds]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) grace: Option<Duration>,
    /// Make the pod not Ready first, where it has the readiness gate KruisePodReady, and wait so long
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) unready_grace: Option<Duration>,
    /// How long a new instance must have run to count
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) min_started: Option<Duration>,
    #[command(flatten)]
    pub(crate) following: Following,
}

/// Flags of `update`.
#[derive(Args, Debug)]
pub(crate) struct Update {
    /// The pod: its name, or pod/NAME
    #[arg(value_name = "POD")]
    pub(crate) pod: String,
    /// The containers that get another image, and which
    #[arg(value_name = "CONTAINER=IMAGE")]
    pub(crate) images: Vec<String>,
    /// A label to set; a container whose env reads it is restarted. May be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) label: Vec<(String, String)>,
    /// An annotation to set; a container whose env reads it is restarted. May be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) annotation: Vec<(String, String)>,
    /// Time between making the pod not Ready (where it has the readiness gate InPlaceUpdateReady) and the
    /// first change
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) grace: Option<Duration>,
    /// When it fails, return to what the pod was; without --deadline it fails after 10m
    #[arg(long)]
    pub(crate) rollback_on_failure: bool,
    #[command(flatten)]
    pub(crate) following: Following,
}

/// Flags of every request.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Following {
    /// When a container fails: end the request (fail), or go on with the others [default: fail]
    #[arg(long, value_enum, value_name = "fail|ignore", hide_possible_values = true)]
    pub(crate) failure_policy: Option<FailurePolicy>,
    /// When the request ends, whatever was reached; 3s or more [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) deadline: Option<Duration>,
    /// How long the request is kept after its end
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub(crate) ttl: Duration,
    /// Wait for the end, and say each step
    #[arg(short, long)]
    pub(crate) wait: bool,
    /// How long to wait at the most; 0 is for ever. The request goes on
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) printing: Printing,
    /// Only try it: here (client), or at the API server (server)
    #[arg(long, value_enum, default_value_t, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub(crate) dry_run: DryRun,
}

/// Effect of a container that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailurePolicy {
    /// The request ends
    Fail,
    /// The others go on
    Ignore,
}

impl RequestArgs {
    /// Kind of the request.
    pub(crate) fn sort(&self) -> Sort {
        match self {
            Self::Recreate(_) => Sort::RECREATE,
            Self::Update(_) => Sort::UPDATE,
        }
    }

    /// The pod, as it was named.
    pub(crate) fn pod(&self) -> &str {
        match self {
            Self::Recreate(flags) => &flags.pod,
            Self::Update(flags) => &flags.pod,
        }
    }

    /// Flags of every request.
    pub(crate) fn following(&self) -> &Following {
        match self {
            Self::Recreate(flags) => &flags.following,
            Self::Update(flags) => &flags.following,
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("is not of the form KEY=VALUE".to_owned()),
    }
}
