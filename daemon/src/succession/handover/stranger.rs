//! A successor that somebody else has started: a process, and not a number that may be another's by the time
//! it counts.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use nix::sys::socket::{getsockopt, sockopt::PeerPidfd};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use tokio::net::UnixStream;

/// The process at the other end of a line.
#[derive(Debug)]
pub(super) struct Stranger(OwnedFd);

impl Stranger {
    /// The process that has dialled. `None`: it lives in a PID namespace beside this one, and ends when it
    /// finds that the line is cut; or it has ended already.
    ///
    /// # Errors
    /// The system's answer.
    pub(super) fn of(stream: &UnixStream) -> io::Result<Option<Self>> {
        let Some(pid) = stream.peer_cred()?.pid().and_then(Pid::from_raw) else { return Ok(None) };
        if let Ok(process) = getsockopt(stream, PeerPidfd) {
            return Ok(Some(Self(process)));
        }
        // Before Linux 6.5. The number was its own when it dialled, and is its own still if it has not ended
        // since.
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => Ok((!hung_up(stream)?).then_some(Self(process))),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Ends it for good. One that has ended already is no error.
    ///
    /// # Errors
    /// The system's answer.
    pub(super) fn kill(&self) -> io::Result<()> {
        match pidfd_send_signal(&self.0, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

fn hung_up(stream: &UnixStream) -> io::Result<bool> {
    let line = stream.as_fd();
    let mut polled = [PollFd::new(&line, PollFlags::empty())];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(polled[0].revents().contains(PollFlags::HUP))
}

#[cfg(test)]
mod tests {
    use std::{
        env, fs,
        os::unix::{net, process::ExitStatusExt},
        process::{Child, Command, Stdio},
        thread::sleep,
        time::Duration,
    };

    use nix::unistd::geteuid;
    use tokio::net::UnixListener;

    use super::*;

    /// Names the socket that a process of these tests dials.
    const SOCKET: &str = "BERTH_TEST_STRANGER";

    #[test]
    #[ignore = "is the stranger of the other tests, a process of its own"]
    fn dials_and_stays() {
        if let Some(socket) = env::var_os(SOCKET) {
            let _line = net::UnixStream::connect(socket).unwrap();
            sleep(Duration::from_secs(60));
        }
    }

    async fn dialled() -> (Child, UnixStream) {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "succession::handover::stranger::tests::dials_and_stays", "--ignored"])
            .env(SOCKET, &socket)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        (child, listener.accept().await.unwrap().0)
    }

    /// A process that has the number of one that has ended; `None` where others were faster.
    fn with_pid(pid: u32) -> Option<Child> {
        fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).unwrap();
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        if sleeper.id() == pid {
            return Some(sleeper);
        }
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        None
    }

    #[tokio::test]
    async fn one_that_lives_is_ended() {
        let (mut child, stream) = dialled().await;
        Stranger::of(&stream).unwrap().unwrap().kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[tokio::test]
    async fn another_with_its_number_is_left_alone() {
        if !geteuid().is_root() {
            eprintln!("SKIPPED: only root says which number a process gets");
            return;
        }
        // Some process of this machine that lives long may be the one that gets the number.
        for _ in 0..20 {
            let (mut child, stream) = dialled().await;
            let stranger = Stranger::of(&stream).unwrap().unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            let Some(mut other) = (0..200).find_map(|_| with_pid(child.id())) else { continue };
            stranger.kill().unwrap();
            sleep(Duration::from_millis(100));
            assert_eq!(other.try_wait().unwrap(), None, "another process was ended");
            other.kill().unwrap();
            other.wait().unwrap();
            return;
        }
        panic!("others were faster each time");
    }

    #[tokio::test]
    async fn one_that_has_ended_has_hung_up() {
        let (mut child, stream) = dialled().await;
        assert!(!hung_up(&stream).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(hung_up(&stream).unwrap());
    }
}
