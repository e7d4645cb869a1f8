//! The connection to berthd's admin socket.

use std::path::Path;

use anyhow::{Result, anyhow};
use berth_proto::admin::admin_client::AdminClient;
use tonic::transport::Channel;
use tonic::{Request, Status};

use super::channel::{MESSAGE_LIMIT, dial};
use super::cli::Global;
use super::output;

/// Connects; when berthd is down the error says so and how to start it.
pub async fn connect(global: &Global) -> Result<AdminClient<Channel>> {
    let socket = &global.admin_socket;
    let channel = dial(socket, global.timeout).await.map_err(|error| unreachable(socket, &error))?;
    Ok(AdminClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT))
}

/// A request with the deadline of `--timeout`.
pub fn request<T>(global: &Global, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(global.timeout);
    request
}

/// An admin call that failed.
pub fn failed(call: &str, status: &Status) -> anyhow::Error {
    anyhow!("berthd could not answer {call}: {}", output::status(status))
}

fn unreachable(socket: &Path, error: &str) -> anyhow::Error {
    anyhow!(
        "berthd is not reachable at {}: {error}; start it (systemctl start berthd), run berthctl as root, or name its \
         socket with --admin-socket",
        socket.display()
    )
}

#[cfg(test)]
mod tests {
    use berth_proto::admin::admin_server::{Admin, AdminServer};
    use berth_proto::admin::{
        OrderRequest, OrderResponse, PodOrder, RecreateRequest, RecreateResponse, RecreateState,
        RequestsRequest, RequestsResponse, StatusRequest, StatusResponse,
    };
    use tonic::Response;
    use tower::Service;

    use super::*;
    use crate::ctl::fake::{Node, serve};
    use crate::ctl::order::{OrderArgs, order};
    use crate::ctl::output::{Format, OutputArgs};
    use crate::ctl::requests::{Get, RequestsArgs, get};
    use crate::ctl::status::{StatusArgs, status};

    /// A berthd that knows one pod.
    struct Berthd;

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
            Ok(Response::new(StatusResponse { version: "1.2.3".into(), ..StatusResponse::default() }))
        }

        async fn order(&self, request: Request<OrderRequest>) -> Result<Response<OrderResponse>, Status> {
            let pods = match request.into_inner().pod.as_str() {
                "web" => vec![PodOrder { name: "web".into(), error: "x".repeat(100), ..PodOrder::default() }],
                "broken" => return Err(Status::internal("on fire")),
                _ => Vec::new(),
            };
            Ok(Response::new(OrderResponse { pods }))
        }

        async fn recreate(&self, _: Request<RecreateRequest>) -> Result<Response<RecreateResponse>, Status> {
            Err(Status::unimplemented("its tests have a berthd of their own"))
        }

        async fn requests(
            &self,
            request: Request<RequestsRequest>,
        ) -> Result<Response<RequestsResponse>, Status> {
            let known = matches!(request.into_inner().name.as_str(), "" | "again");
            let request = RecreateState { name: "again".into(), ..RecreateState::default() };
            Ok(Response::new(RequestsResponse { requests: known.then_some(request).into_iter().collect() }))
        }
    }

    #[tokio::test]
    async fn berthd_is_asked_over_its_socket() {
        let node = Node::new(|_, _| Ok(()));
        let global = node.global();
        let output = |format| OutputArgs { format };
        let down =
            status(&global, &StatusArgs { output: output(Format::Table) }).await.unwrap_err().to_string();
        assert!(
            down.contains("berthd is not reachable at") && down.contains("systemctl start berthd"),
            "{down}"
        );

        let server = AdminServer::new(Berthd);
        serve(&global.admin_socket, move |request| {
            let mut server = server.clone();
            async move { server.call(request).await }
        });
        status(&global, &StatusArgs { output: output(Format::Json) }).await.unwrap();
        let ask = |pod: Option<&str>| OrderArgs {
            pod: pod.map(str::to_owned),
            no_trunc: false,
            output: output(Format::Yaml),
        };
        order(&global, &ask(Some("web"))).await.unwrap();
        let unknown = order(&global, &ask(Some("nothing"))).await.unwrap_err().to_string();
        assert!(unknown.contains("berthd knows no pod \"nothing\""), "{unknown}");
        let broken = order(&global, &ask(Some("broken"))).await.unwrap_err().to_string();
        assert_eq!(broken, "berthd could not answer Order: on fire (INTERNAL)");

        let ask = |name: Option<&str>| {
            let name = name.map(str::to_owned);
            Get::Requests(RequestsArgs { name, output: output(Format::Json) })
        };
        get(&global, &ask(None)).await.unwrap();
        get(&global, &ask(Some("again"))).await.unwrap();
        let unknown = get(&global, &ask(Some("other"))).await.unwrap_err().to_string();
        assert!(unknown.contains("berthd knows no request \"other\""), "{unknown}");
    }
}
