//! Source of the pod view, and the identity with which the agent asks it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where pods are seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct PodView {
    /// Which source.
    pub mode: ViewMode,
    /// For `api`; left out in a pod, whose service account counts then.
    pub kubeconfig: Option<PathBuf>,
    /// For `kubelet`, and for `api` while the API server is away.
    pub kubelet: Option<Kubelet>,
}

/// The source of the pod view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ViewMode {
    /// `api` if a kubeconfig is given or this is a pod with a service account, else `kubelet` if its URL is
    /// given, else `none`.
    #[default]
    Auto,
    /// A watch of this node's pods.
    Api,
    /// The kubelet's `/pods`.
    Kubelet,
    /// Only launch plans in sandbox annotations.
    None,
}

/// Identity of the agent at the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Cluster {
    /// A service account in place of the kubeconfig's user.
    pub service_account: Option<ServiceAccount>,
}

/// A service account, by a token that is bound to this node and that the agent renews.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct ServiceAccount {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Where its token is kept; for the owner only.
    pub token_file: PathBuf,
    /// The token is bound to a pod of the account on this node, and the kubeconfig's user asks for it. Until
    /// there is one the agent is that user.
    pub bound_to_pod: bool,
}

/// The kubelet's own endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Kubelet {
    /// `https://127.0.0.1:10250`, or `http://127.0.0.1:10255`.
    pub url: String,
    /// Bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// Client certificate (PEM), with `clientKey`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<PathBuf>,
    /// Its key (PEM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<PathBuf>,
    /// Authority that signed the kubelet's certificate (PEM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// Accept any certificate of a kubelet on this host. Kubelets sign their own by default.
    #[serde(default)]
    pub insecure_skip_tls_verify: bool,
}

impl Default for ServiceAccount {
    fn default() -> Self {
        Self {
            namespace: "berth-system".to_owned(),
            name: "berth-agent".to_owned(),
            token_file: PathBuf::from("/var/lib/berth/token"),
            bound_to_pod: false,
        }
    }
}

impl ViewMode {
    /// Name of it, as it is written in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Api => "api",
            Self::Kubelet => "kubelet",
            Self::None => "none",
        }
    }
}
