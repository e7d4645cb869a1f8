//! `kubectl berth`: rollouts of OpenKruise's workloads, requests for pods, and questions about the whole
//! cluster, by the words of kubectl. Linked as `kubectl-kruise` it answers to `kubectl kruise` as well.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl_berth::main()
}
