//! `/livez` and `/readyz` on one address, `/metrics` on another: who may scrape need not see the rest, and
//! the kubelet's probes need not be let through to the metrics.
//!
//! All pods of the cluster may reach both. So there are so many connections at once, and the oldest goes for
//! one more: who holds connections open keeps no probe out, and takes no more memory than so many pages.

use std::{collections::VecDeque, convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, yield_now},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

const TEXT: &str = "text/plain; charset=utf-8";
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// A client that sends no request for so long is dropped.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// The head of a request must fit into it.
const HEAD_BYTES: usize = 16 << 10;
/// Pause after a connection that could not be accepted: mostly no descriptor is free, and the next one would
/// fail at once.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Open connections of an address at most.
const CONNECTIONS: usize = 64;

/// One check of readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// It passed.
    pub done: bool,
    /// Part that is missing while it has not.
    pub missing: &'static str,
}

/// Checks of readiness, as they are now.
pub type Checks = Box<dyn Fn() -> Vec<Check> + Send + Sync>;

/// Pages of an address.
pub enum Pages {
    /// Alive and ready.
    Health(Checks),
    /// Metrics of the program.
    Metrics(Registry),
}

/// Serves pages until the shutdown.
pub async fn serve(listener: TcpListener, pages: Pages, shutdown: CancellationToken) {
    let (pages, mut connections) = (Arc::new(pages), Connections::default());
    if let Ok(address) = listener.local_addr() {
        info!(%address, pages = pages.name(), "Pages served");
    }
    // Cancel-safe: accept takes no connection unless it returns it.
    while let Some(accepted) = shutdown.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => {
                connections.add(connection(stream, peer, pages.clone(), shutdown.clone())).await;
            }
            Err(error) => {
                warn!(%error, "HTTP connection not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, peer: SocketAddr, pages: Arc<Pages>, shutdown: CancellationToken) {
    let service = service_fn(move |request| {
        let pages = pages.clone();
        async move { Ok::<_, Infallible>(pages.answer(&request)) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    if let Some(Err(error)) = shutdown.run_until_cancelled(served).await {
        debug!(%peer, %error, "HTTP connection ended with an error");
    }
}

/// Open connections of an address, the oldest first.
#[derive(Default)]
struct Connections(VecDeque<AbortHandle>);

impl Connections {
    /// Takes one more in. Before the oldest goes for it all have a turn, and a request that is there by then
    /// is answered: no answer waits for anything.
    async fn add(&mut self, connection: impl Future<Output = ()> + Send + 'static) {
        if self.is_full() {
            yield_now().await;
        }
        if self.is_full()
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.abort();
        }
        self.0.push_back(tokio::spawn(connection).abort_handle());
    }

    fn is_full(&mut self) -> bool {
        self.0.retain(|open| !open.is_finished());
        self.0.len() >= CONNECTIONS
    }
}

impl Pages {
    fn name(&self) -> &'static str {
        match self {
            Self::Health(..) => "health",
            Self::Metrics(_) => "metrics",
        }
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return page(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET\n".to_owned());
        }
        match (self, request.uri().path()) {
            // One thread does everything: if it answers, it turns. A task that ends takes the process with
            // it.
            (Self::Health(..), "/livez" | "/healthz") => page(StatusCode::OK, TEXT, "ok\n".to_owned()),
            (Self::Health(checks), "/readyz") => ready(&checks()),
            (Self::Metrics(registry), "/metrics") => metrics(registry),
            (Self::Health(..), _) => {
                page(StatusCode::NOT_FOUND, TEXT, "there are /livez and /readyz\n".to_owned())
            }
            (Self::Metrics(_), _) => page(StatusCode::NOT_FOUND, TEXT, "there is /metrics\n".to_owned()),
        }
    }
}

/// Answers as the API server does: `ok`, or the list of checks when one failed.
fn ready(checks: &[Check]) -> Response<Full<Bytes>> {
    if checks.iter().all(|check| check.done) {
        return page(StatusCode::OK, TEXT, "ok\n".to_owned());
    }
    let lines = checks.iter().map(|Check { name, done, missing }| {
        if *done { format!("[+] {name} ok\n") } else { format!("[-] {name} failed: {missing}\n") }
    });
    page(StatusCode::SERVICE_UNAVAILABLE, TEXT, lines.collect())
}

fn metrics(registry: &Registry) -> Response<Full<Bytes>> {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, registry) {
        Ok(()) => page(StatusCode::OK, OPENMETRICS, text),
        Err(error) => {
            page(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("metrics not encoded: {error}\n"))
        }
    }
}

fn page(status: StatusCode, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        time::timeout,
    };

    use super::*;

    async fn answer(stream: &mut TcpStream) -> String {
        let request = b"GET /livez HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn who_holds_connections_open_keeps_no_probe_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let checks: Checks = Box::new(Vec::new);
        tokio::spawn(serve(listener, Pages::Health(checks), stop.clone()));
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS * 2 {
            held.push(TcpStream::connect(address).await.unwrap());
        }
        let mut probe = TcpStream::connect(address).await.unwrap();
        assert!(answer(&mut probe).await.starts_with("HTTP/1.1 200"));
        // Long before its time is over.
        let closed = timeout(HEADER_TIMEOUT / 4, held[0].read(&mut [0])).await;
        assert_eq!(closed.expect("the oldest is open still").unwrap(), 0);
        let newest = held.last_mut().unwrap();
        assert!(answer(newest).await.starts_with("HTTP/1.1 200"), "those that came late stay");
        stop.cancel();
    }
}
