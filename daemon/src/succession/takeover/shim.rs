//! The `berth-shim` in the runtime's place: a process outside of berthd's container and pod, as the guardian
//! is, so that berthd can come and go. berthd starts it, and starts another one where it has ended.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context;
use tokio::process::Child;

use super::{Paths, copied::Copied, host, look::answers};

/// Name of the program, beside berthd's own and in the folder of the store.
const NAME: &str = "berth-shim";

/// Settings of a `berth-shim` in the runtime's place.
#[derive(Clone, Debug)]
pub struct ShimSettings {
    /// The socket for berthd.
    pub socket: PathBuf,
    /// Processes that are, or contain, the kubelet.
    pub kubelet_processes: Vec<String>,
    /// Namespace of berthd's own pod, where it is one.
    pub agent_namespace: Option<String>,
}

/// The program in the place, whether it runs or not.
#[derive(Debug)]
pub(super) struct Shim {
    paths: Paths,
    settings: ShimSettings,
    program: Copied,
}

impl Shim {
    pub(super) fn of(paths: &Paths, state_dir: &Path, settings: ShimSettings) -> Self {
        Self { paths: paths.clone(), settings, program: Copied::to(state_dir, NAME) }
    }

    /// Makes the copy as berthd's release has it. One that runs stays as it is: `berthctl upgrade --shim`
    /// has it succeeded by this file.
    pub(super) fn install(&self) -> anyhow::Result<()> {
        let own = std::env::current_exe().context("which program is this?")?;
        let beside = own.with_file_name(NAME);
        self.program.copy(&beside).context("berth-shim has to be beside berthd")
    }

    /// Keeps its log short.
    pub(super) fn shorten_log(&self) -> io::Result<()> {
        self.program.shorten()
    }

    /// Tells whether one accepts the calls of the runtime's clients.
    pub(super) fn runs(&self) -> io::Result<bool> {
        answers(&self.paths.own())
    }

    /// Starts one if there is none, by the program that starts others outside, and waits until it accepts.
    ///
    /// # Errors
    /// It does not come up; its log says why.
    pub(super) async fn ensure(&self, starter: &Path) -> anyhow::Result<()> {
        if self.runs()? {
            return Ok(());
        }
        let contained = host::in_a_container()?;
        let shim = self
            .spawn(starter, contained)
            .with_context(|| format!("{:?} does not start", self.program.file))?;
        let is_there = || Ok(self.runs()? && answers(&self.settings.socket)?);
        self.program.comes_up(NAME, shim, false, is_there).await
    }

    fn spawn(&self, starter: &Path, contained: bool) -> io::Result<Child> {
        let mut command = self.program.command(starter)?;
        command.args(["outside", "--confined"]);
        if contained {
            command.arg("--host");
        }
        command.arg(&self.program.file).arg("--");
        command.arg("--socket").arg(self.paths.own());
        command.arg("--shim-socket").arg(&self.settings.socket);
        command.arg("--runtime-endpoint").arg(self.paths.aside());
        command.arg("--kubelet-processes").arg(self.settings.kubelet_processes.join(","));
        if let Some(namespace) = &self.settings.agent_namespace {
            command.arg("--agent-namespace").arg(namespace);
        }
        command.spawn()
    }
}

/// Time between two starts of a `berth-shim` that does not stay: it doubles, so that a place that cannot be
/// kept is the runtime's most of the time, and begins anew after a while that went well.
#[derive(Debug, Default)]
pub(super) struct Pace {
    last: Option<(Instant, Duration)>,
}

impl Pace {
    /// Pause between the first two starts.
    const FIRST: Duration = Duration::from_secs(1);
    /// Never longer.
    const MOST: Duration = Duration::from_secs(300);
    /// One that ran for so long had come up well.
    const WELL: Duration = Duration::from_secs(60);

    /// Tells whether another start is due, which is then begun.
    pub(super) fn begins(&mut self, now: Instant) -> bool {
        let Some((last, wait)) = self.last else {
            self.last = Some((now, Self::FIRST));
            return true;
        };
        let since = now.saturating_duration_since(last);
        if since < wait {
            return false;
        }
        let next = if since >= wait.saturating_add(Self::WELL) {
            Self::FIRST
        } else {
            wait.saturating_mul(2).min(Self::MOST)
        };
        self.last = Some((now, next));
        true
    }
}

#[cfg(test)]
mod tests {
    use berth_policy::time::later;

    use super::*;

    #[test]
    fn starts_come_at_a_pace() {
        let begin = Instant::now();
        let mut pace = Pace::default();
        // In milliseconds; the last ones after a while that went well.
        for (at, expected) in [
            (0, true),
            (999, false),
            (1000, true),
            (2999, false),
            (3000, true),
            (7000, true),
            (14_999, false),
            (15_000, true),
            (100_000, true),
            (100_999, false),
            (101_000, true),
        ] {
            assert_eq!(pace.begins(later(begin, Duration::from_millis(at))), expected, "at {at} ms");
        }
        let (mut waits, mut now, mut last) = (Pace::default(), begin, Duration::ZERO);
        for _ in 0..12 {
            last = Duration::ZERO;
            while !waits.begins(now) {
                (now, last) = (later(now, Pace::FIRST), last + Pace::FIRST);
            }
        }
        assert_eq!(last, Pace::MOST, "one that never stays");
    }
}
