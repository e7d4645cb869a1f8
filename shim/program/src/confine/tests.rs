use std::{
    collections::BTreeSet, fs, net::TcpListener, os::unix::net::UnixListener, process::Command, thread,
};

use nix::{
    sched::{CloneFlags, unshare},
    sys::stat::{Mode, SFlag, mknod},
    unistd::{Uid, chown},
};

use super::*;

/// A filter is of a thread, and of what that one starts.
fn behind_the_filter(act: impl FnOnce() + Send + 'static) {
    thread::spawn(act).join().unwrap();
}

#[test]
fn what_is_not_needed_is_refused() {
    behind_the_filter(|| {
        assert!(!refuses(), "before there is one");
        assert!(filter().unwrap());
        let refused = TcpListener::bind("127.0.0.1:0").unwrap_err().raw_os_error();
        assert_eq!(refused, Some(Errno::EAFNOSUPPORT as i32));
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        let calls = [
            ("unshare", unshare(CloneFlags::empty())),
            ("mknod", mknod(&fifo, SFlag::S_IFIFO, Mode::S_IRUSR, 0)),
            ("chown", chown(dir.path(), Some(Uid::current()), None)),
            ("munlockall", munlockall().map_err(|errno| Errno::from_raw(errno.raw_os_error()))),
        ];
        for (name, refused) in calls {
            assert_eq!(refused, Err(Errno::ENOSYS), "{name}");
        }
        assert!(filter().unwrap(), "one that is in force is enough");
    });
    assert!(!refuses(), "this thread has none");
}

/// Threads, files and sockets as the program uses them, and another program with a shell's calls.
#[test]
fn what_is_needed_goes_on() {
    behind_the_filter(|| {
        assert!(filter().unwrap());
        let dir = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let socket = dir.path().join("a.sock");
            let listener = tokio::net::UnixListener::bind(&socket).unwrap();
            let connected = tokio::net::UnixStream::connect(&socket);
            let (connected, accepted) = tokio::join!(connected, listener.accept());
            assert_eq!(accepted.unwrap().0.peer_cred().unwrap().pid(), Some(std::process::id() as i32));
            connected.unwrap();
            let large = tokio::task::spawn_blocking(|| vec![1_u8; 64 << 20].len()).await.unwrap();
            assert_eq!(large, 64 << 20);
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            let mut child = tokio::process::Command::new("sleep").arg("60").spawn().unwrap();
            child.kill().await.unwrap();
        });
        let script = "mkdir d && echo a > d/b && mv d/b c && ls c | grep -q c && rm c && rmdir d";
        let shell = Command::new("sh").args(["-c", script]).current_dir(dir.path()).output().unwrap();
        assert!(shell.status.success(), "{shell:?}");
        let unshared = Command::new("unshare").args(["--uts", "true"]).output().unwrap();
        assert!(!unshared.status.success(), "{unshared:?}");
        UnixListener::bind(dir.path().join("b.sock")).unwrap();
        fs::remove_file(dir.path().join("b.sock")).unwrap();
    });
}

/// The unit forbids nothing that is allowed here. systemd knows what its groups are.
#[test]
fn the_filter_is_no_wider_than_that_of_the_unit() {
    let unit = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../systemd/berth-shim.service"));
    let (mut unit_allows, unit) = (BTreeSet::new(), unit.unwrap());
    for line in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let (names, forbidden) = line.strip_prefix('~').map_or((line, false), |names| (names, true));
        for call in names.split_whitespace().flat_map(calls_of) {
            if forbidden {
                unit_allows.remove(&call)
            } else {
                unit_allows.insert(call)
            };
        }
    }
    assert!(unit_allows.contains("epoll_ctl") && !unit_allows.contains("chown"), "{unit_allows:?}");
    let source = include_str!("calls.rs");
    let ours: Vec<_> = source.lines().filter_map(|line| line.trim().strip_prefix("libc::SYS_")).collect();
    let ours: Vec<_> = ours.into_iter().filter_map(|line| line.strip_suffix(',')).collect();
    assert!(ours.len() > 100, "{ours:?}");
    let beyond: Vec<_> = ours.iter().filter(|call| !unit_allows.contains(**call)).collect();
    assert!(beyond.is_empty(), "{beyond:?}");
}

/// The calls of a group, with those of the groups in it; a call is itself.
fn calls_of(name: &str) -> Vec<String> {
    if !name.starts_with('@') {
        return vec![name.to_owned()];
    }
    let said = Command::new("systemd-analyze").args(["syscall-filter", name]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let names = said.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    names.flat_map(calls_of).collect()
}
