//! Commands that berthd keeps and carries out by itself: asked for once, then followed to their end.
//!
//! berthd keeps a request before it answers; from then on it is carried out whether anybody looks or not. A
//! berthd that is restarted meanwhile is waited for.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use berth_proto::{admin::admin_client::AdminClient, text::lines};
use clap::{Args, ValueEnum};
use serde::Serialize;
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::cli::Global;
use super::output::{self, Format, OutputArgs, or_dash, progress};
use super::play::interrupted;
use super::{admin, duration};

/// How often berthd is asked how far it is.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a berthd that went away is waited for.
const AWAY: Duration = Duration::from_secs(60);
/// A request that is deleted sooner may be gone before anybody saw its end.
const SHORTEST_TTL: Duration = Duration::from_secs(10);

/// Flags of every command that asks for something which berthd carries out by itself.
#[derive(Args, Debug)]
pub(crate) struct FollowArgs {
    /// When a container fails: end the request (fail), or go on with the others [default: fail]
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

/// Effect of a container that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailurePolicy {
    /// The request ends.
    Fail,
    /// The others go on.
    Ignore,
}

/// A kind of request, as berthd tells of it.
pub(super) trait Followed: Sized {
    /// The call that tells it.
    const CALL: &'static str;
    /// Name of one, in messages.
    const KIND: &'static str;
    /// The command that shows it.
    const COMMAND: &'static str;
    /// The same for programs.
    type Shown: Serialize + for<'a> From<&'a Self>;

    /// Fetches the requests of this name, no matter who made them; all of them where it is empty.
    async fn named(
        client: &mut AdminClient<Channel>,
        global: &Global,
        name: &str,
    ) -> Result<Vec<Self>, Status>;
    /// Progress of the request.
    fn progress(&self) -> Progress<'_>;
}

/// How far a request is.
pub(super) struct Progress<'a> {
    /// Author of the request.
    pub(super) origin: &'a str,
    /// Phase of the whole request.
    pub(super) phase: &'a str,
    /// Message about the whole request.
    pub(super) message: &'a str,
    /// `Complete` or `Failed`; empty before the end.
    pub(super) outcome: &'a str,
    /// Reason of the outcome.
    pub(super) reason: &'a str,
    /// Why what is asked for now is not what is done.
    pub(super) objection: &'a str,
    /// Its containers, in their order.
    pub(super) containers: Vec<Container<'a>>,
}

/// How far one container is.
pub(super) struct Container<'a> {
    pub(super) name: &'a str,
    pub(super) phase: &'a str,
    pub(super) message: &'a str,
    /// Remark beside the phase.
    pub(super) remark: &'static str,
}

// === impl FollowArgs ===

impl FollowArgs {
    /// `ttlSecondsAfterFinished`.
    pub(super) fn ttl(&self) -> Result<i32> {
        if !self.no_wait && Duration::from_secs(self.ttl.into()) < SHORTEST_TTL {
            bail!("--ttl {}s: its end could be missed; give 10s or more, or --no-wait", self.ttl);
        }
        short(self.ttl, "--ttl")
    }

    /// `activeDeadlineSeconds`.
    pub(super) fn deadline(&self) -> Option<i64> {
        self.deadline.map(i64::from)
    }

    /// `failurePolicy`; empty for the default.
    pub(super) fn failure_policy(&self) -> String {
        match self.failure_policy {
            Some(FailurePolicy::Fail) => "Fail",
            Some(FailurePolicy::Ignore) => "Ignore",
            None => "",
        }
        .to_owned()
    }
}

/// A number of seconds as requests have most of them.
pub(super) fn short(seconds: u32, flag: &str) -> Result<i32> {
    i32::try_from(seconds).map_err(|_| anyhow!("{flag} {seconds}s: is longer than a request can say"))
}

/// Makes the error for a request that cannot be done, or for a berthd that cannot answer.
pub(super) fn refused(call: &str, status: &Status) -> anyhow::Error {
    match status.code() {
        Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition => anyhow!("{}", status.message()),
        _ => admin::failed(call, status),
    }
}

/// Lists the requests of a kind: the one of this name, or all.
pub(super) async fn list<T: Followed>(global: &Global, name: Option<&str>) -> Result<Vec<T>> {
    let mut client = admin::connect(global).await?;
    let found = T::named(&mut client, global, name.unwrap_or_default()).await;
    let found = found.map_err(|status| refused(T::CALL, &status))?;
    match name {
        Some(name) if found.is_empty() => {
            bail!("berthd knows no {} {name:?}; {} lists those there are", T::KIND, T::COMMAND)
        }
        _ => Ok(found),
    }
}

