//! `berthctl recreate`: restarts containers of a pod in place, and shows how that goes.

use std::process::ExitCode;

use anyhow::Result;
use berth_proto::admin::admin_client::AdminClient;
use berth_proto::admin::{ContainerRecreateState, RecreateRequest, RecreateState, RequestsRequest};
use clap::Args;
use tonic::Status;
use tonic::transport::Channel;

use super::cli::Global;
use super::follow::{self, Container, FollowArgs, Followed, Progress};
use super::output::full_name;
use super::requests::ShownRequest;
use super::{admin, duration};

/// Flags of `recreate`.
#[derive(Args, Debug)]
pub(crate) struct RecreateArgs {
    /// The pod: its name, or namespace/name
    #[arg(value_name = "POD")]
    pub pod: String,
    /// The containers; init containers that restart always are containers too
    #[arg(value_name = "CONTAINER", required = true)]
    pub containers: Vec<String>,
    /// One after another in the order of the pod, the next only after the one before it is Ready again
    #[arg(long)]
    pub ordered: bool,
    /// Restart also a container that is replaced for another reason meanwhile
    #[arg(long)]
    pub force: bool,
    /// Grace from the beginning of preStop to SIGKILL [default: the pod's terminationGracePeriodSeconds]
    #[arg(long, value_name = "DURATION", value_parser = duration::seconds)]
    pub grace: Option<u32>,
    /// Make the pod not Ready first, where it has the readiness gate KruisePodReady, and wait so long
    #[arg(long, value_name = "DURATION", value_parser = duration::seconds)]
    pub unready_grace: Option<u32>,
    /// How long a new instance must have run to count
    #[arg(long, value_name = "DURATION", value_parser = duration::seconds)]
    pub min_started: Option<u32>,
    /// Flags that all followed requests have.
    #[command(flatten)]
    pub follow: FollowArgs,
}

/// Runs `recreate`.
pub(crate) async fn recreate(global: &Global, args: &RecreateArgs) -> Result<ExitCode> {
    let request = request(args)?;
    let mut client = admin::connect(global).await?;
    let answer = client.recreate(admin::request(global, request)).await;
    let taken = answer.map_err(|status| follow::refused("Recreate", &status))?.into_inner();
    let name = full_name(&taken.namespace, &taken.name);
    follow::show::<RecreateState>(global, client, &name, &args.follow).await
}

fn request(args: &RecreateArgs) -> Result<RecreateRequest> {
    let min_started = args.min_started.map(|seconds| follow::short(seconds, "--min-started"));
    Ok(RecreateRequest {
        pod: args.pod.clone(),
        containers: args.containers.clone(),
        ordered_recreate: args.ordered,
        force_recreate: args.force,
        failure_policy: args.follow.failure_policy(),
        termination_grace_period_seconds: args.grace.map(i64::from),
        unready_grace_period_seconds: args.unready_grace.map(i64::from),
        min_started_seconds: min_started.transpose()?,
        active_deadline_seconds: args.follow.deadline(),
        ttl_seconds_after_finished: Some(args.follow.ttl()?),
    })
}

impl Followed for RecreateState {
    const CALL: &'static str = "Requests";
    const KIND: &'static str = "request";
    const COMMAND: &'static str = "berthctl get requests";
    type Shown = ShownRequest;

    async fn named(
        client: &mut AdminClient<Channel>,
        global: &Global,
        name: &str,
    ) -> Result<Vec<Self>, Status> {
        let asked = RequestsRequest { name: name.to_owned() };
        Ok(client.requests(admin::request(global, asked)).await?.into_inner().requests)
    }

    fn progress(&self) -> Progress<'_> {
        Progress {
            origin: &self.origin,
            phase: &self.phase,
            message: &self.message,
            outcome: &self.outcome,
            reason: &self.reason,
            objection: &self.objection,
            containers: self.containers.iter().map(Container::from).collect(),
        }
    }
}

impl<'a> From<&'a ContainerRecreateState> for Container<'a> {
    fn from(container: &'a ContainerRecreateState) -> Self {
        let ContainerRecreateState { name, phase, message, killed } = container;
        let stops = *killed && phase == "Recreating";
        Self { name, phase, message, remark: if stops { ", told to stop" } else { "" } }
    }
}

#[cfg(test)]
mod tests;
