//! `/healthz`, `/readyz` and `/metrics`, on loopback, which every process of the node's network reaches.

use std::{convert::Infallible, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use tokio::{net::TcpListener, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    admin::{health::Health, last_answer::LastAnswer},
    base::{
        causes::chain,
        connections::{ACCEPT_PAUSE, Answering, Connections},
    },
};

const TEXT: &str = "text/plain; charset=utf-8";
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The end of OpenMetrics.
const END: &str = "# EOF\n";
/// Open connections at most; an old one goes for one more.
const CONNECTIONS: usize = 64;
/// The head of a request must fit into it.
const HEAD_BYTES: usize = 16 << 10;
/// The shim's metrics count for so long: what it is asked, the kubelet's calls wait for.
const FRESH: Duration = Duration::from_millis(100);
/// A page that has no turn within it is without the shim's metrics.
const TURN_WITHIN: Duration = Duration::from_secs(5);
/// A client that sends no request for so long is dropped.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Pages of the endpoints.
#[derive(Debug)]
pub(crate) struct Pages {
    /// Whether all is well.
    pub health: Health,
    /// All metrics of this process.
    pub registry: Registry,
    /// A data path that is a process of its own, and has metrics of its own.
    pub shim: Option<OfShim>,
}

/// Metrics of another process.
#[derive(Debug)]
pub(crate) struct OfShim {
    socket: PathBuf,
    /// Last answer. One page asks at a time: the shim has few places for connections, and the agent needs
    /// one.
    last: LastAnswer<Option<String>>,
}

/// Serves the pages until the shutdown.
pub(crate) async fn serve(listener: TcpListener, pages: Arc<Pages>, shutdown: CancellationToken) {
    if let Ok(address) = listener.local_addr() {
        info!(%address, "Health and metrics served");
    }
    let mut connections = Connections::new(CONNECTIONS);
    // Cancel-safe: accept takes no connection unless it returns it.
    while let Some(accepted) = shutdown.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => {
                let (pages, shutdown) = (pages.clone(), shutdown.clone());
                let served = |answering| connection(TokioIo::new(stream), peer, pages, answering, shutdown);
                connections.add(served).await;
            }
            Err(error) => {
                warn!(%error, "HTTP connection not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(
    stream: TokioIo<tokio::net::TcpStream>,
    peer: SocketAddr,
    pages: Arc<Pages>,
    answering: Answering,
    shutdown: CancellationToken,
) {
    let service = service_fn(move |request| {
        let (pages, answering) = (pages.clone(), answering.clone());
        async move { Ok::<_, Infallible>(answering.during(pages.answer(&request)).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(stream, service);
    if let Some(Err(error)) = shutdown.run_until_cancelled(served).await {
        debug!(%peer, %error, "HTTP connection ended with an error");
    }
}

impl Pages {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return page(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET\n".to_owned());
        }
        let verbose = request
            .uri()
            .query()
            .is_some_and(|query| query.split('&').any(|part| part.starts_with("verbose")));
        match request.uri().path() {
            "/healthz" | "/livez" => checks(&self.health.live(), verbose),
            "/readyz" => checks(&self.health.ready().await, verbose),
            "/metrics" => self.metrics().await,
            _ => page(StatusCode::NOT_FOUND, TEXT, "there are /healthz, /readyz and /metrics\n".to_owned()),
        }
    }

    pub(crate) async fn metrics(&self) -> Response<Full<Bytes>> {
        self.health.refresh_metrics();
        let mut text = String::new();
        match prometheus_client::encoding::text::encode(&mut text, &self.registry) {
            Ok(()) => {
                if let Some(shim) = &self.shim
                    && let Some(theirs) = shim.scrape().await
                {
                    text = joined(&text, &theirs);
                }
                page(StatusCode::OK, OPENMETRICS, text)
            }
            Err(error) => {
                page(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("metrics not encoded: {error}\n"))
            }
        }
    }
}

impl OfShim {
    /// Metrics of the process at this socket.
    pub(crate) fn new(socket: PathBuf) -> Self {
        Self { socket, last: LastAnswer::default() }
    }

    async fn scrape(&self) -> Option<String> {
        let Ok(turn) = timeout(TURN_WITHIN, self.last.turn()).await else {
            debug!("No metrics of the shim: others ask for them");
            return None;
        };
        let question = async {
            let scraped = berth_shim::remote::scrape(&self.socket).await;
            scraped.inspect_err(|error| debug!(error = %chain(error), "No metrics of the shim")).ok()
        };
        turn.or_ask(FRESH, question).await
    }
}

/// Metrics of two processes as those of one.
fn joined(ours: &str, theirs: &str) -> String {
    let ours = ours.strip_suffix(END).unwrap_or(ours);
    if theirs.ends_with(END) { format!("{ours}{theirs}") } else { format!("{ours}{END}") }
}

/// Answers as the API server does: `ok`, or the list of checks when one failed or all are wanted.
fn checks(checks: &[(&'static str, Result<(), String>)], verbose: bool) -> Response<Full<Bytes>> {
    let failed = checks.iter().any(|(_, result)| result.is_err());
    if !failed && !verbose {
        return page(StatusCode::OK, TEXT, "ok\n".to_owned());
    }
    let lines = checks.iter().map(|(name, result)| match result {
        Ok(()) => format!("[+] {name} ok\n"),
        Err(reason) => format!("[-] {name} failed: {reason}\n"),
    });
    let status = if failed { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    page(status, TEXT, lines.collect())
}

fn page(status: StatusCode, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, future::join_all};
    use tokio::net::UnixListener;

    use super::*;

    /// Every process of the node may ask for the page.
    #[tokio::test]
    async fn one_asks_the_shim_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("shim.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let shim = OfShim::new(socket);
        let asking = join_all((0..10).map(|_| shim.scrape()));
        assert!(timeout(TURN_WITHIN / 20, asking).await.is_err(), "nobody answers");
        let asked = std::iter::from_fn(|| listener.accept().now_or_never()).count();
        assert_eq!(asked, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_shim_said_a_moment_ago_is_not_asked_again() {
        let shim = OfShim::new("/nowhere/shim.sock".into());
        let said = Some("a 1\n# EOF\n".to_owned());
        shim.last.turn().await.or_ask(FRESH, async { said.clone() }).await;
        assert_eq!(shim.scrape().await, said);
        tokio::time::advance(FRESH).await;
        assert_eq!(shim.scrape().await, None, "nobody is there");
    }

    #[test]
    fn metrics_of_two_processes_have_one_end() {
        let table = [
            ("a 1\n# EOF\n", "b 2\n# EOF\n", "a 1\nb 2\n# EOF\n"),
            // Half of them, or none.
            ("a 1\n# EOF\n", "b 2\n", "a 1\n# EOF\n"),
            ("a 1\n# EOF\n", "", "a 1\n# EOF\n"),
        ];
        for (ours, theirs, expected) in table {
            assert_eq!(joined(ours, theirs), expected, "{theirs}");
        }
    }
}
