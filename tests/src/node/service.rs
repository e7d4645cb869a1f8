//! One program of the node: how it is started, and its process while it runs. Stopped and started again at will, because
//! that is what the fault tests do.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::run_dir::Run;
use crate::wait::Hopeless;

/// What a program is given to end by itself after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);

/// A program of the node. Its output goes to `log/NAME.log` of the run, its pid is recorded for [`super::down`].
#[derive(Debug)]
pub struct Service {
    run: Arc<Run>,
    name: String,
    program: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
    child: Mutex<Option<Child>>,
}

impl Service {
    /// Describes a program; `args` must name the run's directory somewhere, which is how `down` knows it for ours.
    pub fn new(run: &Arc<Run>, name: &str, program: impl Into<PathBuf>, args: Vec<String>) -> Self {
        Self {
            run: run.clone(),
            name: name.to_owned(),
            program: program.into(),
            args,
            env: Vec::new(),
            child: Mutex::new(None),
        }
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Starts it. Running already is an error: a test that believes otherwise tests nothing.
    pub fn start(&self) -> Result<()> {
        let mut child = self.child();
        if child.is_some() {
            bail!("{} runs already", self.name);
        }
        let log = self.log_path();
        let log = File::options().create(true).append(true).open(&log).context("open its log")?;
        let pid_file = self.run.path("pids").join(&self.name);
        fs::write(&pid_file, "").context("record its pid")?;
        let started = Command::new(&self.program)
            .args(&self.args)
            .envs(self.env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("its log")?)
            .stderr(log)
            // Ctrl-C in the terminal is for us, not for each program at once: they are taken down in order.
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {}", self.program.display()))?;
        fs::write(&pid_file, started.id().to_string()).context("record its pid")?;
        *child = Some(started);
        Ok(())
    }

    /// Asks it to end (SIGTERM), and makes it when it does not.
    pub fn stop(&self) -> Result<()> {
        let Some(mut child) = self.child().take() else { bail!("{} does not run", self.name) };
        end(&mut child, &self.name)
    }

    /// Ends it without asking (SIGKILL), as a crash does.
    pub fn kill(&self) -> Result<()> {
        let Some(mut child) = self.child().take() else { bail!("{} does not run", self.name) };
        child.kill().with_context(|| format!("kill {}", self.name))?;
        child.wait().with_context(|| format!("wait for {}", self.name))?;
        Ok(())
    }

    /// Its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child().as_ref().map(Child::id)
    }

    /// Fails when the program has ended by itself, with the end of its log: nothing to wait for any more.
    pub fn check_running(&self) -> Result<()> {
        let mut child = self.child();
        let Some(running) = child.as_mut() else { bail!("{} does not run", self.name) };
        if let Some(status) = running.try_wait().with_context(|| format!("look at {}", self.name))? {
            let (name, words) = (&self.name, self.last_words());
            return Err(Hopeless(format!("{name} ended ({status}); its last words:\n{words}")).into());
        }
        Ok(())
    }

    /// Takes note when it has ended by itself, so that it can be started again.
    pub fn has_ended(&self) -> Result<bool> {
        let mut child = self.child();
        let Some(running) = child.as_mut() else { return Ok(true) };
        let ended = running.try_wait().with_context(|| format!("look at {}", self.name))?.is_some();
        if ended {
            *child = None;
        }
        Ok(ended)
    }

    /// Where its output goes.
    pub fn log_path(&self) -> PathBuf {
        self.run.path("log").join(format!("{}.log", self.name))
    }

    fn last_words(&self) -> String {
        let log = fs::read(self.log_path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// Never held across an await; a panic elsewhere leaves the child as it is.
    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(mut child) = self.child().take()
            && let Err(error) = end(&mut child, &self.name)
        {
            eprintln!("{error:#}");
        }
    }
}

fn end(child: &mut Child, name: &str) -> Result<()> {
    let pid = i32::try_from(child.id()).context("pid")?;
    kill(Pid::from_raw(pid), Signal::SIGTERM).with_context(|| format!("stop {name}"))?;
    let until = Instant::now() + GRACE;
    while child.try_wait().with_context(|| format!("wait for {name}"))?.is_none() {
        if Instant::now() > until {
            child.kill().with_context(|| format!("kill {name}"))?;
            child.wait().with_context(|| format!("wait for {name}"))?;
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
