//! A token that is bound to a pod of the agent's account on this node, for a berthd that is a service. A
//! kubelet may ask for tokens of the pods of its node and of no other (Node authorizer, NodeRestriction). So
//! its identity is all that is needed, and is used for this alone. The pod has a volume with a token of the
//! account, which no container of it need mount.
//!
//! The token is as that of a DaemonSet's pod: of an hour, good on this node only, and worth nothing a minute
//! after its pod has gone. No token makes the next one. While there is no such pod the agent is the kubelet.

use std::time::Duration;

use k8s_openapi::{
    api::{authentication::v1::BoundObjectReference, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Client,
    api::{ListParams, VersionMatch},
};
use serde::Deserialize;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    client::{CallError, once},
    raw::{self, Raw},
    renewal::{LONGEST, LOOK_AGAIN, Renewal, RenewalError, time},
    token::{self, Bound, Claims, Due},
};
use crate::base::causes::chain;

/// Shortest pause between two looks.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(5);
/// Pause between two looks on a node that has had no such pod for a while: many never have one.
const IDLE_INTERVAL: Duration = Duration::from_secs(300);
/// Looks in a row without a pod after which it is looked for seldom.
const PATIENT: u32 = 10;
/// The longest the start waits for a first token.
const BEGIN_WITHIN: Duration = Duration::from_secs(10);
/// Most pods that are looked at; a kubelet runs some hundred.
const MOST_PODS: u32 = 500;

