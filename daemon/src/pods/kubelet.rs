//! The pods of this node as the kubelet itself shows them: `GET /pods`.
//!
//! It knows static pods with their live status, without an API server. Its endpoint has no watch, so it is
//! asked only while something waits for it.

use std::time::Duration;

use berth_policy::Event;
use http::{Request, Uri};
use kube::{Client, Config};

use super::list::{Listed, listed};
use crate::config;

/// A kubelet that is alive answers in milliseconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

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
        let request = Request::get("/pods").body(Vec::new());
        let failed = |source| KubeletError::Pods { url: self.url.clone(), source: Box::new(source) };
        let request = request.map_err(|error| failed(kube::Error::HttpError(error)))?;
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, self.client.request_text(request)).await;
        let answer = answer.map_err(|_| KubeletError::Silent { url: self.url.clone() })?;
        listed(&answer.map_err(failed)?).map_err(|error| failed(kube::Error::SerdeError(error)))
    }
}

impl std::fmt::Debug for KubeletView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeletView")
            .field("url", &self.url)
            .field("alone", &self.alone)
            .finish_non_exhaustive()
    }
}
