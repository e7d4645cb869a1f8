//! Checks that ask the API server: whether the kubeconfigs work and for whom, versions, and what time it is
//! there.

use std::time::Duration;

use anyhow::{Context, Result};
use berth_proto::crd::{NodeImage, NodeImageStatus, Partly};
use berth_proto::remedy::APPLY;
use berthd::cluster::policies::{self, Tried};
use berthd::config::Configuration;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::timeout;

use super::super::facts::{Facts, Kubelet};
use super::super::host::Host;
use super::super::places::CONFIG;
use super::super::ready;
use super::Check;

const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Certificates and Leases bear so much.
const SKEW: u64 = 30;
/// Updates in place and probes need it.
const KUBELET: (u32, u32) = (1, 31);
/// Asks for the credentials of images that are there (feature gate `KubeletEnsureSecretPulledImages`, beta).
const VERIFIES: (u32, u32) = (1, 35);
/// The kubelet's default of `imagePullCredentialsVerificationPolicy`.
const PRELOADED: &str = "NeverVerifyPreloadedImages";
/// Selectable fields and node-bound tokens.
pub(crate) const API: (u32, u32) = (1, 32);

/// Runs all checks; gives one line when there is no cluster.
pub(super) async fn checks(host: &Host, facts: &Facts) -> Vec<Check> {
    let configuration = Configuration::read(&host.path(CONFIG)).ok();
    let named = configuration.as_ref().and_then(|config| config.node_name.clone());
    let configured = configuration.and_then(|config| config.pod_view.kubeconfig);
    let of_kubelet = facts.kubelet.as_ref().and_then(|kubelet| kubelet.kubeconfig.clone());
    let Some(path) = configured.or(of_kubelet.map(Into::into)) else {
        let remedy = format!("give podView.kubeconfig in {CONFIG}, then systemctl restart berthd");
        return vec![Check::warn("kubeconfig", "none: only static pods are seen", remedy)];
    };
    let remedy = format!("renew that kubeconfig, or name another one in podView.kubeconfig of {CONFIG}");
    let unanswered = || format!("reach it from this node: its address is in {}", path.display());
    let asked = async {
        let client = ready::client(&path).await?;
        let review = Api::<SelfSubjectReview>::all(client.clone());
        let review = review.create(&PostParams::default(), &SelfSubjectReview::default()).await;
        let user =
            review.context("who are we")?.status.and_then(|status| status.user_info).unwrap_or_default();
        anyhow::Ok((client, user.username.unwrap_or_default()))
    };
    let (client, user) = match timeout(CALL_TIMEOUT, asked).await {
        Ok(Ok(known)) => known,
        Ok(Err(error)) => {
            return vec![Check::fail("kubeconfig", format!("{}: {error:#}", path.display()), remedy)];
        }
        Err(_) => return vec![Check::fail("kubeconfig", "the API server does not answer", unanswered())],
    };
    let mut checks = vec![Check::ok("kubeconfig", format!("{} works, as {user}", path.display()))];
    let rest = timeout(CALL_TIMEOUT, async {
        let (version, found) = kubelet(&client, facts, named.as_deref()).await;
        let secrets = secrets(&client, facts, named.as_deref(), version.as_deref()).await;
        [api(&client).await, found, vec![admission(&client, &user).await], secrets]
    });
    let rest = rest.await;
    match rest {
        Ok(rest) => checks.extend(rest.into_iter().flatten()),
        Err(_) => checks.push(Check::fail("api", "the API server does not answer", unanswered())),
    }
    checks
}

/// Its version, and its clock by the header of the answer.
async fn api(client: &Client) -> Vec<Check> {
    let failed =
        |error: anyhow::Error| vec![Check::fail("api", format!("{error:#}"), "look at the API server")];
    let request = match http::Request::get("/version").body(kube::client::Body::empty()) {
        Ok(request) => request,
        Err(error) => return failed(error.into()),
    };
    let date = match client.send(request).await {
        Ok(answer) => {
            answer.headers().get(http::header::DATE).and_then(|date| date.to_str().ok()).map(str::to_owned)
        }
        Err(error) => return failed(error.into()),
    };
    let version = match client.apiserver_version().await {
        Ok(version) => version.git_version,
        Err(error) => return failed(error.into()),
    };
    let clock = date.map(|date| clock(&date, Timestamp::now()));
    let remedy = "upgrade the cluster: requests, and tokens bound to nodes, need it";
    [at_least("api", "API server", &version, API, remedy)].into_iter().chain(clock).collect()
}

