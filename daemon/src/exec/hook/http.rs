//! `httpGet` of a hook, as the kubelet sends it, but that an answer of 400 or more is a failure.

use ::http::HeaderValue;
use tokio::net::TcpStream;

use super::{HookError, dial};
use crate::base::http_get::{self, Dial, Follow, HttpError, Manner, Target};

/// The kubelet's agent is `kube-lifecycle/` and its version; and it asks in plain HTTP where there is no TLS.
const MANNER: Manner = Manner {
    agent: HeaderValue::from_static("kube-lifecycle/berth"),
    plain_instead_of_tls: true,
    follow: Follow::AnyPort,
};

/// Dials whom the hook names, from the agent's own network.
struct ByName;

/// Asks, and is content with any answer below 400.
pub(super) async fn get(target: Target, headers: &[(String, String)]) -> Result<(), HookError> {
    let answer = http_get::get(&ByName, &MANNER, target, headers).await?;
    match answer.status.as_u16() < 400 {
        true => Ok(()),
        false => Err(HookError::Http(HttpError::Status(answer.status))),
    }
}

impl Dial for ByName {
    type Error = HookError;

    async fn dial(&self, host: &str, port: u16) -> Result<TcpStream, HookError> {
        dial(host, port).await
    }
}

impl From<HttpError> for HookError {
    fn from(error: HttpError) -> Self {
        Self::Http(error)
    }
}
