use http::Request as HttpRequest;
use http_body_util::BodyExt;
use hyper::client::conn;
use rstest::rstest;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use super::*;
use crate::admission::certificates::made_for_tests;

const PODS: &str = "/mutate/pods";
const NAME: &str = "berth-manager.berth-system.svc";

/// Panics at one pod, waits for ever at another, lets the others in. Counts the decisions that wait.
struct Played(watch::Sender<usize>);

/// A decision that waits.
struct Waits<'a>(&'a watch::Sender<usize>);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

impl Decide for Played {
    async fn decide(&self, _: Route, request: &review::Request) -> Verdict {
        match request.namespace.as_str() {
            "unready" => Verdict::Unready("not listed yet"),
            "panics" => panic!("as it is told to"),
            "hangs" => {
                self.0.send_modify(|waiting| *waiting += 1);
                let _waits = Waits(&self.0);
                pending().await
            }
            _ => Verdict::AS_IT_IS,
        }
    }
}

struct Stage {
    address: SocketAddr,
    /// Decisions that wait.
    waiting: watch::Receiver<usize>,
    served: watch::Sender<Served>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

/// Everything that comes at all comes within it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than any test takes.
const FOR_EVER: Duration = Duration::from_secs(3600);

async fn stage() -> (Stage, Vec<u8>) {
    stage_of(CONNECTIONS, ANSWER_WITHIN).await
}

async fn stage_of(connections: usize, answer_within: Duration) -> (Stage, Vec<u8>) {
    let (first, bundle) = made_for_tests(NAME);
    let (served, serving) = watch::channel(first);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let (counts, waiting) = watch::channel(0);
    let mut server = Server::new(Played(counts), serving, Admission::default()).unwrap();
    server.connections = connections;
    Arc::get_mut(&mut server.shared).unwrap().answer_within = answer_within;
    let task = tokio::spawn(server.run(listener, stop.clone()));
    (Stage { address, waiting, served, stop, task }, bundle)
}

fn review(namespace: &str) -> Bytes {
    review_of(namespace, &json!({}))
}

fn review_of(namespace: &str, object: &Value) -> Bytes {
    let request = json!({"uid": "u", "namespace": namespace, "operation": "CREATE", "object": object});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
        .to_string()
        .into()
}

async fn tls(
    stage: &Stage,
    bundle: &[u8],
    protocol: &str,
) -> std::io::Result<TokioIo<tokio_rustls::client::TlsStream<TcpStream>>> {
    let mut roots = RootCertStore::empty();
    let read = CertificateDer::pem_slice_iter(bundle);
    roots.add_parsable_certificates(read.map(Result::unwrap));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let stream = TcpStream::connect(stage.address).await?;
    let name = ServerName::try_from(NAME).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map(TokioIo::new)
}

/// One call on a connection of its own: the code and the body.
async fn call(
    stage: &Stage,
    bundle: &[u8],
    protocol: &str,
    path: &str,
    body: Bytes,
) -> std::io::Result<(u16, Value)> {
    let io = tls(stage, bundle, protocol).await?;
    let uri = if protocol == "h2" { format!("https://{NAME}{path}") } else { path.to_owned() };
    let request = HttpRequest::post(uri).header("host", NAME).body(Full::new(body)).unwrap();
    let response = if protocol == "h2" {
        let (mut sender, connection) = conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    } else {
        let (mut sender, connection) = conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    };
    let code = response.status().as_u16();
    let text = response.into_body().collect().await.unwrap().to_bytes();
    let value = serde_json::from_slice(&text).unwrap_or_else(|_| String::from_utf8_lossy(&text).into());
    Ok((code, value))
}

#[tokio::test]
async fn both_protocols_are_answered() {
    let (stage, bundle) = stage().await;
    for protocol in ["h2", "http/1.1"] {
        let (code, answer) = call(&stage, &bundle, protocol, PODS, review("n")).await.unwrap();
        assert_eq!((code, &answer["response"]), (200, &json!({"uid": "u", "allowed": true})), "{protocol}");
    }
}

/// Each gets its own answer, and the next one is served.
#[tokio::test]
async fn one_bad_request_is_refused_alone() {
    let (stage, bundle) = stage().await;
    let cases: [(&str, Bytes, u16, &str); 5] = [
        (PODS, review("unready"), 503, "not listed yet"),
        (PODS, "{".into(), 400, "no AdmissionReview"),
        (PODS, vec![b' '; MOST_BYTES + 1].into(), 413, "3 MiB"),
        ("/elsewhere", review("n"), 404, "no such path"),
        (PODS, review("panics"), 500, "failed at this request"),
    ];
    for (path, body, code, says) in cases {
        let (found, status) = call(&stage, &bundle, "h2", path, body).await.unwrap();
        // In the words of the API: an API server shows no others.
        assert_eq!((found, &status["kind"], &status["status"]), (code, &json!("Status"), &json!("Failure")));
        assert!(status["message"].as_str().unwrap().contains(says), "{status}");
        let (code, _) = call(&stage, &bundle, "h2", PODS, review("n")).await.unwrap();
        assert_eq!(code, 200);
    }
}

/// Callers that announce much and send nothing are refused, and nobody waits for them.
#[tokio::test]
async fn bodies_that_do_not_come_hold_up_nobody() {
    let (stage, bundle) = stage().await;
    let mut slow = Vec::new();
    for _ in 0..8 {
        let mut stream = tls(&stage, &bundle, "http/1.1").await.unwrap().into_inner();
        let head = format!("POST {PODS} HTTP/1.1\r\nhost: {NAME}\r\ncontent-length: 3000000\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        slow.push(stream);
    }
    // Their heads are read by then.
    sleep(Duration::from_millis(200)).await;
    let (code, _) = call(&stage, &bundle, "h2", PODS, review("n")).await.unwrap();
    assert_eq!(code, 200);
    for mut stream in slow {
        let mut answer = [0; 12];
        timeout(ANSWER_WITHIN * 2, stream.read_exact(&mut answer)).await.unwrap().unwrap();
        assert_eq!(&answer, b"HTTP/1.1 408");
    }
}

/// Requests that wait count for what they take, and not for what their text might have been.
#[rstest]
#[case::texts_of_braces(json!({ "metadata": { "annotations": { "a": "{".repeat(100_000) } } }))]
#[case::maps_without_entries(json!({ "spec": vec![json!({}); 40_000] }))]
#[tokio::test]
async fn those_that_wait_hold_up_nobody(#[case] object: Value) {
    let (stage, bundle) = stage_of(CONNECTIONS, FOR_EVER).await;
    let stage = Arc::new(stage);
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (stage, bundle, body) = (stage.clone(), bundle.clone(), review_of("hangs", &object));
        waiting.spawn(async move { call(&stage, &bundle, "h2", PODS, body).await.unwrap().0 });
    }
    // Their bodies are read by then.
    sleep(Duration::from_millis(300)).await;
    let (code, _) = call(&stage, &bundle, "h2", PODS, review("n")).await.unwrap();
    assert!(code == 200 && waiting.try_join_next().is_none(), "{code}");
}

/// A crowd of decisions that take long leaves room to the others, whatever they are about.
#[rstest]
#[case::small(100, 1, SLOW_BYTES / LEAST_BYTES)]
#[case::large(40, 10_000, 12)]
#[tokio::test]
async fn slow_decisions_hold_up_no_others(#[case] count: usize, #[case] maps: usize, #[case] most: usize) {
    let (stage, bundle) = stage_of(CONNECTIONS, FOR_EVER).await;
    let io = tls(&stage, &bundle, "h2").await.unwrap();
    let (sender, connection) = conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let body = review_of("hangs", &json!({ "spec": vec![json!({ "a": 1 }); maps] }));
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..count {
        let mut sender = sender.clone();
        let request = HttpRequest::post(format!("https://{NAME}/validate/pods"));
        let request = request.body(Full::new(body.clone())).unwrap();
        crowd.spawn(async move { sender.send_request(request).await.map(|answer| answer.status()) });
    }
    // On a machine with time to spare all bodies are read by then, as far as there is room.
    sleep(Duration::from_secs(1)).await;
    let answered = timeout(PATIENCE, call(&stage, &bundle, "h2", PODS, review("n"))).await;
    assert_eq!(answered.unwrap().unwrap().0, 200);
    let mut waiting = stage.waiting.clone();
    let begun = timeout(PATIENCE, waiting.wait_for(|waiting| *waiting > 0)).await;
    let waiting = *begun.unwrap().unwrap();
    assert!(waiting <= most, "{waiting}");
}

/// A caller that resets its streams as fast as it opens them has no more decisions on their way than streams.
#[tokio::test]
async fn nobody_decides_for_a_caller_that_has_gone() {
    let (stage, bundle) = stage_of(CONNECTIONS, FOR_EVER).await;
    let io = tls(&stage, &bundle, "h2").await.unwrap();
    let (mut sender, connection) = conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let mut waiting = stage.waiting.clone();
    for _ in 0..3 {
        let request = HttpRequest::post(format!("https://{NAME}{PODS}"));
        let request = request.body(Full::new(review("hangs"))).unwrap();
        tokio::select! {
            answered = sender.send_request(request) => panic!("{answered:?}"),
            begun = waiting.wait_for(|waiting| *waiting == 1) => assert!(begun.is_ok()),
        }
        let ended = timeout(PATIENCE, waiting.wait_for(|waiting| *waiting == 0)).await;
        assert!(ended.is_ok(), "it goes on");
    }
}

/// A caller that asks for much and reads nothing loses the connection; others are answered meanwhile.
#[tokio::test]
async fn answers_that_are_not_taken_hold_up_nobody() {
    let (stage, bundle) = stage().await;
    let version = "apps.kruise.io/v1beta1";
    let set =
        json!({ "apiVersion": version, "kind": "StatefulSet", "spec": { "template": "x".repeat(1 << 20) } });
    let request = json!({ "uid": "u", "desiredAPIVersion": version, "objects": [set] });
    let body =
        json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request });
    let body = Bytes::from(body.to_string());
    let io = tls(&stage, &bundle, "h2").await.unwrap();
    let mut client = conn::http2::Builder::new(TokioExecutor::new());
    client.initial_stream_window_size(1024_u32);
    let (mut sender, connection) = client.handshake(io).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut untaken = Vec::new();
    for _ in 0..3 {
        let request =
            HttpRequest::post(format!("https://{NAME}/convert")).body(Full::new(body.clone())).unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        untaken.push(response);
    }
    let (code, _) = call(&stage, &bundle, "h2", PODS, review("n")).await.unwrap();
    assert_eq!(code, 200);
    let closed = timeout(answers::HALF_TIME * 6, connection).await;
    assert!(closed.is_ok(), "it is open still");
}

