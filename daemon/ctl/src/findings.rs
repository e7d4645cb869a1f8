//! Findings of `doctor` and `check`: what was looked at, how it came out, and what to do.

use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use super::output::{self, Format};

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

/// All checks of a command.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The checks, in the order in which they are shown.
    pub checks: Vec<Check>,
}

impl Report {
    /// Tells whether a check fails.
    pub(crate) fn fails(&self) -> bool {
        self.checks.iter().any(|check| check.verdict == Verdict::Fail)
    }

    /// Prints it. Returns the exit code, 1 when a check fails.
    pub(crate) fn show(&self, format: Format) -> Result<ExitCode> {
        output::data(format, self, || text(&self.checks))?;
        Ok(if self.fails() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
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
    pub(crate) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Ok, found: found.into(), remedy: String::new() }
    }

    pub(crate) fn warn(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Warn, found: found.into(), remedy: remedy.into() }
    }

    pub(crate) fn fail(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
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