/// Checks whether the admission policies keep this identity to its node, by a write that they must refuse.
async fn admission(client: &Client, user: &str) -> Check {
    let tried = match policies::attempt(client.clone(), "").await {
        Ok(_) => policies::judge(Ok(())),
        Err(kube::Error::Api(status)) => policies::judge(Err((status.code, status.message.as_str()))),
        Err(error) => Tried::Unclear(format!("{:#}", anyhow::Error::from(error))),
    };
    of_policies(user, tried)
}

fn of_policies(user: &str, tried: Tried) -> Check {
    match tried {
        Tried::Refused => Check::ok("policies", format!("the admission policies keep {user} to its node")),
        Tried::Taken => Check::fail(
            "policies",
            format!("no admission policy keeps {user} to its node: stolen, it is good on every node"),
            policies::REMEDY,
        ),
        Tried::Unclear(why) => Check::warn(
            "policies",
            format!("it is not known whether the admission policies keep {user} to its node: {why}"),
            format!("{APPLY}; launch and exit order alone need none of it"),
        ),
    }
}

/// The name of the Node: as berthd's configuration has it, or else as the kubelet finds it.
fn node_name(named: Option<&str>, kubelet: &Kubelet) -> Result<String> {
    named.map_or_else(|| ready::node_name(kubelet), |name| Ok(name.to_owned()))
}

/// Checks the version of the kubelet, and returns it where it is known.
async fn kubelet(client: &Client, facts: &Facts, named: Option<&str>) -> (Option<String>, Vec<Check>) {
    let Some(kubelet) = &facts.kubelet else { return (None, Vec::new()) };
    let version = async {
        let name = node_name(named, kubelet)?;
        let node =
            Api::<Node>::all(client.clone()).get(&name).await.with_context(|| format!("Node {name}"))?;
        let info = node.status.and_then(|status| status.node_info).context("it has no version yet")?;
        anyhow::Ok(info.kubelet_version)
    };
    let remedy = "upgrade it: updates of pods in place need it; all else works";
    match version.await {
        Ok(version) => {
            let check = at_least("version", "kubelet", &version, KUBELET, remedy);
            (Some(version), vec![check])
        }
        Err(error) => {
            let remedy = format!("where its Node has another name, give that as nodeName in {CONFIG}");
            (None, vec![Check::warn("version", format!("kubelet: {error:#}"), remedy)])
        }
    }
}

/// Checks whether images that Berth pulls with a job's credentials are open to every pod of the node.
async fn secrets(client: &Client, facts: &Facts, named: Option<&str>, version: Option<&str>) -> Vec<Check> {
    let (Some(kubelet), Some(version)) = (&facts.kubelet, version.and_then(|version| parse(version).ok()))
    else {
        return Vec::new();
    };
    let image = async {
        let name = node_name(named, kubelet).ok()?;
        Api::<Partly<NodeImage>>::all(client.clone()).get(&name).await.ok()
    };
    let sealed = image.await.and_then(|image| image.object.status).map(|status| is_sealed(&status));
    vec![pulled_secretly(version, kubelet.verifies_images, kubelet.image_policy.as_deref(), sealed)]
}

/// Tells whether an image is wanted with credentials that were sealed to this node.
fn is_sealed(status: &NodeImageStatus) -> bool {
    status.desired_images.iter().any(|image| !image.sealed_credentials.is_empty())
}

/// The kubelet asks whether a pod may use an image that is there (KEP 2535) since 1.35, or where it is told
/// to; `None`: it is told nothing. `sealed`: jobs bring credentials; `None`: not known.
fn pulled_secretly(
    version: (u32, u32),
    gate: Option<bool>,
    policy: Option<&str>,
    sealed: Option<bool>,
) -> Check {
    const CHECK: &str = "credentials";
    let asks = gate.unwrap_or(version >= VERIFIES);
    let policy = policy.filter(|policy| !policy.is_empty()).unwrap_or(PRELOADED);
    match (asks, policy) {
        (false, _) | (_, "NeverVerify") => {
            Check::ok(CHECK, "the kubelet lets every pod use every image that is there, whoever pulled it")
        }
        (true, PRELOADED) if sealed == Some(false) => Check::ok(
            CHECK,
            format!(
                "{PRELOADED}: images that Berth pulls are not asked about; no job brings credentials now"
            ),
        ),
        (true, PRELOADED) => Check::warn(
            CHECK,
            format!(
                "the kubelet asks for credentials of images ({PRELOADED}), but not of those that Berth has pulled: \
                 what a job pulls with pullSecrets, every pod of the node can use"
            ),
            "imagePullCredentialsVerificationPolicy: AlwaysVerify in the kubelet's configuration, or no pullSecrets in jobs",
        ),
        (true, policy) => Check::ok(
            CHECK,
            format!("the kubelet asks for credentials of images that Berth has pulled ({policy})"),
        ),
    }
}

