//! `berthctl play`: plays a Pod manifest through CRI, doing what a kubelet would do and nothing more.
//!
//! Sandbox, images, init containers, then passes over the regular containers (`launch`). Whether a container
//! may be created is for berthd to say: its refusal makes us go on with the next container, as the kubelet
//! does.

pub(crate) mod hook;
pub(crate) mod image;
pub(crate) mod init;
pub(crate) mod launch;
pub(crate) mod logs;
pub(crate) mod probe;
pub(crate) mod record;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use berth_proto::cri::{ContainerState, PodSandboxFilter, PodSandboxState};
use clap::Args;
use tokio::time::Instant;

use berthd::base::deadline::later;

use super::cli::Global;
use super::cri::Cri;
use super::manifest::env::Facts;
use super::manifest::sandbox::Places;
use super::manifest::{Manifest, container, keys, sandbox, volume};
use super::output::{self, Format, OutputArgs, progress};
use super::{duration, select, stop};
use record::Record;

/// Flags of `play`.
#[derive(Args, Debug)]
pub(crate) struct PlayArgs {
    /// The manifest of a v1 Pod; - reads it from stdin
    #[arg(value_name = "POD.yaml")]
    pub manifest: String,
    /// How long all containers together may take to be ready
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse)]
    pub timeout: Duration,
    /// Stay and show the containers' output until they have ended; Ctrl-C stops and removes the pod
    #[arg(short = 'f', long)]
    pub logs: bool,
    /// Show when each container was created, started and ready
    #[arg(long)]
    pub timeline: bool,
    /// Remove the pod when it fails to start, and with --logs when it has ended
    #[arg(long)]
    pub rm: bool,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Where the log directory of the pod is made
    #[arg(long, value_name = "DIR", default_value = "/var/log/pods")]
    pub log_dir: PathBuf,
    /// Where the data directory of the pod is made, with its emptyDir volumes
    #[arg(long, value_name = "DIR", default_value = "/var/lib/berth/pods")]
    pub data_dir: PathBuf,
    /// Runtime handler of the sandbox, as the runtime's configuration names it
    #[arg(long, value_name = "HANDLER", default_value = "", hide_default_value = true)]
    pub runtime_handler: String,
}

/// A pod on its way: what every step needs.
pub(crate) struct Playing<'a> {
    /// The runtime.
    pub cri: &'a Cri,
    /// Manifest that is played.
    pub manifest: &'a Manifest,
    /// Where its files are.
    pub places: &'a Places,
    /// The sandbox's configuration, repeated in every call that wants it.
    pub sandbox_config: berth_proto::cri::PodSandboxConfig,
    /// The sandbox.
    pub sandbox_id: String,
    /// Facts that the environment of containers may refer to.
    pub facts: Facts,
    /// When patience ends.
    pub deadline: Instant,
}

/// Runs `play`.
pub(crate) async fn play(global: &Global, args: &PlayArgs) -> Result<ExitCode> {
    let manifest = Manifest::read(&args.manifest)?;
    let absolute =
        |dir: &PathBuf| std::path::absolute(dir).with_context(|| format!("the directory {}", dir.display()));
    let places = Places::new(&manifest, &absolute(&args.log_dir)?, &absolute(&args.data_dir)?);
    check_configs(&manifest, &places)
        .with_context(|| format!("the manifest {} cannot be played", args.manifest))?;
    for remark in &manifest.remarks {
        progress(&format!("note: {remark}"));
    }
    let cri = Cri::connect(global).await?;
    refuse_twins(&cri, &manifest).await?;
    make_data_directory(&places)?;

    let played = tokio::select! {
        played = make(&cri, &manifest, &places, args) => played,
        signal = interrupted() => {
            signal?;
            progress("interrupted: stopping and removing the pod (once more to leave it as it is)");
            tokio::select! {
                done = clean_up(&cri, &manifest, &places) => done?,
                signal = interrupted() => {
                    signal?;
                    bail!("interrupted again: the pod is left in place; berthctl stop-pod {} removes it", manifest.name());
                }
            }
            return Ok(ExitCode::from(130));
        }
    };
    match played {
        Ok(()) if args.rm && args.logs => {
            clean_up(&cri, &manifest, &places).await.map(|()| ExitCode::SUCCESS)
        }
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if args.rm => {
            clean_up(&cri, &manifest, &places).await.context("remove the pod that did not start")?;
            Err(error)
        }
        Err(error) if sandboxes(&cri, &manifest).await.is_ok_and(|left| left.is_empty()) => {
            let _ = fs::remove_dir_all(&places.data);
            Err(error)
        }
        Err(error) => {
            // The cause first, then what to do about it.
            Err(anyhow!(
                "{error:#}\n  the pod is left in place: its logs are in {}, berthctl stop-pod {}/{} removes it",
                places.logs.display(),
                manifest.namespace(),
                manifest.name()
            ))
        }
    }
}

