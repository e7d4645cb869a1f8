//! `berthctl install`, `uninstall`, `bypass` and `doctor`: Berth on a node that runs systemd.
//!
//! ```text
//! host --facts--> Facts --plan--> actions --carry_out--> node, each change first in the journal
//!                                                 |
//!                      journal --undo--> steps <--'  not Ready in time, interrupted, or uninstall
//! ```
//!
//! `facts` only reads, `plan` and `Journal::undo` decide and touch nothing, `carry_out` decides nothing. The
//! kubelet leaves its runtime only after berthd has answered.

pub(crate) mod bypass;
pub(crate) mod carry_out;
pub(crate) mod doctor;
pub(crate) mod env;
pub(crate) mod facts;
pub(crate) mod from_pod;
pub(crate) mod host;
pub(crate) mod journal;
pub(crate) mod labels;
pub(crate) mod places;
pub(crate) mod plan;
pub(crate) mod ready;
pub(crate) mod show;
pub(crate) mod uninstall;
pub(crate) mod unit;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use nix::fcntl::{Flock, FlockArg};
use tokio::process::Command;

use self::facts::Facts;
use self::from_pod::PodArgs;
use self::host::Host;
use self::journal::{Journal, Undo};
use self::places::{BERTH_SHIM, BERTHCTL, BERTHD, Flavour};
use self::plan::{Action, Plan, Wishes};
use self::ready::Watch;
use super::cli::Global;
use super::upgrade::{UpgradeArgs, upgrade};
use super::{duration, output, shim};
pub(crate) use uninstall::{UninstallArgs, uninstall};

/// Held while a node is changed.
const LOCK: &str = "/run/berthctl.lock";
/// How long a berthd that was handed over to is watched.
const WATCHED: Duration = Duration::from_secs(10);
/// Time that an old `berth-shim` has for its last calls before berthd is handed over as well.
const LAST_CALLS: Duration = Duration::from_secs(60);
/// How many of the last lines of a log say why.
const LAST_LINES: &str = "12";
/// Time for a command that only tells why something failed.
const EXPLAINED_WITHIN: Duration = Duration::from_secs(10);

