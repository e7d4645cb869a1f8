//! A berthd that tells a story, and what `berthctl recreate` makes of it.

use super::*;
use crate::fake::{Node, global};
use crate::fake_berthd::{Berthd, Look, Told, recreate_state as state};

fn berthd(node: &Node, story: Vec<Look<RecreateState>>) -> std::sync::Arc<Berthd> {
    Berthd { recreates: Told::of(story), ..Berthd::default() }.serve(node)
}

fn args(more: &[&str]) -> RecreateArgs {
    use clap::Parser;
    let line = ["berthctl", "recreate"].iter().chain(more);
    let cli = crate::cli::Cli::try_parse_from(line).unwrap();
    let crate::cli::Command::Recreate(args) = cli.command else { panic!("{:?}", cli.command) };
    args
}

#[test]
fn every_flag_is_asked_for() {
    let all = args(&[
        "shop/web",
        "app",
        "log",
        "--ordered",
        "--force",
        "--grace",
        "5s",
        "--unready-grace",
        "3",
        "--min-started",
        "1m",
        "--failure-policy",
        "ignore",
        "--deadline",
        "2m",
        "--ttl",
        "30s",
    ]);
    let expected = RecreateRequest {
        pod: "shop/web".into(),
        containers: vec!["app".into(), "log".into()],
        ordered_recreate: true,
        force_recreate: true,
        failure_policy: "Ignore".into(),
        termination_grace_period_seconds: Some(5),
        unready_grace_period_seconds: Some(3),
        min_started_seconds: Some(60),
        active_deadline_seconds: Some(120),
        ttl_seconds_after_finished: Some(30),
    };
    assert_eq!(request(&all).unwrap(), expected);
    let least = RecreateRequest {
        pod: "web".into(),
        containers: vec!["app".into()],
        ttl_seconds_after_finished: Some(3600),
        ..RecreateRequest::default()
    };
    assert_eq!(request(&args(&["web", "app"])).unwrap(), least);
    let short = request(&args(&["web", "app", "--ttl", "1s"])).unwrap_err().to_string();
    assert!(short.contains("--no-wait"), "{short}");
    assert!(request(&args(&["web", "app", "--ttl", "0s", "--no-wait"])).is_ok());
    assert!(request(&args(&["web", "app", "--ttl", "3000000000"])).is_err());
}

#[tokio::test]
async fn it_waits_for_the_end_also_over_a_restart() {
    let node = Node::new(|_, _| Ok(()));
    let containers = [("app", "Recreating", true)];
    let story = vec![
        Ok(Some(state("", "", &[("app", "", false)]))),
        Ok(Some(state("Recreating", "", &containers))),
        Err(Status::unavailable("restarting")),
        Ok(Some(state("Completed", "Complete", &[("app", "Succeeded", true)]))),
    ];
    let berthd = berthd(&node, story);
    let code = recreate(&global(&node), &args(&["web", "app", "-o", "json"])).await.unwrap();
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
    assert_eq!(berthd.recreates.asked.lock().unwrap().len(), 1, "asked once, whatever happens");
    assert_eq!(berthd.recreates.story.lock().unwrap().len(), 1, "to the end");
}

#[tokio::test]
async fn a_failure_is_an_error_with_its_reason() {
    let node = Node::new(|_, _| Ok(()));
    let mut failed = state("Completed", "Failed", &[("app", "Failed", true)]);
    (failed.reason, failed.message) = ("DeadlineExceeded".into(), "too late".into());
    berthd(&node, vec![Ok(Some(failed))]);
    let error = recreate(&global(&node), &args(&["web", "app"])).await.unwrap_err().to_string();
    assert_eq!(error, "request shop/web-x failed (DeadlineExceeded): too late; app is failed");
    let error = recreate(&global(&node), &args(&["nothing", "app"])).await.unwrap_err().to_string();
    assert_eq!(error, "pod nothing is not on this node");
    recreate(&global(&node), &args(&["web", "app", "--no-wait"])).await.unwrap();
}

#[tokio::test]
async fn a_request_that_is_removed_has_no_end() {
    let node = Node::new(|_, _| Ok(()));
    berthd(&node, vec![Ok(Some(state("Pending", "", &[]))), Ok(None)]);
    let error = recreate(&global(&node), &args(&["web", "app"])).await.unwrap_err().to_string();
    assert_eq!(error, "request shop/web-x was removed before it ended");
}
