//! Actions that put Berth between the kubelet and its runtime: from facts to a list of them.
//! Pure.

mod error;
#[cfg(test)]
mod tests;
pub(crate) mod texts;
mod two_programs;

use std::path::PathBuf;

pub(crate) use self::{error::PlanError, two_programs::two_programs};
use super::env::Settings;
use super::facts::{Facts, Kubelet};
use super::places::{
    self, BERTH_SHIM, BERTHCTL, BERTHD, CONFIG, CRIO_SOCKET_DROP_IN, ENV_DROP_IN, Flavour, SHIM_ENV,
    SHIM_SOCKET_DROP_IN, SHIM_UNITS, STATE_DIR, UNITS, unit_path,
};

/// One change of the node, or one thing to wait for. It leaves no choice to whoever carries it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Make a folder.
    MakeDir {
        /// Which.
        path: String,
    },
    /// Copy a program.
    Copy {
        /// From where, on the machine `berthctl` runs on.
        from: PathBuf,
        /// To where.
        path: String,
    },
    /// Put another program in the place of one that an installation has put there. The old one is kept until
    /// all is well.
    Replace {
        /// From where, on the machine `berthctl` runs on.
        from: PathBuf,
        /// To where.
        path: &'static str,
        /// Where the old one is kept.
        kept: String,
    },
    /// Write a file.
    Write {
        /// Which.
        path: String,
        /// All of it.
        content: String,
        /// Ownership: the file is the administrator's from then on, and is removed only while it is as it was
        /// written.
        theirs: bool,
    },
    /// Remove a file.
    Remove {
        /// Which.
        path: &'static str,
    },
    /// Let systemd read its units again.
    Reload,
    /// Start a unit at boot.
    Enable {
        /// Which.
        unit: &'static str,
    },
    /// Start a unit now.
    Start {
        /// Which.
        unit: &'static str,
    },
    /// Start a unit anew, and wait until it is there.
    Restart {
        /// Which.
        unit: &'static str,
    },
    /// Wait until berthd answers and reaches the runtime.
    AwaitBerthd,
    /// Wait until `berth-shim` answers, and berthd is connected to it.
    AwaitShim,
    /// Write the one file that leads the kubelet to Berth, and restart the kubelet.
    Redirect {
        /// The kubelet's unit.
        unit: &'static str,
        /// The file.
        path: String,
        /// All of it.
        content: String,
    },
    /// Wait until the restarted kubelet has called its node Ready, through Berth.
    AwaitNode,
    /// Let the `berth-shim` that runs hand over to the program that is there now.
    HandOverShim,
    /// Let the berthd that runs hand over to the program that is there now.
    HandOver,
}

/// Plan of the actions, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Actions to carry out, in order.
    pub actions: Vec<Action>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// The CRI socket of Berth.
    pub socket: &'static str,
    /// The runtime behind it.
    pub runtime: String,
}

/// Wishes of the user.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    /// The runtime's endpoint, in place of the one the kubelet has now.
    pub runtime: Option<String>,
    /// The kubeconfig for the agent, in place of the kubelet's.
    pub kubeconfig: Option<String>,
    /// Where `berthd` and `berthctl` are that would be installed.
    pub programs: PathBuf,
    /// Whether `berthd` is there.
    pub has_berthd: bool,
    /// Whether `berth-shim` is there.
    pub has_shim: bool,
    /// The data path in a program of its own, or not; without a wish as the node has it.
    pub two_programs: Option<bool>,
    /// Which of those on the node are to be replaced: put there by an installation, and not the same.
    pub replace: Vec<&'static str>,
    /// Settings that berthd is to have as env.
    pub settings: Settings,
}

