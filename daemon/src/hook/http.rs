//! `httpGet` of a hook, as the kubelet sends it: certificates are not checked, a server that turns out to speak plain
//! HTTP is asked in plain HTTP, and nobody is followed to another host.

use std::{future::pending, pin::pin, sync::Arc};

use ::http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri,
    header::{
        ACCEPT, AUTHORIZATION, CONNECTION, HOST, InvalidHeaderName, InvalidHeaderValue, LOCATION, USER_AGENT,
    },
};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::CryptoProvider,
    pki_types::{CertificateDer, InvalidDnsNameError, ServerName, UnixTime},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tracing::debug;

use super::{HookError, dial};

/// As many as Go's client follows, and so the kubelet.
const MAX_REDIRECTS: usize = 10;
/// How much of an answer is read, so that its sender is not cut off in the middle of a few words.
const MAX_BODY: usize = 10 << 10;
/// The kubelet's is `kube-lifecycle/` and its version.
const AGENT: HeaderValue = HeaderValue::from_static("kube-lifecycle/berth");

/// Where to ask, and what for. Its path may hold a secret and is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Target {
    https: bool,
    host: String,
    port: u16,
    /// Begins with `/`; valid in a request line.
    path: String,
}

/// A request that was not answered well.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The answer says no.
    #[error("the answer is {0}")]
    Status(StatusCode),
    /// The same host sends us on and on.
    #[error("more than {MAX_REDIRECTS} redirects")]
    Redirects,
    /// No TLS with this server.
    #[error("TLS handshake")]
    Tls(#[source] std::io::Error),
    /// No name a TLS server can have.
    #[error("host {host:?} is no name for TLS")]
    ServerName {
        /// The host.
        host: String,
        /// What is wrong with it.
        source: InvalidDnsNameError,
    },
    /// No protocol version in common with our own library.
    #[error("TLS is not available")]
    TlsVersions(#[source] rustls::Error),
    /// A header's name is none.
    #[error("header {name:?}")]
    HeaderName {
        /// Its name.
        name: String,
        /// What is wrong with it.
        source: InvalidHeaderName,
    },
    /// A header's value cannot be sent.
    #[error("the value of header {name}")]
    HeaderValue {
        /// Its name.
        name: HeaderName,
        /// What is wrong with it.
        source: InvalidHeaderValue,
    },
    /// The request cannot be put together.
    #[error("request")]
    Request(#[source] ::http::Error),
    /// The connection broke, or the other end speaks no HTTP.
    #[error("exchange")]
    Exchange(#[source] hyper::Error),
}

/// Asks, and is content with any answer below 400.
pub(super) async fn get(mut target: Target, headers: &[(String, String)]) -> Result<(), HookError> {
    let headers = user_headers(headers).map_err(HookError::Http)?;
    for _ in 0..=MAX_REDIRECTS {
        let answer = fetch(&target, headers.clone()).await?;
        let next = answer.headers().get(LOCATION).filter(|_| is_redirect(answer.status()));
        match next.and_then(|location| target.redirected(location)) {
            Some(next) => target = next,
            None if answer.status().as_u16() < 400 => return Ok(()),
            None => return Err(HookError::Http(HttpError::Status(answer.status()))),
        }
    }
    Err(HookError::Http(HttpError::Redirects))
}

// === impl Target ===

impl Target {
    pub(super) fn new(https: bool, host: String, port: u16, path: &str) -> Self {
        Self { https, host, port, path: encoded(path) }
    }

    /// `Host`, with the port even where it is the usual one.
    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Where this leads on the same host; `None` for any other host.
    fn redirected(&self, location: &HeaderValue) -> Option<Self> {
        let location = location.to_str().ok()?;
        if location.starts_with("//") {
            return None;
        }
        let Ok(uri) = location.parse::<Uri>().map(Uri::into_parts) else {
            return Some(Self { path: self.beside(location), ..self.clone() });
        };
        let path = uri.path_and_query.as_ref().map_or("/", |path| path.as_str());
        match (uri.scheme, uri.authority) {
            (Some(scheme), Some(authority)) => {
                let https = scheme == ::http::uri::Scheme::HTTPS;
                let host = authority.host().trim_start_matches('[').trim_end_matches(']');
                let port = authority.port_u16().unwrap_or(if https { 443 } else { 80 });
                let same =
                    host.eq_ignore_ascii_case(&self.host) && (https || scheme == ::http::uri::Scheme::HTTP);
                same.then(|| Self { https, host: self.host.clone(), port, path: encoded(path) })
            }
            _ if location.starts_with('/') => Some(Self { path: encoded(path), ..self.clone() }),
            _ => Some(Self { path: self.beside(location), ..self.clone() }),
        }
    }

    /// A path relative to this one.
    fn beside(&self, relative: &str) -> String {
        let path = self.path.split('?').next().unwrap_or("/");
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        encoded(&format!("{directory}/{relative}"))
    }
}

/// One request and its answer, whose body is read and forgotten.
async fn fetch(target: &Target, headers: HeaderMap) -> Result<Response<()>, HookError> {
    let stream = dial(&target.host, target.port).await?;
    if !target.https {
        return exchange(stream, target, headers).await.map_err(HookError::Http);
    }
    let name = ServerName::try_from(target.host.clone())
        .map_err(|source| HookError::Http(HttpError::ServerName { host: target.host.clone(), source }))?;
    match connector().map_err(HookError::Http)?.connect(name, stream).await {
        Ok(stream) => exchange(stream, target, headers).await.map_err(HookError::Http),
        Err(error) if speaks_no_tls(&error) => {
            debug!(host = target.host, port = target.port, "Hook: no TLS there, asking in plain HTTP");
            let mut headers = headers;
            // Not for the wire.
            headers.remove(AUTHORIZATION);
            let stream = dial(&target.host, target.port).await?;
            exchange(stream, target, headers).await.map_err(HookError::Http)
        }
        Err(error) => Err(HookError::Http(HttpError::Tls(error))),
    }
}

async fn exchange<S>(stream: S, target: &Target, mut headers: HeaderMap) -> Result<Response<()>, HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut request = Request::get(&target.path).body(Empty::<Bytes>::new()).map_err(HttpError::Request)?;
    if !headers.contains_key(HOST) {
        let host = HeaderValue::try_from(target.authority())
            .map_err(|source| HttpError::HeaderValue { name: HOST, source })?;
        headers.insert(HOST, host);
    }
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    *request.headers_mut() = headers;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(HttpError::Exchange)?;
    let answered = async {
        let (head, body) = sender.send_request(request).await.map_err(HttpError::Exchange)?.into_parts();
        forget(body).await;
        Ok(Response::from_parts(head, ()))
    };
    let mut connection = pin!(async {
        // What ends it, the one request hears as well.
        let _ = connection.await;
        pending::<()>().await;
    });
    // Both are polled until the answer is there; nothing of the connection is needed after it.
    tokio::select! {
        biased;
        answer = answered => answer,
        () = &mut connection => unreachable!("it never ends"),
    }
}

/// Reads a body as far as [`MAX_BODY`]. The status counts, whatever follows it.
async fn forget(mut body: Incoming) {
    let mut read = 0;
    while let Some(Ok(frame)) = body.frame().await {
        read += frame.data_ref().map_or(0, Bytes::len);
        if read >= MAX_BODY {
            break;
        }
    }
}

/// The user's headers, and those that every request has unless the user gives them. An empty one is not sent at all.
fn user_headers(given: &[(String, String)]) -> Result<HeaderMap, HttpError> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let name = HeaderName::try_from(name)
            .map_err(|source| HttpError::HeaderName { name: name.clone(), source })?;
        let value = HeaderValue::try_from(value)
            .map_err(|source| HttpError::HeaderValue { name: name.clone(), source })?;
        headers.append(name, value);
    }
    for (name, value) in [(USER_AGENT, AGENT), (ACCEPT, HeaderValue::from_static("*/*"))] {
        match headers.get(&name) {
            None => drop(headers.insert(name, value)),
            Some(value) if value.is_empty() => drop(headers.remove(name)),
            Some(_) => {}
        }
    }
    Ok(headers)
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// A path that can stand in a request line: from `/`, without a fragment, other bytes as `%XX`.
fn encoded(path: &str) -> String {
    let path = path.split('#').next().unwrap_or_default();
    let mut encoded = String::with_capacity(path.len() + 1);
    if !path.starts_with('/') {
        encoded.push('/');
    }
    for byte in path.bytes() {
        match byte {
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => {
                encoded.push_str(&format!("%{byte:02X}"));
            }
            b'!'..=b'~' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// The server's first bytes are no TLS record: it answers in the clear.
fn speaks_no_tls(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)))
}

fn connector() -> Result<TlsConnector, HttpError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(AnyCertificate(provider.clone()));
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(HttpError::TlsVersions)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config).into())
}

/// Takes any certificate: a pod's own, for an address that no authority signs, is what a hook meets.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
#[path = "tests/http.rs"]
mod tests;