/// Shows a request that was taken: its name, or how it goes until it ends.
pub(super) async fn show<T: Followed>(
    global: &Global,
    client: AdminClient<Channel>,
    name: &str,
    args: &FollowArgs,
) -> Result<ExitCode> {
    let table = args.output.format == Format::Table;
    if args.no_wait {
        if table {
            output::print(&format!("{name}\n"))?;
        } else {
            let state: Option<T> = look(global, &mut Some(client), name)
                .await
                .map_err(|status| admin::failed(T::CALL, &status))?;
            let state = state.with_context(|| gone(name))?;
            output::data(args.output.format, &T::Shown::from(&state), String::new)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    // In a table the story is what is asked for; for programs there is its end, and the story is for who
    // watches.
    let tell = |line: &str| {
        if table {
            return output::print(&format!("{}\n", lines(line)));
        }
        progress(line);
        Ok(())
    };
    tell(&format!("request {name}"))?;
    let ended: T = tokio::select! {
        ended = follow(global, client, name, tell) => ended?,
        signal = interrupted() => {
            signal?;
            let command = T::COMMAND;
            progress(&format!("interrupted: request {name} goes on; {command} {name} shows how far it is"));
            return Ok(ExitCode::from(130));
        }
    };
    if !table {
        output::data(args.output.format, &T::Shown::from(&ended), String::new)?;
    }
    let ended = ended.progress();
    if ended.outcome == "Complete" {
        return Ok(ExitCode::SUCCESS);
    }
    Err(anyhow!("request {name} {}", why(&ended)))
}

fn gone(name: &str) -> String {
    format!("request {name} was removed before it ended")
}

/// Tells what changes until the request has ended.
async fn follow<T: Followed>(
    global: &Global,
    client: AdminClient<Channel>,
    name: &str,
    tell: impl Fn(&str) -> Result<()>,
) -> Result<T> {
    let began = Instant::now();
    let mut client = Some(client);
    let mut story = Story::default();
    let mut away: Option<Instant> = None;
    loop {
        match look::<T>(global, &mut client, name).await {
            Ok(Some(state)) => {
                away = None;
                let progress = state.progress();
                for line in story.goes_on(&progress) {
                    tell(&format!("{:>7}  {line}", duration::short(began.elapsed())))?;
                }
                if !progress.outcome.is_empty() || progress.phase == "Completed" {
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
            Err(status) => return Err(admin::failed(T::CALL, &status)),
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// The request as it is now; a connection that broke is made anew the next time.
async fn look<T: Followed>(
    global: &Global,
    client: &mut Option<AdminClient<Channel>>,
    name: &str,
) -> Result<Option<T>, Status> {
    let mut connected = match client.take() {
        Some(client) => client,
        None => admin::connect(global).await.map_err(|error| Status::unavailable(error.to_string()))?,
    };
    let found = T::named(&mut connected, global, name).await.map_err(|status| {
        // A connection that ends in the middle of a call has several names.
        match std::error::Error::source(&status) {
            Some(_) => Status::unavailable(status.message()),
            None => status,
        }
    })?;
    *client = Some(connected);
    // Its name has a random part, but an object of the API server may have any.
    Ok(found.into_iter().find(|request| request.progress().origin == "admin"))
}

/// Tells all that is to be known of a request besides its phase, which says `Completed` however it ended.
pub(super) fn message(request: &Progress<'_>) -> String {
    let (reason, message) = (request.reason, request.message);
    let ended = match (request.outcome, message) {
        ("Failed", "") => format!("failed ({reason})"),
        ("Failed", _) => format!("failed ({reason}): {message}"),
        _ => message.to_owned(),
    };
    match (request.objection, ended.as_str()) {
        ("", _) => ended,
        (objection, message) if message.is_empty() || message == objection => objection.to_owned(),
        (objection, message) => format!("{message}; {objection}"),
    }
}

/// `app (Succeeded), log (Recreating)`; without phases where there are none yet.
pub(super) fn containers(request: &Progress<'_>) -> String {
    let one = |container: &Container<'_>| match container.phase {
        "" => container.name.to_owned(),
        phase => format!("{} ({phase})", container.name),
    };
    or_dash(&request.containers.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// Says why a request that ended did not do what was asked for.
fn why(ended: &Progress<'_>) -> String {
    let mut text = message(ended);
    for container in &ended.containers {
        if container.phase != "Succeeded" {
            let message = match container.message {
                "" => String::new(),
                message => format!(": {message}"),
            };
            text += &format!("; {} is {}{message}", container.name, container.phase.to_lowercase());
        }
    }
    text
}

/// Record of all that was told already.
#[derive(Default)]
struct Story {
    told: BTreeMap<String, String>,
}

impl Story {
    /// The lines that are new: the containers first, as they are listed, then the request as a whole.
    fn goes_on(&mut self, state: &Progress<'_>) -> Vec<String> {
        let containers = &state.containers;
        let width = containers.iter().map(|container| container.name.chars().count()).max();
        let width = width.unwrap_or(0).max("request".len());
        let containers = containers.iter().map(|container| {
            (container.name, format!("{}{}", container.phase, container.remark), container.message)
        });
        let ended = match state.outcome {
            "Failed" => format!("{}, failed ({})", state.phase, state.reason),
            _ => state.phase.to_owned(),
        };
        let request = [("request", ended, state.message)];
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