/// Flags of `install`.
#[derive(Args, Debug)]
pub(crate) struct InstallArgs {
    /// Show what would be done, with the contents of all files, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// How long berthd may take to serve, and then the node to be Ready, before everything is put back
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    pub timeout: Duration,
    /// The container runtime behind Berth [default: the one the kubelet uses now]
    #[arg(long, value_name = "ENDPOINT")]
    pub runtime: Option<String>,
    /// Also replace programs that an earlier installation has put there and that are not the same, and let
    /// the berthd that runs hand over to the new one, without an interruption
    #[arg(long)]
    pub upgrade: bool,
    /// The data path in a program of its own, berth-shim, so that no call fails whatever becomes of berthd
    /// [default: as the node has it, and two where nothing is installed or configured]
    #[arg(long)]
    pub two_programs: bool,
    /// The data path in berthd itself
    #[arg(long, conflicts_with = "two_programs")]
    pub one_program: bool,
    /// Kubeconfig for berthd, if it has no configuration yet [default: the kubelet's]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<String>,
    /// From where.
    #[command(flatten)]
    pub pod: PodArgs,
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Which kubelet of which node.
#[derive(Args, Clone, Debug)]
pub(crate) struct NodeArgs {
    /// The kubelet's unit, where there are several services that may be it
    #[arg(long, value_name = "UNIT", value_parser = plan::flavour)]
    kubelet_unit: Option<Flavour>,
    /// Look at the node whose files are below DIR; only for commands that change nothing
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

/// Runs `install`.
pub(crate) async fn install(global: &Global, args: &InstallArgs) -> Result<ExitCode> {
    let host = Host::new(&args.node.root);
    let programs = std::env::current_exe().context("where berthctl is")?;
    let programs = programs.parent().unwrap_or(Path::new("/")).to_owned();
    let mut wishes = Wishes {
        runtime: args.runtime.clone(),
        kubeconfig: args.kubeconfig.clone(),
        has_berthd: programs.join("berthd").exists(),
        has_shim: programs.join("berth-shim").exists(),
        two_programs: (args.two_programs || args.one_program).then_some(args.two_programs),
        programs,
        replace: Vec::new(),
        settings: env::settings(std::env::vars_os())?,
    };
    if args.dry_run {
        if args.upgrade
            && let Some(journal) = Journal::load(&host)?
        {
            wishes.replace = outdated(&host, &journal, &wishes.programs)?;
        }
        let facts = Facts::gather(&host, args.node.kubelet_unit)?;
        let plan = plan::plan(&facts, &wishes)?;
        output::print(&show::plan(&facts, &plan))?;
        return Ok(ExitCode::SUCCESS);
    }
    let _lock = changeable(&host)?;
    let mut journal = match Journal::load(&host) {
        Ok(Some(journal)) => journal,
        Ok(None) => Journal::begin(&host)?,
        Err(error) => {
            return Err(error.context("berthctl uninstall --force puts the node back without it"));
        }
    };
    if journal.changes.len() > journal.settled {
        output::progress("an installation was interrupted; what it changed is put back first");
        let settled = journal.settled;
        put_back(&host, &mut journal, settled, args.node.kubelet_unit, args.timeout).await?;
        if settled == 0 {
            journal = Journal::begin(&host)?;
        }
    }
    let prepared = async {
        if args.upgrade {
            wishes.replace = outdated(&host, &journal, &wishes.programs)?;
        }
        let facts = Facts::gather(&host, args.node.kubelet_unit)?;
        let plan = plan::plan(&facts, &wishes)?;
        Ok::<_, anyhow::Error>((facts, plan))
    };
    let (facts, plan) = match prepared.await {
        Ok(prepared) => prepared,
        Err(error) => {
            let settled = journal.settled;
            journal.forget(&host, settled)?;
            return Err(error);
        }
    };
    let before = journal.changes.len();
    // Cancel-safe: what the action under way has changed is in the journal.
    let done = tokio::select! {
        done = carry_out(global, &host, &mut journal, &facts, &plan, args.timeout) => done,
        _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
    };
    if let Err(error) = done {
        output::progress(&format!("failed: {error:#}"));
        output::progress("what was changed is put back now");
        put_back(&host, &mut journal, before, args.node.kubelet_unit, args.timeout).await.with_context(|| {
            format!("the installation failed ({error:#}), and so did the way back; repeat it with berthctl uninstall")
        })?;
        let what = if before == 0 { "Berth was not installed" } else { "Berth was not changed" };
        return Err(error.context(format!("{what}, and everything is as it was before")));
    }
    journal.settle(&host)?;
    output::progress("the node is Ready, and its kubelet speaks to the runtime through Berth");
    Ok(ExitCode::SUCCESS)
}

/// The programs on the node that an installation has put there, and that are not those beside this one.
fn outdated(host: &Host, journal: &Journal, programs: &Path) -> Result<Vec<&'static str>> {
    let mut outdated = Vec::new();
    for path in [BERTHD, BERTH_SHIM, BERTHCTL] {
        let own = programs.join(places::name_of(path));
        if journal.has_put(path) && own.exists() && !host.is_same(&own, path)? {
            outdated.push(path);
        }
    }
    Ok(outdated)
}

async fn carry_out(
    global: &Global,
    host: &Host,
    journal: &mut Journal,
    facts: &Facts,
    plan: &Plan,
    limit: Duration,
) -> Result<()> {
    for note in &plan.notes {
        output::progress(note);
    }
    let mut watch = None;
    for action in &plan.actions {
        output::progress(&show::action(action));
        carry_out::record(host, journal, action).await?;
        match (action, &facts.kubelet) {
            (Action::Redirect { .. }, Some(kubelet)) => watch = Some(Watch::begin(host, kubelet).await),
            (Action::AwaitBerthd, _) => {
                let served = ready::berthd(global, plan.socket, limit).await;
                explain(served.context("berthd does not serve"), places::SERVICE_UNIT).await?;
            }
            (Action::AwaitShim, _) => {
                let served = ready::shim(Path::new(shim::SOCKET), limit).await;
                explain(served.context("berth-shim does not serve"), places::SHIM_UNIT).await?;
            }
            (Action::HandOverShim, _) => {
                let socket = Path::new(shim::SOCKET);
                let upgraded = match plan.actions.contains(&Action::HandOver) {
                    true => shim::upgrade_to_its_end(socket, LAST_CALLS).await,
                    false => shim::upgrade(socket).await,
                };
                explain(upgraded, places::SHIM_UNIT).await?;
            }
            (Action::HandOver, _) => {
                let ready_within = u32::try_from(limit.as_secs()).unwrap_or(u32::MAX);
                let args = UpgradeArgs { to: None, ready_within, watch: WATCHED, shim: None };
                explain(upgrade(global, &args).await, places::SERVICE_UNIT).await?;
            }
            (Action::AwaitNode, Some(kubelet)) => {
                let Some(watch) = &watch else { continue };
                let ready = watch.ready(Some((global, plan.socket)), limit).await;
                explain(ready.context("the node is not Ready through Berth"), kubelet.flavour.unit()).await?;
            }
            _ => {}
        }
        let performed = carry_out::perform(host, action).await;
        match action {
            Action::Restart { unit } => explain(performed, unit).await?,
            _ => performed?,
        }
    }
    Ok(())
}

/// Goes back to where only the first `down_to` changes were made.
async fn put_back(
    host: &Host,
    journal: &mut Journal,
    down_to: usize,
    unit: Option<Flavour>,
    limit: Duration,
) -> Result<()> {
    let facts = Facts::gather(host, unit).ok();
    let kubelet = facts.and_then(|facts| facts.kubelet);
    for step in journal.undo(down_to) {
        output::progress(&show::undo(&step));
        let watch = match &kubelet {
            Some(kubelet) if matches!(step, Undo::RestartKubelet { .. }) => {
                Some(Watch::begin(host, kubelet).await)
            }
            _ => None,
        };
        if let Some(remark) = carry_out::undo(host, &step).await? {
            output::progress(&remark);
        }
        let Some(watch) = watch else { continue };
        // Whatever is wrong with the node now, the rest is to be put back too.
        match watch.ready(None, limit).await {
            Ok(()) => output::progress("the node is Ready"),
            Err(error) => output::progress(&format!("warning: the node is not Ready: {error:#}")),
        }
    }
    if let Some(kubelet) = kubelet.filter(|_| down_to == 0)
        && let Some(remark) = labels::remove(host, &kubelet).await
    {
        output::progress(&remark);
    }
    journal.forget(host, down_to)
}

/// Adds to an error what the unit's log says.
async fn explain(outcome: Result<()>, unit: &str) -> Result<()> {
    let Err(error) = outcome else { return Ok(()) };
    for (program, args) in [
        ("systemctl", vec!["status", "--no-pager", "--lines=0", unit]),
        ("journalctl", vec!["--no-pager", "--quiet", "--lines", LAST_LINES, "--unit", unit]),
    ] {
        // It is about a failure already; what cannot be found out is not worth another one.
        let said = tokio::time::timeout(EXPLAINED_WITHIN, Command::new(program).args(&args).output()).await;
        if let Ok(Ok(said)) = said {
            output::progress(&format!("-- {program} {}", args.join(" ")));
            output::progress(String::from_utf8_lossy(&said.stdout).trim_end());
        }
    }
    Err(error)
}

/// Refuses what cannot work, and keeps another `berthctl` from changing the node meanwhile.
fn changeable(host: &Host) -> Result<Flock<std::fs::File>> {
    if !host.is_this() {
        bail!("--root is for --dry-run and doctor; to change a node, run berthctl on it (chroot)");
    }
    if !nix::unistd::geteuid().is_root() {
        bail!("only root can change a node; run it with sudo");
    }
    if !Path::new("/run/systemd/system").exists() {
        bail!("systemd does not run here; on other nodes Berth is a DaemonSet (deploy/) or started by hand");
    }
    let file = std::fs::File::options().create(true).append(true).open(LOCK).context(LOCK)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_| anyhow!("another berthctl is changing this node; wait for it"))
}
