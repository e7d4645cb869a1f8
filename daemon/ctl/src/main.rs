//! `berthctl`: the command line of a Berth node.

use std::process::ExitCode;

fn main() -> ExitCode {
    berthctl::main()
}
