//! `berthctl pull` and `berthctl pulls`: images on this node, pulled as the agent pulls them.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use berth_proto::admin::{PullRequest, PullState, PullsRequest};
use berth_proto::text::one_line;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tonic::Streaming;

use super::cli::Global;
use super::output::{self, Columns, Format, ListOutputArgs, OutputArgs, or_dash, progress};
use super::play::interrupted;
use super::{admin, duration, usage};

/// Flags of `pull`.
#[derive(Args, Debug)]
pub(crate) struct PullArgs {
    /// The image: [registry/]repository[:tag][@digest]
    #[allow(rustdoc::broken_intra_doc_links, reason = "the text of the help")]
    #[arg(value_name = "IMAGE")]
    pub image: String,
    /// Ask the registry although the image is there
    #[arg(long)]
    pub always: bool,
    /// How long one attempt may take [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = duration::seconds)]
    pub attempt_timeout: Option<u32>,
    /// Attempts after the first one [default: 3]
    #[arg(long, value_name = "N", value_parser = usage::count)]
    pub retries: Option<u16>,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Flags of `pulls`.
#[derive(Args, Debug)]
pub(crate) struct PullsArgs {
    /// Only this image, as it was asked for
    #[arg(value_name = "IMAGE")]
    pub image: Option<String>,
    /// How to show it.
    #[command(flatten)]
    pub output: ListOutputArgs,
}

/// Runs `pull`.
pub(crate) async fn pull(global: &Global, args: &PullArgs) -> Result<ExitCode> {
    let mut client = admin::connect(global).await?;
    let request = PullRequest {
        image: args.image.clone(),
        always: args.always,
        timeout_seconds: args.attempt_timeout.map(|seconds| i32::try_from(seconds).unwrap_or(i32::MAX)),
        backoff_limit: args.retries.map(i32::from),
    };
    // Without a deadline: a pull takes what it takes.
    let states = client.pull(request).await.map_err(|status| admin::failed("Pull", &status))?;
    let ended = tokio::select! {
        ended = follow(states.into_inner()) => ended?,
        signal = interrupted() => {
            signal?;
            progress("interrupted: the pull ends, unless somebody else wants the image");
            return Ok(ExitCode::from(130));
        }
    };
    if ended.phase != "Succeeded" {
        bail!("{} not pulled: {}", ended.image, ended.message);
    }
    let text = || format!("Image is up to date for {}\n", ended.image_id);
    output::data(args.output.format, &Shown::from(&ended), text)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the way and gives its end.
async fn follow(mut states: Streaming<PullState>) -> Result<PullState> {
    let mut view = View::new();
    loop {
        let state = states.message().await.map_err(|status| admin::failed("Pull", &status))?;
        let Some(state) = state else {
            return Err(anyhow!(
                "berthd went away before the pull ended; ask again: it goes on where it was"
            ));
        };
        view.show(&state);
        if ["Succeeded", "Failed"].contains(&state.phase.as_str()) {
            view.clear();
            return Ok(state);
        }
    }
}

/// A bar for people, lines for everybody else.
enum View {
    Bar(ProgressBar),
    Lines { phase: String, tenths: u64, message: String },
}

impl View {
    fn new() -> Self {
        if std::io::stderr().is_terminal() {
            return Self::Bar(ProgressBar::no_length());
        }
        Self::Lines { phase: String::new(), tenths: 0, message: String::new() }
    }

    fn show(&mut self, state: &PullState) {
        match self {
            Self::Bar(bar) => {
                let style = match state.bytes_total {
                    0 => "{spinner} {msg}",
                    _ => "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}",
                };
                // Written here and tried by a test.
                if let Ok(style) = ProgressStyle::with_template(style) {
                    bar.set_style(style);
                }
                bar.set_message(match state.message.as_str() {
                    "" => state.phase.clone(),
                    message => format!("{}: {}", state.phase, one_line(message)),
                });
                bar.set_length(state.bytes_total);
                bar.set_position(state.bytes_done);
                bar.tick();
            }
            Self::Lines { phase, tenths, message } => {
                let tenth = tenths_done(state);
                if *phase != state.phase || *tenths != tenth || *message != state.message {
                    progress(&line(state));
                    (*phase, *tenths, *message) = (state.phase.clone(), tenth, state.message.clone());
                }
            }
        }
    }

    fn clear(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// Tenths of a pull that are there. Sizes are the word of whoever pushed the image, and may be any.
fn tenths_done(state: &PullState) -> u64 {
    let tenths = (u128::from(state.bytes_done) * 10).checked_div(state.bytes_total.into());
    tenths.and_then(|tenths| u64::try_from(tenths).ok()).unwrap_or_default()
}

fn line(state: &PullState) -> String {
    let bytes = match state.bytes_total {
        0 => String::new(),
        total => {
            format!(" {} of {}", indicatif::BinaryBytes(state.bytes_done), indicatif::BinaryBytes(total))
        }
    };
    let message = if state.message.is_empty() { String::new() } else { format!(": {}", state.message) };
    format!("{}{bytes}{message}", state.phase)
}

/// Runs `pulls`.
pub(crate) async fn pulls(global: &Global, args: &PullsArgs) -> Result<()> {
    let mut client = admin::connect(global).await?;
    let request = PullsRequest { image: args.image.clone().unwrap_or_default() };
    let answer = client.pulls(admin::request(global, request)).await;
    let pulls = answer.map_err(|status| admin::failed("Pulls", &status))?.into_inner().pulls;
    if let Some(image) = &args.image
        && pulls.is_empty()
        && args.output.plain() == Format::Table
    {
        bail!("nobody wants image {image:?} on this node; berthctl pulls lists what is wanted");
    }
    let shown = ShownPulls { pulls: pulls.iter().map(Shown::from).collect() };
    output::data(args.output.plain(), &shown, || text(&pulls, args.output.columns()))
}

fn text(pulls: &[PullState], columns: Columns) -> String {
    if pulls.is_empty() {
        return "no images wanted on this node\n".to_owned();
    }
    let rows = pulls.iter().map(|pull| {
        let progress = match (pull.phase.as_str(), pull.bytes_total) {
            ("Pulling", 1..) => {
                format!("{}%, {}", pull.percent, indicatif::BinaryBytes(pull.bytes_total))
            }
            _ => format!("{}%", pull.percent),
        };
        vec![
            pull.image.clone(),
            pull.wanted_by.clone(),
            pull.phase.clone(),
            progress,
            pull.attempts.to_string(),
            match pull.age_milliseconds {
                0 => "-".to_owned(),
                age => duration::short(Duration::from_millis(age)),
            },
            or_dash(&pull.message),
            or_dash(&pull.name),
            or_dash(&pull.image_id),
        ]
    });
    let few = ["IMAGE", "WANTED BY", "PHASE", "PROGRESS", "ATTEMPTS", "AGE", "MESSAGE"];
    output::list(columns, &few, &["WISH", "IMAGE ID"], rows)
}

/// The answer as protobuf's JSON.
#[derive(Serialize)]
struct ShownPulls {
    pulls: Vec<Shown>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    image: String,
    wanted_by: String,
    name: String,
    phase: String,
    percent: u32,
    bytes_done: String,
    bytes_total: String,
    attempts: u32,
    message: String,
    image_id: String,
    age_milliseconds: String,
}

impl From<&PullState> for Shown {
    fn from(pull: &PullState) -> Self {
        Self {
            image: pull.image.clone(),
            wanted_by: pull.wanted_by.clone(),
            name: pull.name.clone(),
            phase: pull.phase.clone(),
            percent: pull.percent,
            bytes_done: pull.bytes_done.to_string(),
            bytes_total: pull.bytes_total.to_string(),
            attempts: pull.attempts,
            message: pull.message.clone(),
            image_id: pull.image_id.clone(),
            age_milliseconds: pull.age_milliseconds.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(phase: &str, done: u64, total: u64, message: &str) -> PullState {
        PullState {
            image: "example.com/app:1".into(),
            wanted_by: "api".into(),
            phase: phase.into(),
            percent: u32::try_from((done * 100).checked_div(total).unwrap_or(0)).unwrap(),
            bytes_done: done,
            bytes_total: total,
            message: message.into(),
            ..PullState::default()
        }
    }

    #[test]
    fn tenths_of_any_size() {
        for (bytes_done, bytes_total, expected) in
            [(0, 0, 0), (1, 4, 2), (4, 4, 10), (u64::MAX / 2, u64::MAX, 4), (u64::MAX, u64::MAX, 10)]
        {
            let state = PullState { bytes_done, bytes_total, ..PullState::default() };
            assert_eq!(tenths_done(&state), expected, "{bytes_done} of {bytes_total}");
        }
    }

    #[test]
    fn lines_for_those_without_a_terminal() {
        assert_eq!(line(&state("Pulling", 1 << 20, 4 << 20, "")), "Pulling 1.00 MiB of 4.00 MiB");
        assert_eq!(line(&state("Pulling", 0, 0, "")), "Pulling");
        let failed = state("Waiting", 0, 0, "attempt 1 of 4 failed: no such host");
        assert_eq!(line(&failed), "Waiting: attempt 1 of 4 failed: no such host");
    }

    #[test]
    fn a_table_of_what_is_wanted() {
        let pulls = [state("Pulling", 1 << 20, 4 << 20, ""), state("Failed", 0, 0, "not found")];
        let text = text(&pulls, Columns::Few);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("IMAGE"), "{text}");
        assert!(lines[1].contains("25%, 4.00 MiB"), "{text}");
        assert!(lines[2].contains("Failed") && lines[2].ends_with("not found"), "{text}");
        assert!(super::text(&pulls, Columns::All).contains("MESSAGE     WISH   IMAGE ID"));
        assert_eq!(super::text(&[], Columns::Few), "no images wanted on this node\n");
    }

    #[test]
    fn the_templates_of_the_bar_can_be_read() {
        let mut view = View::Bar(ProgressBar::hidden());
        view.show(&state("Waiting", 0, 0, "x"));
        view.show(&state("Pulling", 1, 2, ""));
        let View::Bar(bar) = &view else { unreachable!() };
        assert_eq!((bar.position(), bar.length(), bar.message()), (1, Some(2), "Pulling".to_owned()));
        for template in
            ["{spinner} {msg}", "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}"]
        {
            assert!(ProgressStyle::with_template(template).is_ok());
        }
    }
}