#[tokio::test]
async fn a_compressed_body_is_refused_in_words() {
    let (stage, bundle) = stage().await;
    let io = tls(&stage, &bundle, "http/1.1").await.unwrap();
    let (mut sender, connection) = conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let request = HttpRequest::post(PODS).header("host", NAME).header("content-encoding", "gzip");
    let response = sender.send_request(request.body(Full::new(review("n"))).unwrap()).await.unwrap();
    assert_eq!(response.status(), 415);
    let text = response.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&text).contains("compressed"));
}

/// Connections that are open for nothing go when another one comes.
#[tokio::test]
async fn idle_connections_keep_nobody_out() {
    let (stage, bundle) = stage_of(4, ANSWER_WITHIN).await;
    let mut idle = Vec::new();
    for protocol in ["h2", "http/1.1", "h2", "h2"] {
        idle.push(tls(&stage, &bundle, protocol).await.unwrap());
    }
    let answered = call(&stage, &bundle, "h2", PODS, review("n"));
    let (code, _) = timeout(PATIENCE, answered).await.unwrap().unwrap();
    assert_eq!(code, 200);
}

#[tokio::test(start_paused = true)]
async fn one_that_hangs_is_answered_in_time() {
    let (stage, bundle) = stage().await;
    let begun = Instant::now();
    let (code, _) = call(&stage, &bundle, "h2", PODS, review("hangs")).await.unwrap();
    assert_eq!(code, 503);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// Nobody closes a connection under the hands of an API server: it keeps one that rests for 90 s.
#[tokio::test(start_paused = true)]
async fn a_connection_that_rests_is_kept() {
    let (stage, bundle) = stage().await;
    let io = tls(&stage, &bundle, "http/1.1").await.unwrap();
    let (mut sender, connection) = conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    for rest in [0, 6, 95] {
        sleep(Duration::from_secs(rest)).await;
        let body = Full::new(review("n"));
        let request = HttpRequest::post(PODS).header("host", NAME).body(body).unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200, "after {rest} s");
        response.into_body().collect().await.unwrap();
    }
}