async fn make(cri: &Cri, manifest: &Manifest, places: &Places, args: &PlayArgs) -> Result<()> {
    let pod = format!("{}/{}", manifest.namespace(), manifest.name());
    let mut record = Record::new(manifest);
    make_directories(manifest, places)?;
    let sandbox_config = sandbox::config(manifest, places)?;
    let sandbox_id = cri.run_sandbox(sandbox_config.clone(), &args.runtime_handler, &pod).await?;
    progress(&format!("pod {pod}: sandbox {}", output::id(&sandbox_id, false)));
    let host_network = manifest.pod.spec.host_network;
    let pod_ips =
        if host_network { vec!["127.0.0.1".to_owned()] } else { cri.sandbox_ips(&sandbox_id).await? };
    let facts = Facts { pod_ips, node_name: node_name() };
    record.sandbox(&sandbox_id);
    let playing = Playing {
        cri,
        manifest,
        places,
        sandbox_config,
        sandbox_id,
        facts,
        deadline: later(Instant::now(), args.timeout),
    };

    init::run_all(&playing).await?;
    let containers = launch::launch(&playing, &mut record).await;
    note_ended(&playing, &mut record).await;
    if args.output.format == Format::Table {
        if containers.is_ok() {
            output::print(&format!("{}\n", playing.sandbox_id))?;
        }
        if args.timeline {
            output::print(&record.picture())?;
        }
    } else {
        output::data(args.output.format, &record, String::new)?;
    }
    let containers = containers?;
    if args.logs {
        return logs::follow(&playing, &containers).await;
    }
    Ok(())
}

/// Notes which containers have ended already: nobody watches them from here on.
async fn note_ended(playing: &Playing<'_>, record: &mut Record) {
    for (index, one) in playing.manifest.pod.spec.containers.iter().enumerate() {
        let Some(id) = record.container(index).container_id.clone() else { continue };
        // An error here would hide that of the launch, and hides nothing itself.
        let Ok(status) = playing.cri.status(&id, &one.name).await else { return };
        if status.state() == ContainerState::ContainerExited {
            progress(&format!(
                "{}: has ended with exit code {} ({})",
                one.name, status.exit_code, status.reason
            ));
            record.ended(index, &status);
        }
    }
}

/// Every configuration is made once before anything is created, so that a bad field is found in time.
fn check_configs(manifest: &Manifest, places: &Places) -> Result<()> {
    sandbox::config(manifest, places)?;
    for one in manifest.pod.spec.init_containers.iter().chain(&manifest.pod.spec.containers) {
        container::config(manifest, one, places, &Facts::default(), "")?;
        for probe in [&one.startup_probe, &one.readiness_probe].into_iter().flatten() {
            probe::port(probe, one)?;
        }
    }
    Ok(())
}

async fn refuse_twins(cri: &Cri, manifest: &Manifest) -> Result<()> {
    for sandbox in cri.sandboxes(None).await? {
        let metadata = sandbox.metadata.clone().unwrap_or_default();
        let same_name = metadata.name == manifest.name() && metadata.namespace == manifest.namespace();
        if metadata.uid == manifest.uid || (same_name && sandbox.state() == PodSandboxState::SandboxReady) {
            let id = output::id(&sandbox.id, false);
            bail!(
                "pod {} is already there; stop it with berthctl stop-pod {id}, or change metadata.name in the manifest",
                select::describe(&sandbox)
            );
        }
    }
    Ok(())
}

/// The pod's own directory, which is removed with the pod: so it must not have been there before.
fn make_data_directory(places: &Places) -> Result<()> {
    let shown = places.data.display();
    let parents = places.data.parent().map_or(Ok(()), fs::create_dir_all);
    match parents.and_then(|()| fs::create_dir(&places.data)) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => bail!(
            "the data directory {shown} is already there, perhaps from a pod of this UID; remove it, leave out \
             metadata.uid, or choose another --data-dir"
        ),
        made => made.with_context(|| format!("make the data directory {shown} (another place: --data-dir)")),
    }
}

fn make_directories(manifest: &Manifest, places: &Places) -> Result<()> {
    let make = |path: &std::path::Path, flag: &str| {
        fs::create_dir_all(path)
            .with_context(|| format!("make the directory {} (another place: {flag})", path.display()))
    };
    for one in manifest.pod.spec.init_containers.iter().chain(&manifest.pod.spec.containers) {
        make(&places.logs.join(&one.name), "--log-dir")?;
        let file = places.termination_log(one);
        make(file.parent().unwrap_or(&places.data), "--data-dir")?;
        fs::write(&file, "").with_context(|| format!("make the file {}", file.display()))?;
        // Whatever user the container runs as may leave its last words.
        let anyone = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        fs::set_permissions(&file, anyone)
            .with_context(|| format!("open the file {} to all", file.display()))?;
    }
    volume::prepare(manifest, places)
}

async fn sandboxes(cri: &Cri, manifest: &Manifest) -> Result<Vec<berth_proto::cri::PodSandbox>> {
    let label_selector = [(keys::POD_UID.to_owned(), manifest.uid.clone())].into();
    Ok(cri.sandboxes(Some(PodSandboxFilter { label_selector, ..PodSandboxFilter::default() })).await?)
}

/// Stops and removes whatever has been made of the pod.
async fn clean_up(cri: &Cri, manifest: &Manifest, places: &Places) -> Result<()> {
    for sandbox in sandboxes(cri, manifest).await? {
        stop::take_down(cri, &sandbox, None, false).await?;
    }
    let _ = fs::remove_dir_all(&places.data);
    Ok(())
}

/// Ctrl-C was pressed, or the process is told to end.
pub(super) async fn interrupted() -> Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed.context("wait for Ctrl-C"),
        _ = terminate.recv() => Ok(()),
    }
}

fn node_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
