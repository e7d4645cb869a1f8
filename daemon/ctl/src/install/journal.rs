//! Changes of an installation and what was there before, written down before each change. So it can be
//! undone at any point, by another process too.
//!
//! Changes are a stack. Those below `settled` belong to installations that have succeeded; those above it to
//! one that is going on, or was interrupted.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::host::{Before, Host};
use super::places::{
    BERTH_SHIM, CONFIG, CRIO_SOCKET_DROP_IN, ENV_DROP_IN, Flavour, JOURNAL, SHIM_ENV, SHIM_UNITS,
    SOCKET_UNIT, STATE_DIR, UNITS, started, unit_path,
};

/// The form of the file.
const VERSION: u32 = 1;

/// All that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Journal {
    version: u32,
    /// Whether its own folder was made for it.
    made_dir: bool,
    /// How many of the changes are for good.
    pub settled: usize,
    /// The changes, the first one first.
    pub changes: Vec<Change>,
}

/// One change, with what was before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "camelCase")]
pub(crate) enum Change {
    /// A folder was made.
    Folder {
        /// Which.
        path: String,
    },
    /// A file was written, or removed.
    File {
        /// Which.
        path: String,
        /// State of the path before that.
        before: Before,
        /// Content that was written, where it is to stay once somebody has changed it.
        theirs: Option<String>,
    },
    /// A program of an earlier installation was replaced. Never below `settled`: what was before is then of
    /// no use.
    Replaced {
        /// Which.
        path: String,
        /// Where the one that was there is kept, if it came to that.
        kept: String,
    },
    /// A unit was enabled that was not.
    Enabled {
        /// Which.
        unit: String,
    },
    /// A unit was started that did not run.
    Started {
        /// Which.
        unit: String,
    },
    /// A unit that ran was started anew with other settings. Never below `settled`: those are its own then.
    Restarted {
        /// Which.
        unit: String,
    },
    /// The kubelet was led to Berth, and restarted.
    Redirected {
        /// Its unit.
        unit: String,
        /// The file that does it.
        path: String,
        /// State of the path before the change.
        before: Before,
    },
}

/// One step of the way back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Undo {
    /// Put back what was at a path.
    Restore {
        /// The path.
        path: String,
        /// State of the path before the change.
        before: Before,
        /// Only while this is there.
        only_if: Option<String>,
    },
    /// Put back a program that was replaced.
    TakeBack {
        /// Which.
        path: String,
        /// Where it is kept; not there if nothing was replaced.
        kept: String,
    },
    /// Let the `berth-shim` that runs hand over to the program that was put back.
    HandOverShim,
    /// Let systemd read its units again.
    Reload,
    /// Restart the kubelet.
    RestartKubelet {
        /// Its unit.
        unit: String,
    },
    /// Stop a unit.
    Stop {
        /// Which.
        unit: String,
    },
    /// Start a unit anew with the settings that were put back.
    Restart {
        /// Which.
        unit: String,
    },
    /// Do not start it at boot.
    Disable {
        /// Which.
        unit: String,
    },
    /// Remove the sockets that outlive berthd.
    RemoveSockets,
    /// Remove a folder if nothing is in it.
    RemoveFolder {
        /// Which.
        path: String,
    },
}

impl Journal {
    /// Reads the journal of a node; `None` where there is none. An error is one that cannot be understood.
    pub(crate) fn load(host: &Host) -> Result<Option<Self>> {
        let Some(text) = host.read(JOURNAL)? else { return Ok(None) };
        let journal: Self = serde_json::from_str(&text)
            .with_context(|| format!("{JOURNAL}, the journal of the installation, cannot be understood"))?;
        if journal.version != VERSION {
            bail!("{JOURNAL} was written by another berthctl (version {}); use that one", journal.version);
        }
        if journal.settled > journal.changes.len() {
            bail!("{JOURNAL} is damaged: it has {} changes of {}", journal.changes.len(), journal.settled);
        }
        Ok(Some(journal))
    }

    /// Begins one, and makes its folder.
    pub(crate) fn begin(host: &Host) -> Result<Self> {
        let made_dir = !host.exists(STATE_DIR);
        let journal = Self { version: VERSION, made_dir, settled: 0, changes: Vec::new() };
        if made_dir {
            host.make_dir(STATE_DIR, 0o700)?;
        }
        journal.save(host)?;
        Ok(journal)
    }

