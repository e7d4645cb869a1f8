//! The program as its users start it, without a berthd. With one it is tried by berthd's own tests.

use std::process::{Command, Output};

fn berthctl(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berthctl"));
    // What the test's own surroundings say must not count.
    command.env_clear().args(args).output().expect("the program starts")
}

#[test]
fn help_and_version_are_no_failures() {
    for flag in ["--help", "--version"] {
        let done = berthctl(&[flag]);
        assert_eq!(done.status.code(), Some(0), "{flag}");
        assert!(String::from_utf8_lossy(&done.stdout).contains("berthctl"), "{flag}");
    }
}

#[test]
fn bad_usage_ends_with_2_and_says_what_is_wrong() {
    let done = berthctl(&["recreate", "web"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("<CONTAINER>"), "{done:?}");
}

#[test]
fn a_berthd_that_is_not_there_is_named_with_a_remedy() {
    let done = berthctl(&["--admin-socket", "/nowhere/admin.sock", "status"]);
    assert_eq!(done.status.code(), Some(1));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("/nowhere/admin.sock") && said.contains("systemctl start berthd"), "{said}");
}
