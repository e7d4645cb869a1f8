//! Renews the token of the agent's service account, so that nobody else needs the right to make one for a
//! node. One that is bound to a pod: [`super::pod_token`].
//!
//! The old token asks for the new one, also where it seems to have ended: that the API server knows better.
//! When it may not, the identity that the service account takes the place of is tried; the kubelet's may not
//! do that, an administrator's may.

use std::time::Duration;

use k8s_openapi::{
    api::{
        authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
        core::v1::ServiceAccount as Account,
    },
    jiff::Timestamp,
};
use kube::{Api, Client, api::PostParams};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    client::{CallError, Connection, once},
    metrics::{ClusterMetrics, Write},
    token::{self, Claims, Due, TokenError},
};
use crate::{base::causes::chain, config::ServiceAccount};

/// The life that a new token is asked for: the most that the policy of `deploy/token-renewal` allows. The
/// API server may give less.
pub(super) const LIFE: Duration = Duration::from_secs(3600);
/// How often a token that nobody can renew is looked for.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// The longest the agent sleeps: somebody may have put another token there meanwhile.
pub(super) const LONGEST: Duration = Duration::from_secs(3600);

/// Keeps a token good.
#[derive(Debug)]
pub(super) struct Renewal {
    pub(super) connection: Connection,
    pub(super) account: ServiceAccount,
    pub(super) node: String,
    pub(super) metrics: ClusterMetrics,
    pub(super) state: watch::Sender<TokenState>,
}

/// How the token is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenState {
    /// When it ends; `None` while there is none.
    pub expires: Option<Timestamp>,
    /// Why it was not renewed when it should have been.
    pub error: Option<String>,
}

/// Reason why there is no new token.
#[derive(Debug, thiserror::Error)]
pub(super) enum RenewalError {
    #[error("token of service account {account}")]
    File { account: String, source: TokenError },
    #[error("looking for pods of service account {account} on this node")]
    Pods { account: String, source: CallError },
    #[error("asking for a new token of service account {account}, bound to node {node}")]
    Request { account: String, node: String, source: CallError },
    #[error(
        "the new token of service account {account} is not bound to node {node}: the API server is too old"
    )]
    Unbound { account: String, node: String },
    #[error("the token is of {found}, not of service account {account}")]
    Foreign { account: String, found: String },
}

// === impl Renewal ===

impl Renewal {
    /// Renews until the shutdown.
    pub(super) async fn run(self, shutdown: CancellationToken) {
        if self.account.bound_to_pod {
            return self.follow_pods(shutdown).await;
        }
        // Cancel-safe: the file is replaced at once or not at all.
        while let Some(pause) = shutdown.run_until_cancelled(self.turn()).await {
            if shutdown.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    /// Looks at the token, renews it if that is due, and says when to look again.
    async fn turn(&self) -> Duration {
        let (claims, trouble) = match self.look() {
            Ok(claims) => (claims, None),
            Err(error) => (None, Some(error)),
        };
        let source = self.connection.source();
        let due = claims.as_ref().map_or(Due::Expired, |claims| source.due(claims));
        let left = match due {
            Due::In(pause) => {
                self.tell(claims.as_ref(), None);
                return pause.min(LONGEST);
            }
            Due::Now(left) => left,
            Due::Expired => Duration::ZERO,
        };
        // A file that others can read, or that is somebody else's token, is not replaced: it is an operator's
        // mistake.
        let renewed = match trouble {
            Some(error) => Err(error),
            None => self.renew(claims.as_ref()).await,
        };
        match renewed {
            Ok(new) => {
                info!(account = self.name(), expires = %time(new.expires()), "Token renewed");
                self.tell(Some(&new), None);
                match source.due(&new) {
                    Due::In(pause) => pause.min(LONGEST),
                    Due::Now(left) => token::try_again(left),
                    Due::Expired => LOOK_AGAIN,
                }
            }
            Err(error) => {
                let error = chain(&error);
                warn!(
                    account = self.name(),
                    error,
                    seconds_left = left.as_secs(),
                    remedy = self.remedy(),
                    "Token not renewed"
                );
                self.tell(claims.as_ref(), Some(error));
                if left.is_zero() { LOOK_AGAIN } else { token::try_again(left) }
            }
        }
    }

    /// The token that is there; `None` if there is none.
    pub(super) fn look(&self) -> Result<Option<Claims>, RenewalError> {
        let path = &self.account.token_file;
        let failed = |source| RenewalError::File { account: self.name(), source };
        let token = match token::read(path) {
            Ok(token) => token,
            Err(TokenError::Missing(_)) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let claims = Claims::read(path, &token).map_err(failed)?;
        if claims.sub != format!("system:serviceaccount:{}:{}", self.account.namespace, self.account.name) {
            return Err(RenewalError::Foreign { account: self.name(), found: claims.sub });
        }
        Ok(Some(claims))
    }

    /// A new token in place of `old`.
    async fn renew(&self, old: Option<&Claims>) -> Result<Claims, RenewalError> {
        // Bound to the object, not only to the name: the API server refuses it when the node was made anew.
        let uid =
            old.and_then(Claims::node).filter(|bound| bound.name == self.node).map(|bound| bound.uid.clone());
        let answer = match old {
            Some(_) => match self.connection.ask(|client| self.request(client, uid)).await {
                Ok(answer) => Ok(answer),
                // Its own answer tells more than the one to the second attempt.
                Err(error) => self.request_as_base().await.map_err(|_| error),
            },
            None => self.request_as_base().await,
        };
        self.keep(answer)
    }

    /// Puts the token of an answer into its place.
    pub(super) fn keep(&self, answer: Result<TokenRequest, CallError>) -> Result<Claims, RenewalError> {
        self.metrics.wrote(Write::Token, &answer);
        let (account, node) = (self.name(), self.node.clone());
        let answer = answer.map_err(|source| RenewalError::Request { account, node, source })?;
        let token = answer.status.map(|status| status.token).unwrap_or_default();
        let failed = |source| RenewalError::File { account: self.name(), source };
        let claims = Claims::read(&self.account.token_file, &token).map_err(failed)?;
        if claims.node().is_none_or(|bound| bound.name != self.node) {
            return Err(RenewalError::Unbound { account: self.name(), node: self.node.clone() });
        }
        token::write(&self.account.token_file, &token).map_err(failed)?;
        self.connection.source().was_given(&claims);
        Ok(claims)
    }

    async fn request_as_base(&self) -> Result<TokenRequest, CallError> {
        let client = self.connection.source().base_client().await.map_err(CallError::NoClient)?;
        once(self.request(client, None)).await
    }

    async fn request(&self, client: Client, node_uid: Option<String>) -> kube::Result<TokenRequest> {
        let node = BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(self.node.clone()),
            uid: node_uid,
        };
        self.request_bound(client, node).await
    }

    pub(super) async fn request_bound(
        &self,
        client: Client,
        bound: BoundObjectReference,
    ) -> kube::Result<TokenRequest> {
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: Vec::new(),
                bound_object_ref: Some(bound),
                expiration_seconds: i64::try_from(LIFE.as_secs()).ok(),
            },
            ..TokenRequest::default()
        };
        let accounts: Api<Account> = Api::namespaced(client, &self.account.namespace);
        accounts.create_token_request(&self.account.name, &PostParams::default(), &request).await
    }

