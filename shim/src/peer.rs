//! Peer of a connection: the process at the other end.
//!
//! Most clients of the socket are not the kubelet: crictl, berthctl, whoever debugs the node. They see the
//! plain truth; only the kubelet is asked to recreate a container by what it is shown. Its process is known
//! by the credentials the kernel keeps of whoever connected, and by the name of that process. This tells
//! friends apart and guards against nobody: whoever may open the socket is root.

use tokio::net::UnixStream;
use tracing::debug;

/// The clients that are treated in another way than the rest.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    /// The process names (`/proc/PID/comm`, 15 bytes at most) of what is, or contains, the kubelet.
    pub kubelet: Vec<String>,
}

/// The longest name the kernel keeps of a process.
pub const MAX_PROCESS_NAME: usize = 15;

// === impl Clients ===

impl Clients {
    /// Tells whether the kubelet has made this connection. In doubt it is not: a process that cannot be seen,
    /// because it is gone or lives in a PID namespace beside ours, is served the truth.
    pub(crate) fn is_kubelet(&self, socket: &UnixStream) -> bool {
        let Ok(peer) = socket.peer_cred() else { return false };
        // Our own user is root, but in tests.
        let trusted = peer.uid() == 0 || peer.uid() == nix::unistd::geteuid().as_raw();
        let name = peer.pid().filter(|pid| trusted && *pid > 0).and_then(process_name);
        let is_kubelet = name.as_ref().is_some_and(|name| self.kubelet.contains(name));
        debug!(
            peer.pid = peer.pid(),
            peer.uid = peer.uid(),
            peer.name = name,
            is_kubelet,
            "Client looked at"
        );
        is_kubelet
    }
}

fn process_name(pid: i32) -> Option<String> {
    // Answered by the kernel from memory: no disk is waited for.
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_is_known_by_its_name() {
        let own = process_name(std::process::id().try_into().unwrap()).unwrap();
        let (socket, _other_end) = UnixStream::pair().unwrap();
        let table: [(&[&str], bool); 5] = [
            (&[&own], true),
            (&["kubelet", &own], true),
            (&["kubelet"], false),
            (&[""], false),
            (&[], false),
        ];
        for (names, expected) in table {
            let clients = Clients { kubelet: names.iter().map(|name| (*name).to_owned()).collect() };
            assert_eq!(clients.is_kubelet(&socket), expected, "{names:?}");
        }
    }

    #[test]
    fn a_process_that_is_gone_has_no_name() {
        assert_eq!(process_name(i32::MAX), None);
    }
}
