//! A probe that is an HTTP request, as the kubelet sends it, with one difference.
//!
//! Both follow redirects on the same host only. Where one leads elsewhere, the kubelet takes the redirect
//! itself as a success. Here it is a failure: nobody in the pod has said that all is well. Nor is anybody who
//! sends a probe on to the node's metadata service to learn that it worked. Another port counts as elsewhere:
//! on the host's network it belongs to somebody else. A name is no way out: under its own `Host` the pod
//! itself is asked again.

use ::http::HeaderValue;
use berth_policy::ProbeResult;

use super::{
    message::{readable, steady},
    not_asked,
    pod_network::PodNetwork,
};
use crate::base::http_get::{self, Answer, Follow, Manner, Target};

/// The kubelet's agent is `kube-probe/` and its version.
const MANNER: Manner = Manner {
    agent: HeaderValue::from_static("kube-probe/berth"),
    plain_instead_of_tls: false,
    follow: Follow::SamePort,
};

/// Asks; an answer from 200 to 399 is a success.
pub(super) async fn get(
    pod_network: &PodNetwork<'_>,
    https: bool,
    port: u16,
    path: &str,
    headers: &[(String, String)],
) -> ProbeResult {
    let target = Target::new(https, pod_network.ip().to_string(), port, path);
    match http_get::get(pod_network, &MANNER, target, headers).await {
        Ok(answer) => judge(&answer),
        Err(error) => not_asked(&error),
    }
}

fn judge(answer: &Answer) -> ProbeResult {
    match (&answer.led_away, answer.status.as_u16()) {
        (Some(host), _) => ProbeResult::Failure(steady(&format!(
            "redirect to {host} refused: a probe stays at the address and port of its pod"
        ))),
        (None, 200..=399) => ProbeResult::Success(readable(&answer.body)),
        (None, _) => ProbeResult::Failure(format!("the answer is {}", answer.status)),
    }
}
