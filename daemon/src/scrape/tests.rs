//! The door as a scraper meets it: over TLS, with tokens of all kinds.

use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1 as client;
use tokio::io::AsyncWriteExt;

use super::*;
use crate::base::http_get::any_certificate;

/// Knows tokens by what they say.
#[derive(Default)]
struct Words(Arc<AtomicUsize>);

impl Who for Words {
    async fn ask(&self, token: &str) -> Answer {
        self.0.fetch_add(1, Ordering::Relaxed);
        match token {
            "allowed" => Answer::Verdict(Verdict::Allowed),
            "forbidden" => Answer::Verdict(Verdict::Forbidden),
            "silent" => Answer::None,
            _ => Answer::Verdict(Verdict::Unknown),
        }
    }
}

struct Scene {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    shutdown: CancellationToken,
}

impl Scene {
    async fn set() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (words, shutdown) = (Words::default(), CancellationToken::new());
        let asked = words.0.clone();
        let door = Arc::new(Door { who: words, reviews: Mutex::default() });
        let page = || async { Response::new(Full::new(Bytes::from_static(b"berth_agent_known 1\n"))) };
        let certificate = Certificate::new(None, "node-a").unwrap();
        tokio::spawn(accept(listener, certificate, door, page, shutdown.clone()));
        Self { address, asked, shutdown }
    }

    async fn get(&self, method: Method, path: &str, authorization: Option<&str>) -> (u16, String) {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = "node-a".try_into().unwrap();
        let stream = any_certificate().unwrap().connect(name, stream).await.unwrap();
        let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", "node-a");
        if let Some(value) = authorization {
            request = request.header(header::AUTHORIZATION, value);
        }
        let answer = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

#[tokio::test]
async fn only_who_may_read_reads() {
    let scene = Scene::set().await;
    for (method, path, authorization, status) in [
        (Method::GET, "/metrics", Some("Bearer allowed"), 200),
        (Method::GET, "/metrics", Some("bearer  allowed "), 200),
        (Method::GET, "/metrics", Some("Bearer forbidden"), 403),
        (Method::GET, "/metrics", Some("Bearer made-up"), 401),
        (Method::GET, "/metrics", Some("Bearer silent"), 503),
        (Method::GET, "/metrics", Some("Bearer "), 401),
        (Method::GET, "/metrics", Some("Basic allowed"), 401),
        (Method::GET, "/metrics", Some("allowed"), 401),
        (Method::GET, "/metrics", None, 401),
        (Method::GET, "/readyz", Some("Bearer allowed"), 404),
        (Method::GET, "/metrics/", Some("Bearer allowed"), 404),
        (Method::POST, "/metrics", Some("Bearer allowed"), 405),
    ] {
        let (got, body) = scene.get(method.clone(), path, authorization).await;
        assert_eq!(got, status, "{method} {path} {authorization:?}");
        assert_eq!(body.contains("berth_agent_known"), status == 200, "{body}");
    }
    assert_eq!(scene.asked.load(Ordering::Relaxed), 4, "once about each token");
    assert_eq!(scene.get(Method::GET, "/metrics", Some("Bearer silent")).await.0, 503);
    assert_eq!(scene.asked.load(Ordering::Relaxed), 5, "no answer is not remembered");
}

#[tokio::test]
async fn strangers_are_not_asked_about_without_end() {
    let scene = Scene::set().await;
    assert_eq!(scene.get(Method::GET, "/metrics", Some("Bearer allowed")).await.0, 200);
    let mut refused = 0;
    for number in 0..30 {
        let (status, _) = scene.get(Method::GET, "/metrics", Some(&format!("Bearer {number}"))).await;
        refused += usize::from(status == 429);
    }
    assert!(refused > 5, "{refused}");
    assert_eq!(scene.get(Method::GET, "/metrics", Some("Bearer allowed")).await.0, 200);
}

#[tokio::test]
async fn what_is_no_tls_gets_nothing() {
    let scene = Scene::set().await;
    let mut stream = TcpStream::connect(scene.address).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer allowed\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut said).await;
    assert!(!String::from_utf8_lossy(&said).contains("berth_agent"));
    assert_eq!(scene.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn who_holds_connections_open_keeps_no_scraper_out() {
    let scene = Scene::set().await;
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS * 2 {
        held.push(TcpStream::connect(scene.address).await.unwrap());
    }
    assert_eq!(scene.get(Method::GET, "/metrics", Some("Bearer allowed")).await.0, 200);
}
