//! Wrong inputs, and what `kubectl berth` says of each: `wrong/inputs.txt`, a table for readers, is written
//! anew by `BERTH_WRITE=1 cargo test -p kubectl-berth --test wrong`. Read what changed as a stranger would:
//! what is wrong, why, and what to do.

#[path = "../../../daemon/ctl/tests/inputs/mod.rs"]
mod inputs;

use std::path::Path;
use std::process::Command;

#[test]
fn wrong_inputs_are_answered_as_written_down() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wrong");
    // Nothing of this machine counts: neither its kubeconfig nor a kubectl that it may have.
    let command = |folder: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-berth"));
        command.env_clear().env("HOME", "/nowhere").env("PATH", folder);
        command
    };
    inputs::Program { name: "kubectl berth", command, folder: &folder }.answers_as_written_down();
}
