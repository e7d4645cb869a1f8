//! `berthctl sysdump`: everything that a report of a bug needs, in one directory, with secrets left out.
//!
//! It is a list of commands, most of them of berthctl itself. One that fails leaves its error in the place of
//! its output: a node that is broken is what this is for. Specs of pods are not among them, so their env and
//! annotations cannot be; [`redact`] goes over all the rest.

mod redact;

use std::ffi::OsString;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use super::cli::Global;
use super::output;

/// Flags of `sysdump`.
#[derive(Args, Debug)]
pub(crate) struct SysdumpArgs {
    /// Directory to make; its parent has to be there [default: berth-sysdump-TIME, here]
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// berthd's configuration
    #[arg(long, value_name = "FILE", default_value = "/etc/berth/berthd.yaml")]
    pub config: PathBuf,
}

/// Unit of the agent.
const AGENT: &str = "berthd.service";
/// Unit of the path of the kubelet's calls, where that is a program of its own.
const SHIM: &str = "berth-shim.service";
/// How long one command may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the output of one command at most.
const LARGEST: u64 = 4 << 20;

/// A command whose output is a file.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    file: &'static str,
    program: OsString,
    args: Vec<OsString>,
}

/// The parts, in the order in which they are asked for: those that berthd answers first.
fn parts(own: &Path, global: &Global, config: &Path) -> Vec<Part> {
    let berthctl = |file: &'static str, args: &[&str]| {
        let mut all: Vec<OsString> = vec!["--admin-socket".into(), global.admin_socket.clone().into()];
        if let Some(endpoint) = &global.runtime_endpoint {
            all.extend(["--runtime-endpoint".into(), endpoint.into()]);
        }
        all.extend(args.iter().map(Into::into));
        Part { file, program: own.into(), args: all }
    };
    let other = |file: &'static str, program: &str, args: &[&str]| Part {
        file,
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
    };
    let log = |file: &'static str, unit: &str| {
        other(file, "journalctl", &["--no-pager", "-o", "short-iso", "-n", "5000", "-u", unit])
    };
    vec![
        berthctl("version.txt", &["version"]),
        berthctl("status.json", &["status", "-o", "json"]),
        berthctl("explain.txt", &["explain"]),
        berthctl("order.json", &["order", "-o", "json"]),
        berthctl("events.json", &["events", "--last", "2000", "-o", "json"]),
        berthctl("requests.json", &["get", "requests", "-o", "json"]),
        berthctl("updates.json", &["get", "updates", "-o", "json"]),
        berthctl("pulls.json", &["pulls", "-o", "json"]),
        berthctl("probes.json", &["probes", "-o", "json"]),
        berthctl("pods.txt", &["pods", "--no-trunc"]),
        berthctl("containers.txt", &["ps", "-a", "--no-trunc"]),
        berthctl("doctor.txt", &["doctor"]),
        Part { file: "berthd.yaml", program: "cat".into(), args: vec![config.into()] },
        other("unit.txt", "systemctl", &["--no-pager", "cat", AGENT]),
        other("unit-state.txt", "systemctl", &["--no-pager", "status", AGENT, SHIM, "kubelet.service"]),
        log("berthd.log", AGENT),
        // With one program it is not there, and its files say so.
        other("shim-unit.txt", "systemctl", &["--no-pager", "cat", SHIM]),
        log("berth-shim.log", SHIM),
        other("kernel.txt", "uname", &["-a"]),
    ]
}

/// Runs `sysdump`.
pub(crate) async fn sysdump(global: &Global, args: &SysdumpArgs) -> Result<()> {
    let dir = args.to.clone().unwrap_or_else(|| {
        let now = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
        PathBuf::from(format!("berth-sysdump-{now}"))
    });
    // Nobody else's directory: what is in it already would be sent along.
    let made = DirBuilder::new().mode(0o700).create(&dir);
    made.with_context(|| format!("make {}; give a directory that is not there with --to", dir.display()))?;
    let own = std::env::current_exe().context("the path of this program")?;
    let mut failed = Vec::new();
    for part in parts(&own, global, &args.config) {
        let (text, well) = run(&part).await;
        if !well {
            failed.push(part.file);
        }
        keep(&dir.join(part.file), &redact::redact(&text))?;
    }
    if !failed.is_empty() {
        output::progress(&format!("these hold the error of a command that failed: {}", failed.join(", ")));
    }
    output::progress(
        "What looked like a secret was left out, and names of pods, images and nodes are in it: read it before you send \
         it.",
    );
    output::print(&format!("{}\n", dir.display()))
}

