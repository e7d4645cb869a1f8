//! Probes that dial: HTTP, TCP and gRPC, to the pod's own address, with ports by number and by name.

use anyhow::{Context, Result, ensure};
use berth_proto::health::health_check_response::ServingStatus;
use berth_proto::health::health_server::{Health, HealthServer};
use berth_proto::health::{HealthCheckRequest, HealthCheckResponse};
use berth_tests::manifest::Container;
use berth_tests::markers::{Marker, says};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::{Request, Response, Status};

use super::{Stage, every_second, run};

fn http(port: impl Into<Value>, path: &str) -> Value {
    every_second("httpGet", json!({ "port": port.into(), "path": path }))
}

fn tcp(port: impl Into<Value>) -> Value {
    every_second("tcpSocket", json!({ "port": port.into() }))
}

fn grpc(port: u16, service: &str) -> Value {
    every_second("grpc", json!({ "port": port, "service": service }))
}

/// A container that serves files on port 8080, called "web", and nothing but connections on 9090, called
/// "raw".
fn server() -> Container {
    let port = |name: &str, port: u16| json!({ "name": name, "containerPort": port });
    Container::new("main")
        .shell(
            "mkdir /www; echo all is well > /www/index.html; httpd -p 8080 -h /www; nc -ll -p 9090 -e cat &",
        )
        .field("ports", json!([port("web", 8080), port("raw", 9090)]))
}

#[tokio::test]
async fn what_is_dialled_is_the_pod() -> Result<()> {
    run("what_is_dialled_is_the_pod", async |stage: &Stage| {
        stage.case.create(&stage.manifest("pod").container(server())).await?;
        let table = [
            ("http-number", http(8080, "/"), "True", "all is well"),
            ("http-name", http("web", "/index.html"), "True", "all is well"),
            ("http-missing", http("web", "/missing"), "False", "404"),
            ("http-silent", http("raw", "/"), "False", ""),
            ("tcp-number", tcp(9090), "True", ""),
            ("tcp-name", tcp("raw"), "True", ""),
            ("tcp-closed", tcp(9091), "False", "refused"),
            ("grpc-closed", grpc(9091, ""), "False", "refused"),
            ("grpc-other", grpc(8080, ""), "False", ""),
        ];
        let marker = Marker::new("marker", "pod");
        let marker =
            table.iter().fold(marker, |marker, (name, probe, ..)| marker.probe(name, "main", probe.clone()));
        stage.mark(&marker).await?;
        let as_expected = |pod: &Pod| {
            table.iter().try_for_each(|(name, _, status, words)| says(pod, name, status, words))?;
            // The agent knows it from the runtime, maybe before the kubelet has written it.
            pod.status.as_ref().and_then(|status| status.pod_ip.as_ref()).context("no address").map(drop)
        };
        let pod = stage.case.await_pod("pod", "says what is dialled", as_expected).await?;
        let address = pod.status.and_then(|status| status.pod_ip).context("no address")?;
        // With the address it is plain whom the refusal is of.
        stage.await_says("pod", "tcp-closed", "False", &format!("{address}:9091")).await?;
        Ok(())
    })
    .await
}

/// A server of the test's own, on the host's network like the pod.
struct Served {
    port: u16,
    task: JoinHandle<()>,
}

/// Healthy are all services but one.
struct Doctor;

#[tonic::async_trait]
impl Health for Doctor {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let status = match request.get_ref().service.as_str() {
            "ill" => ServingStatus::NotServing,
            "stranger" => return Err(Status::not_found("who is that?")),
            _ => ServingStatus::Serving,
        };
        Ok(Response::new(HealthCheckResponse { status: status.into() }))
    }
}

impl Served {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("0.0.0.0", 0)).await.context("listen")?;
        let port = listener.local_addr()?.port();
        let server = tonic::transport::Server::builder().add_service(HealthServer::new(Doctor));
        let incoming = futures::stream::unfold(listener, async |listener| {
            let accepted = listener.accept().await.map(|(stream, _)| stream);
            Some((accepted, listener))
        });
        let task = tokio::spawn(async move {
            if let Err(error) = server.serve_with_incoming(incoming).await {
                eprintln!("gRPC server: {error}");
            }
        });
        Ok(Self { port, task })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test]
async fn a_pod_on_the_network_of_the_host() -> Result<()> {
    run("a_pod_on_the_network_of_the_host", async |stage: &Stage| {
        let served = Served::start().await?;
        let manifest = stage.manifest("pod").spec("hostNetwork", true).container(Container::new("main"));
        stage.case.create(&manifest).await?;
        let port = served.port;
        let table = [
            ("well", grpc(port, ""), "True", ""),
            ("ill", grpc(port, "ill"), "False", "NOT_SERVING"),
            ("stranger", grpc(port, "stranger"), "False", "who is that?"),
            ("tcp", tcp(port), "True", ""),
        ];
        let marker = Marker::new("marker", "pod");
        let marker =
            table.iter().fold(marker, |marker, (name, probe, ..)| marker.probe(name, "main", probe.clone()));
        stage.mark(&marker).await?;
        let as_expected =
            |pod: &Pod| table.iter().try_for_each(|(name, _, status, words)| says(pod, name, status, words));
        stage.case.await_pod("pod", "is probed at the host's address", as_expected).await?;
        ensure!(!served.task.is_finished(), "the server ended");
        drop(served);
        stage.await_says("pod", "tcp", "False", "refused").await?;
        Ok(())
    })
    .await
}
