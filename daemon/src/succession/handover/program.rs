//! The program of a new process: looked at before it is trusted with a node, and started.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::OwnedFd,
        unix::{fs::PermissionsExt, net::UnixStream},
    },
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::process::{Child, Command};

use super::TAKE_OVER;

/// How long a program may take to say its version, and what it thinks of the configuration.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// Variables that are about this process and not about a successor. systemd tells each by pid.
const OWN: [&str; 5] = ["WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", TAKE_OVER];

/// This process's own program, also after its file was replaced.
const SELF: &str = "/proc/self/exe";

/// A program that may become a successor.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    path: PathBuf,
    /// The arguments of this process.
    args: Vec<OsString>,
}

/// The program is none to hand a node over to. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotAProgram {
    /// Where is it?
    #[error("{0:?} must be an absolute path: berthd does not run in your directory")]
    NotAbsolute(PathBuf),
    /// It cannot be looked at.
    #[error(
        "{path:?}; berthd may see less of the disk than you do (no /home, a /tmp of its own): put it into /usr/local/bin"
    )]
    Missing {
        /// The program.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// It is no file that can be run.
    #[error("{0:?} is no executable file")]
    NotExecutable(PathBuf),
    /// It cannot be run, or says nothing.
    #[error("{path:?} does not run: {why}")]
    DoesNotRun {
        /// The program.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// It is another program.
    #[error("{path:?} is not berthd: it calls itself {says:?}")]
    NotBerthd {
        /// The program.
        path: PathBuf,
        /// Name that the program gives itself.
        says: String,
    },
    /// It would not start.
    #[error("{path:?} does not take the configuration: {why}")]
    Configuration {
        /// The program.
        path: PathBuf,
        /// In its words.
        why: String,
    },
}

impl Program {
    /// The program this process runs.
    pub(crate) fn own() -> Self {
        Self { path: SELF.into(), args: arguments(std::env::args_os().skip(1)) }
    }

    /// A program at this path, looked at: it is berthd, and takes the configuration. Gives its version, too.
    pub(crate) async fn checked(path: &Path, config: Option<&Path>) -> Result<(Self, String), NotAProgram> {
        if !path.is_absolute() {
            return Err(NotAProgram::NotAbsolute(path.to_owned()));
        }
        let meta = tokio::fs::metadata(path)
            .await
            .map_err(|source| NotAProgram::Missing { path: path.to_owned(), source })?;
        if !meta.is_file() || meta.permissions().mode() & 0o111 == 0 {
            return Err(NotAProgram::NotExecutable(path.to_owned()));
        }
        let says = asked(path, &["--version".as_ref()])
            .await
            .map_err(|why| NotAProgram::DoesNotRun { path: path.to_owned(), why })?;
        let Some(version) = says.trim().strip_prefix("berthd ") else {
            return Err(NotAProgram::NotBerthd {
                path: path.to_owned(),
                says: says.chars().take(80).collect(),
            });
        };
        if let Some(config) = config {
            let args = ["config".as_ref(), "validate".as_ref(), "--config".as_ref(), config.as_os_str()];
            asked(path, &args)
                .await
                .map_err(|why| NotAProgram::Configuration { path: path.to_owned(), why })?;
        }
        let args = arguments(std::env::args_os().skip(1));
        Ok((Self { path: path.to_owned(), args }, version.to_owned()))
    }

    /// Starts it as this process was started, with the line to it as its standard input.
    pub(super) fn start(&self) -> io::Result<(Child, tokio::net::UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = Command::new(&self.path);
        command.args(&self.args).env(TAKE_OVER, "-").stdin(Stdio::from(OwnedFd::from(theirs)));
        for name in OWN.iter().filter(|name| **name != TAKE_OVER) {
            command.env_remove(name);
        }
        Ok((command.spawn()?, tokio::net::UnixStream::from_std(ours)?))
    }
}

/// Runs the program and gives what it prints; its complaint if it fails.
async fn asked(path: &Path, args: &[&std::ffi::OsStr]) -> Result<String, String> {
    let mut command = Command::new(path);
    command.args(args).stdin(Stdio::null()).kill_on_drop(true);
    for name in OWN.iter().chain(&["NOTIFY_SOCKET"]) {
        command.env_remove(name);
    }
    let output = match tokio::time::timeout(CHECK_TIMEOUT, command.output()).await {
        Ok(output) => output.map_err(|error| error.to_string())?,
        Err(_) => return Err("no answer within 10 s".to_owned()),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(match text(&output.stderr) {
        words if words.is_empty() => output.status.to_string(),
        words => words,
    })
}

/// The arguments of this process as a successor gets them: where its own predecessor was is the past.
fn arguments(all: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut value_follows = false;
    for argument in all {
        if std::mem::take(&mut value_follows) {
            continue;
        }
        match argument.to_str() {
            Some("--take-over") => value_follows = true,
            Some(text) if text.starts_with("--take-over=") => {}
            _ => kept.push(argument),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_is_started_alike_but_for_its_predecessor() {
        let table: &[(&[&str], &[&str])] = &[
            (&[], &[]),
            (&["--config", "/x"], &["--config", "/x"]),
            (&["--take-over", "/run/a", "--config", "/x"], &["--config", "/x"]),
            (&["-c", "/x", "--take-over=/run/a"], &["-c", "/x"]),
        ];
        for (given, expected) in table {
            assert_eq!(arguments(given.iter().map(OsString::from)), *expected, "{given:?}");
        }
    }

    #[tokio::test]
    async fn what_is_no_berthd_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str, mode: u32| {
            let path = dir.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let picky =
            "case $1 in --version) echo berthd 9.9.9;; *) echo 'line 3: no such field' >&2; exit 64;; esac";
        let table = [
            (PathBuf::from("berthd"), "must be an absolute path"),
            (dir.path().join("missing"), "berthd may see less of the disk"),
            (dir.path().to_owned(), "is no executable file"),
            (script("plain", "echo berthd 1.0", 0o644), "is no executable file"),
            (
                script("other", "echo containerd 1.6.20", 0o755),
                "is not berthd: it calls itself \"containerd 1.6.20\"",
            ),
            (
                script("broken", "echo 'no such library' >&2; exit 127", 0o755),
                "does not run: no such library",
            ),
            (script("silent", "exit 3", 0o755), "does not run: exit status: 3"),
            (script("picky", picky, 0o755), "does not take the configuration: line 3: no such field"),
        ];
        for (path, words) in table {
            let error =
                Program::checked(&path, Some(Path::new("/etc/x.yaml"))).await.unwrap_err().to_string();
            assert!(error.contains(words), "{path:?}: {error}");
        }
        let (_, version) = Program::checked(&dir.path().join("picky"), None).await.unwrap();
        assert_eq!(version, "9.9.9");
    }
}
