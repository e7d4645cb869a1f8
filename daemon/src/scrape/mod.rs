//! `/metrics` for scrapers of the cluster, at an address that is not loopback: by TLS, and for who may `get`
//! the non-resource URL `/metrics`, as the kubelet serves its own.
//!
//! ```text
//!   scraper ── TLS, GET /metrics, bearer token ──▶ here ──▶ reviews (pure): known, to be asked, too much
//!                                                   │            ▲
//!                                                   └── ask: TokenReview, then SubjectAccessReview
//! ```
//!
//! A caller who cannot be told from a stranger gets no byte of the page. What strangers can cost is bounded:
//! connections, their time and bytes, and questions to the API server, of which those who were let in before
//! have their own share. Nothing runs here while nobody comes.

mod ask;
mod certificate;
mod reviews;

#[cfg(test)]
mod tests;

use std::{
    convert::Infallible,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

pub(crate) use self::ask::Reviewer;
use self::{
    ask::{Answer, Who},
    certificate::Certificate,
    reviews::{Next, Reviews, Verdict},
};
use crate::{
    admin::http::Pages,
    base::{
        causes::chain,
        connections::{ACCEPT_PAUSE, Answering, Connections},
    },
    config::Metrics,
};

/// The page, and the path that a scraper needs the right to.
const PATH: &str = "/metrics";
/// Open connections at most; an old one goes for one more.
const CONNECTIONS: usize = 16;
/// A connection carries one request, and is closed after so long whatever it is about.
const WITHIN: Duration = Duration::from_secs(20);
/// A handshake must come within it.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);
/// The head of a request, with its token, must fit into it.
const HEAD_BYTES: usize = 16 << 10;
/// Pause before files that are not there, or a port that another process has (a predecessor, until its end),
/// are tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Decides who is asked about whom, and asks.
struct Door<W> {
    who: W,
    reviews: Mutex<Reviews>,
}

/// Serves the page until the shutdown; an address that cannot be had is no reason to stop.
pub(crate) async fn serve(
    config: Metrics,
    who: Reviewer,
    node: String,
    pages: Arc<Pages>,
    shutdown: CancellationToken,
) {
    let Some(address) = config.address else { return };
    let files = config.certificate_file.zip(config.key_file);
    // Cancel-safe: a listener that is not returned is closed.
    let ready =
        shutdown.run_until_cancelled(async { (certificate(files, &node).await, bind(address).await) });
    let Some((certificate, listener)) = ready.await else { return };
    info!(%address, "Metrics served to who may read them");
    let door = Arc::new(Door { who, reviews: Mutex::default() });
    accept(listener, certificate, door, move || page_of(pages.clone()), shutdown).await;
}

/// Waits for files that are not there yet, or no certificate.
async fn certificate(files: Option<(PathBuf, PathBuf)>, node: &str) -> Certificate {
    let mut said = false;
    loop {
        match Certificate::new(files.clone(), node) {
            Ok(certificate) => return certificate,
            Err(error) => {
                if !std::mem::replace(&mut said, true) {
                    warn!(error = chain(&error), "Metrics not served yet, trying every second");
                }
                sleep(RETRY_PAUSE).await;
            }
        }
    }
}

async fn bind(address: SocketAddr) -> TcpListener {
    let mut said = false;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) => {
                if !std::mem::replace(&mut said, true) {
                    warn!(%address, %error, "Metrics not served yet, trying every second");
                }
                sleep(RETRY_PAUSE).await;
            }
        }
    }
}

async fn page_of(pages: Arc<Pages>) -> Response<Full<Bytes>> {
    pages.metrics().await
}

async fn accept<W, P, F>(
    listener: TcpListener,
    mut certificate: Certificate,
    door: Arc<Door<W>>,
    page: P,
    shutdown: CancellationToken,
) where
    W: Who + Send + Sync + 'static,
    P: Fn() -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let mut connections = Connections::new(CONNECTIONS);
    // Cancel-safe: accept takes no connection unless it returns it.
    while let Some(accepted) = shutdown.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => {
                let acceptor = certificate.acceptor(Instant::now().into_std());
                let (door, page) = (door.clone(), page.clone());
                let shutdown = shutdown.clone();
                let served = |answering| async move {
                    let served = timeout(WITHIN, connection(stream, peer, acceptor, door, page, answering));
                    if let Some(Err(_)) = shutdown.run_until_cancelled_owned(served).await {
                        debug!(%peer, "Connection of a scraper closed, it took too long");
                    }
                };
                connections.add(served).await;
            }
            Err(error) => {
                warn!(%error, "Connection of a scraper not accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    connections.ended().await;
}

async fn connection<W, P, F>(
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: TlsAcceptor,
    door: Arc<Door<W>>,
    page: P,
    answering: Answering,
) where
    W: Who + Send + Sync + 'static,
    P: Fn() -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let stream = match timeout(HANDSHAKE_WITHIN, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%peer, %error, "TLS handshake of a scraper failed"),
        Err(_) => return debug!(%peer, "TLS handshake of a scraper took too long"),
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let (door, page, answering) = (door.clone(), page.clone(), answering.clone());
        async move {
            let answer = async {
                match door.admit(&request).await {
                    Ok(()) => page().await,
                    Err(refusal) => refusal,
                }
            };
            Ok::<_, Infallible>(answering.during(answer).await)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        debug!(%peer, %error, "Connection of a scraper ended with an error");
    }
}

impl<W: Who> Door<W> {
    /// Lets a request in, or gives the answer that refuses it.
    async fn admit<B>(&self, request: &Request<B>) -> Result<(), Response<Full<Bytes>>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err(refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET"));
        }
        if request.uri().path() != PATH {
            return Err(refusal(StatusCode::NOT_FOUND, "there is /metrics"));
        }
        let Some(token) = token(request) else { return Err(unknown()) };
        match self.verdict(token).await {
            Some(Verdict::Allowed) => Ok(()),
            Some(Verdict::Unknown) => Err(unknown()),
            Some(Verdict::Forbidden) => {
                Err(refusal(StatusCode::FORBIDDEN, "a role must let you get the nonResourceURL /metrics"))
            }
            Some(Verdict::TooMany) => {
                Err(refusal(StatusCode::TOO_MANY_REQUESTS, "too many tokens that are not known"))
            }
            None => Err(refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                "the API server does not say who you are; the agent's log says why",
            )),
        }
    }

    /// Asks about a token that is not known. `None`: the API server does not say.
    async fn verdict(&self, token: &str) -> Option<Verdict> {
        let now = || Instant::now().into_std();
        match self.reviews().next(token, now()) {
            Next::Known(verdict) => return Some(verdict),
            Next::Ask => {}
        }
        match self.who.ask(token).await {
            Answer::Verdict(verdict) => {
                self.reviews().learned(token, verdict, now());
                Some(verdict)
            }
            Answer::None => None,
        }
    }

    fn reviews(&self) -> std::sync::MutexGuard<'_, Reviews> {
        self.reviews.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bearer token of a request.
fn token<B>(request: &Request<B>) -> Option<&str> {
    let value = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn unknown() -> Response<Full<Bytes>> {
    let mut response =
        refusal(StatusCode::UNAUTHORIZED, "a bearer token that the API server knows is needed");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

fn refusal(status: StatusCode, why: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(why.as_bytes())));
    *response.status_mut() = status;
    response
}
