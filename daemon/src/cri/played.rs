//! A runtime whose every answer is a closure of the test.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use ::http::{HeaderMap, Request, Response};
use berth_shim::RuntimeEndpoint;
use bytes::Bytes;
use futures::{StreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::{net::UnixListener, sync::watch, task::JoinHandle};
use tonic::Code;

use super::Runtime;

/// Answer of the runtime to a call.
pub(crate) enum Answer {
    Message(Vec<u8>),
    Error(Code, &'static str),
    /// Nothing, for as long as somebody waits.
    Never,
}

/// See the module. Ends with its test.
pub(crate) struct Played {
    directory: tempfile::TempDir,
    calls: Arc<Mutex<Vec<(String, Bytes)>>>,
    waiting: watch::Sender<usize>,
    connections: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

type Script = dyn Fn(&str, Bytes) -> Answer + Send + Sync;

impl Answer {
    pub(crate) fn message(message: &impl Message) -> Self {
        Self::Message(message.encode_to_vec())
    }
}

impl Played {
    /// Answers each method (its name without the service) as the closure says.
    pub(crate) fn new(script: impl Fn(&str, Bytes) -> Answer + Send + Sync + 'static) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("cri.sock")).unwrap();
        let script: Arc<Script> = Arc::new(script);
        let calls = Arc::new(Mutex::new(Vec::new()));
        let waiting = watch::Sender::new(0);
        let (noted, counted) = (calls.clone(), waiting.clone());
        let connections = Arc::<AtomicUsize>::default();
        let accepted = connections.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::SeqCst);
                let (script, noted, counted) = (script.clone(), noted.clone(), counted.clone());
                let service = hyper::service::service_fn(move |request| {
                    answer(request, script.clone(), noted.clone(), counted.clone())
                });
                let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { directory, calls, waiting, connections, accepting }
    }

    /// Its endpoint.
    pub(crate) fn endpoint(&self) -> RuntimeEndpoint {
        self.directory.path().join("cri.sock").into()
    }

    /// A client of it.
    pub(crate) fn client(&self) -> Runtime {
        Runtime::new(&self.endpoint())
    }

    /// The methods that were called, in order.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().iter().map(|(method, _)| method.clone()).collect()
    }

    /// The requests of this method.
    pub(crate) fn asked<M: Message + Default>(&self, method: &str) -> Vec<M> {
        let calls = self.calls.lock().unwrap();
        let of_method = calls.iter().filter(|(called, _)| called == method);
        of_method.map(|(_, message)| M::decode(message.clone()).unwrap()).collect()
    }

    /// Returns how often somebody connected.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Waits until nobody waits for an answer that never comes.
    pub(crate) async fn until_abandoned(&self) {
        self.waiting.subscribe().wait_for(|waiting| *waiting == 0).await.unwrap();
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One call that waits, for as long as it lives.
struct Waiting(watch::Sender<usize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

type Body = StreamBody<stream::BoxStream<'static, Result<Frame<Bytes>, hyper::Error>>>;

async fn answer(
    request: Request<Incoming>,
    script: Arc<Script>,
    calls: Arc<Mutex<Vec<(String, Bytes)>>>,
    waiting: watch::Sender<usize>,
) -> Result<Response<Body>, hyper::Error> {
    let method = request.uri().path().rsplit('/').next().unwrap().to_owned();
    let message = request.into_body().collect().await?.to_bytes().slice(5..);
    calls.lock().unwrap().push((method.clone(), message.clone()));
    let mut trailers = HeaderMap::new();
    let mut frames = Vec::new();
    match script(&method, message) {
        Answer::Message(message) => {
            let length = u32::try_from(message.len()).unwrap().to_be_bytes();
            frames.push(Frame::data(Bytes::from([&[0][..], &length, &message].concat())));
            trailers.insert("grpc-status", 0.into());
        }
        Answer::Error(code, text) => {
            trailers.insert("grpc-status", (code as i32).into());
            trailers.insert("grpc-message", text.parse().unwrap());
        }
        Answer::Never => {
            waiting.send_modify(|waiting| *waiting += 1);
            let _waiting = Waiting(waiting);
            std::future::pending::<()>().await;
        }
    }
    frames.push(Frame::trailers(trailers));
    let body = StreamBody::new(stream::iter(frames).map(Ok).boxed());
    Ok(Response::builder().header("content-type", "application/grpc").body(body).unwrap())
}
