//! `berthctl doctor`: is everything as Berth needs it, and if not, what to do.

mod checks;
mod cluster;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::super::cli::Global;
use super::super::output::{self, OutputArgs};
use super::NodeArgs;
use super::facts::Facts;
use super::host::Host;

/// Flags of `doctor`.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// As it should be.
    Ok,
    /// It works, but.
    Warn,
    /// It does not work.
    Fail,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// Name of the check.
    pub check: &'static str,
    /// How it came out.
    pub verdict: Verdict,
    /// Finding.
    pub found: String,
    /// Remedy; empty when it is well.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

#[derive(Serialize)]
struct Report {
    checks: Vec<Check>,
}

/// Runs `doctor`.
pub(crate) async fn doctor(global: &Global, args: &DoctorArgs) -> Result<ExitCode> {
    let host = Host::new(&args.node.root);
    let mut all = Vec::new();
    let facts = match Facts::gather(&host, args.node.kubelet_unit) {
        Ok(facts) => facts,
        Err(error) => {
            all.push(Check::fail("kubelet", format!("{error:#}"), "mend that file"));
            Facts::default()
        }
    };
    all.extend(checks::files(&host, &facts));
    if host.is_this() {
        all.extend(checks::services(global, &host, &facts).await);
        all.extend(cluster::checks(&host, &facts).await);
        all.extend(checks::machine(&host));
    }
    let failed = all.iter().any(|check| check.verdict == Verdict::Fail);
    let report = Report { checks: all };
    output::data(args.output.format, &report, || text(&report.checks))?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn text(checks: &[Check]) -> String {
    let lines = checks.iter().map(|check| {
        let verdict = match check.verdict {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "fail",
        };
        let remedy = if check.remedy.is_empty() { String::new() } else { format!("; {}", check.remedy) };
        format!("{verdict:<6}{:<12}{}{remedy}\n", check.check, check.found)
    });
    lines.collect()
}

impl Check {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Ok, found: found.into(), remedy: String::new() }
    }

    fn warn(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Warn, found: found.into(), remedy: remedy.into() }
    }

    fn fail(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Fail, found: found.into(), remedy: remedy.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_each() {
        let checks = [
            Check::ok("runtime", "containerd 1.6 answers"),
            Check::warn("kubelet", "past Berth", "berthctl install"),
            Check::fail("berthd", "silent", "start it"),
        ];
        let expected = "ok    runtime     containerd 1.6 answers\n\
                        warn  kubelet     past Berth; berthctl install\n\
                        fail  berthd      silent; start it\n";
        assert_eq!(text(&checks), expected);
        let json = serde_json::to_value(&checks[..2]).unwrap();
        assert_eq!(
            json[0],
            serde_json::json!({"check": "runtime", "verdict": "ok", "found": "containerd 1.6 answers"})
        );
        assert_eq!(json[1]["remedy"], "berthctl install");
    }
}
