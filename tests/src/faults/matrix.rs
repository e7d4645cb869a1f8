//! Where something happens, and what: the rows and columns of the matrix.

use berthd::agent::fault::Point;
use clap::ValueEnum;
use serde::Serialize;

/// Fault that happens.
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
    /// berth-shim is killed (SIGKILL) and started while berthd stands still; only with two programs.
    KillShim,
}

/// Programs between the kubelet and containerd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Programs {
    /// berthd alone.
    One,
    /// berth-shim, and a berthd that decides.
    Two,
}

/// The work that leads to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// A container with a preStop hook is recreated.
    Recreate,
    /// Two ordered containers of a running pod are changed, by env and by image.
    Update,
    /// The twins of a sidecar are swapped.
    Swap,
    /// The same with a hook that hangs: the pod returns to what it was.
    SwapBack,
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
    /// The points, in the order in which the work comes to them.
    pub points: Vec<Point>,
    /// The work.
    pub way: Way,
    /// Fault that happens there.
    pub fault: Fault,
}

/// A line of the matrix: points that the same piece of work meets. What has a line of its own would change
/// what is to come of the others (a hook that is lost), may be left out (the kubelet may have looked, or
/// tidied up, by itself; of a lost store no mark is removed; a restarted runtime ends the hook that held the
/// kubelet), or is passed by the containers of all pods. The
/// order is that of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Recreate,
    Show,
    Unmarking,
    Unmarked,
    Removal,
    Nudge,
    Hook,
    Stop,
    Update,
    Swap,
    SwapBack,
    Unhold,
    Job,
    Pull,
    Launch,
    Taken,
    Accepting,
    Succeeded,
}

impl Programs {
    /// Whether berthd comes to this point. Behind a shim it is not asked about a call that nothing stands in
    /// the way of: the table says so.
    fn pass(self, point: Point) -> bool {
        self == Self::One || point != Point::Forwarding
    }
}

impl Line {
    /// The line of a point. A point that other ways pass, too, is in one of them only; without a line it does
    /// not compile.
    fn of(point: Point) -> Self {
        match point {
            Point::Marking | Point::Marked | Point::Reporting | Point::Reported => Self::Recreate,
            Point::Unmarking => Self::Unmarking,
            Point::Shown => Self::Show,
            Point::Unmarked => Self::Unmarked,
            Point::Removing | Point::Removed => Self::Removal,
            Point::Nudging => Self::Nudge,
            Point::Hooked => Self::Hook,
            Point::StopAsked | Point::Stopped | Point::Created | Point::Started => Self::Stop,
            Point::Telling
            | Point::Told
            | Point::Closing
            | Point::Closed
            | Point::Patching
            | Point::Patched
            | Point::Opening
            | Point::Opened => Self::Update,
            Point::SwapStarting | Point::SwapStarted | Point::SwapFinishing | Point::SwapFinished => {
                Self::Swap
            }
            Point::SwapReturning | Point::SwapReturned => Self::SwapBack,
            Point::Unholding | Point::Unheld => Self::Unhold,
            Point::Ending | Point::Ended | Point::DirectlyStopped => Self::Job,
            Point::Pulling | Point::Pulled | Point::Answering | Point::Answered => Self::Pull,
            Point::Holding
            | Point::Refusing
            | Point::Forwarding
            | Point::Latching
            | Point::Latched
            | Point::Committing
            | Point::Committed => Self::Launch,
            Point::Taken => Self::Taken,
            Point::Accepting => Self::Accepting,
            Point::Succeeded => Self::Succeeded,
        }
    }

    fn way(self) -> Way {
        match self {
            Self::Recreate
            | Self::Show
            | Self::Unmarking
            | Self::Unmarked
            | Self::Removal
            | Self::Nudge
            | Self::Hook
            | Self::Stop => Way::Recreate,
            Self::Update => Way::Update,
            Self::Swap => Way::Swap,
            Self::SwapBack | Self::Unhold => Way::SwapBack,
            Self::Job => Way::Job,
            Self::Pull => Way::Pull,
            Self::Launch => Way::Launch,
            Self::Taken | Self::Accepting | Self::Succeeded => Way::HandOver,
        }
    }
}

