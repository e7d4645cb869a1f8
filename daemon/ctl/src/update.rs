//! `berthctl update`: changes images, labels and annotations of a running pod in place, and shows how that
//! goes.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Result, bail};
use berth_proto::admin::admin_client::AdminClient;
use berth_proto::admin::{ContainerImage, ContainerUpdateState, UpdateRequest, UpdateState, UpdatesRequest};
use clap::Args;
use tonic::Status;
use tonic::transport::Channel;

use super::cli::Global;
use super::follow::{self, Container, FollowArgs, Followed, Progress};
use super::output::full_name;
use super::updates::ShownUpdate;
use super::{admin, duration};

/// Flags of `update`.
#[derive(Args, Debug)]
pub(crate) struct UpdateArgs {
    /// The pod: its name, or namespace/name
    #[arg(value_name = "POD")]
    pub pod: String,
    /// The containers that get another image, and which
    #[arg(value_name = "CONTAINER=IMAGE", value_parser = image)]
    pub containers: Vec<Pair>,
    /// An annotation to set; a container whose env reads it is restarted. May be given several times
    #[arg(long = "annotation", value_name = "KEY=VALUE", value_parser = metadata)]
    pub annotations: Vec<Pair>,
    /// A label to set; a container whose env reads it is restarted. May be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = metadata)]
    pub labels: Vec<Pair>,
    /// Time between making the pod not Ready (where it has the readiness gate InPlaceUpdateReady) and the
    /// first change
    #[arg(long, value_name = "DURATION", value_parser = duration::seconds)]
    pub grace: Option<u32>,
    /// When it fails, return to what the pod was; without --deadline it fails after 10m
    #[arg(long)]
    pub rollback_on_failure: bool,
    /// Flags that all followed requests have.
    #[command(flatten)]
    pub follow: FollowArgs,
}

/// `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    key: String,
    value: String,
}

fn image(text: &str) -> Result<Pair, String> {
    pair(text, "write CONTAINER=IMAGE, as in main=registry.example.com/web:v2")
}

fn metadata(text: &str) -> Result<Pair, String> {
    pair(text, "write KEY=VALUE")
}

fn pair(text: &str, remedy: &str) -> Result<Pair, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok(Pair { key: key.to_owned(), value: value.to_owned() }),
        _ => Err(remedy.to_owned()),
    }
}

/// Runs `update`.
pub(crate) async fn update(global: &Global, args: &UpdateArgs) -> Result<ExitCode> {
    ask(global, request(args)?, &args.follow).await
}

/// Asks for an update, and shows how it goes.
pub(crate) async fn ask(global: &Global, request: UpdateRequest, args: &FollowArgs) -> Result<ExitCode> {
    let mut client = admin::connect(global).await?;
    let answer = client.update(admin::request(global, request)).await;
    let taken = answer.map_err(|status| follow::refused("Update", &status))?.into_inner();
    let name = full_name(&taken.namespace, &taken.name);
    follow::show::<UpdateState>(global, client, &name, args).await
}

fn request(args: &UpdateArgs) -> Result<UpdateRequest> {
    if args.containers.is_empty() && args.annotations.is_empty() && args.labels.is_empty() {
        bail!("nothing is asked for: give CONTAINER=IMAGE, --annotation KEY=VALUE or --label KEY=VALUE");
    }
    once(&args.containers, "container")?;
    let container = |pair: &Pair| ContainerImage { name: pair.key.clone(), image: pair.value.clone() };
    Ok(UpdateRequest {
        pod: args.pod.clone(),
        containers: args.containers.iter().map(container).collect(),
        labels: once(&args.labels, "label")?.into_iter().collect(),
        annotations: once(&args.annotations, "annotation")?.into_iter().collect(),
        grace_period_seconds: args.grace.map(|seconds| follow::short(seconds, "--grace")).transpose()?,
        failure_policy: args.follow.failure_policy(),
        rollback_on_failure: args.rollback_on_failure,
        active_deadline_seconds: args.follow.deadline(),
        ttl_seconds_after_finished: Some(args.follow.ttl()?),
        swaps: Vec::new(),
    })
}

/// Each key at most once.
fn once(pairs: &[Pair], what: &str) -> Result<BTreeMap<String, String>> {
    let mut map = BTreeMap::new();
    for Pair { key, value } in pairs {
        if map.insert(key.clone(), value.clone()).is_some() {
            bail!("{what} {key} is given twice: give it once");
        }
    }
    Ok(map)
}

impl Followed for UpdateState {
    const CALL: &'static str = "Updates";
    const KIND: &'static str = "update";
    const COMMAND: &'static str = "berthctl get updates";
    type Shown = ShownUpdate;

    async fn named(
        client: &mut AdminClient<Channel>,
        global: &Global,
        name: &str,
    ) -> Result<Vec<Self>, Status> {
        let asked = UpdatesRequest { name: name.to_owned() };
        Ok(client.updates(admin::request(global, asked)).await?.into_inner().updates)
    }

    fn progress(&self) -> Progress<'_> {
        Progress {
            origin: &self.origin,
            phase: &self.phase,
            message: &self.message,
            outcome: &self.outcome,
            reason: &self.reason,
            objection: "",
            containers: self.containers.iter().map(Container::from).collect(),
        }
    }
}

impl<'a> From<&'a ContainerUpdateState> for Container<'a> {
    fn from(ContainerUpdateState { name, phase, message }: &'a ContainerUpdateState) -> Self {
        Self { name, phase, message, remark: "" }
    }
}

#[cfg(test)]
mod tests;
