//! Where the sockets come from: from systemd, from the process before this one, or from the disk.

use std::{net::SocketAddr, os::fd::AsFd, path::Path, sync::Arc};

use anyhow::Context;
use berth_shim::{Listener, RuntimeEndpoint};
use tokio::net::TcpListener;

use crate::{
    config::{Configuration, PathMode},
    cri,
    process::data_path::DataPath,
    succession::{
        handover::{Name, Sockets, socket_beside},
        systemd, takeover,
    },
};

/// Where clients come in (for people), where the runtime is then, and the names of its place where that is
/// taken.
pub(super) fn addresses(
    config: &Configuration,
) -> anyhow::Result<(String, RuntimeEndpoint, Option<takeover::Paths>)> {
    let endpoint = match config.runtime_endpoint.clone() {
        Some(endpoint) => endpoint.0,
        None => cri::find().parse()?,
    };
    Ok(match config.path {
        PathMode::Inline | PathMode::Beside => (config.socket.to_string(), endpoint, None),
        PathMode::Takeover => {
            let paths = takeover::Paths::of(endpoint.path())?;
            (paths.front().display().to_string(), paths.aside().into(), Some(paths))
        }
    })
}

/// The sockets of a run, and a second descriptor of each for a successor.
pub(super) struct Front {
    /// The kubelet's, where there is one.
    pub(super) data_path: Option<DataPath>,
    /// The runtime's place, where berthd is in it.
    pub(super) place: Option<Arc<takeover::RuntimePlace>>,
    pub(super) admin: Listener,
    pub(super) handover: Listener,
    pub(super) http: TcpListener,
    pub(super) descriptors: Sockets,
}

impl Front {
    /// Takes all of them; the kubelet's first, which is also the lock that keeps a second agent out of the
    /// store.
    pub(super) async fn take(
        config: &Configuration,
        endpoint: &RuntimeEndpoint,
        paths: Option<takeover::Paths>,
        passed: Option<std::os::unix::net::UnixListener>,
        mut inherited: Sockets,
    ) -> anyhow::Result<Self> {
        let mut descriptors = Sockets::default();
        let data_path = match (config.path, &paths) {
            // berth-shim has the socket.
            (PathMode::Inline | PathMode::Takeover, _) if config.shim_socket.is_some() => None,
            (PathMode::Takeover, Some(paths)) => {
                let path = paths.own();
                // A socket whose file is gone can get no other name. One that systemd keeps would answer for
                // a dead berthd.
                let theirs = inherited.take_unix(Name::Cri, &path).filter(|_| path.exists());
                let (data_path, socket) = DataPath::take(path, theirs, endpoint.clone()).await?;
                descriptors.add(Name::Cri, socket);
                Some(data_path)
            }
            (PathMode::Inline, _) => {
                let path = config.socket.as_path();
                let theirs = inherited.take_unix(Name::Cri, path);
                let ours = passed.is_none() && theirs.is_none();
                let (data_path, socket) =
                    DataPath::take(path.to_owned(), theirs.or(passed), endpoint.clone()).await?;
                if ours {
                    systemd::keep_socket(socket.as_fd());
                }
                descriptors.add(Name::Cri, socket);
                Some(data_path)
            }
            (PathMode::Beside | PathMode::Takeover, _) => None,
        };
        let admin = config.admin_socket.as_path();
        let handover = socket_beside(admin);
        let admin = listen(&mut inherited, Name::Admin, admin, endpoint).await.context("adminSocket")?;
        let handover = listen(&mut inherited, Name::Handover, &handover, endpoint)
            .await
            .context("the hand-over socket, beside adminSocket")?;
        let http = listen_http(&mut inherited, config.http_address)
            .await
            .with_context(|| format!("httpAddress {}", config.http_address))?;
        descriptors.add(Name::Admin, admin.descriptor()?);
        descriptors.add(Name::Handover, handover.descriptor()?);
        descriptors.add(Name::Http, http.as_fd().try_clone_to_owned()?);
        // Last: where anything before it fails the runtime has not been touched.
        let place = match paths {
            Some(paths) => {
                let shim = config.shim_socket.as_ref().map(|socket| takeover::ShimSettings {
                    socket: socket.as_path().to_owned(),
                    kubelet_processes: config.kubelet_processes.clone(),
                    agent_namespace: config.agent_namespace.clone(),
                });
                Some(Arc::new(takeover::RuntimePlace::take(paths, &config.state_dir, shim).await?))
            }
            None => None,
        };
        Ok(Self { data_path, place, admin, handover, http, descriptors })
    }
}

async fn listen(
    inherited: &mut Sockets,
    name: Name,
    path: &Path,
    endpoint: &RuntimeEndpoint,
) -> anyhow::Result<Listener> {
    Ok(match inherited.take_unix(name, path) {
        Some(socket) => Listener::adopt(socket, endpoint)?,
        None => berth_shim::bind(path, endpoint).await?,
    })
}

async fn listen_http(inherited: &mut Sockets, address: SocketAddr) -> std::io::Result<TcpListener> {
    match inherited.take_tcp(Name::Http, address) {
        Some(socket) => {
            socket.set_nonblocking(true)?;
            TcpListener::from_std(socket)
        }
        None => TcpListener::bind(address).await,
    }
}
