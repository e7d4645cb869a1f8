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

impl PodView {
    /// Resolves `auto`, and checks that the source is described. The error has the field that is wrong, and
    /// why.
    pub(super) fn resolve(&mut self, in_a_pod: bool) -> Result<(), (&'static str, &'static str)> {
        self.mode = match self.mode {
            ViewMode::Auto if self.kubeconfig.is_some() || in_a_pod => ViewMode::Api,
            ViewMode::Auto if self.kubelet.is_some() => ViewMode::Kubelet,
            ViewMode::Auto => ViewMode::None,
            mode => mode,
        };
        match self.mode {
            ViewMode::Api if self.kubeconfig.is_none() && !in_a_pod => Err((
                "podView.kubeconfig",
                "is needed for podView.mode api, except in a pod with a service account",
            )),
            ViewMode::Kubelet if self.kubelet.is_none() => {
                Err(("podView.kubelet", "is needed for podView.mode kubelet"))
            }
            ViewMode::Auto | ViewMode::Api | ViewMode::Kubelet | ViewMode::None => {
                self.kubelet.as_ref().map_or(Ok(()), Kubelet::check)
            }
        }
    }
}

impl Kubelet {
    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if !self.url.starts_with("http://") && !self.url.starts_with("https://") {
            return Err(("podView.kubelet.url", "must begin with https:// or http://"));
        }
        if self.client_certificate.is_some() != self.client_key.is_some() {
            return Err(("podView.kubelet.clientKey", "goes with clientCertificate: give both or neither"));
        }
        Ok(())
    }
}

impl Cluster {
    /// Checks the fields against each other and against the pod view, which says where the API server is.
    pub(super) fn check(&self, view: &PodView) -> Result<(), (&'static str, &'static str)> {
        let Some(account) = &self.service_account else { return Ok(()) };
        if view.mode != ViewMode::Api {
            return Err((
                "cluster.serviceAccount",
                "goes with podView.mode api: give podView.kubeconfig, for the address of the API server",
            ));
        }
        if account.namespace.is_empty() || account.name.is_empty() {
            return Err(("cluster.serviceAccount", "needs a namespace and a name"));
        }
        if !account.token_file.is_absolute() {
            return Err(("cluster.serviceAccount.tokenFile", "must be an absolute path"));
        }
        if account.bound_to_pod && view.kubeconfig.is_none() {
            return Err((
                "cluster.serviceAccount.boundToPod",
                "needs podView.kubeconfig, the kubelet's: its user asks for the token",
            ));
        }
        Ok(())
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