/// Part of a pod that decides whether a token can be bound to it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Seen {
    metadata: ObjectMeta,
    spec: SeenSpec,
    status: SeenStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SeenSpec {
    service_account_name: Option<String>,
    volumes: Vec<SeenVolume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SeenVolume {
    projected: Projected,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Projected {
    sources: Vec<Source>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Source {
    service_account_token: Option<Audience>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Audience {
    audience: String,
}

impl Seen {
    /// Says whether a kubelet may ask for a token of its account for the API server: from Kubernetes 1.33 on
    /// only where a volume of the pod has such a token.
    fn has_token(&self) -> bool {
        let sources = self.spec.volumes.iter().flat_map(|volume| &volume.projected.sources);
        let tokens = sources.filter_map(|source| source.service_account_token.as_ref());
        tokens.into_iter().any(|token| token.audience.is_empty())
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SeenStatus {
    phase: Option<String>,
}

/// Next action for the token.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// It is good, for so long.
    Keep(Duration),
    /// One that is bound to this pod takes its place; the old one, if it still is good, is until then.
    Ask(Bound),
    /// It is of no use, and there is no pod for another one.
    Drop,
    /// There is none, and no pod.
    Wait,
}

impl Renewal {
    /// Gets the first token, if that can be had at once.
    pub(super) async fn begin(&self) {
        if self.account.bound_to_pod {
            // Cancel-safe: the file is replaced at once or not at all. It is tried again in any case.
            let _ = timeout(BEGIN_WITHIN, self.turn_by_pod(0)).await;
        }
    }

    /// Follows the pods until the shutdown: when it is time, and when a client had to be made anew, because
    /// its token was refused, for example.
    pub(super) async fn follow_pods(&self, shutdown: CancellationToken) {
        let mut made = self.connection.made();
        let mut without = 0;
        loop {
            made.borrow_and_update();
            // Cancel-safe: the file is replaced at once or not at all.
            let Some(pause) = shutdown.run_until_cancelled(self.turn_by_pod(without)).await else { return };
            without = if self.state.borrow().expires.is_some() { 0 } else { without.saturating_add(1) };
            let wait = async {
                sleep(SHORTEST_INTERVAL).await;
                // Cancel-safe: a change that is not taken is seen the next time.
                tokio::select! {
                    () = sleep(pause.saturating_sub(SHORTEST_INTERVAL)) => {}
                    changed = made.changed() => {
                        if changed.is_err() {
                            sleep(pause).await;
                        }
                    }
                }
            };
            if shutdown.run_until_cancelled(wait).await.is_none() {
                return;
            }
        }
    }

    /// Looks once, does what is due, and says when to look again.
    async fn turn_by_pod(&self, without: u32) -> Duration {
        match self.try_by_pod().await {
            Ok((Some(claims), pause)) => {
                self.tell(Some(&claims), None);
                pause
            }
            Ok((None, _)) => {
                self.tell(None, None);
                if without < PATIENT { LOOK_AGAIN } else { IDLE_INTERVAL }
            }
            Err(error) => {
                let error = chain(&error);
                warn!(account = self.name(), error, "Token not renewed");
                let known = self.look().ok().flatten();
                let left = known.as_ref().map(|claims| self.connection.source().due(claims));
                self.tell(known.as_ref().filter(|_| left != Some(Due::Expired)), Some(error));
                match left {
                    Some(Due::Now(left)) => token::try_again(left),
                    Some(Due::In(_) | Due::Expired) | None => LOOK_AGAIN,
                }
            }
        }
    }

    /// The token that counts from now on, and when to look again.
    async fn try_by_pod(&self) -> Result<(Option<Claims>, Duration), RenewalError> {
        let claims = self.look()?;
        let account = || self.name();
        let client = self.connection.source().base_client().await.map_err(CallError::NoClient);
        let client = client.map_err(|source| RenewalError::Pods { account: account(), source })?;
        let pods = once(self.pods(client.clone())).await;
        let pods = pods.map_err(|source| RenewalError::Pods { account: account(), source })?;
        let bound = claims.as_ref().and_then(Claims::pod);
        let pod = chosen(&pods, &self.account.name, bound);
        let source = self.connection.source();
        let now = claims.as_ref().map_or(0, |claims| source.second(claims));
        match turn(claims.as_ref(), pod, now) {
            Turn::Keep(pause) => Ok((claims, pause)),
            Turn::Ask(pod) => {
                let reference = BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: Some(pod.name.clone()),
                    uid: Some(pod.uid.clone()),
                };
                // A client of the old token reads the file again within a minute. That may be longer than the
                // token is good for; and beside one that has ended, the client is the kubelet's.
                let has_ended = claims.as_ref().is_none_or(|claims| source.due(claims) == Due::Expired);
                let new = self.keep(once(self.request_bound(client, reference)).await)?;
                info!(account = account(), pod = pod.name, expires = %time(new.expires()), "Token renewed");
                if bound != Some(&pod) || has_ended {
                    self.connection.renew().await;
                }
                let due = source.due(&new);
                let pause = if let Due::In(pause) = due { pause.min(LONGEST) } else { LOOK_AGAIN };
                Ok((Some(new), pause))
            }
            Turn::Drop => {
                let failed = |source| RenewalError::File { account: account(), source };
                token::remove(&self.account.token_file).map_err(failed)?;
                info!(
                    account = account(),
                    "The pod of the token has gone; the kubelet's identity takes its place"
                );
                self.connection.renew().await;
                Ok((None, LOOK_AGAIN))
            }
            Turn::Wait => Ok((None, LOOK_AGAIN)),
        }
    }

    /// Pods of this node in the namespace of the account, from the API server's cache.
    async fn pods(&self, client: Client) -> kube::Result<Vec<Seen>> {
        let params = ListParams::default()
            .fields(&format!("spec.nodeName={}", self.node))
            .limit(MOST_PODS)
            .at("0")
            .matching(VersionMatch::NotOlderThan);
        let pods = raw::namespaced::<Pod>(client, &self.account.namespace).list(&params).await?;
        // One that cannot be read is as none.
        Ok(pods.items.into_iter().map(Raw::typed).filter_map(Result::ok).collect())
    }
}

/// Pod of the account that a token can be bound to: the one it is bound to already, or else the one that is
/// likely to stay, which is the newest that runs, or that will.
fn chosen(pods: &[Seen], account: &str, bound: Option<&Bound>) -> Option<Bound> {
    let fit = pods.iter().filter_map(|pod| {
        let of_account = pod.spec.service_account_name.as_deref() == Some(account);
        let phase = pod.status.phase.as_deref();
        let ends = pod.metadata.deletion_timestamp.is_some() || matches!(phase, Some("Succeeded" | "Failed"));
        let known = Bound { name: pod.metadata.name.clone()?, uid: pod.metadata.uid.clone()? };
        let rank = (bound == Some(&known), phase == Some("Running"), pod.metadata.creation_timestamp.clone());
        (of_account && !ends && pod.has_token()).then_some((rank, known))
    });
    fit.max_by(|(a, one), (b, other)| a.cmp(b).then_with(|| one.uid.cmp(&other.uid))).map(|(_, pod)| pod)
}

fn turn(claims: Option<&Claims>, pod: Option<Bound>, now: i64) -> Turn {
    let due = claims.map(|claims| claims.due(now));
    match (pod, claims.and_then(Claims::pod), due) {
        (Some(pod), bound, Some(Due::In(pause))) if bound == Some(&pod) => Turn::Keep(pause.min(LONGEST)),
        (Some(pod), _, _) => Turn::Ask(pod),
        // Somebody has put one there that needs no pod.
        (None, None, Some(Due::In(pause) | Due::Now(pause))) => Turn::Keep(pause.min(LONGEST)),
        (None, _, Some(_)) => Turn::Drop,
        (None, _, None) => Turn::Wait,
    }
}

#[cfg(test)]
mod tests;
