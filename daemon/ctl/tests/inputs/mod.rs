//! Table of wrong inputs and of what a program says of each, for readers: `wrong/inputs.txt` beside the test,
//! written anew with `BERTH_WRITE=1`. Both command lines have one.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Fewest inputs of the table.
const FEWEST: usize = 60;

/// A program with a table.
pub(crate) struct Program<'a> {
    /// Words that a command line begins with.
    pub(crate) name: &'a str,
    /// The program, with nothing of this machine in its environment.
    pub(crate) command: fn(&Path) -> Command,
    /// Folder of the table, in which it runs.
    pub(crate) folder: &'a Path,
}

impl Program<'_> {
    /// Runs every line of the table, and compares what is said with what is written down.
    pub(crate) fn answers_as_written_down(&self) {
        let table = self.folder.join("inputs.txt");
        let written = fs::read_to_string(&table).expect("the table");
        let start = format!("$ {}", self.name);
        let lines: Vec<&str> = written.lines().filter_map(|line| line.strip_prefix(&*start)).collect();
        assert!(lines.len() >= FEWEST, "only {} wrong inputs", lines.len());
        let mut now = String::new();
        for line in lines {
            let (code, complaint) = self.said(line);
            assert!(code == 1 || code == 2, "{}{line} ends with {code}", self.name);
            let text = complaint.trim();
            assert!(!text.is_empty() && !text.contains("panicked"), "{}{line}: {text}", self.name);
            write!(now, "{start}{line}\n{text}\nexit {code}\n\n").expect("a string takes it");
        }
        if std::env::var_os("BERTH_WRITE").is_some() {
            return fs::write(&table, &now).expect("write the table");
        }
        assert_eq!(written, now, "other answers than the table has");
    }

    /// Exit code of a command line, and its complaint.
    fn said(&self, line: &str) -> (i32, String) {
        let mut command = (self.command)(self.folder);
        let done = command.current_dir(self.folder).args(words(line)).output().expect("the program starts");
        let complaint = String::from_utf8(done.stderr).expect("text");
        (done.status.code().expect("it ends by itself"), complaint)
    }
}

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
