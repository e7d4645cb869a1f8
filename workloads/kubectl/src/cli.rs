//! The command line, with the flags that kubectl has for the same things.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::{listed::Listed, make_request::RequestArgs};

/// Widest line of a help text.
const WIDTH: usize = 100;

/// Rollouts of workloads, requests for pods, and questions about the whole cluster
///
/// Workloads are CloneSets, Advanced StatefulSets and Advanced DaemonSets. Objects are named as for kubectl:
/// TYPE/NAME, or TYPE NAME. Kinds of Kubernetes itself (Deployments, StatefulSets and DaemonSets of apps) are
/// handed on to kubectl.
#[derive(Debug, Parser)]
#[command(name = "kubectl berth", version, disable_help_subcommand = true, subcommand_required = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of all commands.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Path of the kubeconfig [default: those of KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "PATH", global = true)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Name of the context in the kubeconfig
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) context: Option<String>,
    /// Name of the cluster in the kubeconfig
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) cluster: Option<String>,
    /// Name of the user in the kubeconfig
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) user: Option<String>,
    /// Namespace of the objects [default: that of the context]
    #[arg(short, long, value_name = "NAME", global = true)]
    pub(crate) namespace: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Undo, watch, pause, resume or restart a rollout
    #[command(subcommand, subcommand_required = true)]
    Rollout(Rollout),
    /// Change what a template says
    #[command(subcommand, subcommand_required = true)]
    Set(Set),
    /// Delete these pods of a CloneSet, and lower its replicas by their number
    Scaledown(Scaledown),
    #[command(flatten)]
    Request(RequestArgs),
    #[command(flatten)]
    Listed(Listed),
}

/// Commands about rollouts.
#[derive(Debug, Subcommand)]
pub(crate) enum Rollout {
    /// Go back to an earlier revision
    Undo(Undo),
    /// Show how far a rollout is, until it is done
    Status(Status),
    /// List the revisions, or show one
    History(History),
    /// Let a rollout rest
    Pause(Change),
    /// Let a rollout that rests go on
    Resume(Change),
    /// Replace every pod, by a new value of the variable RESTARTED_AT in its containers
    Restart(Change),
}

impl Rollout {
    /// Objects that it is about.
    pub(crate) fn objects(&self) -> &Objects {
        match self {
            Self::Undo(undo) => &undo.objects,
            Self::Status(status) => &status.objects,
            Self::History(history) => &history.objects,
            Self::Pause(change) | Self::Resume(change) | Self::Restart(change) => &change.objects,
        }
    }
}

impl Image {
    /// Objects that are not named one by one; all of a type are those with any labels.
    pub(crate) fn choice(&self) -> Choice {
        let selector = self.selector.clone().or_else(|| self.all.then(String::new));
        Choice { selector, filename: self.filename.clone() }
    }
}

/// Commands about templates.
#[derive(Debug, Subcommand)]
pub(crate) enum Set {
    /// Give containers other images
    Image(Image),
}

/// Objects that a command is about.
#[derive(Args, Clone, Debug)]
pub(crate) struct Objects {
    /// TYPE/NAME, several of them, or TYPE NAME; with labels the TYPE alone
    #[arg(required_unless_present = "filename", value_name = "TYPE/NAME")]
    pub(crate) objects: Vec<String>,
    #[command(flatten)]
    pub(crate) choice: Choice,
}

/// Objects that are not named one by one.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Choice {
    /// All objects of the type with these labels, such as app=shop,tier!=db
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "filename")]
    pub(crate) selector: Option<String>,
    /// Objects of this file, of the files of this folder, or of the standard input (-)
    #[arg(short, long, value_name = "PATH", conflicts_with = "objects")]
    pub(crate) filename: Vec<PathBuf>,
}

/// Flag of commands that write.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Printing {
    /// Print the object after the change, in place of a line that says what was done
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,
}

/// Format of an object that is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// All of it
    Json,
    /// All of it
    Yaml,
    /// TYPE/NAME
    Name,
}

/// Format of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListOutput {
    /// For people
    #[default]
    Table,
    /// For people with room
    Wide,
    /// For programs
    Json,
    /// For programs
    Yaml,
}

/// Flags of commands that change an object and have no others.
#[derive(Args, Clone, Debug)]
pub(crate) struct Change {
    #[command(flatten)]
    pub(crate) objects: Objects,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// Flags of `rollout undo`.
#[derive(Args, Debug)]
pub(crate) struct Undo {
    #[command(flatten)]
    pub(crate) objects: Objects,
    /// Number of the revision; 0 is the one before
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = revision)]
    pub(crate) to_revision: i64,
    #[command(flatten)]
    pub(crate) printing: Printing,
    /// Only try it: here (client), or at the API server (server)
    #[arg(long, value_enum, default_value_t, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub(crate) dry_run: DryRun,
}

/// Flags of `rollout status`.
#[derive(Args, Debug)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) objects: Objects,
    /// Watch until it is done
    #[arg(short, long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) watch: bool,
    /// How long to watch at the most; 0 is for ever
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Number of the revision that is to be rolled out; another one is an error
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = revision)]
    pub(crate) revision: i64,
}

/// Flags of `rollout history`.
#[derive(Args, Debug)]
pub(crate) struct History {
    #[command(flatten)]
    pub(crate) objects: Objects,
    /// Number of the revision whose template is shown
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = revision)]
    pub(crate) revision: i64,
}

