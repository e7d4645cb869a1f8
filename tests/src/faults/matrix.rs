//! Where something happens, and what: the rows and columns of the matrix.

use clap::ValueEnum;
use serde::Serialize;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// berthd is killed (SIGKILL) and started.
    Kill,
    /// berthd stands still for 10 s (SIGSTOP).
    Stop,
    /// The disk of berthd's store is full for a while.
    DiskFull,
    /// berthd is killed, and finds nothing but garbage, or the beginning of its store, when it is started.
    BrokenStore,
    /// The API server is killed, and is back after some seconds.
    ApiCut,
    /// containerd is restarted.
    ContainerdRestart,
}

/// The work that leads to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// A container with a preStop hook is recreated.
    Recreate,
    /// Two ordered containers of a running pod are changed, by env and by image.
    Update,
    /// The main container of a Job with a sidecar ends.
    Job,
    /// An image is pulled that the node is to have.
    Pull,
    /// A pod of three ordered containers is started.
    Launch,
    /// Another berthd takes the place of the one that runs.
    HandOver,
}

/// Cells that one piece of work leads to, one after another: the same fault at each of these points.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its number among those of the run.
    pub number: usize,
    /// The points (`berthd::fault`), in the order in which the work comes to them.
    pub points: Vec<&'static str>,
    /// The work.
    pub way: Way,
    /// What happens there.
    pub fault: Fault,
}

/// Every point, and the way that it is reached on. A point that other ways pass, too, is there once. Points of one line are
/// met by the same piece of work. What has a line of its own would change what is to come of the others (a hook that is
/// lost), may be left out (the kubelet may have looked, or tidied up, by itself; of a lost store no mark is removed), or is
/// passed by the containers of all pods.
pub const POINTS: &[(Way, &[&str])] = &[
    (Way::Recreate, &["marking", "marked", "shown", "reporting", "reported", "unmarking"]),
    (Way::Recreate, &["unmarked"]),
    (Way::Recreate, &["removing", "removed"]),
    (Way::Recreate, &["nudging"]),
    (Way::Recreate, &["hooked"]),
    (Way::Recreate, &["stop-asked", "stopped", "created", "started"]),
    (Way::Update, &["telling", "told", "closing", "closed", "patching", "patched", "opening", "opened"]),
    (Way::Job, &["ending", "ended", "directly-stopped"]),
    (Way::Pull, &["pulling", "pulled", "answering", "answered"]),
    (Way::Launch, &["holding", "refusing", "forwarding", "latching", "latched", "committing", "committed"]),
    (Way::HandOver, &["taken"]),
    (Way::HandOver, &["accepting"]),
    (Way::HandOver, &["succeeded"]),
];

/// The cells of these points and faults, fault by fault; of all where none is named. Each is a row of its own where they
/// are wanted `alone`.
pub fn rows(points: &[String], faults: &[Fault], alone: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for &fault in Fault::value_variants().iter().filter(|fault| faults.is_empty() || faults.contains(fault)) {
        for &(way, of_line) in POINTS {
            let wanted = |point: &&str| points.is_empty() || points.iter().any(|wanted| wanted == point);
            let wanted: Vec<_> = of_line.iter().copied().filter(wanted).collect();
            let together = if alone { 1 } else { wanted.len().max(1) };
            for points in wanted.chunks(together) {
                rows.push(Row { number: rows.len(), points: points.to_vec(), way, fault });
            }
        }
    }
    rows
}

impl Fault {
    /// As the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::DiskFull => "disk-full",
            Self::BrokenStore => "broken-store",
            Self::ApiCut => "api-cut",
            Self::ContainerdRestart => "containerd-restart",
        }
    }
}

impl Way {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Recreate => "recreate",
            Self::Update => "update",
            Self::Job => "job sidecar",
            Self::Pull => "pull",
            Self::Launch => "launch, store",
            Self::HandOver => "hand-over",
        }
    }
}

impl Row {
    /// How often the hook of a container that is replaced may begin. Whether a command that was about to go had begun
    /// cannot be known, and then it is not begun again; one that meets the runtime's restart is lost with its connection, and
    /// the kubelet does not ask twice; and who has lost the store does not know that it began, each time anew.
    pub(super) fn hooks(&self) -> std::ops::RangeInclusive<usize> {
        let at = |points: &[&str]| self.points.iter().any(|point| points.contains(point));
        match self.fault {
            Fault::Kill if at(&["hooked"]) => 0..=0,
            Fault::ContainerdRestart if at(&["shown", "hooked"]) => 0..=1,
            Fault::BrokenStore => 0..=self.points.len() + 1,
            _ => 1..=1,
        }
    }

    /// What an object of this row is called.
    pub(super) fn object(&self, kind: &str) -> String {
        format!("{kind}-{}", self.number)
    }
}
