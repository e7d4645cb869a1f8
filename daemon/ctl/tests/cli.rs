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

#[test]
fn a_manifest_is_explained_without_a_berthd() {
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/samples");
    let done = berthctl(&["explain", "--file", &format!("{samples}/priorities.yaml")]);
    let said = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert!(said.contains("When it is deleted: app, then log-agent, then proxy"), "{said}");
    let wrong = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wrong/priority.yaml");
    let done = berthctl(&["explain", "--file", wrong]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(
        String::from_utf8_lossy(&done.stdout).contains("error: env KRUISE_CONTAINER_PRIORITY"),
        "{done:?}"
    );
}

#[test]
fn completions_and_the_help_of_a_command_are_printed() {
    for (line, part) in
        [(&["completion", "bash"][..], "_berthctl()"), (&["help", "stop-pod"], "Stop and remove a pod")]
    {
        let done = berthctl(line);
        assert_eq!(done.status.code(), Some(0), "{line:?}");
        assert!(String::from_utf8_lossy(&done.stdout).contains(part), "{line:?}");
    }
}
