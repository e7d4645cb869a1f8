//! Points on berthd's way (`berthd::agent::fault`): it is told where to die or to stand still, and seen
//! there.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Berthd;
use crate::wait::await_condition;

impl Berthd {
    /// Lets it die the next time it reaches this point.
    pub fn die_at(&self, point: &str) -> Result<()> {
        self.at(point, "die")
    }

    /// Lets it die at each of these points, one after the other, and starts it again. `begin` begins what
    /// leads past them.
    pub async fn dies_at_each(
        &self,
        points: &[&str],
        patience: Duration,
        begin: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<()> {
        let (first, others) = points.split_first().context("no point")?;
        self.die_at(first)?;
        begin().await?;
        for (at, point) in points.iter().enumerate() {
            await_condition(format!("berthd dies at {point}"), patience, async || {
                ensure!(self.service.has_ended()?, "it lives");
                Ok(())
            })
            .await?;
            // Before it is there again nothing gets past the next one; and it may be there at once.
            if let Some(next) = others.get(at) {
                self.die_at(next)?;
            }
            self.service.start()?;
        }
        self.serving().await
    }

    /// Lets it stand still, all of its process, the next time it reaches this point.
    pub fn pause_at(&self, point: &str) -> Result<()> {
        self.at(point, "pause")
    }

    /// The process that stands still at the point it was told of; an error while there is none.
    pub fn at_point(&self) -> Result<u32> {
        let pid = fs::read_to_string(self.reached_file()).context("the point is not reached")?;
        let pid: u32 = pid.parse().with_context(|| format!("pid {pid:?}"))?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("its process")?;
        let state = stat.rsplit(") ").next().unwrap_or_default();
        ensure!(state.starts_with('T'), "process {pid} does not stand still: {state}");
        Ok(pid)
    }

    /// Takes back where it is to stand still or die; `false` where it was there before that.
    pub fn spare(&self) -> Result<bool> {
        match fs::remove_file(&self.fault_file) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| self.fault_file.display().to_string()),
        }
    }

    /// Lets it pass every point.
    pub fn pass_all_points(&self) -> Result<()> {
        remove(&self.fault_file)?;
        remove(&self.reached_file())
    }

    /// Makes it whole after a test that failed in the middle: it passes every point, runs and serves. Else
    /// all tests after that one would fail as well.
    pub async fn restore(&self) -> Result<()> {
        self.pass_all_points()?;
        if let (Some(shim), Some(_)) = (&self.shim, &self.kept)
            && shim.has_ended()?
        {
            self.start_shim()?;
        }
        if self.service.has_ended()? {
            self.service.start()?;
        }
        self.service.go_on()?;
        self.serving().await
    }

    fn at(&self, point: &str, what: &str) -> Result<()> {
        remove(&self.reached_file())?;
        fs::write(&self.fault_file, format!("{point} {what}")).context("name the point")
    }

    fn reached_file(&self) -> PathBuf {
        self.fault_file.with_extension("reached")
    }
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| file.display().to_string())
        }
        _ => Ok(()),
    }
}