/// Makes the plan; what is as it should be already is left out.
pub(crate) fn plan(facts: &Facts, wishes: &Wishes) -> Result<Plan, PlanError> {
    let kubelet = match (&facts.kubelet, facts.candidates.as_slice()) {
        (Some(kubelet), _) => kubelet,
        (None, [_, _, ..]) => {
            return Err(PlanError::Ambiguous(facts.candidates.iter().map(|one| one.unit()).collect()));
        }
        (None, _) => return Err(PlanError::NoKubelet),
    };
    one_node(kubelet)?;
    let runtime = runtime(facts, kubelet, wishes)?;
    let two = two_programs(facts, wishes, &runtime)?;
    let socket = places::socket_for(&runtime);
    let mut actions = Vec::new();
    actions.extend(facts.installed.missing_dirs.iter().map(|path| Action::MakeDir { path: path.clone() }));
    let notes = programs(facts, wishes, two, &mut actions)?;
    config(facts, kubelet, wishes, &runtime, two, &mut actions);
    let drop_in = texts::env_drop_in(&wishes.settings);
    units(facts, socket, two, drop_in.as_deref(), &mut actions);
    actions.extend(places::started(two).iter().map(|unit| Action::Enable { unit }));
    actions.extend(places::started(two).iter().map(|unit| Action::Start { unit }));
    actions.push(Action::AwaitBerthd);
    if two {
        actions.push(Action::AwaitShim);
    }
    let mut plan = Plan { actions, notes, socket, runtime };
    redirect(facts, kubelet, two, &mut plan)?;
    if wishes.replace.contains(&BERTH_SHIM) {
        plan.actions.push(Action::HandOverShim);
    }
    // The last of all: the old berthd is the way back from everything before it.
    if wishes.replace.contains(&BERTHD) {
        plan.actions.push(Action::HandOver);
    }
    if drop_in != facts.installed.env_drop_in {
        take_settings(facts, two, &mut plan);
    }
    Ok(plan)
}

/// Checks that one Node is named, by the flags and by the certificate.
fn one_node(kubelet: &Kubelet) -> Result<(), PlanError> {
    match (&kubelet.configured, &kubelet.node_name, &kubelet.certified) {
        (None, Some(told), Some(certified)) if told != certified => Err(PlanError::NodeNames {
            told: told.clone(),
            certified: certified.clone(),
            kubeconfig: kubelet.kubeconfig.clone().unwrap_or_default(),
        }),
        _ => Ok(()),
    }
}

/// The runtime behind Berth.
fn runtime(facts: &Facts, kubelet: &Kubelet, wishes: &Wishes) -> Result<String, PlanError> {
    let endpoint = match &wishes.runtime {
        Some(wished) => wished.clone(),
        None if !places::is_ours(&kubelet.endpoint) => kubelet.endpoint.clone(),
        None => {
            let configured = facts.installed.config.as_deref().and_then(texts::runtime_of);
            configured.ok_or(PlanError::NoRuntime)?
        }
    };
    if endpoint.contains("cri-dockerd") {
        return Err(PlanError::Docker(endpoint));
    }
    match endpoint.strip_prefix("unix://").unwrap_or(&endpoint) {
        path if path.starts_with('/') => Ok(format!("unix://{path}")),
        _ => Err(PlanError::NotUnix(endpoint)),
    }
}

fn programs(
    facts: &Facts,
    wishes: &Wishes,
    two: bool,
    actions: &mut Vec<Action>,
) -> Result<Vec<String>, PlanError> {
    let mut notes = Vec::new();
    for &path in &wishes.replace {
        let name = places::name_of(path);
        let (from, kept) = (wishes.programs.join(name), format!("{STATE_DIR}/{name}.before"));
        actions.push(Action::Replace { from, path, kept });
    }
    match (facts.installed.berthd, wishes.has_berthd) {
        (true, _) if wishes.replace.contains(&BERTHD) => {}
        (true, _) => notes.push(format!("{BERTHD} is there already and stays as it is")),
        (false, true) => {
            actions.push(Action::Copy { from: wishes.programs.join("berthd"), path: BERTHD.to_owned() });
        }
        (false, false) => return Err(PlanError::NoProgram(wishes.programs.clone())),
    }
    match (facts.installed.berth_shim, wishes.has_shim) {
        _ if !two => {}
        (true, _) if wishes.replace.contains(&BERTH_SHIM) => {}
        (true, _) => notes.push(format!("{BERTH_SHIM} is there already and stays as it is")),
        (false, true) => {
            let from = wishes.programs.join("berth-shim");
            actions.push(Action::Copy { from, path: BERTH_SHIM.to_owned() });
        }
        (false, false) => return Err(PlanError::NoShim(wishes.programs.clone())),
    }
    if !facts.installed.berthctl {
        actions.push(Action::Copy { from: wishes.programs.join("berthctl"), path: BERTHCTL.to_owned() });
    }
    Ok(notes)
}

fn config(
    facts: &Facts,
    kubelet: &Kubelet,
    wishes: &Wishes,
    runtime: &str,
    two: bool,
    actions: &mut Vec<Action>,
) {
    let socket = places::socket_for(runtime);
    // What the administrator has written is never touched.
    if facts.installed.config.is_none() {
        let content = texts::config(kubelet, wishes.kubeconfig.as_deref(), runtime, socket, two);
        actions.push(Action::Write { path: CONFIG.to_owned(), content, theirs: true });
    }
    if two && facts.installed.shim_env.is_none() {
        let content = texts::shim_env(runtime, socket);
        actions.push(Action::Write { path: SHIM_ENV.to_owned(), content, theirs: true });
    }
}

