//! Renews the token of the agent's service account, so that nobody else needs the right to make one for a
//! node. One that is bound to a pod: [`super::pod_token`].
//!
//! The old token asks for the new one. When there is no good old one, the identity that the service account
//! takes the place of is tried; the kubelet's may not do that, an administrator's may.

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
        let now = Timestamp::now().as_second();
        let due = claims.as_ref().map_or(Due::Expired, |claims| claims.due(now));
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
            None => self.renew(claims.as_ref().filter(|_| !left.is_zero())).await,
        };
        match renewed {
            Ok(new) => {
                info!(account = self.name(), expires = %time(new.expires()), "Token renewed");
                self.tell(Some(&new), None);
                match new.due(Timestamp::now().as_second()) {
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

    /// A new token in place of `old`, which is still good.
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
