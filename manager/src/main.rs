//! `berth-manager`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    berth_manager::run::main()
}
