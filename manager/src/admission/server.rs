//! The door: TLS, HTTP/1.1 and HTTP/2, and bounds for everything that a caller can make large or slow.
//!
//! Anybody in the cluster can call, nobody is asked who he is: an answer changes nothing but the object that
//! the caller sent, permits of budgets and places of spreads. One request that is too large, cannot be read
//! or makes a handler panic is refused, and the others go on. Bodies count by what of them has come, answers
//! by what of them has not been taken, and idle connections go when their places are needed.

mod answers;
mod body;
mod places;

use std::{convert::Infallible, error::Error, future::pending, net::SocketAddr, sync::Arc, time::Duration};

use berth_base::http::ACCEPT_PAUSE;
use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};
use http_body_util::Full;
use hyper::{
    body::{Body, Incoming},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::{Instant, sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};
use tracing::{debug, error, info, warn};

use self::{
    answers::{Answers, Room},
    places::{Place, Places, Pulse, SPARED},
};
use super::{
    certificates::{Resolver, Served},
    conversion,
    path::Route,
    review::{self, Verdict},
};
use crate::metrics::Admission;

/// The API server sends objects of up to 3 MiB.
const MOST_BYTES: usize = 3 << 20;
/// Connections at the same time; the others wait.
const CONNECTIONS: usize = 256;
/// Bytes of bodies that have come, whether they are whole or not; more are read when there is room again. So
/// many for decisions that may take long, and so many for the others.
const BYTES_READ: usize = 16 << 20;
/// Bytes that have come on one stream of HTTP/2, and on all of a connection, and that are read when there is
/// room. Nothing else bounds them; one stream that waits leaves room to the others.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 2 * STREAM_WINDOW;
/// Bytes of answers that have not been taken. A conversion is answered with as much as was sent, or more.
const BYTES_ANSWERED: usize = 32 << 20;
/// Bytes of bodies that are worked on at the same time; the others wait, within their time. Read, a body
/// takes some ten times as much memory; one of many small values counts as more than it has.
const BYTES_AT_ONCE: usize = 16 << 20;
/// A request counts for so many bytes at the most, so none is alone with the server. How much memory its
/// objects may take is bounded as well.
const MOST_OF_ONE: usize = BYTES_AT_ONCE / 2;
/// A request counts for so many bytes at the least: so no more than 64 are worked on at the same time.
const LEAST_BYTES: usize = 256 << 10;
/// Decisions that may take long have so many of these bytes: a crowd that waits for the lock of one budget
/// or spread keeps no pod of others from its sidecars.
const SLOW_BYTES: usize = BYTES_AT_ONCE / 4 * 3;
/// A handshake, and the head of the first request, must come within it.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// The head of another request, on a connection of HTTP/1.1. An API server keeps one that rests for 90 s, and
/// is to be the one who closes it: a request that comes while it is closed here would fail, as that of a
/// `kubectl drain` which tries again each 5 s.
const NEXT_HEAD_WITHIN: Duration = Duration::from_secs(120);
/// The answer comes within it, less than the API server waits for it.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
/// A connection is closed after so long, when its requests have been answered: one that is held open for
/// nothing holds no place for ever.
const LIFETIME: Duration = Duration::from_secs(300);
/// Time that the Service needs to forget this replica once a stop was asked for: it is served meanwhile.
const LINGER: Duration = Duration::from_secs(5);
/// Time that requests have on a connection that is being closed.
const GRACE: Duration = Duration::from_secs(6);

/// Requests of a connection of HTTP/2 at the same time; its client keeps the others back.
const STREAMS: u32 = 128;
/// Headers of a request of HTTP/2 must fit into it.
const HEADER_BYTES: u32 = 16 << 10;
/// The head of a request of HTTP/1.1 must fit into it.
const HEAD_BYTES: usize = 64 << 10;
/// Interval of pings on a connection of HTTP/2: a client that went without a word answers none.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// A ping is answered within it, or the connection is closed.
const PONG_WITHIN: Duration = Duration::from_secs(10);

/// Decision on what a path asks for.
pub(super) trait Decide: Send + Sync + 'static {
    /// Decides on one request.
    fn decide(&self, route: Route, request: &review::Request) -> impl Future<Output = Verdict> + Send;
}

/// Parts that a connection needs.
pub(super) struct Server<D> {
    acceptor: TlsAcceptor,
    shared: Arc<Shared<D>>,
    connections: usize,
}

struct Shared<D> {
    handler: D,
    metrics: Admission,
    /// Room of bodies that have come.
    read: Semaphore,
    /// Room of bodies whose decisions may take long.
    read_slow: Semaphore,
    /// Room of bodies that are worked on.
    work: Semaphore,
    /// The part of it that decisions have that may take long.
    slow: Semaphore,
    answers: Answers,
    /// A decision ends then without an answer.
    answer_within: Duration,
}

