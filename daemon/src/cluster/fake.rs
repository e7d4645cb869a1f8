//! Stand-in for the API server, for tests: one function answers everything.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt, future, stream};
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::{Request, Response, body::Frame, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::AbortHandle};

use super::client::{Connection, Source};

/// A question to it.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// `PATCH /apis/..`, without the query.
    pub(crate) what: String,
    /// It asks for a watch.
    pub(crate) watches: bool,
    pub(crate) body: Value,
}

/// Its answer.
pub(crate) enum Answer {
    Object(Value),
    Refused(u16),
    /// These events; then the watch stays open.
    Events(Vec<Value>),
}

/// The server; it ends when this is dropped.
pub(crate) struct FakeApi {
    pub(crate) connection: Connection,
    task: AbortHandle,
    _directory: tempfile::TempDir,
}

impl FakeApi {
    pub(crate) async fn new(answer: impl Fn(Question) -> Answer + Send + Sync + 'static) -> Self {
        // Another test of this process may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{ "name": "c", "cluster": { "server": server } }],
            "users": [{ "name": "u", "user": { "token": "t" } }],
            "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
        });
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        let answer = Arc::new(answer);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let answer = answer.clone();
                let service = service_fn(move |request| said(request, answer.clone()));
                let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(async move { drop(served.await) });
            }
        });
        let connection = Connection::new(Source::kubeconfig(path));
        Self { connection, task: task.abort_handle(), _directory: directory }
    }
}

impl Drop for FakeApi {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn said(
    request: Request<Incoming>,
    answer: Arc<impl Fn(Question) -> Answer>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let what = format!("{} {}", request.method(), request.uri().path());
    let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let (code, lines, open) = match answer(Question { what, watches, body }) {
        Answer::Object(object) => (200, vec![object], false),
        Answer::Refused(code) => {
            // The client goes by the reason alone.
            let reason = if code == 404 { "NotFound" } else { "No" };
            let status = json!({
                "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "message": "no",
                "reason": reason,
            });
            (code, vec![status], false)
        }
        Answer::Events(events) => (200, events, true),
    };
    let lines = stream::iter(lines).map(|line| Ok(Frame::data(Bytes::from(format!("{line}\n")))));
    let never = stream::once(future::pending()).take(usize::from(open));
    let body = BodyExt::boxed(StreamBody::new(lines.chain(never)));
    Ok(Response::builder().status(code).header("content-type", "application/json").body(body).unwrap())
}
