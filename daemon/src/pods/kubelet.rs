//! The pods of this node as the kubelet itself shows them: `GET /pods`.
//!
//! It knows static pods with their live status, without an API server. Its endpoint has no watch, so it is
//! asked only while something waits for it.

use std::{io, pin::pin, time::Duration};

use berth_policy::Event;
use futures::io::{AsyncRead, AsyncReadExt};
use http::{Request, Uri};
use kube::{Client, Config};

use super::list::{Listed, listed};
use crate::config;

/// A kubelet that is alive answers in milliseconds, and in seconds on a node that is busy. What comes too
/// late for one call is there for the next.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of an answer: those of a thousand pods as people make them. Authors can make pods of a megabyte
/// and more, and the agent has less memory than a node full of them.
const MOST_BYTES: u64 = 32 << 20;

/// A client of the kubelet.
pub(crate) struct KubeletView {
    client: Client,
    url: String,
    /// Nobody else shows pods: what the kubelet does not show is gone.
    alone: bool,
}

/// The kubelet cannot be asked, or did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KubeletError {
    /// The URL is none.
    #[error("podView.kubelet.url {url:?}")]
    Url {
        /// As configured.
        url: String,
        /// Cause.
        source: http::uri::InvalidUri,
    },
    /// No client can be made of the configuration.
    #[error("client of the kubelet at {url}")]
    Client {
        /// The kubelet.
        url: String,
        /// Cause.
        source: Box<kube::Error>,
    },
    /// It did not answer with pods.
    #[error("pods of the kubelet at {url}")]
    Pods {
        /// The kubelet.
        url: String,
        /// Error that came back.
        source: Box<kube::Error>,
    },
    /// The answer did not come whole.
    #[error("answer of the kubelet at {url}")]
    BrokeOff {
        /// The kubelet.
        url: String,
        /// Cause.
        source: io::Error,
    },
    /// There is no room for the answer.
    #[error("pods of the kubelet at {url} have more than {MOST_BYTES} bytes: remove large ones")]
    TooLong {
        /// The kubelet.
        url: String,
    },
    /// It did not answer in time.
    #[error("the kubelet at {url} did not answer within {ANSWER_TIMEOUT:?}")]
    Silent {
        /// The kubelet.
        url: String,
    },
}

impl KubeletView {
    /// A client for the kubelet of `config`; nothing is asked yet. `alone`: no other view shows pods.
    pub(crate) fn new(config: &config::Kubelet, alone: bool) -> Result<Self, KubeletError> {
        let url = config.url.clone();
        let uri: Uri = url.parse().map_err(|source| KubeletError::Url { url: url.clone(), source })?;
        let mut client = Config::new(uri);
        client.accept_invalid_certs = config.insecure_skip_tls_verify;
        client.auth_info.token_file = config.token_file.as_ref().map(|path| path.display().to_string());
        client.auth_info.client_certificate =
            config.client_certificate.as_ref().map(|path| path.display().to_string());
        client.auth_info.client_key = config.client_key.as_ref().map(|path| path.display().to_string());
        client.root_cert_file.clone_from(&config.ca_file);
        let client = Client::try_from(client)
            .map_err(|source| KubeletError::Client { url: url.clone(), source: Box::new(source) })?;
        Ok(Self { client, url, alone })
    }

    /// Asks once. The events say what it shows.
    pub(crate) async fn poll(&self) -> Result<Vec<Event>, KubeletError> {
        let Listed { pods, unread } = self.pods().await?;
        Ok(if self.alone {
            vec![Event::PodsListed(pods), Event::PodsUnread(unread)]
        } else {
            pods.into_iter().map(|pod| Event::PodSeen(Box::new(pod))).collect()
        })
    }

    async fn pods(&self) -> Result<Listed, KubeletError> {
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, self.answer()).await;
        let answer = answer.map_err(|_| KubeletError::Silent { url: self.url.clone() })??;
        listed(&answer).map_err(|error| self.failed(kube::Error::SerdeError(error)))
    }

    /// Asks for the list, and waits for the whole of it.
    async fn answer(&self) -> Result<Vec<u8>, KubeletError> {
        let request = Request::get("/pods").body(Vec::new());
        let request = request.map_err(|error| self.failed(kube::Error::HttpError(error)))?;
        let stream = self.client.request_stream(request).await.map_err(|error| self.failed(error))?;
        let whole = read_within(stream, MOST_BYTES).await;
        let whole = whole.map_err(|source| KubeletError::BrokeOff { url: self.url.clone(), source })?;
        whole.ok_or_else(|| KubeletError::TooLong { url: self.url.clone() })
    }

    fn failed(&self, source: kube::Error) -> KubeletError {
        KubeletError::Pods { url: self.url.clone(), source: Box::new(source) }
    }
}

/// Reads to the end; `None` when there are more bytes than so many.
async fn read_within(stream: impl AsyncRead, most: u64) -> io::Result<Option<Vec<u8>>> {
    // One byte more says that there are more.
    let mut stream = pin!(stream.take(most.saturating_add(1)));
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    Ok((stream.limit() > 0).then_some(bytes))
}

impl std::fmt::Debug for KubeletView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeletView")
            .field("url", &self.url)
            .field("alone", &self.alone)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_read_as_far_as_there_is_room() {
        for (text, most, is_read) in [("", 0, true), ("abc", 4, true), ("abc", 3, true), ("abc", 2, false)] {
            let read = read_within(text.as_bytes(), most).await.unwrap();
            assert_eq!(read, is_read.then(|| text.as_bytes().to_vec()), "{text} {most}");
        }
    }
}