impl<D: Decide> Server<D> {
    /// One that decides by the handler and is whoever the certificate says.
    pub(super) fn new(
        handler: D,
        served: watch::Receiver<Served>,
        metrics: Admission,
    ) -> Result<Self, rustls::Error> {
        let acceptor = TlsAcceptor::from(Arc::new(tls(served)?));
        let (read, read_slow) = (Semaphore::new(BYTES_READ), Semaphore::new(BYTES_READ));
        let (work, slow) = (Semaphore::new(BYTES_AT_ONCE), Semaphore::new(SLOW_BYTES));
        let (answers, answer_within) = (Answers::new(BYTES_ANSWERED), ANSWER_WITHIN);
        let shared =
            Arc::new(Shared { handler, metrics, read, read_slow, work, slow, answers, answer_within });
        Ok(Self { acceptor, shared, connections: CONNECTIONS })
    }

    /// Serves until the shutdown.
    pub(super) async fn run(self, listener: TcpListener, shutdown: CancellationToken) {
        let Self { acceptor, shared, connections } = self;
        let closing = CancellationToken::new();
        let lingering = async {
            shutdown.cancelled().await;
            sleep(LINGER).await;
            closing.cancel();
        };
        tokio::join!(lingering, accept(listener, acceptor, shared, connections, &closing));
    }
}

