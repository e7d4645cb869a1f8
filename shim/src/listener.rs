//! The socket the kubelet connects to: taken at start, by exactly one process, and readable by root only.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{DirBuilderExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
    sys::{
        socket::{self, Backlog},
        stat::{Mode, fchmod},
    },
};
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tracing::warn;

use crate::endpoint::RuntimeEndpoint;

/// The kubelet takes a runtime endpoint that ends so for CRI-O and changes where it reads its statistics.
const CRIO_PATH: &str = "run/crio/crio.sock";
/// Connections that may wait to be accepted, as many as containerd lets wait (the kernel cuts it to
/// `net.core.somaxconn`): one too many does not wait, its client is told EAGAIN and most do not try again.
const BACKLOG: u32 = 4096;

/// A listening socket, and the right to it.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    /// Held as long as we listen. `None` when the socket was handed to us: then whoever made it guards it.
    _lock: Option<Flock<File>>,
}

/// The socket could not be taken. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The kubelet would misread this path.
    #[error(
        "socket {0:?}: the kubelet takes any path ending in {CRIO_PATH} for CRI-O, and the runtime is not CRI-O"
    )]
    LooksLikeCrio(PathBuf),
    /// The directory could not be made.
    #[error("directory of socket {path:?}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The lock file could not be opened or locked.
    #[error("lock file {path:?}")]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another process starts or runs on this socket.
    #[error("socket {0:?} belongs to another running agent (its lock is held)")]
    Locked(PathBuf),
    /// Somebody answers at this path.
    #[error("socket {0:?} is in use: a process accepts connections on it")]
    Live(PathBuf),
    /// Something that is no socket lies there.
    #[error("path {0:?} exists and is not a socket")]
    NotASocket(PathBuf),
    /// A stale socket could not be removed, or the new one not made.
    #[error("socket {path:?}")]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Binds `path` with mode 0600, in a directory that is made with mode 0711 if it is missing. A socket left
/// behind by a process that is gone is taken over; one that answers, or whose lock is held, is refused.
pub async fn bind(path: &Path, runtime: &RuntimeEndpoint) -> Result<Listener, BindError> {
    refuse_crio_path(path, runtime)?;
    make_directory(path)?;
    let lock = lock(path)?;
    remove_stale(path).await?;
    let socket = listen(path).map_err(|source| BindError::Socket { path: path.to_owned(), source })?;
    Ok(Listener { socket, _lock: Some(lock) })
}

impl Listener {
    /// The next connection. Cancel-safe.
    pub async fn accept(&self) -> io::Result<UnixStream> {
        self.socket.accept().await.map(|(stream, _)| stream)
    }

    /// A second descriptor of the same socket, to be handed on: it goes on listening when this one is closed.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned()
    }

    /// Takes over a socket that already listens, as systemd or a predecessor hands it on.
    pub fn adopt(
        socket: std::os::unix::net::UnixListener,
        runtime: &RuntimeEndpoint,
    ) -> Result<Self, BindError> {
        let path = socket.local_addr().ok().and_then(|address| address.as_pathname().map(Path::to_owned));
        let path = path.unwrap_or_default();
        refuse_crio_path(&path, runtime)?;
        // Once more: who made it may have had less in mind, such as a socket unit of an older version. One
        // that must not, by the filter of system calls that an older process left, has the backlog as it was.
        if let Err(error) = socket::listen(&socket, Backlog::MAXALLOWABLE) {
            warn!(%error, ?path, "Backlog of the socket stays as it is");
        }
        let adopted = socket.set_nonblocking(true).and_then(|()| UnixListener::from_std(socket));
        match adopted {
            Ok(socket) => Ok(Self { socket, _lock: None }),
            Err(source) => Err(BindError::Socket { path, source }),
        }
    }
}

fn refuse_crio_path(path: &Path, runtime: &RuntimeEndpoint) -> Result<(), BindError> {
    if path.ends_with(CRIO_PATH) && !runtime.is_crio() {
        return Err(BindError::LooksLikeCrio(path.to_owned()));
    }
    Ok(())
}

fn make_directory(path: &Path) -> Result<(), BindError> {
    let Some(directory) = path.parent().filter(|directory| !directory.exists()) else { return Ok(()) };
    DirBuilder::new()
        .recursive(true)
        .mode(0o711)
        .create(directory)
        .map_err(|source| BindError::Directory { path: directory.to_owned(), source })
}