    pub(super) fn tell(&self, claims: Option<&Claims>, error: Option<String>) {
        self.state.send_replace(TokenState { expires: claims.map(|claims| time(claims.expires())), error });
    }

    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.account.namespace, self.account.name)
    }

    fn remedy(&self) -> String {
        let ServiceAccount { namespace, name, token_file, .. } = &self.account;
        format!(
            "kubectl create token {name} -n {namespace} --bound-object-kind Node --bound-object-name {} --duration 24h, \
             into {} with mode 0600",
            self.node,
            token_file.display()
        )
    }
}

pub(super) fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    use prometheus_client::registry::Registry;
    use serde_json::json;

    use super::*;
    use crate::cluster::fake::{Answer, FakeApi};

    /// A token of an hour.
    fn token(made: i64) -> String {
        let claims = json!({
            "iat": made, "exp": made + 3600, "sub": "system:serviceaccount:berth-system:berth-agent",
            "kubernetes.io": { "node": { "name": "a", "uid": "n-1" } },
        });
        format!("head.{}.signature", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    /// By its clock the token on this node has ended, or will be made in two hours.
    #[tokio::test]
    async fn a_node_whose_clock_is_wrong_keeps_a_good_token() {
        for ahead in [7200, -7200] {
            let made = Timestamp::now().as_second() - ahead;
            let asked = Arc::new(Mutex::new(Vec::new()));
            let seen = asked.clone();
            let api = FakeApi::new(move |question| {
                seen.lock().unwrap().push(question.body["spec"]["boundObjectRef"]["uid"].clone());
                Answer::Object(json!({
                    "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
                    "spec": { "audiences": [] },
                    "status": { "token": token(made), "expirationTimestamp": "2026-01-01T00:00:00Z" },
                }))
            })
            .await;
            let directory = tempfile::tempdir().unwrap();
            let token_file = directory.path().join("token");
            token::write(&token_file, &token(made - 60)).unwrap();
            let renewal = Renewal {
                connection: api.connection.clone(),
                account: ServiceAccount {
                    namespace: "berth-system".to_owned(),
                    name: "berth-agent".to_owned(),
                    token_file,
                    bound_to_pod: false,
                },
                node: "a".to_owned(),
                metrics: ClusterMetrics::register(&mut Registry::default()),
                state: watch::Sender::default(),
            };
            // The second one is as old as it is.
            for turn in 1..=2 {
                let pause = renewal.turn().await.as_secs();
                assert!((2000..=2880).contains(&pause), "{ahead}, turn {turn}: {pause} s");
                // The old token has asked: the new one is bound to its node.
                assert_eq!(*asked.lock().unwrap(), [json!("n-1")], "{ahead}, turn {turn}");
            }
        }
    }
}