/// Finding on a version: a warning when it is older, or none.
pub(crate) fn at_least(
    check: &'static str,
    who: &str,
    version: &str,
    least: (u32, u32),
    remedy: &str,
) -> Check {
    match parse(version) {
        Ok(known) if known >= least => Check::ok(check, format!("{who} {version}")),
        Ok(_) => Check::warn(check, format!("{who} {version} is older than {}.{}", least.0, least.1), remedy),
        Err(error) => Check::warn(check, format!("{who} {version}: {error:#}"), remedy),
    }
}

/// `v1.34.4+k3s1`.
fn parse(version: &str) -> Result<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split(['.', '+', '-']);
    let mut next = || parts.next().and_then(|part| part.parse().ok()).context("no version such as v1.34.4");
    Ok((next()?, next()?))
}

/// The API server's time as a header has it, and ours.
fn clock(date: &str, now: Timestamp) -> Check {
    let theirs = match jiff::fmt::rfc2822::parse(date) {
        Ok(theirs) => theirs.timestamp(),
        Err(error) => return Check::warn("clock", format!("{date:?}: {error}"), "look at the API server"),
    };
    let apart = now.as_second().abs_diff(theirs.as_second());
    let found = format!("{apart} s from the API server's");
    if apart <= SKEW {
        Check::ok("clock", found)
    } else {
        Check::fail("clock", found, "timedatectl set-ntp true, or start the NTP client of this node")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Verdict;

    #[test]
    fn versions() {
        for (version, verdict) in [
            ("v1.31.0", Verdict::Ok),
            ("v1.34.4+k3s1", Verdict::Ok),
            ("v2.0.0", Verdict::Ok),
            ("v1.30.9-eks-1", Verdict::Warn),
            ("v1.9", Verdict::Warn),
            ("", Verdict::Warn),
        ] {
            assert_eq!(at_least("version", "kubelet", version, KUBELET, "").verdict, verdict, "{version}");
        }
    }

    #[test]
    fn policies_that_hold_or_not() {
        let user = "system:node:a";
        for (tried, verdict, words) in [
            (Tried::Refused, Verdict::Ok, "keep system:node:a"),
            (Tried::Taken, Verdict::Fail, "deploy/policies is part of it"),
            (Tried::Unclear("no such kind".to_owned()), Verdict::Warn, "no such kind"),
            (Tried::Unclear(String::new()), Verdict::Warn, "order alone need none of it"),
        ] {
            let check = of_policies(user, tried);
            assert_eq!(check.verdict, verdict, "{check:?}");
            assert!(format!("{} {}", check.found, check.remedy).contains(words), "{check:?}");
        }
    }

    #[test]
    fn images_that_were_pulled_with_credentials_of_jobs() {
        let preloaded = Some("NeverVerifyPreloadedImages");
        let (old, new) = ((1, 34), (1, 35));
        for (version, gate, policy, sealed, verdict) in [
            // The feature is off, and with it the policy.
            ((1, 32), None, None, Some(true), Verdict::Ok),
            (old, None, None, Some(true), Verdict::Ok),
            (old, Some(false), preloaded, Some(true), Verdict::Ok),
            (new, Some(false), None, Some(true), Verdict::Ok),
            // On, by version or by gate; and the default of the policy.
            (new, None, None, Some(true), Verdict::Warn),
            (new, None, Some(""), Some(true), Verdict::Warn),
            (new, None, preloaded, None, Verdict::Warn),
            (old, Some(true), None, Some(true), Verdict::Warn),
            (new, None, preloaded, Some(false), Verdict::Ok),
            // Nobody is asked, or everybody.
            (new, None, Some("NeverVerify"), Some(true), Verdict::Ok),
            (new, None, Some("NeverVerifyAllowlistedImages"), Some(true), Verdict::Ok),
            (new, None, Some("AlwaysVerify"), Some(true), Verdict::Ok),
        ] {
            let check = pulled_secretly(version, gate, policy, sealed);
            assert_eq!(check.verdict, verdict, "{version:?} {gate:?} {policy:?} {sealed:?}: {check:?}");
        }
    }

    #[test]
    fn clocks() {
        let now: Timestamp = "2026-11-22T03:00:00Z".parse().unwrap();
        for (date, verdict) in [
            ("Sun, 22 Nov 2026 03:00:30 GMT", Verdict::Ok),
            ("Sun, 22 Nov 2026 02:59:31 GMT", Verdict::Ok),
            ("Sun, 22 Nov 2026 03:00:31 GMT", Verdict::Fail),
            ("yesterday", Verdict::Warn),
        ] {
            assert_eq!(clock(date, now).verdict, verdict, "{date}");
        }
    }
}
