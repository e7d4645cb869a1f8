//! Identity of the agent as the API server says it, and what follows from it.

use k8s_openapi::api::authentication::v1::{SelfSubjectReview, UserInfo};
use kube::{Api, api::PostParams};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    client::{CallError, Connection},
    features::{self, Feature},
    pause,
};
use crate::base::causes::chain;

/// Key under which a token bound to a node, or to a pod of it, carries the node's name.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_USER: &str = "system:node:";
const ACCOUNT_USER: &str = "system:serviceaccount:";

/// Identity of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's name.
    pub user: String,
    /// Kind of that user.
    pub who: Who,
    /// Warning about its use, for people.
    pub warning: Option<String>,
    /// Features that are on for this user.
    pub features: Vec<Feature>,
}

/// The kinds of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// The kubelet of this node.
    Kubelet,
    /// The kubelet of another node.
    OtherKubelet {
        /// Name of that node.
        node: String,
    },
    /// A service account by a token that is good on this node only.
    BoundAccount,
    /// A service account by a token of another node.
    OtherAccount {
        /// Name of that node.
        node: String,
    },
    /// A service account by a token that is good everywhere.
    UnboundAccount,
    /// Somebody whose rights are not for an agent.
    Other,
}

/// State of learning it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IdentityState {
    /// The API server was not asked yet.
    #[default]
    Unknown,
    /// It did not answer, for this reason.
    Failed(String),
    /// It did.
    Known(Identity),
}

impl Identity {
    /// Reads the identity from the API server's answer about the user, on the node of this name.
    pub(super) fn of(user: UserInfo, node: &str) -> Self {
        let name = user.username.unwrap_or_default();
        let bound = user.extra.unwrap_or_default().remove(NODE_NAME).and_then(|mut values| values.pop());
        let who = match (name.strip_prefix(NODE_USER), name.starts_with(ACCOUNT_USER), bound) {
            (Some(own), _, _) if own == node => Who::Kubelet,
            (Some(other), _, _) => Who::OtherKubelet { node: other.to_owned() },
            (None, true, Some(own)) if own == node => Who::BoundAccount,
            (None, true, Some(other)) => Who::OtherAccount { node: other },
            (None, true, None) => Who::UnboundAccount,
            (None, false, _) => Who::Other,
        };
        Self { warning: warning(&who, &name, node), features: features::of(&who), user: name, who }
    }
}

fn warning(who: &Who, user: &str, node: &str) -> Option<String> {
    match who {
        Who::Kubelet | Who::BoundAccount => None,
        Who::OtherKubelet { node: other } => Some(format!(
            "this is the kubelet of node {other}, not of {node}: correct nodeName, or give this node's kubeconfig"
        )),
        Who::OtherAccount { node: other } => Some(format!(
            "the token is bound to node {other}, not to {node}: correct nodeName, or make a token bound to {node}"
        )),
        Who::UnboundAccount => {
            let account = user.strip_prefix(ACCOUNT_USER).and_then(|rest| rest.split_once(':'));
            let (namespace, name) = account.unwrap_or(("berth-system", "berth-agent"));
            Some(format!(
                "the token is not bound to node {node}: stolen, it is good on every node; make one with \
                 `kubectl create token {name} -n {namespace} --bound-object-kind Node --bound-object-name {node}`"
            ))
        }
        Who::Other => Some(
            "this user is neither a kubelet nor a service account, and may have more rights than an agent needs; \
             give the kubelet's kubeconfig or cluster.serviceAccount"
                .to_owned(),
        ),
    }
}

/// Asks at the start, and again with every new client, until the shutdown.
pub(super) async fn learn(
    connection: Connection,
    node: String,
    state: watch::Sender<IdentityState>,
    shutdown: CancellationToken,
) {
    let mut made = connection.made();
    let mut attempt = 0;
    loop {
        made.borrow_and_update();
        // Cancel-safe: a question that is dropped changed nothing.
        let Some(answer) = shutdown.run_until_cancelled(ask(&connection)).await else { return };
        match answer {
            Ok(user) => {
                tell(&state, IdentityState::Known(Identity::of(user, &node)));
                attempt = 0;
                // Asking may itself have made the client.
                made.borrow_and_update();
                match shutdown.run_until_cancelled(made.changed()).await {
                    Some(Ok(())) => {}
                    Some(Err(_)) | None => return,
                }
            }
            Err(error) => {
                let known = matches!(*state.borrow(), IdentityState::Known(_));
                // Who it was, it most likely is.
                if !known {
                    tell(&state, IdentityState::Failed(chain(&error)));
                }
                let pause = tokio::time::sleep(pause::after(attempt));
                if shutdown.run_until_cancelled(pause).await.is_none() {
                    return;
                }
                attempt += 1;
            }
        }
    }
}

async fn ask(connection: &Connection) -> Result<UserInfo, CallError> {
    let question = |client| async move {
        let reviews: Api<SelfSubjectReview> = Api::all(client);
        reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await
    };
    let review = connection.ask(question).await?;
    Ok(review.status.and_then(|status| status.user_info).unwrap_or_default())
}

/// The same again is no news: whoever follows the identity begins anew with each.
fn tell(state: &watch::Sender<IdentityState>, news: IdentityState) {
    let is_new = state.send_if_modified(|known| {
        let is_new = *known != news;
        known.clone_from(&news);
        is_new
    });
    if !is_new {
        return;
    }
    match news {
        IdentityState::Unknown => {}
        IdentityState::Failed(error) => warn!(error, "Identity not known"),
        IdentityState::Known(identity) => {
            info!(user = identity.user, "The API server knows the agent");
            if let Some(warning) = &identity.warning {
                warn!(user = identity.user, warning, "The identity is not one for this node");
            }
            for feature in &identity.features {
                match &feature.off {
                    None => info!(feature = feature.name, "Feature on"),
                    Some(reason) => info!(feature = feature.name, reason, "Feature off"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn users() {
        let account = "system:serviceaccount:berth-system:berth-agent";
        let table = [
            ("system:node:a", None, Who::Kubelet, true),
            ("system:node:b", None, Who::OtherKubelet { node: "b".to_owned() }, false),
            (account, Some("a"), Who::BoundAccount, true),
            (account, Some("b"), Who::OtherAccount { node: "b".to_owned() }, false),
            (account, None, Who::UnboundAccount, false),
            ("kubernetes-admin", None, Who::Other, false),
            // Only the API server says who is bound to what; others may carry anything.
            ("somebody", Some("a"), Who::Other, false),
            ("", None, Who::Other, false),
        ];
        for (name, bound, who, quiet) in table {
            let extra = bound.map(|node| BTreeMap::from([(NODE_NAME.to_owned(), vec![node.to_owned()])]));
            let user = UserInfo { username: Some(name.to_owned()), extra, ..UserInfo::default() };
            let identity = Identity::of(user, "a");
            assert_eq!(identity.who, who, "{name}");
            assert_eq!(identity.warning.is_none(), quiet, "{name}");
        }
        let unbound = UserInfo { username: Some(account.to_owned()), ..UserInfo::default() };
        let said = Identity::of(unbound, "a").warning.unwrap();
        let command = "`kubectl create token berth-agent -n berth-system --bound-object-kind Node ";
        assert!(said.contains(command), "{said}");
    }
}
