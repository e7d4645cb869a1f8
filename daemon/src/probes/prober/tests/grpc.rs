//! Health servers, and servers that are none.

use std::sync::{Arc, Mutex};

use ::http::{Request as HttpRequest, Response as HttpResponse};
use berth_proto::health::{
    HealthCheckRequest, HealthCheckResponse,
    health_check_response::ServingStatus,
    health_server::{Health, HealthServer},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;
use tonic::{Request, Response, Status, async_trait};
use tower::ServiceExt;

use super::*;

type Seen = Arc<Mutex<Vec<(String, String)>>>;

/// Answers by the name of the service, and notes who asks for what.
#[derive(Default)]
struct Doctor(Seen);

#[async_trait]
impl Health for Doctor {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let agent = request.metadata().get("user-agent").unwrap().to_str().unwrap().to_owned();
        let service = request.into_inner().service;
        self.0.lock().unwrap().push((service.clone(), agent));
        let status = match service.as_str() {
            "" => ServingStatus::Serving,
            "down" => ServingStatus::NotServing,
            "starting" => ServingStatus::Unknown,
            "odd" => return Ok(Response::new(HealthCheckResponse { status: 77 })),
            "broken" => return Err(Status::internal("out of order")),
            "slow" => std::future::pending().await,
            _ => return Err(Status::not_found("unknown service")),
        };
        Ok(Response::new(HealthCheckResponse { status: status.into() }))
    }
}

async fn serve<S>(service: S) -> Raw
where
    S: tower::Service<
            HttpRequest<hyper::body::Incoming>,
            Response = HttpResponse<tonic::body::Body>,
            Error = std::convert::Infallible,
        > + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send,
{
    Raw::new(move |stream| {
        let service = service.clone();
        async move {
            let service = hyper::service::service_fn(move |request| service.clone().oneshot(request));
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        }
    })
    .await
}

fn check(port: u16, service: &str) -> ProbeAction {
    ProbeAction::Grpc { port, service: service.to_owned() }
}

#[tokio::test]
async fn only_serving_is_success() {
    let doctor = Doctor::default();
    let seen = doctor.0.clone();
    let server = serve(HealthServer::new(doctor)).await;
    let table = [
        ("", "success", ""),
        ("down", "failure", "the service is NOT_SERVING"),
        ("starting", "failure", "the service is UNKNOWN"),
        ("odd", "failure", "the service is UNKNOWN"),
        ("broken", "failure", "out of order"),
        ("nobody", "failure", "unknown service"),
        ("slow", "failure", "timed out after 500ms"),
    ];
    for (service, kind, part) in table {
        let timeout = if service == "slow" { SECOND / 2 } else { PATIENT };
        expect(&on_loopback(check(server.port, service), timeout).await, kind, part);
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen.iter().map(|(service, _)| service.as_str()).collect::<Vec<_>>(), table.map(|row| row.0));
    assert!(seen.iter().all(|(_, agent)| agent.starts_with("kube-probe/berth")), "{seen:?}");
}

#[tokio::test]
async fn servers_that_are_no_doctors() {
    let other = tower::service_fn(|_: HttpRequest<hyper::body::Incoming>| async {
        Ok(Status::unimplemented("").into_http::<tonic::body::Body>())
    });
    let other = serve(other).await;
    expect(&on_loopback(check(other.port, ""), PATIENT).await, "failure", "has no grpc.health.v1.Health");
    let http1 = Server::answering(false, |_| "HTTP/1.1 200 OK\r\n\r\n".to_owned()).await;
    expect(&on_loopback(check(http1.port, ""), PATIENT).await, "failure", "no answer to the health check");
    let tls = Server::answering(true, |_| String::new()).await;
    expect(&on_loopback(check(tls.port, ""), PATIENT).await, "failure", "no answer to the health check");
    let closing = Raw::new(|stream| async { drop(stream) }).await;
    assert_eq!(said(&on_loopback(check(closing.port, ""), PATIENT).await).0, "failure");
    let nonsense =
        Raw::new(|mut stream| async move { while stream.write_all(&[0xff; 4096]).await.is_ok() {} }).await;
    assert_eq!(said(&on_loopback(check(nonsense.port, ""), PATIENT).await).0, "failure");
    expect(&on_loopback(check(1, ""), PATIENT).await, "failure", "Connection refused");
}
