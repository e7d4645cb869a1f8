//! Requests that `berthctl update` makes, and what it makes of the answers.

use clap::Parser;

use super::*;
use crate::cli::{Cli, Command};
use crate::fake::{Node, global};
use crate::fake_berthd::{Berthd, Told};

fn parse(more: &[&str]) -> Result<UpdateArgs, String> {
    let line = ["berthctl", "update"].iter().chain(more);
    let cli = Cli::try_parse_from(line).map_err(|error| error.to_string())?;
    let Command::Update(args) = cli.command else { panic!("{:?}", cli.command) };
    Ok(args)
}

fn args(more: &[&str]) -> UpdateArgs {
    parse(more).unwrap()
}

fn state(phase: &str, outcome: &str, main: &str) -> UpdateState {
    let main = ContainerUpdateState { name: "main".into(), phase: main.into(), message: String::new() };
    UpdateState {
        origin: "admin".into(),
        phase: phase.into(),
        outcome: outcome.into(),
        containers: vec![main],
        ..UpdateState::default()
    }
}

#[test]
fn every_flag_is_asked_for() {
    let all = args(&[
        "shop/web",
        "main=registry.example.com:5000/web:v2",
        "side=side@sha256:0123",
        "--annotation",
        "example.com/config=a=b",
        "--annotation",
        "empty=",
        "--label",
        "track=canary",
        "--grace",
        "5s",
        "--deadline",
        "2m",
        "--failure-policy",
        "fail",
        "--rollback-on-failure",
        "--ttl",
        "30s",
    ]);
    let text = |text: &str| text.to_owned();
    let container = |name: &str, image: &str| ContainerImage { name: name.into(), image: image.into() };
    let expected = UpdateRequest {
        pod: "shop/web".into(),
        containers: vec![
            container("main", "registry.example.com:5000/web:v2"),
            container("side", "side@sha256:0123"),
        ],
        labels: [(text("track"), text("canary"))].into(),
        annotations: [(text("example.com/config"), text("a=b")), (text("empty"), String::new())].into(),
        grace_period_seconds: Some(5),
        failure_policy: "Fail".into(),
        rollback_on_failure: true,
        active_deadline_seconds: Some(120),
        ttl_seconds_after_finished: Some(30),
        swaps: Vec::new(),
    };
    assert_eq!(request(&all).unwrap(), expected);
    let least = UpdateRequest {
        pod: "web".into(),
        containers: vec![container("main", "web:v2")],
        ttl_seconds_after_finished: Some(3600),
        ..UpdateRequest::default()
    };
    assert_eq!(request(&args(&["web", "main=web:v2"])).unwrap(), least);
    assert!(request(&args(&["web", "--label", "a=b"])).is_ok(), "images may stay as they are");
}

#[test]
fn what_cannot_be_meant_is_refused_before_anybody_is_asked() {
    for bad in [&["web", "main"], &["web", "=web:v2"]] {
        let error = parse(bad).unwrap_err();
        assert!(error.contains("write CONTAINER=IMAGE"), "{error}");
    }
    let error = parse(&["web", "--label", "track"]).unwrap_err();
    assert!(error.contains("write KEY=VALUE"), "{error}");
    assert!(parse(&[]).is_err(), "which pod?");
    let refused = |more: &[&str]| request(&args(more)).unwrap_err().to_string();
    assert!(refused(&["web"]).starts_with("nothing is asked for: give CONTAINER=IMAGE"));
    assert_eq!(refused(&["web", "main=a:1", "main=a:2"]), "container main is given twice: give it once");
    assert_eq!(
        refused(&["web", "--annotation", "a=1", "--annotation", "a=2"]),
        "annotation a is given twice: give it once"
    );
    assert!(refused(&["web", "main=a:1", "--ttl", "1s"]).contains("--no-wait"));
    assert!(refused(&["web", "main=a:1", "--grace", "3000000000"]).contains("--grace"));
}

#[tokio::test]
async fn it_waits_for_the_end_also_over_a_restart() {
    let node = Node::new(|_, _| Ok(()));
    let story = vec![
        Ok(Some(state("", "", ""))),
        Ok(Some(state("Updating", "", "Updating"))),
        Err(Status::unavailable("berthd has not read the updates it has yet")),
        Ok(Some(state("Completed", "Complete", "Succeeded"))),
    ];
    let berthd = Berthd { updates: Told::of(story), ..Berthd::default() }.serve(&node);
    let code = update(&global(&node), &args(&["web", "main=web:v2", "-o", "yaml"])).await.unwrap();
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
    assert_eq!(berthd.updates.asked.lock().unwrap().len(), 1, "asked once, whatever happens");
    assert_eq!(berthd.updates.story.lock().unwrap().len(), 1, "to the end");
}

#[tokio::test]
async fn a_failure_is_an_error_with_its_reason() {
    let node = Node::new(|_, _| Ok(()));
    let mut failed = state("Completed", "Failed", "Failed");
    (failed.reason, failed.message) = ("ImageNotPulled".into(), "no such tag".into());
    failed.containers[0].message = "no such tag".into();
    Berthd { updates: Told::of(vec![Ok(Some(failed))]), ..Berthd::default() }.serve(&node);
    let global = global(&node);
    let error = async |pod: &str| {
        let args = args(&[pod, "main=web:v2"]);
        update(&global, &args).await.unwrap_err().to_string()
    };
    assert_eq!(
        error("web").await,
        "request shop/web-x failed (ImageNotPulled): no such tag; main is failed: no such tag"
    );
    assert_eq!(error("nothing").await, "pod nothing is not on this node");
    assert_eq!(error("static").await, "a static pod cannot be updated in place");
    for format in ["table", "json"] {
        update(&global, &args(&["web", "main=web:v2", "--no-wait", "-o", format])).await.unwrap();
    }
}