    /// Assumes the changes of an installation of which nothing is known, as far as they are there.
    pub(crate) fn assumed(host: &Host) -> Self {
        let mut changes = Vec::new();
        let files = UNITS
            .map(|(unit, _)| unit_path(unit))
            .into_iter()
            .chain(SHIM_UNITS.map(|(path, _)| path.to_owned()))
            .chain([CRIO_SOCKET_DROP_IN, ENV_DROP_IN].map(str::to_owned));
        for path in files.filter(|path| host.exists(path)) {
            changes.push(Change::File { path, before: Before::Absent, theirs: None });
        }
        for unit in started(true) {
            if host.exists(&unit_path(unit)) {
                changes.push(Change::Enabled { unit: (*unit).to_owned() });
                changes.push(Change::Started { unit: (*unit).to_owned() });
            }
        }
        for flavour in Flavour::ALL {
            let path = flavour.drop_in();
            let known =
                |change: &Change| matches!(change, Change::Redirected { path: known, .. } if *known == path);
            if host.exists(&path) && !changes.iter().any(known) {
                let unit = flavour.unit().to_owned();
                changes.push(Change::Redirected { unit, path, before: Before::Absent });
            }
        }
        Self { version: VERSION, made_dir: false, settled: changes.len(), changes }
    }

    /// Writes a change down; it may be made afterwards.
    pub(crate) fn push(&mut self, host: &Host, change: Change) -> Result<()> {
        self.changes.push(change);
        self.save(host)
    }

    /// All changes are for good.
    pub(crate) fn settle(&mut self, host: &Host) -> Result<()> {
        let is_over =
            |change: &mut Change| matches!(change, Change::Replaced { .. } | Change::Restarted { .. });
        let over: Vec<Change> = self.changes.extract_if(.., is_over).collect();
        self.settled = self.changes.len();
        self.save(host)?;
        for change in over {
            if let Change::Replaced { kept, .. } = change {
                host.remove(&kept)?;
            }
        }
        Ok(())
    }

    /// Tells whether a file is one that an installation has put where none was.
    pub(crate) fn has_put(&self, path: &str) -> bool {
        self.changes.iter().any(
            |change| matches!(change, Change::File { path: put, before: Before::Absent, .. } if put == path),
        )
    }

    /// Forgets the changes above this one; without any left the journal itself goes.
    pub(crate) fn forget(&mut self, host: &Host, down_to: usize) -> Result<()> {
        self.changes.truncate(down_to);
        self.settled = self.settled.min(down_to);
        if down_to > 0 {
            return self.save(host);
        }
        host.remove(JOURNAL)?;
        if self.made_dir {
            host.remove_empty_dir(STATE_DIR)?;
        }
        Ok(())
    }

    fn save(&self, host: &Host) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("the journal as JSON")?;
        host.write(JOURNAL, text.as_bytes(), 0o600)
    }

    /// The way back to where only the first `down_to` changes were made. The kubelet leaves first, by one
    /// restart; then the rest, the last change first. Going it twice is as good as once.
    pub(crate) fn undo(&self, down_to: usize) -> Vec<Undo> {
        let undone = self.changes.get(down_to..).unwrap_or_default();
        let mut steps = Vec::new();
        let mut kubelets: Vec<&String> = Vec::new();
        for change in undone.iter().rev() {
            if let Change::Redirected { unit, path, before } = change {
                steps.push(Undo::Restore { path: path.clone(), before: before.clone(), only_if: None });
                if !kubelets.contains(&unit) {
                    kubelets.push(unit);
                }
            }
        }
        if !kubelets.is_empty() {
            steps.push(Undo::Reload);
        }
        steps.extend(kubelets.into_iter().map(|unit| Undo::RestartKubelet { unit: unit.clone() }));
        let mut reload = false;
        let mut restarts = Vec::new();
        let is_stopped = |unit: &String| {
            undone.iter().any(|change| matches!(change, Change::Started { unit: own } if own == unit))
        };
        for change in undone.iter().rev() {
            match change {
                Change::Redirected { .. } => {}
                // One that is stopped again takes no settings.
                Change::Restarted { unit } if is_stopped(unit) => {}
                Change::Restarted { unit } => restarts.push(unit),
                Change::Started { unit } => {
                    steps.push(Undo::Stop { unit: unit.clone() });
                    if unit == SOCKET_UNIT {
                        steps.push(Undo::RemoveSockets);
                    }
                }
                Change::Enabled { unit } => steps.push(Undo::Disable { unit: unit.clone() }),
                Change::File { path, before, theirs } => {
                    reload |= path != CONFIG && path != SHIM_ENV;
                    let (path, before) = (path.clone(), before.clone());
                    steps.push(Undo::Restore { path, before, only_if: theirs.clone() });
                }
                Change::Replaced { path, kept } => {
                    steps.push(Undo::TakeBack { path: path.clone(), kept: kept.clone() });
                    if path == BERTH_SHIM {
                        steps.push(Undo::HandOverShim);
                    }
                }
                Change::Folder { path } => steps.push(Undo::RemoveFolder { path: path.clone() }),
            }
        }
        if reload {
            steps.push(Undo::Reload);
        }
        steps.extend(restarts.into_iter().map(|unit| Undo::Restart { unit: unit.clone() }));
        steps
    }
}
