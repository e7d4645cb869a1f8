//! Wrong inputs, and what berthctl says of each: `wrong/inputs.txt`, a table for readers, is written anew by
//! `BERTH_WRITE=1 cargo test -p berthctl --test wrong`. Read what changed as a stranger would: what is wrong,
//! why, and what to do.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Fewest inputs of the table.
const FEWEST: usize = 60;

/// Words of a command line; those between quotes are one.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        if at % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// Exit code of a command line, and its complaint.
fn said(line: &str, folder: &Path) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berthctl"));
    // Nothing of this machine counts: neither its env nor a berthd or a runtime that it may have.
    let command = command.env_clear().current_dir(folder).args(words(line));
    let done = command.output().expect("the program starts");
    let complaint = String::from_utf8(done.stderr).expect("text");
    (done.status.code().expect("it ends by itself"), complaint)
}

#[test]
fn wrong_inputs_are_answered_as_written_down() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wrong");
    let table = folder.join("inputs.txt");
    let written = fs::read_to_string(&table).expect("the table");
    let lines: Vec<&str> = written.lines().filter_map(|line| line.strip_prefix("$ berthctl")).collect();
    assert!(lines.len() >= FEWEST, "only {} wrong inputs", lines.len());
    let mut now = String::new();
    for line in lines {
        let (code, complaint) = said(line, &folder);
        assert!(code == 1 || code == 2, "berthctl{line} ends with {code}");
        let text = complaint.trim();
        assert!(!text.is_empty() && !text.contains("panicked"), "berthctl{line}: {text}");
        write!(now, "$ berthctl{line}\n{text}\nexit {code}\n\n").expect("a string takes it");
    }
    if std::env::var_os("BERTH_WRITE").is_some() {
        return fs::write(&table, &now).expect("write the table");
    }
    assert_eq!(written, now, "other answers than the table has");
}
