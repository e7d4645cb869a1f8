//! One command: reads, decides, writes, and says what it did in the words of kubectl.

use std::{
    ffi::OsString,
    process::{Command as Process, ExitCode},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use futures::StreamExt;
use kube::api::WatchEvent;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    cli::{self, Choice, Cli, Command, DryRun, Output, Printing, Rollout, Set},
    cluster::Cluster,
    edit, files, listed, make_request, output,
    revision::{self, Undo},
    status,
    target::{self, Named, Target, Targets},
};

/// A watch that broke begins again after it.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);
/// Longest wait: as good as for ever.
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// Carries out a command. `args` are the words that it was given.
pub(crate) async fn run(cli: &Cli, args: &[OsString]) -> anyhow::Result<ExitCode> {
    let mut images = Vec::new();
    let none = Choice::default();
    let (words, choice) = match &cli.command {
        Command::Rollout(rollout) => {
            let objects = rollout.objects();
            (objects.objects.clone(), objects.choice.clone())
        }
        Command::Set(Set::Image(image)) => {
            if image.local {
                output::check_local(image.dry_run)?;
            } else {
                output::check(image.printing.output, image.dry_run)?;
            }
            let (objects, given) = edit::images(&image.words)?;
            images = given;
            (objects, image.choice())
        }
        Command::Scaledown(scaledown) => {
            edit::pod_names(&scaledown.pods)?;
            (scaledown.objects.clone(), none)
        }
        Command::Request(args) => return make_request::run(&cli.global, args).await,
        Command::Listed(listed) => return listed::run(&cli.global, listed).await,
    };
    if let Command::Rollout(Rollout::Undo(undo)) = &cli.command {
        output::check(undo.printing.output, undo.dry_run)?;
    }
    let targets = match (&choice.selector, choice.filename.as_slice()) {
        (Some(_), _) => target::selected(&words)?,
        (None, []) => target::parse(&words)?,
        (None, files) => {
            let no_words = "when files are given, no resource arguments may be given as well";
            ensure!(words.is_empty(), "{no_words}: {}", words.join(" "));
            let (named, objects): (Vec<Named>, Vec<Value>) = files::read(files)?.into_iter().unzip();
            let read = target::of_files(named, cli.global.namespace.as_deref())?;
            let consumed = files.iter().any(|file| file.as_os_str() == "-");
            ensure!(
                !consumed || read != Targets::Native,
                "workloads of Kubernetes are kubectl's: give them as a file, or to kubectl itself"
            );
            if let (Command::Set(Set::Image(flags)), Targets::Ours(targets)) = (&cli.command, &read)
                && flags.local
            {
                return in_files(targets, &objects, &images, flags);
            }
            read
        }
    };
    if !matches!(cli.command, Command::Set(_)) {
        target::have_pods(&targets)?;
    }
    if let (Command::Scaledown(_), Targets::Ours(targets)) = (&cli.command, &targets) {
        scaled_down(targets)?;
    }
    let cluster = async || Cluster::connect(&cli.global).await;
    let (cluster, targets) = match targets {
        Targets::Ours(targets) => (cluster().await?, targets),
        Targets::Selected(kind) => {
            let cluster = cluster().await?;
            let targets = cluster.select(kind, choice.selector.as_deref().unwrap_or_default()).await?;
            ensure!(!targets.is_empty(), "no {} found", kind.printed());
            (cluster, targets)
        }
        Targets::Native if matches!(cli.command, Command::Scaledown(_)) => {
            bail!(
                "only a CloneSet is scaled down by pods: give cloneset/NAME, or change replicas by kubectl scale"
            )
        }
        Targets::Native => return kubectl(args),
    };
    let mut first = true;
    for target in &targets {
        let mut told = Told { target, first: &mut first };
        one(&cluster, cli, target, &images, &mut told).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Gives containers other images in objects of files, which no API server is asked about.
fn in_files(
    targets: &[Target],
    objects: &[Value],
    images: &[(String, String)],
    flags: &cli::Image,
) -> anyhow::Result<ExitCode> {
    let mut first = true;
    for (target, object) in targets.iter().zip(objects) {
        if let Some(object) = edit::with_images(target.kind, object, images)? {
            let mut told = Told { target, first: &mut first };
            told.done("image updated", flags.dry_run, flags.printing, &object)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Carries out a command for one object.
async fn one(
    cluster: &Cluster,
    cli: &Cli,
    target: &Target,
    images: &[(String, String)],
    told: &mut Told<'_>,
) -> anyhow::Result<()> {
    match &cli.command {
        Command::Rollout(Rollout::Undo(flags)) => undo(cluster, target, flags, told).await,
        Command::Rollout(Rollout::Status(flags)) => {
            watch(cluster, target, flags.watch, flags.timeout, flags.revision).await
        }
        Command::Rollout(Rollout::History(flags)) => history(cluster, target, flags.revision).await,
        Command::Rollout(Rollout::Pause(flags)) => {
            let object = cluster.get(target).await?;
            let written = cluster.patch(target, edit::pause(target.kind, &object, true)?, false).await?;
            told.done("paused", DryRun::None, flags.printing, &written)
        }
        Command::Rollout(Rollout::Resume(flags)) => {
            let object = cluster.get(target).await?;
            let written = cluster.patch(target, edit::pause(target.kind, &object, false)?, false).await?;
            told.done("resumed", DryRun::None, flags.printing, &written)
        }
        Command::Rollout(Rollout::Restart(flags)) => {
            let object = cluster.get(target).await?;
            let now = jiff::Timestamp::now().to_string();
            let written = cluster.patch(target, edit::restart(target.kind, &object, &now)?, false).await?;
            told.done("restarted", DryRun::None, flags.printing, &written)
        }
        Command::Set(Set::Image(flags)) => {
            let mut object = cluster.get(target).await?;
            let Some(patch) = edit::set_images(target.kind, &object, images)? else { return Ok(()) };
            if flags.dry_run != DryRun::Client {
                object = cluster.patch(target, patch, flags.dry_run == DryRun::Server).await?;
            }
            told.done("image updated", flags.dry_run, flags.printing, &object)
        }
        Command::Scaledown(flags) => scale_down(cluster, target, &flags.pods).await,
        // They name no workloads.
        Command::Request(_) | Command::Listed(_) => Ok(()),
    }
}

/// Words on an object.
struct Told<'a> {
    target: &'a Target,
    /// Nothing was printed yet.
    first: &'a mut bool,
}

impl Told<'_> {
    /// Says what was done, or prints the object as it is then.
    fn done(
        &mut self,
        text: &str,
        dry_run: DryRun,
        printing: Printing,
        object: &Value,
    ) -> anyhow::Result<()> {
        let Some(format) = printing.output else {
            say(self.target, text, dry_run);
            return Ok(());
        };
        if !std::mem::replace(self.first, false) && format == Output::Yaml {
            println!("---");
        }
        print!("{}", output::text(object, &printed(self.target), format)?);
        Ok(())
    }
}

/// Kubernetes' own kinds: the same words for kubectl.
fn kubectl(args: &[OsString]) -> anyhow::Result<ExitCode> {
    let ended = Process::new("kubectl").args(args).status();
    let ended = ended
        .context("workloads of Kubernetes are kubectl's, and kubectl cannot be run: put it on the PATH")?;
    Ok(ended.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

async fn undo(
    cluster: &Cluster,
    target: &Target,
    flags: &cli::Undo,
    told: &mut Told<'_>,
) -> anyhow::Result<()> {
    let object = cluster.get(target).await?;
    let revisions = cluster.revisions(target, text(&object["metadata"]["uid"])).await?;
    let template = match revision::undo(&revisions, &object["spec"]["template"], flags.to_revision)? {
        Undo::Skipped(number) => {
            let text = format!("skipped rollback (current template already matches revision {number})");
            return told.done(&text, DryRun::None, flags.printing, &object);
        }
        Undo::To(template) => template,
    };
    if flags.dry_run == DryRun::Client && flags.printing.output.is_none() {
        println!("{} will roll back to {}", printed(target), revision::template(&template)?);
        return Ok(());
    }
    let patch = revision::patch(text(&object["metadata"]["resourceVersion"]), &template);
    let written = match flags.dry_run {
        DryRun::Client => object,
        dry_run => cluster.patch(target, patch, dry_run == DryRun::Server).await?,
    };
    told.done("rolled back", flags.dry_run, flags.printing, &written)
}

async fn history(cluster: &Cluster, target: &Target, number: i64) -> anyhow::Result<()> {
    let object = cluster.get(target).await?;
    let revisions = cluster.revisions(target, text(&object["metadata"]["uid"])).await?;
    if number == 0 {
        println!("{} \n{}\n", printed(target), revision::table(&revisions));
    } else {
        println!("{} with revision #{number}\n{}\n", printed(target), revision::shown(&revisions, number)?);
    }
    Ok(())
}

/// Prints how far a rollout is until it is done; each line once.
async fn watch(
    cluster: &Cluster,
    target: &Target,
    follow: bool,
    patience: Duration,
    number: i64,
) -> anyhow::Result<()> {
    let patience = if patience.is_zero() { LONGEST } else { patience.min(LONGEST) };
    let now = Instant::now();
    let end = now.checked_add(patience).unwrap_or(now);
    let late = || anyhow::anyhow!("timed out waiting for the condition");
    let mut said = String::new();
    loop {
        let mut object = timeout_at(end, cluster.get(target)).await.map_err(|_| late())??;
        if look(cluster, target, &object, number, &mut said).await? || !follow {
            return Ok(());
        }
        let version = text(&object["metadata"]["resourceVersion"]).to_owned();
        let mut events = timeout_at(end, cluster.watch(target, &version)).await.map_err(|_| late())??;
        while let Some(event) = timeout_at(end, events.next()).await.map_err(|_| late())? {
            object = match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => serde_json::to_value(object)?,
                Ok(WatchEvent::Deleted(_)) => bail!("object has been deleted"),
                Ok(WatchEvent::Bookmark(_)) => continue,
                // It is read anew.
                Ok(WatchEvent::Error(_)) | Err(_) => break,
            };
            if look(cluster, target, &object, number, &mut said).await? {
                return Ok(());
            }
        }
        timeout_at(end, sleep(AGAIN)).await.map_err(|_| late())?;
    }
}

/// Looks once, and tells whether it is done.
async fn look(
    cluster: &Cluster,
    target: &Target,
    object: &Value,
    number: i64,
    said: &mut String,
) -> anyhow::Result<bool> {
    let progress = status::of(target.kind, object)?;
    let running = status::revision(target.kind, object);
    if number > 0 && !running.is_empty() {
        let revisions = cluster.revisions(target, text(&object["metadata"]["uid"])).await?;
        let found =
            revisions.iter().find(|one| one.name == running || one.name.ends_with(&format!("-{running}")));
        if let Some(found) = found.filter(|found| found.number != number) {
            bail!("desired revision ({number}) is different from the running revision ({})", found.number);
        }
    }
    if progress.line != *said {
        println!("{}", progress.line);
        said.clone_from(&progress.line);
    }
    Ok(progress.done)
}

/// Tells whether pods can be named to scale these down.
fn scaled_down(targets: &[Target]) -> anyhow::Result<()> {
    if let Some(target) = targets.iter().find(|target| target.kind != target::Kind::CloneSet) {
        bail!(
            "only a CloneSet is scaled down by pods, and {} is none: change replicas by kubectl scale",
            printed(target)
        );
    }
    ensure!(targets.len() < 2, "pods are of one CloneSet: name one, and the others after it");
    Ok(())
}

async fn scale_down(cluster: &Cluster, target: &Target, names: &[String]) -> anyhow::Result<()> {
    let object = cluster.get(target).await?;
    let mut pods = Vec::new();
    for name in edit::pod_names(names)? {
        let pod = cluster.pod(&name).await?;
        pods.push((name, pod));
    }
    cluster.patch(target, edit::scale_down(&object, &pods)?, false).await?;
    say(target, "scaled down", DryRun::None);
    Ok(())
}

fn say(target: &Target, text: &str, dry_run: DryRun) {
    let how = match dry_run {
        DryRun::None => "",
        DryRun::Client => " (dry run)",
        DryRun::Server => " (server dry run)",
    };
    println!("{} {text}{how}", printed(target));
}

fn printed(target: &Target) -> String {
    format!("{}/{}", target.kind.printed(), target.name)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
