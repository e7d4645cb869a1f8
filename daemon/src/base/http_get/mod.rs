//! `httpGet` as the kubelet sends it, of hooks and of probes: certificates are not checked, and nobody is
//! followed to another host.
//!
//! How a connection is made is the business of the [`Dial`] that is given, what an answer means that of the
//! caller.

mod first_word;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
#[cfg(test)]
pub(crate) mod server;
mod target;
mod tls;

use std::{future::pending, pin::pin};

use ::http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode,
    header::{
        ACCEPT, AUTHORIZATION, CONNECTION, HOST, InvalidHeaderName, InvalidHeaderValue, LOCATION, USER_AGENT,
    },
};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tracing::debug;

pub(crate) use self::target::{Follow, Target};
#[cfg(test)]
pub(crate) use self::tls::connector as any_certificate;
use self::{
    first_word::FirstWord,
    tls::{connector, speaks_no_tls},
};

/// Redirects that are followed: as many as Go's client follows, and so the kubelet.
const MAX_REDIRECTS: usize = 10;
/// How much of an answer is read, so that its sender is not cut off in the middle of a few words; the
/// kubelet's figure for probes.
const MAX_BODY: usize = 10 << 10;

/// Makes connections.
pub(crate) trait Dial {
    /// Error of a connection; the request's own failures are told in it, too.
    type Error: From<HttpError>;

    /// A connection to this port of the host.
    fn dial(&self, host: &str, port: u16) -> impl Future<Output = Result<TcpStream, Self::Error>> + Send;
}

/// Manner of a request: the name of its sender, and the answers it accepts.
pub(crate) struct Manner {
    /// `User-Agent`.
    pub(crate) agent: HeaderValue,
    /// Whether a server that is to speak TLS and turns out to speak plain HTTP is asked in plain HTTP.
    pub(crate) plain_instead_of_tls: bool,
    /// Which redirects are followed.
    pub(crate) follow: Follow,
}

/// The last answer.
pub(crate) struct Answer {
    /// Its status; that of a redirect where it is not followed.
    pub(crate) status: StatusCode,
    /// The beginning of its body; what could be read of it if it broke off.
    pub(crate) body: Vec<u8>,
    /// Where a redirect leads that is not followed: host, and port if it names one.
    pub(crate) led_away: Option<String>,
}

/// A request that was not answered well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
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
        /// Cause.
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
        /// Cause.
        source: InvalidHeaderName,
    },
    /// A header's value cannot be sent.
    #[error("the value of header {name}")]
    HeaderValue {
        /// Its name.
        name: HeaderName,
        /// Cause.
        source: InvalidHeaderValue,
    },
    /// The request cannot be put together.
    #[error("request")]
    Request(#[source] ::http::Error),
    /// The connection broke, or the other end speaks no HTTP.
    #[error("exchange")]
    Exchange(#[source] hyper::Error),
}

/// Asks, and follows redirects on the same host. Dropping it closes the connection.
pub(crate) async fn get<D: Dial>(
    dial: &D,
    manner: &Manner,
    mut target: Target,
    headers: &[(String, String)],
) -> Result<Answer, D::Error> {
    let headers = user_headers(headers, &manner.agent)?;
    for _ in 0..=MAX_REDIRECTS {
        let answer = fetch(dial, manner, &target, headers.clone()).await?;
        let (status, location) = (answer.status(), answer.headers().get(LOCATION));
        let led_away = match location.filter(|_| is_redirect(status)) {
            None => None,
            Some(location) => match target.redirected(location, manner.follow, headers.get(HOST)) {
                Some(next) => {
                    target = next;
                    continue;
                }
                None => Some(target::host_of(location).unwrap_or_else(|| "nowhere".to_owned())),
            },
        };
        return Ok(Answer { status, body: answer.into_body(), led_away });
    }
    Err(HttpError::Redirects.into())
}

/// One request and its answer.
async fn fetch<D: Dial>(
    dial: &D,
    manner: &Manner,
    target: &Target,
    mut headers: HeaderMap,
) -> Result<Response<Vec<u8>>, D::Error> {
    let stream = dial.dial(&target.host, target.port).await?;
    if !target.https {
        return Ok(exchange(stream, target, headers).await?);
    }
    let name = ServerName::try_from(target.host.clone())
        .map_err(|source| HttpError::ServerName { host: target.host.clone(), source })?;
    match connector()?.connect(name, stream).await {
        Ok(stream) => Ok(exchange(stream, target, headers).await?),
        Err(error) if manner.plain_instead_of_tls && speaks_no_tls(&error) => {
            debug!(host = target.host, port = target.port, "No TLS there, asking in plain HTTP");
            // Not for the wire.
            headers.remove(AUTHORIZATION);
            let stream = dial.dial(&target.host, target.port).await?;
            Ok(exchange(stream, target, headers).await?)
        }
        Err(error) => Err(HttpError::Tls(error).into()),
    }
}

async fn exchange<S>(
    stream: S,
    target: &Target,
    mut headers: HeaderMap,
) -> Result<Response<Vec<u8>>, HttpError>
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
        http1::handshake(TokioIo::new(FirstWord::new(stream))).await.map_err(HttpError::Exchange)?;
    let answered = async {
        let (head, body) = sender.send_request(request).await.map_err(HttpError::Exchange)?.into_parts();
        Ok(Response::from_parts(head, beginning(body).await))
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
async fn beginning(mut body: Incoming) -> Vec<u8> {
    let mut read = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        if let Some(data) = frame.data_ref() {
            read.extend_from_slice(&data[..data.len().min(MAX_BODY - read.len())]);
        }
        if read.len() == MAX_BODY {
            break;
        }
    }
    read
}

/// The user's headers, and those that every request has unless the user gives them. An empty one is not sent
/// at all.
fn user_headers(given: &[(String, String)], agent: &HeaderValue) -> Result<HeaderMap, HttpError> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let name = HeaderName::try_from(name)
            .map_err(|source| HttpError::HeaderName { name: name.clone(), source })?;
        let value = HeaderValue::try_from(value)
            .map_err(|source| HttpError::HeaderValue { name: name.clone(), source })?;
        headers.append(name, value);
    }
    for (name, value) in [(USER_AGENT, agent.clone()), (ACCEPT, HeaderValue::from_static("*/*"))] {
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

#[cfg(test)]
mod tests;
