//! Where a pod is dialled: at its own address and nowhere else, whatever a probe or a server says.

use std::{
    collections::{HashMap, VecDeque},
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use berth_policy::SandboxId;
use tokio::net::{TcpSocket, TcpStream};

use super::netns::{Namespaces, NetnsError};
use crate::{
    base::http_get::{Dial, HttpError},
    cri::{Runtime, RuntimeError, network::Network},
};

/// Number of sandboxes whose network is remembered; more than a node has pods.
const REMEMBERED: usize = 512;

/// Networks of the sandboxes, asked of the runtime once each.
#[derive(Clone, Debug)]
pub(super) struct PodNetworks {
    runtime: Runtime,
    namespaces: Namespaces,
    known: Arc<Mutex<Remembered>>,
}

/// Networks that were asked for: a sandbox's never changes while it lives.
#[derive(Debug, Default)]
struct Remembered {
    networks: HashMap<SandboxId, Network>,
    /// The oldest first.
    order: VecDeque<SandboxId>,
}

/// The network of one pod.
pub(super) struct PodNetwork<'a> {
    networks: &'a PodNetworks,
    sandbox: &'a SandboxId,
    ip: IpAddr,
    /// Ways to its namespace; `None` on the host's network.
    namespaces: Option<Vec<PathBuf>>,
}

/// Nobody knows where to dial.
#[derive(Debug, thiserror::Error)]
pub(super) enum NetworkError {
    /// The runtime did not answer.
    #[error("the address of the pod is not known")]
    Runtime(#[source] RuntimeError),
    /// Not yet, or not any more.
    #[error("the pod has no address")]
    NoAddress,
    /// The node's address was not given.
    #[error("the pod is on the host's network, and the address of the host is not known")]
    NoHostAddress,
    /// Address of the host that was given and is none.
    #[error("the address of the host, {0:?}, is none")]
    HostAddress(String),
}

/// A request was not made, or not answered.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// There is no way into the pod's network.
    #[error("the network of the pod cannot be entered")]
    Namespace(#[source] NetnsError),
    /// Nobody answers there.
    #[error("{0} cannot be reached")]
    Connect(SocketAddr, #[source] io::Error),
    /// The HTTP request failed.
    #[error(transparent)]
    Http(HttpError),
}

// === impl PodNetworks ===

impl PodNetworks {
    pub(super) fn new(runtime: Runtime) -> Self {
        Self { runtime, namespaces: Namespaces::default(), known: Arc::default() }
    }

    /// Finds where this sandbox is; `host_ip` is for one on the host's network.
    pub(super) async fn of<'a>(
        &'a self,
        sandbox: &'a SandboxId,
        host_ip: Option<&str>,
    ) -> Result<PodNetwork<'a>, NetworkError> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).networks.get(sandbox).cloned();
        let network = match known {
            Some(network) => network,
            None => {
                let asked = self.runtime.network(sandbox).await.map_err(NetworkError::Runtime)?;
                let network = asked.ok_or(NetworkError::NoAddress)?;
                self.remember(sandbox, network.clone());
                network
            }
        };
        let (ip, namespaces) = match network {
            Network::Own { ip, namespaces } => (ip, Some(namespaces)),
            Network::Host => {
                let text = host_ip.ok_or(NetworkError::NoHostAddress)?;
                (text.parse().map_err(|_| NetworkError::HostAddress(text.to_owned()))?, None)
            }
        };
        Ok(PodNetwork { networks: self, sandbox, ip, namespaces })
    }

    fn remember(&self, sandbox: &SandboxId, network: Network) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.networks.insert(sandbox.clone(), network).is_none() {
            known.order.push_back(sandbox.clone());
        }
        if known.order.len() > REMEMBERED
            && let Some(oldest) = known.order.pop_front()
        {
            known.networks.remove(&oldest);
        }
    }

    fn forget(&self, sandbox: &SandboxId) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.networks.remove(sandbox).is_some() {
            known.order.retain(|other| other != sandbox);
        }
    }
}

// === impl PodNetwork ===

impl PodNetwork<'_> {
    /// A connection to this port of the pod. Nothing has been sent on it.
    pub(super) async fn connect(&self, port: u16) -> Result<TcpStream, AskError> {
        let connected = self.attempt(SocketAddr::new(self.ip, port)).await;
        match &connected {
            Err(AskError::Connect(_, error)) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            // Perhaps it is not there any more.
            Err(_) => self.forget(),
            Ok(_) => {}
        }
        connected
    }

    async fn attempt(&self, address: SocketAddr) -> Result<TcpStream, AskError> {
        let failed = |source| AskError::Connect(address, source);
        let socket = match &self.namespaces {
            None if address.is_ipv6() => TcpSocket::new_v6().map_err(failed)?,
            None => TcpSocket::new_v4().map_err(failed)?,
            Some(paths) => {
                self.networks.namespaces.socket(paths, self.ip).await.map_err(AskError::Namespace)?
            }
        };
        socket.connect(address).await.map_err(failed)
    }

    /// The pod's address.
    pub(super) fn ip(&self) -> IpAddr {
        self.ip
    }

    /// The runtime is asked again the next time.
    pub(super) fn forget(&self) {
        self.networks.forget(self.sandbox);
    }
}

/// Dials the pod, whatever host a request names.
impl Dial for PodNetwork<'_> {
    type Error = AskError;

    async fn dial(&self, _host: &str, port: u16) -> Result<TcpStream, AskError> {
        self.connect(port).await
    }
}

// === impl AskError ===

impl AskError {
    /// Tells whether nothing was asked, so that nothing is known of the container.
    pub(super) fn is_ours(&self) -> bool {
        match self {
            Self::Namespace(_) => true,
            Self::Connect(..) => false,
            Self::Http(error) => match error {
                HttpError::ServerName { .. }
                | HttpError::TlsVersions(_)
                | HttpError::HeaderName { .. }
                | HttpError::HeaderValue { .. }
                | HttpError::Request(_) => true,
                HttpError::Status(_) | HttpError::Redirects | HttpError::Tls(_) | HttpError::Exchange(_) => {
                    false
                }
            },
        }
    }
}

impl From<HttpError> for AskError {
    fn from(error: HttpError) -> Self {
        Self::Http(error)
    }
}
