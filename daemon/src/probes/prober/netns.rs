//! Sockets in the network of a pod.
//!
//! A socket belongs for ever to the network namespace in which it was made, whoever connects it. So there is
//! one thread that enters the namespace it is told, makes a socket, and hands it over; everything else
//! happens where all else happens. The thread never returns to the host's network: between two orders it
//! waits in an empty namespace of its own, in which no socket would reach anybody, and which keeps no pod's
//! namespace alive.

use std::{
    net::{IpAddr, TcpStream},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, TrySendError},
    },
    thread,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sched::{CloneFlags, setns, unshare},
    sys::{
        socket::{AddressFamily, SockFlag, SockType, socket},
        stat::Mode,
    },
};
use tokio::{net::TcpSocket, sync::oneshot};

/// It calls into the kernel and little else.
const STACK: usize = 128 << 10;
/// Orders that wait: more than probes run at once. Each takes some microseconds, unless the kernel itself
/// stands still.
const ORDERS: usize = 256;

/// Makes sockets. The thread is there from the first one on, until the last clone is gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Namespaces(Arc<Mutex<Option<mpsc::SyncSender<Order>>>>);

/// No socket was made.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum NetnsError {
    /// Nothing is known of the namespace.
    #[error("the runtime does not say in which network namespace the pod is")]
    Untold,
    /// It cannot be seen.
    #[error("{path}: {errno}; an agent in a container needs hostPID, or that path of the node mounted",
        path = path.display(), errno = errno.desc())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// It cannot be entered.
    #[error("{path} cannot be entered: {errno}; the agent needs CAP_SYS_ADMIN for it",
        path = path.display(), errno = errno.desc())]
    Enter {
        /// Which.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// The host's cannot be left.
    #[error("the agent cannot leave its own network: {errno}; it needs CAP_SYS_ADMIN for it", errno = .0.desc())]
    Leave(Errno),
    /// Not there.
    #[error("socket: {errno}", errno = .0.desc())]
    Socket(Errno),
    /// The thread is not there.
    #[error("the thread that makes sockets does not run")]
    Thread,
    /// It does not keep up.
    #[error("{ORDERS} sockets are waited for already")]
    Busy,
}

/// A socket that is to be made.
#[derive(Debug)]
pub(super) struct Order {
    paths: Vec<PathBuf>,
    family: AddressFamily,
    reply: oneshot::Sender<Result<OwnedFd, NetnsError>>,
}

// === impl Namespaces ===

impl Namespaces {
    /// Namespaces with a thread that is there.
    #[cfg(test)]
    pub(super) fn of(thread: mpsc::SyncSender<Order>) -> Self {
        Self(Arc::new(Mutex::new(Some(thread))))
    }

    /// A TCP socket for such an address, in the first of these namespaces that can be entered: they are ways
    /// to one.
    pub(super) async fn socket(&self, paths: &[PathBuf], ip: IpAddr) -> Result<TcpSocket, NetnsError> {
        let family = if ip.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
        let (reply, made) = oneshot::channel();
        self.order(Order { paths: paths.to_vec(), family, reply })?;
        let socket = made.await.map_err(|_| NetnsError::Thread)??;
        Ok(TcpSocket::from_std_stream(TcpStream::from(socket)))
    }

    fn order(&self, order: Order) -> Result<(), NetnsError> {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let order = match &*sender {
            None => order,
            // Never waited for: this is a thread of the agent's.
            Some(thread) => match thread.try_send(order) {
                Ok(()) => return Ok(()),
                // The probe says so, and is tried again when it is due.
                Err(TrySendError::Full(_)) => return Err(NetnsError::Busy),
                // It has ended; another one is begun.
                Err(TrySendError::Disconnected(order)) => order,
            },
        };
        let (thread, orders) = mpsc::sync_channel(ORDERS);
        let builder = thread::Builder::new().name("netns".to_owned()).stack_size(STACK);
        builder.spawn(move || make_sockets(&orders)).map_err(|_| NetnsError::Thread)?;
        let sent = thread.try_send(order).map_err(|_| NetnsError::Thread);
        *sender = Some(thread);
        sent
    }
}

fn make_sockets(orders: &mpsc::Receiver<Order>) {
    let parked = leave();
    for Order { paths, family, reply } in orders {
        let made = parked.as_ref().map_err(Clone::clone).and_then(|parked| make(&paths, family, parked));
        // Nobody waits for it any more: it is closed.
        let _ = reply.send(made);
    }
}

/// Into a namespace of its own, and a way back to it.
fn leave() -> Result<OwnedFd, NetnsError> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(NetnsError::Leave)?;
    look_at(Path::new("/proc/thread-self/ns/net")).map_err(NetnsError::Leave)
}

fn make(paths: &[PathBuf], family: AddressFamily, parked: &OwnedFd) -> Result<OwnedFd, NetnsError> {
    let mut failed = None;
    for path in paths {
        if let Err(error) = enter(path) {
            failed.get_or_insert(error);
            continue;
        }
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let made = socket(family, SockType::Stream, flags, None).map_err(NetnsError::Socket);
        // One that cannot go back stays there until it goes on; no socket is made without entering.
        let _ = setns(parked, CloneFlags::CLONE_NEWNET);
        return made;
    }
    Err(failed.unwrap_or(NetnsError::Untold))
}

fn enter(path: &Path) -> Result<(), NetnsError> {
    let namespace = look_at(path).map_err(|errno| NetnsError::Open { path: path.to_owned(), errno })?;
    setns(namespace, CloneFlags::CLONE_NEWNET)
        .map_err(|errno| NetnsError::Enter { path: path.to_owned(), errno })
}

fn look_at(path: &Path) -> Result<OwnedFd, Errno> {
    open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())
}
