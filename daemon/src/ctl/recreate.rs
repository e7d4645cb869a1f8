//! `berthctl recreate`: restarts containers of a pod in place, and shows how that goes.
//!
//! berthd keeps the request before it answers; from then on it is carried out whether anybody looks or not.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use berth_proto::admin::admin_client::AdminClient;
use berth_proto::admin::{RecreateRequest, RecreateState, RequestsRequest};
use clap::{Args, ValueEnum};
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::cli::Global;
use super::output::{self, Format, OutputArgs, progress};
use super::requests::{ShownRequest, full_name, message};
use super::run::interrupted;
use super::{admin, duration};

/// How often berthd is asked how far it is.
const LOOK: Duration = Duration::from_millis(50);
/// How long a berthd that went away is waited for.
const AWAY: Duration = Duration::from_secs(60);
/// A request that is deleted sooner may be gone before anybody saw its end.
const SHORTEST_TTL: Duration = Duration::from_secs(10);

/// Flags of `recreate`.
#[derive(Args, Debug)]
pub struct RecreateArgs {
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
    /// What a container that fails means: the end, or nothing to the others [default: fail]
    #[arg(long, value_enum, value_name = "fail|ignore", hide_possible_values = true)]
    pub failure_policy: Option<FailurePolicy>,
    /// When the request ends, whatever was reached; 3s or more [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration::seconds)]
    pub deadline: Option<u32>,
    /// How long the request is kept after its end
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::seconds)]
    pub ttl: u32,
    /// Do not wait for the end; print the name of the request
    #[arg(long)]
    pub no_wait: bool,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What a container that fails means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailurePolicy {
    /// The request ends.
    Fail,
    /// The others go on.
    Ignore,
}

