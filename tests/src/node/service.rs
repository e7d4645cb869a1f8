//! One program of the node: how it is started, and its process while it runs. Stopped and started again at
//! will, because that is what the fault tests do.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
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

/// Time that a program is given to end by itself after SIGTERM, unless it [has more](Service::grace).
const GRACE: Duration = Duration::from_secs(10);

/// Makes the first passed descriptor of standard input, by sd_listen_fds(3).
const PASS: &str = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$0\" \"$@\"";

/// A program of the node. Its output goes to `log/NAME.log` of the run, its pid is recorded for
/// [`super::down`].
#[derive(Debug)]
pub struct Service {
    run: Arc<Run>,
    name: String,
    program: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
    grace: Duration,
    process: Mutex<Option<Process>>,
}

/// Process that runs.
#[derive(Debug)]
enum Process {
    /// Ours.
    Child(Child),
    /// The successor of ours, which it has started.
    Successor(u32),
}

impl Service {
    /// Describes a program; `args` must name the run's directory somewhere, which is how `down` knows it for
    /// ours.
    pub fn new(run: &Arc<Run>, name: &str, program: impl Into<PathBuf>, args: Vec<String>) -> Self {
        Self {
            run: run.clone(),
            name: name.to_owned(),
            program: program.into(),
            args,
            env: Vec::new(),
            grace: GRACE,
            process: Mutex::new(None),
        }
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Gives it so much time to end by itself after SIGTERM: killed, it would leave what it has to put back.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Starts it. Running already is an error: a test that believes otherwise tests nothing.
    pub fn start(&self) -> Result<()> {
        let mut process = self.process();
        if process.is_some() {
            bail!("{} runs already", self.name);
        }
        *process = Some(Process::Child(self.spawn(&[], None)?));
        Ok(())
    }

    /// The same, with a socket that listens already, passed as systemd does it.
    pub fn start_on(&self, socket: OwnedFd) -> Result<()> {
        let mut process = self.process();
        if process.is_some() {
            bail!("{} runs already", self.name);
        }
        *process = Some(Process::Child(self.spawn(&[], Some(socket))?));
        Ok(())
    }

    /// Starts a second one, with more arguments, that takes the place of the one that runs; that one has to
    /// end by itself.
    pub fn start_successor(&self, args: &[&str]) -> Result<()> {
        let successor = self.spawn(args, None)?;
        if let Some(Process::Child(mut old)) = self.process().replace(Process::Child(successor)) {
            std::thread::spawn(move || old.wait());
        }
        Ok(())
    }

    fn spawn(&self, args: &[&str], socket: Option<OwnedFd>) -> Result<Child> {
        let log = self.log_path();
        let log = File::options().create(true).append(true).open(&log).context("open its log")?;
        let pid_file = self.run.path("pids").join(&self.name);
        fs::write(&pid_file, "").context("record its pid")?;
        let (mut command, stdin) = match socket {
            None => (Command::new(&self.program), Stdio::null()),
            // A shell names itself, and is the program after that.
            Some(socket) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", PASS]).arg(&self.program);
                (shell, Stdio::from(socket))
            }
        };
        let started = command
            .args(&self.args)
            .args(args)
            .envs(self.env.iter().cloned())
            .stdin(stdin)
            .stdout(log.try_clone().context("its log")?)
            .stderr(log)
            // Ctrl-C in the terminal is for us, not for each program at once: they are taken down in order.
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {}", self.program.display()))?;
        fs::write(&pid_file, started.id().to_string()).context("record its pid")?;
        Ok(started)
    }

    /// Another process has taken its place: from now on that one is meant.
    pub fn succeeded_by(&self, pid: u32) -> Result<()> {
        fs::write(self.run.path("pids").join(&self.name), pid.to_string()).context("record its pid")?;
        let old = self.process().replace(Process::Successor(pid));
        if let Some(Process::Child(mut old)) = old {
            // Somebody has to take note of its end; it comes when its last call has ended.
            std::thread::spawn(move || old.wait());
        }
        Ok(())
    }

    /// Asks it to end (SIGTERM), and makes it when it does not.
    pub fn stop(&self) -> Result<()> {
        let Some(mut process) = self.process().take() else { bail!("{} does not run", self.name) };
        end(&mut process, &self.name, self.grace)
    }

    /// Ends it without asking (SIGKILL), as a crash does.
    pub fn kill(&self) -> Result<()> {
        let Some(mut process) = self.process().take() else { bail!("{} does not run", self.name) };
        process.signal(Signal::SIGKILL).with_context(|| format!("kill {}", self.name))?;
        while !process.has_ended().with_context(|| format!("wait for {}", self.name))? {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Lets it go on where it stands still.
    pub fn go_on(&self) -> Result<()> {
        let process = self.process();
        let Some(process) = process.as_ref() else { return Ok(()) };
        process.signal(Signal::SIGCONT).with_context(|| format!("let {} go on", self.name))
    }

    /// Its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process().as_ref().map(Process::id)
    }

    /// Fails when the program has ended by itself, with the end of its log: nothing to wait for any more.
    pub fn check_running(&self) -> Result<()> {
        let mut process = self.process();
        let Some(running) = process.as_mut() else { bail!("{} does not run", self.name) };
        if running.has_ended().with_context(|| format!("look at {}", self.name))? {
            let (name, words) = (&self.name, self.last_words());
            return Err(Hopeless(format!("{name} ended; its last words:\n{words}")).into());
        }
        Ok(())
    }

    /// Takes note when it has ended by itself, so that it can be started again.
    pub fn has_ended(&self) -> Result<bool> {
        let mut process = self.process();
        let Some(running) = process.as_mut() else { return Ok(true) };
        let ended = running.has_ended().with_context(|| format!("look at {}", self.name))?;
        if ended {
            *process = None;
        }
        Ok(ended)
    }

    /// Where its output goes.
    pub fn log_path(&self) -> PathBuf {
        self.run.path("log").join(format!("{}.log", self.name))
    }

    /// End of its log.
    pub fn last_words(&self) -> String {
        let log = fs::read(self.log_path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// Never held across an await; a panic elsewhere leaves it as it is.
    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Process {
    fn id(&self) -> u32 {
        match self {
            Self::Child(child) => child.id(),
            Self::Successor(pid) => *pid,
        }
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(i32::try_from(self.id()).context("pid")?), signal).context("signal")
    }

    fn has_ended(&mut self) -> Result<bool> {
        Ok(match self {
            Self::Child(child) => child.try_wait()?.is_some(),
            // A zombie is the child of somebody who has not looked yet. As long as it has another thread, its
            // sockets are open: the first one may end before the others do.
            Self::Successor(pid) => match fs::read_to_string(format!("/proc/{pid}/stat")) {
                Ok(stat) => {
                    let is_zombie = stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'));
                    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
                    is_zombie && threads <= 1
                }
                Err(_) => true,
            },
        })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(mut process) = self.process().take()
            && let Err(error) = end(&mut process, &self.name, self.grace)
        {
            eprintln!("{error:#}");
        }
    }
}

fn end(process: &mut Process, name: &str, grace: Duration) -> Result<()> {
    process.signal(Signal::SIGTERM).with_context(|| format!("stop {name}"))?;
    let until = Instant::now() + grace;
    while !process.has_ended().with_context(|| format!("wait for {name}"))? {
        if Instant::now() > until {
            process.signal(Signal::SIGKILL).with_context(|| format!("kill {name}"))?;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
