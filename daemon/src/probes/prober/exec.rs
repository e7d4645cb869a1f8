//! A probe that is a command in the container.
//!
//! Exit codes are the command's own word, 126 and 127 included: the kubelet takes them as failures too, and a
//! shell that does not find a program says so in what it prints. That the command itself cannot be started is
//! an error of the runtime, and says nothing of the container.

use berth_policy::{ProbeResult, ProbeRun};
use tonic::{Code, Status};

use super::{
    message::{readable, steady},
    timed_out,
};
use crate::{
    base::causes::chain,
    cri::{OUTPUT_LIMIT, Runtime, RuntimeError},
};

/// Runs the command until it ends, for at most the run's timeout and the time that its start may take.
/// Dropped, the runtime kills it.
pub(super) async fn run(runtime: &Runtime, run: &ProbeRun, command: &[String]) -> ProbeResult {
    match runtime.exec_output(&run.container, command, run.timeout).await {
        Ok(answer) if answer.exit_code == 0 => ProbeResult::Success(readable(&answer.stdout)),
        Ok(answer) => {
            let printed = [readable(&answer.stdout), readable(&answer.stderr)];
            let said = printed.into_iter().find(|text| !text.is_empty());
            ProbeResult::Failure(said.unwrap_or_else(|| format!("exit code {}", answer.exit_code)))
        }
        Err(RuntimeError::Call { status, .. }) => not_run(run, &status),
        Err(
            error @ (RuntimeError::Answer { .. } | RuntimeError::Another { .. } | RuntimeError::StillRuns(_)),
        ) => ProbeResult::Unknown(steady(&chain(&error))),
    }
}

fn not_run(run: &ProbeRun, status: &Status) -> ProbeResult {
    match status.code() {
        // Our own limit, or the runtime's, which kills the command then.
        Code::DeadlineExceeded => timed_out(run.timeout),
        // Our own limit.
        Code::OutOfRange => {
            let limit = OUTPUT_LIMIT >> 10;
            ProbeResult::Unknown(format!(
                "the command printed more than {limit} KiB, and its exit code is lost: let it print less"
            ))
        }
        // The runtime's, for what it cannot send.
        Code::ResourceExhausted => ProbeResult::Unknown(steady(&format!(
            "the command may have printed too much, and its exit code is lost: {}",
            status.message()
        ))),
        code if status.message().is_empty() => ProbeResult::Refused(code.description().to_owned()),
        _ => ProbeResult::Refused(steady(status.message())),
    }
}
