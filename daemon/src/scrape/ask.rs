//! Questions to the API server about a token: whose it is, and whether that one may read the metrics.

use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use tracing::{debug, warn};

use super::{PATH, reviews::Verdict};
use crate::{
    base::causes::chain,
    cluster::client::{CallError, Connection, Lane},
};

/// The remedy where the agent may not ask.
const REMEDY: &str =
    "take the component deploy/agent-metrics in, which binds system:auth-delegator to berth-agent";

/// Answer about a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The API server decided.
    Verdict(Verdict),
    /// It could not be asked.
    None,
}

/// Authenticates and authorizes a bearer token.
pub(super) trait Who {
    /// Asks about one token.
    fn ask(&self, token: &str) -> impl Future<Output = Answer> + Send;
}

/// The API server, by the agent's own identity.
#[derive(Debug)]
pub(crate) struct Reviewer {
    connection: Connection,
    /// It was said that it does not answer.
    said: AtomicBool,
}

impl Reviewer {
    /// One that asks over this connection.
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection, said: AtomicBool::new(false) }
    }

    async fn verdict(&self, token: &str) -> Result<Verdict, CallError> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: Some(token.to_owned()), audiences: None },
            ..TokenReview::default()
        };
        let whose = |client: Client| async move {
            Api::<TokenReview>::all(client).create(&PostParams::default(), &review).await
        };
        let status = self.connection.ask_in(Lane::Reviews, whose).await?.status.unwrap_or_default();
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
            return Ok(Verdict::Unknown);
        };
        let name = user.username.clone().unwrap_or_default();
        let review = access(user);
        let may = |client: Client| async move {
            Api::<SubjectAccessReview>::all(client).create(&PostParams::default(), &review).await
        };
        let allowed = self.connection.ask_in(Lane::Reviews, may).await?.status;
        let allowed = allowed.is_some_and(|status| status.allowed);
        debug!(user = name, allowed, "Asked whether a user may read the metrics");
        Ok(if allowed { Verdict::Allowed } else { Verdict::Forbidden })
    }
}

impl Who for Reviewer {
    async fn ask(&self, token: &str) -> Answer {
        match self.verdict(token).await {
            Ok(verdict) => {
                self.said.store(false, Ordering::Relaxed);
                Answer::Verdict(verdict)
            }
            Err(error) => {
                if !self.said.swap(true, Ordering::Relaxed) {
                    let remedy = error.refusal_or_forbidden().map(|_| REMEDY);
                    warn!(error = chain(&error), remedy, "Metrics refused, nobody says whose the token is");
                }
                Answer::None
            }
        }
    }
}

/// Question whether this user may read them.
fn access(user: UserInfo) -> SubjectAccessReview {
    let UserInfo { username, groups, uid, extra } = user;
    let attributes = NonResourceAttributes { path: Some(PATH.to_owned()), verb: Some("get".to_owned()) };
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: username,
            groups,
            uid,
            extra,
            non_resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_asked_about_all_of_the_user() {
        let user = UserInfo {
            username: Some("system:serviceaccount:monitoring:prometheus".to_owned()),
            groups: Some(vec!["system:serviceaccounts".to_owned()]),
            uid: Some("u".to_owned()),
            extra: Some([("k".to_owned(), vec!["v".to_owned()])].into()),
        };
        let review = serde_json::to_value(access(user)).unwrap();
        let expected = serde_json::json!({
            "user": "system:serviceaccount:monitoring:prometheus", "groups": ["system:serviceaccounts"], "uid": "u",
            "extra": { "k": ["v"] }, "nonResourceAttributes": { "path": "/metrics", "verb": "get" },
        });
        assert_eq!(review["spec"], expected);
    }
}
