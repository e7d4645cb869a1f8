//! Wrong inputs, and what berthctl says of each: `wrong/inputs.txt`, a table for readers, is written anew by
//! `BERTH_WRITE=1 cargo test -p berthctl --test wrong`. Read what changed as a stranger would: what is wrong,
//! why, and what to do.

mod inputs;

use std::path::Path;
use std::process::Command;

#[test]
fn wrong_inputs_are_answered_as_written_down() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wrong");
    // Nothing of this machine counts: neither its env nor a berthd or a runtime that it may have.
    let command = |_: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berthctl"));
        command.env_clear();
        command
    };
    inputs::Program { name: "berthctl", command, folder: &folder }.answers_as_written_down();
}