/// Locks the path: between "nobody answers here" and "we do" lies a moment in which a second starter would
/// think the same.
fn lock(path: &Path) -> Result<Flock<File>, BindError> {
    let mut file = path.as_os_str().to_owned();
    file.push(".lock");
    let file = PathBuf::from(file);
    let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&file);
    let opened = opened.map_err(|source| BindError::Lock { path: file.clone(), source })?;
    Flock::lock(opened, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
        Errno::EWOULDBLOCK => BindError::Locked(path.to_owned()),
        errno => BindError::Lock { path: file, source: errno.into() },
    })
}

async fn remove_stale(path: &Path) -> Result<(), BindError> {
    let failed = |source| BindError::Socket { path: path.to_owned(), source };
    match UnixStream::connect(path).await {
        Ok(_) => Err(BindError::Live(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // Also what a regular file answers: never remove one of those.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            use std::os::unix::fs::FileTypeExt;
            let kind = std::fs::symlink_metadata(path).map_err(failed)?.file_type();
            if !kind.is_socket() {
                return Err(BindError::NotASocket(path.to_owned()));
            }
            std::fs::remove_file(path).map_err(failed)
        }
        // A full backlog: somebody listens, however slowly.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(BindError::Live(path.to_owned())),
        Err(error) => Err(failed(error)),
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    // Linux takes the mode of the socket file from the unbound socket, so there is no moment in which others
    // may connect.
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    socket.bind(path)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use std::os::{fd::AsRawFd, unix::fs::PermissionsExt};

    use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect};

    use super::*;

    fn runtime() -> RuntimeEndpoint {
        "/run/containerd/containerd.sock".parse().unwrap()
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn makes_the_directory_and_a_socket_for_root_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("berth/cri.sock");
        let _listener = bind(&path, &runtime()).await.unwrap();
        assert_eq!(mode(path.parent().unwrap()), 0o711);
        assert_eq!(mode(&path), 0o600);
    }

    #[tokio::test]
    async fn takes_over_what_a_dead_process_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cri.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        bind(&path, &runtime()).await.unwrap();
    }

    #[tokio::test]
    async fn refuses_a_second_starter() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cri.sock");
        let _first = bind(&path, &runtime()).await.unwrap();
        assert!(matches!(bind(&path, &runtime()).await, Err(BindError::Locked(_))));
    }

    #[tokio::test]
    async fn refuses_a_socket_that_answers() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cri.sock");
        let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(matches!(bind(&path, &runtime()).await, Err(BindError::Live(_))));
    }

    #[tokio::test]
    async fn never_removes_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cri.sock");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(bind(&path, &runtime()).await, Err(BindError::NotASocket(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[tokio::test]
    async fn refuses_the_path_of_crio_unless_it_is_crio() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/crio/crio.sock");
        assert!(matches!(bind(&path, &runtime()).await, Err(BindError::LooksLikeCrio(_))));
        bind(&path, &"/run/crio/crio.sock.runtime".parse().unwrap()).await.unwrap();
    }

    #[tokio::test]
    async fn adopts_a_listening_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cri.sock");
        let listener =
            Listener::adopt(std::os::unix::net::UnixListener::bind(&path).unwrap(), &runtime()).unwrap();
        let (accepted, connected) = tokio::join!(listener.socket.accept(), UnixStream::connect(&path));
        accepted.unwrap();
        connected.unwrap();
    }

    #[tokio::test]
    async fn clients_wait_in_the_backlog() {
        let clients = 400;
        let directory = tempfile::tempdir().unwrap();
        let (made, passed) = (directory.path().join("made.sock"), directory.path().join("passed.sock"));
        let old =
            socket::socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        socket::bind(old.as_raw_fd(), &UnixAddr::new(&passed).unwrap()).unwrap();
        socket::listen(&old, Backlog::new(2).unwrap()).unwrap();
        let _listeners =
            [bind(&made, &runtime()).await.unwrap(), Listener::adopt(old.into(), &runtime()).unwrap()];
        for path in [made, passed] {
            let path = UnixAddr::new(&path).unwrap();
            let waiting: Vec<_> = (0..clients)
                .map(|_| {
                    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
                    let client = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
                    (connect(client.as_raw_fd(), &path), client)
                })
                .collect();
            assert_eq!(waiting.iter().filter(|(connected, _)| connected.is_ok()).count(), clients);
        }
    }
}