fn units(facts: &Facts, socket: &str, two: bool, env: Option<&str>, actions: &mut Vec<Action>) {
    let mut written = false;
    for ((unit, text), there) in UNITS.iter().zip(&facts.installed.units) {
        if there.as_deref() != Some(*text) {
            let content = (*text).to_owned();
            actions.push(Action::Write { path: unit_path(unit), content, theirs: false });
            written = true;
        }
    }
    let moved = texts::crio_drop_in();
    let moves = socket == places::CRIO_SOCKET && facts.installed.crio_drop_in.as_ref() != Some(&moved);
    if moves || two && !facts.installed.two_programs() {
        actions.push(Action::MakeDir { path: places::folder_of(SHIM_SOCKET_DROP_IN).to_owned() });
    }
    for ((path, text), there) in SHIM_UNITS.iter().zip(&facts.installed.shim_units).filter(|_| two) {
        if there.as_deref() != Some(*text) {
            let (path, content) = ((*path).to_owned(), (*text).to_owned());
            actions.push(Action::Write { path, content, theirs: false });
            written = true;
        }
    }
    if moves {
        actions.push(Action::Write { path: CRIO_SOCKET_DROP_IN.to_owned(), content: moved, theirs: false });
        written = true;
    }
    if env != facts.installed.env_drop_in.as_deref() {
        match env {
            Some(content) => {
                let (path, content) = (ENV_DROP_IN.to_owned(), content.to_owned());
                actions.push(Action::MakeDir { path: places::folder_of(&path).to_owned() });
                actions.push(Action::Write { path, content, theirs: false });
            }
            None => actions.push(Action::Remove { path: ENV_DROP_IN }),
        }
        written = true;
    }
    if written {
        actions.push(Action::Reload);
    }
}

/// Lets a berthd that may run already have other settings. A process that is handed over to has the env of
/// the one before it, so it is started anew; where it has the data path itself, calls would fail meanwhile.
fn take_settings(facts: &Facts, two: bool, plan: &mut Plan) {
    let [_, service] = &facts.installed.units;
    match (service, two) {
        (None, _) => {}
        (Some(_), true) => {
            let restart = Action::Restart { unit: places::SERVICE_UNIT };
            plan.actions.extend([restart, Action::AwaitBerthd, Action::AwaitShim]);
        }
        (Some(_), false) => plan.notes.push(format!(
            "berthd has other settings from its next start on: systemctl restart {}, while no pod is started or stopped",
            places::SERVICE_UNIT
        )),
    }
}

fn redirect(facts: &Facts, kubelet: &Kubelet, two: bool, plan: &mut Plan) -> Result<(), PlanError> {
    let unit = kubelet.flavour.unit();
    if places::is_ours(&kubelet.endpoint) {
        plan.notes.push(format!("{unit} is led to Berth by its own configuration, which stays as it is"));
        return Ok(());
    }
    let content = match kubelet.flavour.rancher() {
        Some(_) => {
            if let Some(flag) = kubelet.overruled.clone() {
                return Err(PlanError::Overruled { unit, flag });
            }
            texts::rancher_drop_in(kubelet, plan.socket)
        }
        None => {
            let [command] = kubelet.exec_start.as_slice() else {
                return Err(PlanError::ExecStart { unit, count: kubelet.exec_start.len() });
            };
            if !places::name_of(&kubelet.program).contains("kubelet") {
                return Err(PlanError::Wrapped { unit, program: kubelet.program.clone() });
            }
            texts::kubelet_drop_in(kubelet, command, plan.socket, two)
        }
    };
    let there = facts.installed.drop_ins.iter().find(|(flavour, _)| *flavour == kubelet.flavour);
    if there.is_some_and(|(_, text)| *text == content) {
        plan.notes.push(format!("{unit} is led to Berth already"));
        return Ok(());
    }
    plan.actions.push(Action::Redirect { unit, path: kubelet.flavour.drop_in(), content });
    plan.actions.push(Action::AwaitNode);
    Ok(())
}

/// The kubelet's unit by its name on the command line.
pub(crate) fn flavour(unit: &str) -> Result<Flavour, String> {
    let name = unit.strip_suffix(".service").unwrap_or(unit);
    let found =
        Flavour::ALL.into_iter().find(|flavour| flavour.unit().strip_suffix(".service") == Some(name));
    found.ok_or_else(|| {
        let known = Flavour::ALL.map(Flavour::unit).join(", ");
        format!("{unit:?} is none of {known}")
    })
}