/// Takes connections until the closing, as many as there are places.
async fn accept<D: Decide>(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    shared: Arc<Shared<D>>,
    connections: usize,
    closing: &CancellationToken,
) {
    let (places, tasks) = (Places::new(connections), TaskTracker::new());
    if let Ok(address) = listener.local_addr() {
        info!(%address, "Admission served");
    }
    loop {
        // Cancel-safe: accept takes no connection unless it returns it, and a place is given back.
        let next = async { (places.take().await, listener.accept().await) };
        let Some((place, accepted)) = closing.run_until_cancelled(next).await else { break };
        match accepted {
            Ok((stream, peer)) => {
                let (acceptor, shared, stop) = (acceptor.clone(), shared.clone(), closing.clone());
                tasks.spawn(connection(stream, peer, acceptor, shared, place, stop));
            }
            Err(error) => {
                warn!(%error, "Connection not accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    tasks.close();
    // Requests that are on their way are answered.
    let _ = timeout(GRACE, tasks.wait()).await;
}

fn tls(served: watch::Receiver<Served>) -> Result<ServerConfig, rustls::Error> {
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    let mut config = config.with_no_client_auth().with_cert_resolver(Arc::new(Resolver(served)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

async fn connection<D: Decide>(
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: TlsAcceptor,
    shared: Arc<Shared<D>>,
    place: Place,
    stop: CancellationToken,
) {
    // An answer is one small write.
    let _ = stream.set_nodelay(true);
    // Not cancel-safe, and need not be: the connection goes with it.
    let shaken = tokio::select! {
        shaken = timeout(HEAD_WITHIN, acceptor.accept(stream)) => shaken,
        () = place.given_away() => return debug!(%peer, "No TLS handshake, its place is needed"),
    };
    match shaken {
        Ok(Ok(stream)) => serve(stream, peer, shared, &place, stop).await,
        Ok(Err(error)) => {
            shared.metrics.handshake_failed();
            debug!(%peer, %error, "No TLS handshake");
        }
        Err(_) => debug!(%peer, "No TLS handshake in time"),
    }
}

/// Serves the requests of a connection until one side ends it, or its place or its time is over.
async fn serve<D: Decide>(
    stream: TlsStream<TcpStream>,
    peer: SocketAddr,
    shared: Arc<Shared<D>>,
    place: &Place,
    stop: CancellationToken,
) {
    let pulse = place.pulse();
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let (asked, untaken) = (CancellationToken::new(), CancellationToken::new());
    let (first, late) = (asked.clone(), untaken.clone());
    let service = service_fn(move |request| {
        first.cancel();
        let (shared, pulse, late) = (shared.clone(), pulse.clone(), late.clone());
        async move { Ok::<_, Infallible>(shared.answer(request, pulse, late).await) }
    });
    let asks_nothing = async {
        if is_http2 || timeout(HEAD_WITHIN, asked.cancelled()).await.is_ok() {
            pending::<()>().await;
        }
    };
    let io = TokioIo::new(stream);
    macro_rules! until_closed {
        ($connection:expr) => {{
            let mut connection = std::pin::pin!($connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => Ok(ended),
                () = sleep(LIFETIME) => Err(GRACE),
                () = asks_nothing => Err(GRACE),
                () = stop.cancelled() => Err(GRACE),
                () = place.given_away() => Err(SPARED),
                () = untaken.cancelled() => {
                    debug!(%peer, "Connection closed, its answers are not taken");
                    Err(Duration::ZERO)
                }
            };
            match ended {
                Ok(ended) => ended,
                Err(grace) => {
                    connection.as_mut().graceful_shutdown();
                    timeout(grace, connection).await.unwrap_or(Ok(()))
                }
            }
        }};
    }
    let ended = if is_http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(HEADER_BYTES)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PONG_WITHIN);
        until_closed!(builder.serve_connection(io, service))
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(NEXT_HEAD_WITHIN).max_buf_size(HEAD_BYTES);
        until_closed!(builder.serve_connection(io, service))
    };
    if let Err(error) = ended {
        debug!(%peer, %error, "HTTP connection ended with an error");
    }
}

impl<D: Decide> Shared<D> {
    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        pulse: Arc<Pulse>,
        late: CancellationToken,
    ) -> Response<Full<Bytes>> {
        let begun = Instant::now();
        let name = Route::parse(request.uri().path()).map_or("other", |route| route.name());
        let (work, within) = (self.clone(), self.answer_within);
        // A task of its own, so that a panic in it is this request's alone. It ends with its request: else a
        // caller that resets each stream as soon as it is open would have any number of them.
        let task = tokio::spawn(async move { timeout(within, work.work(request, pulse)).await });
        let answer = match AbortOnDropHandle::new(task).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err((StatusCode::SERVICE_UNAVAILABLE, "no decision in time".to_owned())),
            Err(failed) => {
                error!(path = name, %failed, "A request for admission was not answered");
                let text = "berth-manager failed at this request; its log says more".to_owned();
                Err((StatusCode::INTERNAL_SERVER_ERROR, text))
            }
        };
        self.metrics.answered(name, answer.is_ok(), begun.elapsed());
        match answer {
            Ok((text, room)) => page(StatusCode::OK, answers::body(text, room, late)),
            Err((code, text)) => page(code, answers::failure(code, &text)),
        }
    }

    /// One request: its answer and the room of it, or the code and text of its failure.
    async fn work<B>(
        &self,
        request: Request<B>,
        pulse: Arc<Pulse>,
    ) -> Result<(Vec<u8>, Room), (StatusCode, String)>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let refused = |code, text: &str| Err((code, text.to_owned()));
        let Some(route) = Route::parse(request.uri().path()) else {
            return refused(StatusCode::NOT_FOUND, "there is no such path");
        };
        if request.method() != Method::POST {
            return refused(StatusCode::METHOD_NOT_ALLOWED, "only POST");
        }
        if request.headers().get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
            return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body is compressed: send it as it is");
        }
        let is_slow = route.is_slow();
        let room = if is_slow { &self.read_slow } else { &self.read };
        let (body, room) = match body::read(request.into_body(), room).await {
            Ok(read) => read,
            Err(not_read) => {
                let (code, text) = not_read.answer();
                return refused(code, text);
            }
        };
        let _in_hand = pulse.begin();
        let bytes = u32::try_from(share(review::weight(&body))).unwrap_or(u32::MAX);
        // Before its turn: who waits here keeps nobody from his.
        let mut slow = if is_slow { self.slow.acquire_many(bytes).await.ok() } else { None };
        let Ok(mut turn) = self.work.acquire_many(bytes).await else {
            return refused(StatusCode::SERVICE_UNAVAILABLE, "the manager stops");
        };
        let answer = if route == Route::Convert {
            let answer = conversion::answer(&body).map_err(|text| (StatusCode::BAD_REQUEST, text))?;
            // The answer may wait for room: bodies that come do not wait with it.
            drop((body, room));
            answer
        } else {
            let request = review::read(&body).map_err(|text| (StatusCode::BAD_REQUEST, text))?;
            drop((body, room));
            // A decision may wait for others: it keeps nobody out by what its text only might have been.
            let spare = turn.num_permits().saturating_sub(share(request.weight()));
            drop((turn.split(spare), slow.as_mut().and_then(|slow| slow.split(spare))));
            let verdict = self.handler.decide(route, &request).await;
            let unready = |missing: &str| (StatusCode::SERVICE_UNAVAILABLE, missing.to_owned());
            review::answer(&request, verdict).map_err(unready)?
        };
        // It keeps its turn until then: an answer that waits for room takes memory as well.
        match self.answers.room(answer.len()).await {
            Some(room) => Ok((answer, room)),
            None => refused(StatusCode::SERVICE_UNAVAILABLE, "the manager stops"),
        }
    }
}

/// Bytes for which one of this weight counts.
fn share(weight: usize) -> usize {
    weight.clamp(LEAST_BYTES, MOST_OF_ONE)
}

fn page(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests;
