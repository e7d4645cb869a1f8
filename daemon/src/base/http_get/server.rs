//! A server of a test's own, which answers line by line.

use std::sync::{Arc, Mutex};

use berth_policy::Hook;
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

/// A listener that nobody serves yet, and its port.
pub(crate) async fn listen() -> (TcpListener, u16) {
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
