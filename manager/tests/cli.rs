//! The program as its users start it.

use std::process::{Command, Output};

fn manager(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth-manager"));
    // What the test's own surroundings say must not count.
    command.env_clear().args(args).output().expect("the program starts")
}

#[test]
fn bad_usage_ends_with_64_and_says_what_is_wrong() {
    let done = manager(&["--health-address", "8000"]);
    assert_eq!(done.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&done.stderr).contains("--health-address"));
}

#[test]
fn help_and_version_are_no_failures() {
    for flag in ["--help", "--version"] {
        let done = manager(&[flag]);
        assert_eq!(done.status.code(), Some(0), "{flag}");
        assert!(String::from_utf8_lossy(&done.stdout).contains("berth-manager"), "{flag}");
    }
}

#[test]
fn outside_of_a_cluster_it_asks_for_a_kubeconfig() {
    let done = manager(&[]);
    assert_eq!(done.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&done.stderr).contains("--kubeconfig"));
}

#[test]
fn a_kubeconfig_that_is_not_there_is_named() {
    let done = manager(&["--kubeconfig", "/nowhere/kubeconfig"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&done.stderr).contains("/nowhere/kubeconfig"));
}