/// Every point there is, line by line, with the way that it is reached on.
pub fn lines() -> Vec<(Way, Vec<Point>)> {
    let mut all = Point::ALL.to_vec();
    // Stable: within a line the order stays that in which the work comes to them.
    all.sort_by_key(|point| Line::of(*point));
    let lines = all.chunk_by(|one, next| Line::of(*one) == Line::of(*next));
    lines.map(|line| (Line::of(line[0]).way(), line.to_vec())).collect()
}

/// The cells of these points and faults, fault by fault; where none is named, of all that can happen to these
/// programs. Each is a row of its own where they are wanted `alone`.
pub fn rows(points: &[Point], faults: &[Fault], programs: Programs, alone: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    let wanted = |fault: &&Fault| fault.happens_to(programs) && (faults.is_empty() || faults.contains(fault));
    for &fault in Fault::value_variants().iter().filter(wanted) {
        for (way, of_line) in lines() {
            let wanted =
                |point: &Point| programs.pass(*point) && (points.is_empty() || points.contains(point));
            let wanted: Vec<_> = of_line.into_iter().filter(wanted).collect();
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
            Self::KillShim => "kill-shim",
        }
    }

    /// Whether there is somebody to whom it happens.
    pub fn happens_to(self, programs: Programs) -> bool {
        self != Self::KillShim || programs == Programs::Two
    }
}

impl Way {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Recreate => "recreate",
            Self::Update => "update",
            Self::Swap => "swap",
            Self::SwapBack => "swap, back",
            Self::Job => "job sidecar",
            Self::Pull => "pull",
            Self::Launch => "launch, store",
            Self::HandOver => "hand-over",
        }
    }
}

impl Row {
    /// How often the hook of a container that is replaced may begin. Whether a command that was about to go
    /// had begun cannot be known, and then it is not begun again. Berthd reports that a container is being
    /// stopped while the runtime begins its hook: one that the runtime's restart meets there is lost with the
    /// runtime, one that the shim's end meets is lost with the kubelet's call, and the kubelet does not ask
    /// twice. And who has lost the store does not know that it began, each time anew.
    pub(super) fn hooks(&self) -> std::ops::RangeInclusive<usize> {
        let at = |points: &[Point]| self.points.iter().any(|point| points.contains(point));
        match self.fault {
            Fault::Kill | Fault::KillShim if at(&[Point::Hooked]) => 0..=0,
            Fault::ContainerdRestart | Fault::KillShim if at(&[Point::Reporting, Point::Reported]) => 0..=1,
            Fault::BrokenStore => 0..=self.points.len() + 1,
            _ => 1..=1,
        }
    }

    /// Gives the name of an object of this row.
    pub(super) fn object(&self, kind: &str) -> String {
        format!("{kind}-{}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A way, and the names of its points.
    type Named = BTreeMap<&'static str, Vec<&'static str>>;

    #[test]
    fn the_page_names_every_point() {
        let page = include_str!("../../../docs/failures.md");
        let (_, table) = page.split_once("| Cells passed, by point").unwrap();
        let (mut told, mut all) = (Named::new(), Named::new());
        // After the rest of the heading and the line below it.
        for row in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
            // The last one is the sum.
            let Some((way, points)) = row.trim_start_matches("| ").split_once(": ") else { continue };
            told.entry(way).or_default().extend(points.split('`').skip(1).step_by(2));
        }
        for (way, points) in lines() {
            all.entry(way.name()).or_default().extend(points.iter().map(|point| point.name()));
        }
        told.values_mut().chain(all.values_mut()).for_each(|points| points.sort_unstable());
        assert_eq!(told, all);
    }

    #[test]
    fn every_point_has_a_cell_for_every_fault() {
        for programs in [Programs::One, Programs::Two] {
            let rows = rows(&[], &[], programs, false);
            for fault in Fault::value_variants() {
                let of_fault = rows.iter().filter(|row| row.fault == *fault);
                let mut points: Vec<_> = of_fault.flat_map(|row| row.points.iter().copied()).collect();
                points.sort();
                let mut all = Point::ALL.to_vec();
                all.retain(|point| fault.happens_to(programs) && programs.pass(*point));
                assert_eq!(points, all, "{} of {programs:?}", fault.name());
            }
        }
    }
}
