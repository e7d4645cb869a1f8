//! A berthd that tells a story, and what `berthctl recreate` makes of it.

use std::sync::{Arc, Mutex};

use berth_proto::admin::admin_server::{Admin, AdminServer};
use berth_proto::admin::{
    ContainerRecreateState, OrderRequest, OrderResponse, RecreateResponse, RequestsResponse, StatusRequest,
    StatusResponse,
};
use tonic::{Request, Response};
use tower::Service;

use super::*;
use crate::ctl::fake::{Node, serve};

/// What one look finds.
type Look = Result<Option<RecreateState>, Status>;

/// What was asked for, and what is answered to one look after another; the last answer stays.
#[derive(Clone, Default)]
struct Berthd {
    asked: Arc<Mutex<Vec<RecreateRequest>>>,
    story: Arc<Mutex<Vec<Look>>>,
}

#[tonic::async_trait]
impl Admin for Berthd {
    type PullStream = futures::stream::Empty<Result<berth_proto::admin::PullState, Status>>;

    async fn pull(
        &self,
        _: Request<berth_proto::admin::PullRequest>,
    ) -> Result<Response<Self::PullStream>, Status> {
        Err(Status::unimplemented("not part of these tests"))
    }

    async fn pulls(
        &self,
        _: Request<berth_proto::admin::PullsRequest>,
    ) -> Result<Response<berth_proto::admin::PullsResponse>, Status> {
        Err(Status::unimplemented("not part of these tests"))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn order(&self, _: Request<OrderRequest>) -> Result<Response<OrderResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn recreate(
        &self,
        request: Request<RecreateRequest>,
    ) -> Result<Response<RecreateResponse>, Status> {
        let request = request.into_inner();
        if request.pod == "nothing" {
            return Err(Status::not_found("pod nothing is not on this node"));
        }
        self.asked.lock().unwrap().push(request);
        Ok(Response::new(RecreateResponse { namespace: "shop".into(), name: "web-x".into() }))
    }

    async fn requests(
        &self,
        request: Request<RequestsRequest>,
    ) -> Result<Response<RequestsResponse>, Status> {
        assert_eq!(request.into_inner().name, "shop/web-x");
        let mut story = self.story.lock().unwrap();
        let now = if story.len() > 1 { story.remove(0) } else { story[0].clone() };
        let foreign = RecreateState { origin: "api".into(), ..RecreateState::default() };
        Ok(Response::new(RequestsResponse { requests: [foreign].into_iter().chain(now?).collect() }))
    }
}

fn berthd(node: &Node, story: Vec<Look>) -> Berthd {
    let berthd = Berthd { story: Arc::new(Mutex::new(story)), ..Berthd::default() };
    let server = AdminServer::new(berthd.clone());
    serve(&node.global().admin_socket, move |request| {
        let mut server = server.clone();
        async move { server.call(request).await }
    });
    berthd
}

fn state(phase: &str, outcome: &str, containers: &[(&str, &str, bool)]) -> RecreateState {
    let containers = containers.iter().map(|(name, phase, killed)| ContainerRecreateState {
        name: (*name).into(),
        phase: (*phase).into(),
        killed: *killed,
        message: String::new(),
    });
    RecreateState {
        origin: "admin".into(),
        phase: phase.into(),
        outcome: outcome.into(),
        containers: containers.collect(),
        ..RecreateState::default()
    }
}

fn args(more: &[&str]) -> RecreateArgs {
    use clap::Parser;
    let line = ["berthctl", "recreate"].iter().chain(more);
    let cli = crate::ctl::cli::Cli::try_parse_from(line).unwrap();
    let crate::ctl::cli::Command::Recreate(args) = cli.command else { panic!("{:?}", cli.command) };
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

#[test]
fn only_what_changed_is_told() {
    let mut story = Story::default();
    let told = |story: &mut Story, state: &RecreateState| story.goes_on(state);
    assert!(told(&mut story, &state("", "", &[("app", "", false), ("logger-1", "", false)])).is_empty());
    let begun = state("Recreating", "", &[("app", "Recreating", false), ("logger-1", "Pending", false)]);
    let lines = ["app       Recreating", "logger-1  Pending", "request   Recreating"];
    assert_eq!(told(&mut story, &begun), lines);
    assert!(told(&mut story, &begun).is_empty());
    let stopped = state("Recreating", "", &[("app", "Recreating", true), ("logger-1", "Pending", false)]);
    assert_eq!(told(&mut story, &stopped), ["app       Recreating, told to stop"]);
    let mut ended =
        state("Completed", "Failed", &[("app", "Succeeded", true), ("logger-1", "Failed", false)]);
    (ended.reason, ended.message) = ("PodGone".into(), "pod has gone".into());
    ended.containers[1].message = "pod has gone".into();
    let lines = [
        "app       Succeeded",
        "logger-1  Failed: pod has gone",
        "request   Completed, failed (PodGone): pod has gone",
    ];
    assert_eq!(told(&mut story, &ended), lines);
    assert_eq!(why(&ended), "failed (PodGone): pod has gone; logger-1 is failed: pod has gone");
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
    let code = recreate(&node.global(), &args(&["web", "app", "-o", "json"])).await.unwrap();
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
    assert_eq!(berthd.asked.lock().unwrap().len(), 1, "asked once, whatever happens");
    assert_eq!(berthd.story.lock().unwrap().len(), 1, "to the end");
}

#[tokio::test]
async fn a_failure_is_an_error_with_its_reason() {
    let node = Node::new(|_, _| Ok(()));
    let mut failed = state("Completed", "Failed", &[("app", "Failed", true)]);
    (failed.reason, failed.message) = ("DeadlineExceeded".into(), "too late".into());
    berthd(&node, vec![Ok(Some(failed))]);
    let error = recreate(&node.global(), &args(&["web", "app"])).await.unwrap_err().to_string();
    assert_eq!(error, "request shop/web-x failed (DeadlineExceeded): too late; app is failed");
    let error = recreate(&node.global(), &args(&["nothing", "app"])).await.unwrap_err().to_string();
    assert_eq!(error, "pod nothing is not on this node");
    recreate(&node.global(), &args(&["web", "app", "--no-wait"])).await.unwrap();
}

#[tokio::test]
async fn a_request_that_is_removed_has_no_end() {
    let node = Node::new(|_, _| Ok(()));
    berthd(&node, vec![Ok(Some(state("Pending", "", &[]))), Ok(None)]);
    let error = recreate(&node.global(), &args(&["web", "app"])).await.unwrap_err().to_string();
    assert_eq!(error, "request shop/web-x was removed before it ended");
}