/// Output of the command, and whether it succeeded. Its errors are part of the output.
async fn run(part: &Part) -> (String, bool) {
    match tokio::time::timeout(COMMAND_TIMEOUT, collect(part)).await {
        Ok(Ok(told)) => told,
        Ok(Err(error)) => (format!("{error:#}\n"), false),
        Err(_) => (format!("no end within {} s\n", COMMAND_TIMEOUT.as_secs()), false),
    }
}

async fn collect(part: &Part) -> Result<(String, bool)> {
    let mut child = Command::new(&part.program)
        .args(&part.args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("start {}", part.program.display()))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (out, err) = (out.context("its output")?, err.context("its errors")?);
    let (said, complained) = tokio::try_join!(beginning(out), beginning(err)).context("read its output")?;
    let cut = said.len() as u64 == LARGEST || complained.len() as u64 == LARGEST;
    let status = child.wait().await.context("wait for its end")?;
    let mut text = String::from_utf8_lossy(&said).into_owned();
    text.push_str(&String::from_utf8_lossy(&complained));
    if cut {
        text += "\n(cut here)\n";
    }
    if !status.success() {
        text += &format!("({status})\n");
    }
    Ok((text, status.success()))
}

/// The beginning of a stream. The rest is read and dropped, so that its writer comes to its end.
async fn beginning(mut stream: impl AsyncRead + Unpin) -> std::io::Result<Vec<u8>> {
    let mut beginning = Vec::new();
    (&mut stream).take(LARGEST).read_to_end(&mut beginning).await?;
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(beginning)
}

fn keep(file: &Path, text: &str) -> Result<()> {
    let mut kept = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let written = kept.as_mut().map_err(|error| std::io::Error::new(error.kind(), error.to_string()));
    written
        .and_then(|kept| kept.write_all(text.as_bytes()))
        .with_context(|| format!("write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::fake::{Node, global};

    #[tokio::test]
    async fn every_part_is_a_file_of_its_own_and_asks_the_same_berthd() {
        let node = Node::new(|_, _| Ok(()));
        let global = global(&node);
        let parts = parts(Path::new("/berthctl"), &global, Path::new("/c.yaml"));
        let files: std::collections::BTreeSet<_> = parts.iter().map(|part| part.file).collect();
        assert_eq!(files.len(), parts.len());
        for part in parts.iter().filter(|part| part.program == "/berthctl") {
            let told: Vec<OsString> = vec!["--admin-socket".into(), global.admin_socket.clone().into()];
            assert_eq!(part.args[..2], told, "{part:?}");
            // Each is a command line that is understood.
            let line = std::iter::once(OsString::from("berthctl")).chain(part.args.iter().cloned());
            <crate::cli::Cli as clap::Parser>::try_parse_from(line).unwrap();
        }
    }

    #[tokio::test]
    async fn both_programs_of_a_node_have_unit_and_log_in_it() {
        let node = Node::new(|_, _| Ok(()));
        let parts = parts(Path::new("/berthctl"), &global(&node), Path::new("/c.yaml"));
        let last = |file: &str| {
            let part = parts.iter().find(|part| part.file == file).unwrap();
            part.args.last().unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!([last("unit.txt"), last("berthd.log")], [AGENT, AGENT]);
        assert_eq!([last("shim-unit.txt"), last("berth-shim.log")], [SHIM, SHIM]);
    }

    #[tokio::test]
    async fn a_command_that_fails_leaves_its_error() {
        let part = |program: &str, args: &[&str]| Part {
            file: "x",
            program: program.into(),
            args: args.iter().map(Into::into).collect(),
        };
        let (text, well) = run(&part("sh", &["-c", "echo out; echo err >&2; exit 3"])).await;
        assert_eq!((text.as_str(), well), ("out\nerr\n(exit status: 3)\n", false));
        assert_eq!(run(&part("echo", &["well"])).await, ("well\n".to_owned(), true));
        let (text, well) = run(&part("/nowhere/program", &[])).await;
        assert!(!well && text.contains("start /nowhere/program"), "{text}");
        let (text, _) = run(&part("sh", &["-c", "yes | head -c 9000000"])).await;
        assert!(text.len() < 5 << 20 && text.contains("(cut here)"), "{}", text.len());
    }

    #[test]
    fn files_are_for_their_owner() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        keep(&file, "x").unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(keep(&file, "y").is_err(), "nothing is overwritten");
    }
}