/// Flags of `set image`.
#[derive(Args, Debug)]
pub(crate) struct Image {
    /// TYPE/NAME, several of them, or TYPE NAME, with labels the TYPE alone, and none with a file; then
    /// CONTAINER=IMAGE, as many as are wanted, * for all
    #[arg(required = true, value_name = "TYPE/NAME CONTAINER=IMAGE")]
    pub(crate) words: Vec<String>,
    /// All objects of the type with these labels, such as app=shop,tier!=db
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with_all = ["filename", "all"])]
    pub(crate) selector: Option<String>,
    /// All objects of the type
    #[arg(long, conflicts_with = "filename")]
    pub(crate) all: bool,
    /// Objects of this file, of the files of this folder, or of the standard input (-)
    #[arg(short, long, value_name = "PATH")]
    pub(crate) filename: Vec<PathBuf>,
    /// Change the objects of the files here, and ask no API server
    #[arg(long, requires = "filename")]
    pub(crate) local: bool,
    #[command(flatten)]
    pub(crate) printing: Printing,
    /// Only try it: here (client), or at the API server (server)
    #[arg(long, value_enum, default_value_t, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub(crate) dry_run: DryRun,
}

/// Flags of `scaledown`.
#[derive(Args, Debug)]
pub(crate) struct Scaledown {
    /// TYPE/NAME, or TYPE NAME
    #[arg(required = true, value_name = "TYPE/NAME")]
    pub(crate) objects: Vec<String>,
    /// Names of the pods
    #[arg(long, value_name = "NAME,...", required = true, value_delimiter = ',')]
    pub(crate) pods: Vec<String>,
}

/// Choice of whether a change is only tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// It is made
    #[default]
    None,
    /// It is shown
    Client,
    /// The API server is asked, and stores nothing
    Server,
}

/// The command line, under the name by which it was called.
pub(crate) fn command(program: &OsStr) -> clap::Command {
    let name = Path::new(program).file_stem().unwrap_or_default();
    let name = if name == "kubectl-kruise" { "kubectl kruise" } else { "kubectl berth" };
    Cli::command().name(name).bin_name(name).term_width(WIDTH)
}

/// A number of a revision.
fn revision(text: &str) -> Result<i64, String> {
    let number = text.parse().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| "is no number of a revision: rollout history lists them".to_owned())
}

/// A duration as kubectl takes it: `1h30m`, `90s`, `0`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "is no duration: give one such as 90s, 5m or 1h30m".to_owned();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (mut all, mut number) = (Duration::ZERO, String::new());
    for letter in text.chars() {
        let seconds = match letter {
            '0'..='9' => {
                number.push(letter);
                continue;
            }
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return Err(wrong()),
        };
        let count: u64 = number.parse().map_err(|_| wrong())?;
        let part = Duration::from_secs(count.checked_mul(seconds).ok_or_else(wrong)?);
        all = all.checked_add(part).ok_or_else(wrong)?;
        number.clear();
    }
    if text.is_empty() || !number.is_empty() { Err(wrong()) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let seconds = |text: &str| duration(text).map(|duration| duration.as_secs()).ok();
        assert_eq!(["0", "0s", "90s", "5m", "1h30m"].map(seconds), [0, 0, 90, 300, 5400].map(Some));
        assert_eq!(["", "5", "s", "1d", "-1s", "99999999999999999999h"].map(seconds), [None; 6]);
    }

    #[test]
    fn flags_are_those_of_kubectl() {
        command(OsStr::new("kubectl-berth")).debug_assert();
        let parse = |words: &[&str]| Cli::try_parse_from([&["kubectl-berth"], words].concat());
        let undo =
            parse(&["rollout", "undo", "cloneset/a", "--to-revision=3", "--dry-run", "-n", "x"]).unwrap();
        let Command::Rollout(Rollout::Undo(undo)) = undo.command else { panic!("undo") };
        assert_eq!((undo.to_revision, undo.dry_run, undo.objects.objects.len()), (3, DryRun::Client, 1));
        let status = parse(&["rollout", "status", "asts", "a", "-w=false", "--timeout", "1m"]).unwrap();
        let Command::Rollout(Rollout::Status(status)) = status.command else { panic!("status") };
        assert_eq!((status.watch, status.timeout.as_secs(), status.objects.objects.len()), (false, 60, 2));
        let chosen = parse(&["rollout", "restart", "cloneset", "-l", "app=a", "-o", "name"]).unwrap();
        let Command::Rollout(Rollout::Restart(chosen)) = chosen.command else { panic!("restart") };
        assert_eq!(chosen.objects.choice.selector.as_deref(), Some("app=a"));
        assert_eq!(chosen.printing.output, Some(Output::Name));
        assert!(parse(&["rollout", "pause", "-f", "a.yaml", "-f", "-"]).is_ok());
        assert!(parse(&["set", "image", "-f", "a.yaml", "main=a:2", "-o", "yaml"]).is_ok());
        assert!(parse(&["set", "image", "cloneset", "--all", "main=a:2"]).is_ok());
        assert!(parse(&["set", "image", "-f", "a.yaml", "main=a:2", "--local"]).is_ok());
        for wrong in [
            &["rollout", "undo"][..],
            &["rollout", "undo", "cloneset/a", "-f", "a.yaml"],
            &["rollout", "undo", "-l", "a=b", "-f", "a.yaml"],
            &["rollout", "undo", "cloneset/a", "-o", "wide"],
            &["set", "image", "cloneset", "--all", "-l", "a=b", "main=a:2"],
            &["set", "image", "cloneset/a", "main=a:2", "--local"],
            &["set", "image"],
            &["scaledown", "cloneset/a"],
            &["rollout"],
            &[],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn it_answers_to_the_name_that_it_is_called_by() {
        let name = |program: &str| command(OsStr::new(program)).get_name().to_owned();
        assert_eq!(name("/usr/bin/kubectl-kruise"), "kubectl kruise");
        assert_eq!(name("/usr/bin/kubectl-berth"), "kubectl berth");
    }
}
