//! A probe that asks `grpc.health.v1.Health`, without TLS, as the kubelet does.

use std::{error::Error as _, io};

use ::http::Uri;
use berth_policy::ProbeResult;
use berth_proto::health::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint, Error},
};

use super::message::steady;
use crate::base::causes::{chain, innermost};

/// The kubelet's agent is `kube-probe/` and its version.
const AGENT: &str = "kube-probe/berth";
/// An answer has two bytes.
const ANSWER_LIMIT: usize = 4 << 10;

/// Asks for the health of a service; only `SERVING` is a success.
pub(super) async fn check(stream: TcpStream, service: &str) -> ProbeResult {
    let channel = match over(stream).await {
        Ok(channel) => channel,
        Err(error) => return ProbeResult::Failure(steady(&chain(&error))),
    };
    let mut client = HealthClient::new(channel).max_decoding_message_size(ANSWER_LIMIT);
    match client.check(HealthCheckRequest { service: service.to_owned() }).await {
        Ok(answer) => match answer.get_ref().status() {
            ServingStatus::Serving => ProbeResult::Success(String::new()),
            other @ (ServingStatus::Unknown | ServingStatus::NotServing | ServingStatus::ServiceUnknown) => {
                ProbeResult::Failure(format!("the service is {}", other.as_str_name()))
            }
        },
        Err(status) => ProbeResult::Failure(refused(&status)),
    }
}

/// A channel on this one connection; closed when it is dropped.
async fn over(stream: TcpStream) -> Result<Channel, Error> {
    // The kubelet names the address here.
    let address = stream.peer_addr().map_or_else(|_| "localhost".to_owned(), |address| address.to_string());
    let mut stream = Some(TokioIo::new(stream));
    let connector = tower::service_fn(move |_: Uri| {
        // There is no second one: a connection that breaks has failed.
        let stream = stream.take().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
        std::future::ready(stream)
    });
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?.user_agent(AGENT)?;
    endpoint.connect_with_connector(connector).await
}

fn refused(status: &Status) -> String {
    match (status.code(), status.source()) {
        (Code::Unimplemented, _) => "the server has no grpc.health.v1.Health".to_owned(),
        // The connection is at fault.
        (_, Some(source)) => steady(&format!("no answer to the health check: {}", innermost(source))),
        (code, None) => steady(&format!("no answer to the health check: {} ({code:?})", status.message())),
    }
}