/// Runs `recreate`.
pub async fn recreate(global: &Global, args: &RecreateArgs) -> Result<ExitCode> {
    let request = request(args)?;
    let mut client = admin::connect(global).await?;
    let answer = client.recreate(admin::request(global, request)).await;
    let taken = answer.map_err(|status| refused(&status))?.into_inner();
    let name = full_name(&taken.namespace, &taken.name);
    let table = args.output.format == Format::Table;
    if args.no_wait {
        if table {
            output::print(&format!("{name}\n"))?;
        } else {
            let state = look(global, &mut Some(client), &name).await;
            let state = state.map_err(|status| admin::failed("Requests", &status))?;
            let state = state.with_context(|| gone(&name))?;
            output::data(args.output.format, &ShownRequest::from(&state), String::new)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    // In a table the story is what is asked for; for programs there is its end, and the story is for who watches.
    let tell = |line: &str| {
        if table {
            return output::print(&format!("{line}\n"));
        }
        progress(line);
        Ok(())
    };
    tell(&format!("request {name}"))?;
    let ended = tokio::select! {
        ended = follow(global, client, &name, tell) => ended?,
        signal = interrupted() => {
            signal?;
            progress(&format!("interrupted: request {name} goes on; berthctl get requests {name} shows how far it is"));
            return Ok(ExitCode::from(130));
        }
    };
    if !table {
        output::data(args.output.format, &ShownRequest::from(&ended), String::new)?;
    }
    if ended.outcome == "Complete" {
        return Ok(ExitCode::SUCCESS);
    }
    Err(anyhow!("request {name} {}", why(&ended)))
}

fn request(args: &RecreateArgs) -> Result<RecreateRequest> {
    if !args.no_wait && Duration::from_secs(args.ttl.into()) < SHORTEST_TTL {
        bail!("--ttl {}s: its end could be missed; give 10s or more, or --no-wait", args.ttl);
    }
    let short = |seconds: u32, flag: &str| {
        i32::try_from(seconds).map_err(|_| anyhow!("{flag} {seconds}s: is longer than a request can say"))
    };
    Ok(RecreateRequest {
        pod: args.pod.clone(),
        containers: args.containers.clone(),
        ordered_recreate: args.ordered,
        force_recreate: args.force,
        failure_policy: match args.failure_policy {
            Some(FailurePolicy::Fail) => "Fail",
            Some(FailurePolicy::Ignore) => "Ignore",
            None => "",
        }
        .to_owned(),
        termination_grace_period_seconds: args.grace.map(i64::from),
        unready_grace_period_seconds: args.unready_grace.map(i64::from),
        min_started_seconds: args.min_started.map(|seconds| short(seconds, "--min-started")).transpose()?,
        active_deadline_seconds: args.deadline.map(i64::from),
        ttl_seconds_after_finished: Some(short(args.ttl, "--ttl")?),
    })
}

/// What was asked for cannot be, or berthd cannot answer.
fn refused(status: &Status) -> anyhow::Error {
    match status.code() {
        Code::InvalidArgument | Code::NotFound => anyhow!("{}", status.message()),
        _ => admin::failed("Recreate", status),
    }
}

fn gone(name: &str) -> String {
    format!("request {name} was removed before it ended")
}

/// Tells what changes until the request has ended. A berthd that is restarted meanwhile is waited for.
async fn follow(
    global: &Global,
    client: AdminClient<Channel>,
    name: &str,
    tell: impl Fn(&str) -> Result<()>,
) -> Result<RecreateState> {
    let began = Instant::now();
    let mut client = Some(client);
    let mut story = Story::default();
    let mut away: Option<Instant> = None;
    loop {
        match look(global, &mut client, name).await {
            Ok(Some(state)) => {
                away = None;
                for line in story.goes_on(&state) {
                    tell(&format!("{:>7}  {line}", duration::short(began.elapsed())))?;
                }
                if !state.outcome.is_empty() || state.phase == "Completed" {
                    return Ok(state);
                }
            }
            Ok(None) => bail!("{}", gone(name)),
            Err(status) if status.code() == Code::Unavailable => {
                if away.is_none() {
                    progress("berthd is away; it has the request, and goes on with it when it is back");
                }
                if away.get_or_insert_with(Instant::now).elapsed() > AWAY {
                    bail!("berthd has not come back; request {name} goes on when it does");
                }
            }
            Err(status) => return Err(admin::failed("Requests", &status)),
        }
        sleep(LOOK).await;
    }
}

/// The request as it is now; a connection that broke is made anew the next time.
async fn look(
    global: &Global,
    client: &mut Option<AdminClient<Channel>>,
    name: &str,
) -> Result<Option<RecreateState>, Status> {
    let mut connected = match client.take() {
        Some(client) => client,
        None => admin::connect(global).await.map_err(|error| Status::unavailable(error.to_string()))?,
    };
    let asked = RequestsRequest { name: name.to_owned() };
    let answer = connected.requests(admin::request(global, asked)).await.map_err(|status| {
        // A connection that ends in the middle of a call has several names.
        match std::error::Error::source(&status) {
            Some(_) => Status::unavailable(status.message()),
            None => status,
        }
    })?;
    *client = Some(connected);
    // Its name has a random part, but an object of the API server may have any.
    Ok(answer.into_inner().requests.into_iter().find(|request| request.origin == "admin"))
}

/// Why a request that ended did not do what was asked for.
fn why(ended: &RecreateState) -> String {
    let mut text = message(ended);
    for container in &ended.containers {
        if container.phase != "Succeeded" {
            let message = match container.message.as_str() {
                "" => String::new(),
                message => format!(": {message}"),
            };
            text += &format!("; {} is {}{message}", container.name, container.phase.to_lowercase());
        }
    }
    text
}

/// What was told already.
#[derive(Default)]
struct Story {
    told: BTreeMap<String, String>,
}

impl Story {
    /// The lines that are new: the containers first, as they are listed, then the request as a whole.
    fn goes_on(&mut self, state: &RecreateState) -> Vec<String> {
        let width = state.containers.iter().map(|container| container.name.chars().count()).max();
        let width = width.unwrap_or(0).max("request".len());
        let containers = state.containers.iter().map(|container| {
            let stops =
                if container.killed && container.phase == "Recreating" { ", told to stop" } else { "" };
            (container.name.as_str(), format!("{}{stops}", container.phase), container.message.as_str())
        });
        let ended = match state.outcome.as_str() {
            "Failed" => format!("{}, failed ({})", state.phase, state.reason),
            _ => state.phase.clone(),
        };
        let request = [("request", ended, state.message.as_str())];
        let mut lines = Vec::new();
        for (place, (name, what, message)) in containers.chain(request).enumerate() {
            let what = if message.is_empty() { what } else { format!("{what}: {message}") };
            // A container may be called `request` too.
            let told = self.told.entry(format!("{place} {name}")).or_default();
            if *told != what {
                lines.push(format!("{name:<width$}  {what}"));
                *told = what;
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests;
