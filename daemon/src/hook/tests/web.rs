//! `httpGet` against servers that answer line by line, with TLS and without.

use std::sync::{Arc, Mutex};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A server on loopback, until it is dropped.
pub(crate) struct Server {
    pub(crate) port: u16,
    /// The heads of the requests.
    seen: Arc<Mutex<Vec<String>>>,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Accepts and says nothing.
    pub(crate) async fn silent() -> Self {
        let (listener, port) = listen().await;
        let accepting = tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.push(stream);
            }
        });
        Self { port, seen: Arc::default(), accepting }
    }

    /// Answers the path of each request as the closure says.
    pub(crate) async fn answering(
        tls: bool,
        script: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Self {
        let (listener, port) = listen().await;
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let (noted, script) = (seen.clone(), Arc::new(script));
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (noted, script) = (noted.clone(), script.clone());
                tokio::spawn(async move {
                    match tls {
                        false => talk(stream, &noted, &*script).await,
                        true => {
                            if let Ok(stream) = acceptor().accept(stream).await {
                                talk(stream, &noted, &*script).await;
                            }
                        }
                    }
                });
            }
        });
        Self { port, seen, accepting }
    }

    /// `httpGet` of it.
    pub(crate) fn hook(&self, https: bool, path: &str, headers: &[(&str, &str)]) -> Hook {
        Hook::Http {
            host: Some("127.0.0.1".to_owned()),
            port: self.port,
            path: path.to_owned(),
            https,
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        }
    }

    pub(crate) fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Reads one head and answers it. What is no HTTP is answered as many servers do: in plain words.
async fn talk(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    seen: &Mutex<Vec<String>>,
    script: &(impl Fn(&str) -> String + ?Sized),
) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await.unwrap_or(0) == 1 {
        head.push(byte[0]);
        if !head[0].is_ascii_uppercase() {
            let _ = stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\nnot a request").await;
            let _ = stream.shutdown().await;
            return;
        }
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    seen.lock().unwrap().push(head);
    // A client that has seen enough goes away.
    let _ = stream.write_all(script(&path).as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// With a certificate that nobody signed, for another name, and outdated.
fn acceptor() -> TlsAcceptor {
    let pem = include_bytes!("nobody.pem");
    let certificate = CertificateDer::from_pem_slice(pem).unwrap();
    let key = PrivateKeyDer::from_pem_slice(pem).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    Arc::new(config).into()
}

async fn ask(hook: &Hook) -> Result<(), HookError> {
    let played = Played::new(|_, _| Answer::Never);
    run_once(&played, &stop(None, SECOND), hook, 10 * SECOND).await
}

#[tokio::test]
async fn asks_as_the_kubelet_does() {
    let server = Server::answering(false, |_| OK.to_owned()).await;
    ask(&server.hook(false, "stop?now", &[("X-Mine", "yes"), ("Host", "shop.example")])).await.unwrap();
    ask(&server.hook(false, "", &[])).await.unwrap();
    let [named, plain] = &server.seen()[..] else { panic!("not two requests") };
    assert!(named.starts_with("GET /stop?now HTTP/1.1\r\n"), "{named}");
    for line in ["x-mine: yes", "host: shop.example", "user-agent: kube-lifecycle/berth", "accept: */*"] {
        assert!(named.contains(&format!("\r\n{line}\r\n")), "{line} is missing in\n{named}");
    }
    assert!(plain.contains(&format!("\r\nhost: 127.0.0.1:{}\r\n", server.port)), "{plain}");
}

#[tokio::test]
async fn below_400_is_success() {
    let server = Server::answering(false, |path| format!("HTTP/1.1 {} X\r\n\r\n", &path[1..])).await;
    for (code, good) in
        [(200, true), (204, true), (304, true), (399, true), (400, false), (404, false), (500, false)]
    {
        let result = ask(&server.hook(false, &code.to_string(), &[])).await;
        assert_eq!(result.is_ok(), good, "{code}: {result:?}");
        if let Err(error) = result {
            assert!(chain(&error).starts_with(&format!("the HTTP request failed: the answer is {code}")));
        }
    }
}

#[tokio::test]
async fn follows_nobody_to_another_host() {
    let elsewhere = Server::answering(false, |_| OK.to_owned()).await;
    let away = format!("http://localhost:{}/", elsewhere.port);
    let server = Server::answering(false, move |path| {
        let to = match path {
            "/here" => "/there",
            "/away" => &away,
            "/round" => "/round",
            _ => return OK.to_owned(),
        };
        format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\n\r\n")
    })
    .await;
    ask(&server.hook(false, "/here", &[])).await.unwrap();
    assert_eq!(server.seen().len(), 2);
    ask(&server.hook(false, "/away", &[])).await.unwrap();
    assert!(elsewhere.seen().is_empty());
    server.seen();
    let error = ask(&server.hook(false, "/round", &[])).await.unwrap_err();
    assert!(matches!(error, HookError::Http(HttpError::Redirects)), "{error}");
    assert_eq!(server.seen().len(), 11);
}

#[tokio::test]
async fn takes_any_certificate() {
    let server = Server::answering(true, |_| OK.to_owned()).await;
    ask(&server.hook(true, "/stop", &[("Authorization", "Bearer x")])).await.unwrap();
    let [head] = &server.seen()[..] else { panic!("not one request") };
    assert!(head.contains("\r\nauthorization: Bearer x\r\n"), "{head}");
}

#[tokio::test]
async fn asks_in_plain_http_where_there_is_no_tls() {
    let server = Server::answering(false, |_| OK.to_owned()).await;
    ask(&server.hook(true, "/stop", &[("Authorization", "Bearer x"), ("X-Mine", "yes")])).await.unwrap();
    let [head] = &server.seen()[..] else { panic!("not one request") };
    assert!(head.contains("\r\nx-mine: yes\r\n"), "{head}");
    assert!(!head.contains("Bearer"), "a secret in the clear:\n{head}");
}

#[tokio::test]
async fn neither_tls_nor_http() {
    let server = Server::answering(false, |_| "nonsense".to_owned()).await;
    let error = ask(&server.hook(false, "/secret-path", &[("X-Token", "secret")])).await.unwrap_err();
    assert!(matches!(error, HookError::Http(HttpError::Exchange(_))), "{error}");
    assert!(!chain(&error).contains("secret"), "{}", chain(&error));
    // Closed in the middle of the handshake: not the answer of a plain server.
    let (listener, port) = listen().await;
    let closing = tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let hook =
        Hook::Http { host: Some("127.0.0.1".into()), port, path: "/".into(), https: true, headers: vec![] };
    let error = ask(&hook).await.unwrap_err();
    assert!(matches!(error, HookError::Http(HttpError::Tls(_))), "{error}");
    closing.abort();
}
