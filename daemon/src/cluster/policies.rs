//! Whether the admission policies of `deploy/policies` hold for the agent's identity: a write that they must
//! refuse is tried, as a dry run. Roles know no nodes, so without the policies a stolen credential of this
//! node is good on every other one.
//!
//! The write is a NodePodProbe that has the name of no node. Both identities of an agent may create
//! NodePodProbes as far as RBAC goes, admission looks at what is to be created before it is stored, and
//! nothing has to exist for it.

use std::time::Duration;

use berth_proto::crd::NodePodProbe;
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    client::{CallError, Connection},
    metrics::ClusterMetrics,
};
use crate::base::causes::chain;

/// The remedy where the policies do not hold. By themselves they would take back what components have changed
/// in them.
pub const REMEDY: &str = "apply your kustomization or chart again, as a whole: deploy/policies is part of it; \
                          where namespace or account have other names than berth-system and berth-agent, \
                          change them in the policies, too";

/// Pause after a look that found everything in place.
const SETTLED_INTERVAL: Duration = Duration::from_secs(3600);
/// Pause after a look that found something missing, or got no answer.
const MISSING_INTERVAL: Duration = Duration::from_secs(60);

/// Whether the policies hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PolicyState {
    /// The API server was not asked yet, or its answer says nothing about them.
    #[default]
    Unknown,
    /// They refuse what this identity must not write.
    Hold,
    /// They do not.
    Missing,
}

/// The meaning of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// A policy of Berth refused it.
    Refused,
    /// Nothing refused it.
    Taken,
    /// Something else stood in the way; in its words.
    Unclear(String),
}

/// Tries the write with this client, without effect.
pub async fn attempt(client: Client, node: &str) -> kube::Result<NodePodProbe> {
    // There may be a node of any name.
    let name = if node == "berth-policy-check" { "berth-policy-check-2" } else { "berth-policy-check" };
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let object = NodePodProbe { metadata, ..NodePodProbe::new("", Default::default()) };
    let params = PostParams { dry_run: true, ..PostParams::default() };
    Api::<NodePodProbe>::all(client).create(&params, &object).await
}

/// Reads an answer: the HTTP status and the words of a refusal.
pub fn judge(answer: Result<(), (u16, &str)>) -> Tried {
    match answer {
        // Admission comes before it is found that there is one of that name.
        Ok(()) | Err((409, _)) => Tried::Taken,
        Err((403 | 422, words)) if words.contains("ValidatingAdmissionPolicy 'berth-") => Tried::Refused,
        Err((_, words)) => Tried::Unclear(words.to_owned()),
    }
}

/// Tries at the start, with every new client, and now and then, until the shutdown.
pub(super) async fn keep_trying(
    connection: Connection,
    node: String,
    metrics: ClusterMetrics,
    state: watch::Sender<PolicyState>,
    shutdown: CancellationToken,
) {
    let mut made = connection.made();
    loop {
        made.borrow_and_update();
        let ask = connection.ask(|client| attempt(client, &node));
        // Cancel-safe: a dry run changes nothing.
        let Some(answer) = shutdown.run_until_cancelled(ask).await else { return };
        let tried = match &answer {
            Ok(_) => judge(Ok(())),
            Err(CallError::Refused { code, message }) => judge(Err((*code, message.as_str()))),
            Err(error) => Tried::Unclear(chain(error)),
        };
        // Asking may itself have made the client.
        made.borrow_and_update();
        let pause = if tried == Tried::Refused { SETTLED_INTERVAL } else { MISSING_INTERVAL };
        tell(&state, &metrics, tried);
        let wait = async {
            // Cancel-safe: a number and a timer.
            tokio::select! {
                changed = made.changed() => changed.is_ok(),
                () = tokio::time::sleep(pause) => true,
            }
        };
        if shutdown.run_until_cancelled(wait).await != Some(true) {
            return;
        }
    }
}

fn tell(state: &watch::Sender<PolicyState>, metrics: &ClusterMetrics, tried: Tried) {
    let (now, why) = match tried {
        Tried::Refused => (PolicyState::Hold, String::new()),
        Tried::Taken => (PolicyState::Missing, String::new()),
        Tried::Unclear(why) => (PolicyState::Unknown, why),
    };
    // What was found out stands until something else is found out.
    if now == PolicyState::Unknown {
        tracing::debug!(why, "Not known whether the admission policies hold");
        return;
    }
    metrics.policies_hold(now == PolicyState::Hold);
    if state.send_replace(now.clone()) == now {
        return;
    }
    match now {
        PolicyState::Missing => {
            warn!(remedy = REMEDY, "The admission policies do not keep this identity to its node");
        }
        PolicyState::Hold | PolicyState::Unknown => {
            info!("The admission policies keep this identity to its node");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_POLICY: &str = "nodepodprobes.apps.kruise.io \"berth-policy-check\" is forbidden: ValidatingAdmissionPolicy \
                             'berth-node-objects' with binding 'berth-node-objects' denied request: an agent writes only \
                             objects that have the name of its own node";
    const OF_RBAC: &str = "nodepodprobes.apps.kruise.io is forbidden: User \"system:node:a\" cannot create resource \
                           \"nodepodprobes\" in API group \"apps.kruise.io\" at the cluster scope";

    #[test]
    fn answers() {
        const OTHER: &str = "ValidatingAdmissionPolicy 'no-names' with binding 'x' denied request";
        let unclear = |words: &str| Tried::Unclear(words.to_owned());
        for (answer, says) in [
            (Err((403, OF_POLICY)), Tried::Refused),
            (Err((422, OF_POLICY)), Tried::Refused),
            (Ok(()), Tried::Taken),
            (Err((409, "already exists")), Tried::Taken),
            (Err((403, OF_RBAC)), unclear(OF_RBAC)),
            (Err((422, OTHER)), unclear(OTHER)),
            (Err((404, "page not found")), unclear("page not found")),
            (Err((500, "etcd")), unclear("etcd")),
            (Err((500, OF_POLICY)), unclear(OF_POLICY)),
        ] {
            assert_eq!(judge(answer), says, "{answer:?}");
        }
    }

    #[test]
    fn what_was_found_out_stands_until_something_else_is() {
        let metrics = ClusterMetrics::register(&mut prometheus_client::registry::Registry::default());
        let state = watch::Sender::default();
        for (tried, stands) in [
            (Tried::Unclear(String::new()), PolicyState::Unknown),
            (Tried::Taken, PolicyState::Missing),
            (Tried::Unclear(String::new()), PolicyState::Missing),
            (Tried::Refused, PolicyState::Hold),
            (Tried::Unclear(String::new()), PolicyState::Hold),
        ] {
            tell(&state, &metrics, tried.clone());
            assert_eq!(*state.borrow(), stands, "{tried:?}");
        }
    }
}