/// One that asks nothing at first holds no place.
#[tokio::test(start_paused = true)]
async fn a_connection_that_asks_nothing_is_closed() {
    let (stage, bundle) = stage().await;
    let io = tls(&stage, &bundle, "http/1.1").await.unwrap();
    let (_sender, connection) = conn::http1::handshake::<_, Full<Bytes>>(io).await.unwrap();
    let ended = timeout(HEAD_WITHIN + GRACE + Duration::from_secs(1), connection).await;
    assert!(ended.is_ok(), "it is open still");
}

/// A client that trusts both CAs is served before, while and after the certificate changes.
#[tokio::test]
async fn a_new_certificate_fails_no_handshake() {
    let (stage, bundle) = stage().await;
    let (next, other) = made_for_tests(NAME);
    let both = [bundle.clone(), other.clone()].concat();
    let mut next = Some(next);
    for turn in 0..40 {
        if turn == 20 {
            stage.served.send_replace(next.take().unwrap());
        }
        let (code, _) = call(&stage, &both, "h2", PODS, review("n")).await.unwrap();
        assert_eq!(code, 200);
    }
    // It was another one: the old CA alone does not know it.
    assert!(call(&stage, &bundle, "h2", PODS, review("n")).await.is_err());
    assert!(call(&stage, &other, "h2", PODS, review("n")).await.is_ok());
}

/// After the stop is asked for, it answers until the Service has forgotten it.
#[tokio::test(start_paused = true)]
async fn a_stop_fails_no_request() {
    let (stage, bundle) = stage().await;
    stage.stop.cancel();
    sleep(LINGER / 2).await;
    let (code, _) = call(&stage, &bundle, "h2", PODS, review("n")).await.unwrap();
    assert_eq!(code, 200);
    stage.task.await.unwrap();
    assert!(TcpStream::connect(stage.address).await.is_err());
}
