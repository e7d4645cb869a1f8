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
    /// berthd is killed, and finds nothing but garbage, or half of its store, when it is started.
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

/// One cell.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Its number among those of the run.
    pub number: usize,
    /// The point (`berthd::fault`).
    pub point: &'static str,
    /// The work that leads there.
    pub way: Way,
    /// What happens there.
    pub fault: Fault,
}

/// Every point, and the way that it is reached on. A point that other ways pass, too, is there once.
pub const POINTS: &[(Way, &[&str])] = &[
    (
        Way::Recreate,
        &[
            "removing",
            "removed",
            "marking",
            "marked",
            "nudging",
            "shown",
            "hooked",
            "stop-asked",
            "stopped",
            "created",
            "started",
            "reporting",
            "reported",
            "unmarking",
            "unmarked",
        ],
    ),
    (Way::Update, &["telling", "told", "closing", "closed", "patching", "patched", "opening", "opened"]),
    (Way::Job, &["ending", "ended", "directly-stopped"]),
    (Way::Pull, &["pulling", "pulled", "answering", "answered"]),
    (Way::Launch, &["holding", "refusing", "forwarding", "latching", "latched", "committing", "committed"]),
    (Way::HandOver, &["taken", "accepting", "succeeded"]),
];

/// The cells of these points and faults, fault by fault; of all where none is named.
pub fn cells(points: &[String], faults: &[Fault]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &fault in Fault::value_variants().iter().filter(|fault| faults.is_empty() || faults.contains(fault)) {
        for &(way, of_way) in POINTS {
            for &point in of_way {
                if points.is_empty() || points.iter().any(|wanted| wanted == point) {
                    cells.push(Cell { number: cells.len(), point, way, fault });
                }
            }
        }
    }
    cells
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

impl Cell {
    /// How often the hook of a container that is replaced may begin. Whether a command that was about to go had begun
    /// cannot be known, and then it is not begun again; a runtime that is not there does not take it; and who has lost the
    /// store does not know of either.
    pub(super) fn hooks(&self) -> std::ops::RangeInclusive<usize> {
        match (self.fault, self.point) {
            (Fault::Kill, "hooked") => 0..=0,
            (Fault::ContainerdRestart, "hooked") => 0..=1,
            (Fault::BrokenStore, _) => 0..=2,
            _ => 1..=1,
        }
    }
}
