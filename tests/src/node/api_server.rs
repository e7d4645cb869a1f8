//! The Kubernetes API server, with the authorizers and the admission that matter to a node: Node, RBAC,
//! NodeRestriction.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::programs;
use super::run_dir::{Port, Run};
use super::service::Service;
use super::tool::run as tool;
use crate::wait::{START_UP, await_condition};

const AUDIT_LOG: &str = "api/audit.log";
/// Every write, when it has ended.
const AUDIT: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  verbs: [create, update, patch, delete]
- level: None
";

/// Feature of a field of pods that it knows, and the types of these programs do not: `hostnameOverride`.
const LATER_FIELD: &str = "--feature-gates=HostnameOverride=true";

/// The name of the only node. The API server reaches its kubelet (exec, logs) by this name, and this one
/// resolves on every machine without a change to its hosts file.
pub const NODE_NAME: &str = "localhost";

/// User that a token stands for.
#[derive(Clone, Copy, Debug)]
pub enum User {
    /// system:masters; the tests themselves and the controllers.
    Admin,
    /// The kubelet of [`NODE_NAME`], and what shares its identity.
    Node,
}

impl User {
    fn token(self) -> &'static str {
        match self {
            Self::Admin => "admin-of-the-tests",
            Self::Node => "node-of-the-tests",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Node => "node",
        }
    }
}

/// An API server with its files.
#[derive(Debug)]
pub struct ApiServer {
    run: Arc<Run>,
    service: Service,
    certificates: PathBuf,
}

impl ApiServer {
    /// Starts it on the run's etcd and waits until it is ready.
    pub async fn start(run: &Arc<Run>) -> Result<Self> {
        // Pods need no ServiceAccount token here; with it, every namespace would wait for a controller first.
        Self::start_without(run, "ServiceAccount", Vec::new()).await
    }

    /// The same, with a log of all writes at [`Self::audit_log`], and a field of pods that is newer than the
    /// types of these programs.
    pub async fn start_audited(run: &Arc<Run>) -> Result<Self> {
        run.make_dir("api")?;
        let policy = run.write("api/audit.yaml", AUDIT)?;
        let more = vec![
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", run.path(AUDIT_LOG).display()),
            // It is on the disk before the client has its answer.
            "--audit-log-mode=blocking".to_owned(),
            LATER_FIELD.to_owned(),
        ];
        Self::start_without(run, "ServiceAccount", more).await
    }

    /// Where the log of its writes is.
    pub fn audit_log(&self) -> PathBuf {
        self.run.path(AUDIT_LOG)
    }

    /// The same with ServiceAccounts: pods have the token of theirs.
    pub async fn start_with_accounts(run: &Arc<Run>) -> Result<Self> {
        Self::start_without(run, "", Vec::new()).await
    }

    async fn start_without(run: &Arc<Run>, admission: &str, more: Vec<String>) -> Result<Self> {
        let certificates = run.make_dir("api")?;
        let tokens = run.write(
            "api/tokens.csv",
            &format!(
                "{},admin,admin,system:masters\n{},system:node:{NODE_NAME},node,system:nodes\n",
                User::Admin.token(),
                User::Node.token()
            ),
        )?;
        let key = run.path("api/service-account.key");
        tool("openssl", &["genrsa", "-out", key.to_str().context("path")?, "2048"]).await?;

        let args = [
            ("--etcd-servers", format!("http://{}", run.address(Port::Etcd))),
            ("--bind-address", "127.0.0.1".to_owned()),
            ("--advertise-address", "127.0.0.1".to_owned()),
            ("--secure-port", run.port(Port::Api).to_string()),
            ("--cert-dir", certificates.display().to_string()),
            ("--service-cluster-ip-range", run.service_subnet()),
            ("--token-auth-file", tokens.display().to_string()),
            ("--authorization-mode", "Node,RBAC".to_owned()),
            ("--enable-admission-plugins", "NodeRestriction".to_owned()),
            ("--disable-admission-plugins", admission.to_owned()),
            ("--service-account-key-file", key.display().to_string()),
            ("--service-account-signing-key-file", key.display().to_string()),
            ("--service-account-issuer", "https://berth.test".to_owned()),
            ("--kubelet-preferred-address-types", "Hostname".to_owned()),
            ("--endpoint-reconciler-type", "none".to_owned()),
            ("--allow-privileged", "true".to_owned()),
        ];
        let args = args.into_iter().map(|(flag, value)| format!("{flag}={value}")).chain(more).collect();
        let service = Service::new(run, "kube-apiserver", programs::kubernetes("kube-apiserver")?, args);
        service.start()?;
        let server = Self { run: run.clone(), service, certificates };
        server.ready().await?;
        Ok(server)
    }

    /// Its process; stop it and start it to have it away for a while.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Waits until it is ready to serve.
    pub async fn ready(&self) -> Result<()> {
        await_condition("the API server is ready", START_UP, async || {
            self.service.check_running()?;
            let request = http_request("/readyz")?;
            self.client(User::Admin).await?.request_text(request).await.context("/readyz")?;
            Ok(())
        })
        .await
    }

    /// A client that acts as `user`.
    pub async fn client(&self, user: User) -> Result<Client> {
        self.client_with(user.name(), user.token()).await
    }

    /// A client that acts as whomever the token stands for; `name` is only for the kubeconfig.
    pub async fn client_with(&self, name: &str, token: &str) -> Result<Client> {
        Client::try_from(self.config_with(name, token).await?).context("API client")
    }

    /// A client with all rights that gives back each refusal; others try those again that may pass (429).
    pub async fn client_of_one_try(&self) -> Result<Client> {
        let mut config = self.config_with(User::Admin.name(), User::Admin.token()).await?;
        config.default_retry = false;
        Client::try_from(config).context("API client")
    }

    async fn config_with(&self, name: &str, token: &str) -> Result<Config> {
        // rustls has no default provider once two are in the graph; a second installation changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let kubeconfig =
            Kubeconfig::from_yaml(&self.kubeconfig_text(name, token)).context("our own kubeconfig")?;
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .context("our own kubeconfig")
    }

    /// The file that makes a program act as `user`.
    pub fn kubeconfig(&self, user: User) -> Result<PathBuf> {
        self.kubeconfig_with(user.name(), user.token())
    }

    /// The file that makes a program act as whomever the token stands for.
    pub fn kubeconfig_with(&self, name: &str, token: &str) -> Result<PathBuf> {
        // Written beside it and renamed: tests that share the node ask for the same one, and the programs of
        // one must not find half of it while another writes.
        let new = tempfile::NamedTempFile::new_in(&self.certificates).context("a kubeconfig")?;
        fs::write(new.path(), self.kubeconfig_text(name, token)).context("a kubeconfig")?;
        fs::set_permissions(new.path(), fs::Permissions::from_mode(0o644)).context("a kubeconfig")?;
        let path = self.run.path(format!("{name}.kubeconfig"));
        new.persist(&path).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    fn kubeconfig_text(&self, name: &str, token: &str) -> String {
        format!(
            "apiVersion: v1
kind: Config
current-context: berth
clusters:
- name: berth
  cluster:
    server: https://{address}
    # Written by the server itself at its first start: its certificate, followed by the CA that signed it.
    certificate-authority: {authority}
users:
- name: {name}
  user:
    token: {token}
contexts:
- name: berth
  context:
    cluster: berth
    user: {name}
",
            address = self.run.address(Port::Api),
            authority = self.certificates.join("apiserver.crt").display(),
        )
    }
}

fn http_request(path: &str) -> Result<http::Request<Vec<u8>>> {
    http::Request::get(path).body(Vec::new()).context("request")
}
