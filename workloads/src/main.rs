//! `berth-workloads`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    berth_workloads::run::main()
}
