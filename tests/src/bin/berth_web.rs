//! A web server for tests of hot upgrades: a sidecar with twins whose next version listens before the old one
//! ceases to, so that no connection is lost.
//!
//! ```text
//!   SIDECARSET_VERSION, _ALT     0, any: rest     n, 0: listen     n > m: take over from the twin     n < m: rest
//!
//!   old ── @berth-web ──▶ new        the listening socket, then a byte when the new one accepts
//!   post-start ──▶ @berth-web-<n>    there as soon as the new one accepts
//! ```
//!
//! With `SOCKETS=shared` nothing is handed over: both listen, with SO_REUSEPORT. By that alone connections
//! fail: the kernel goes on giving some to the old one, and resets those that it has not accepted when it
//! closes. So all new ones go to the newest socket (a program of one instruction), and the old one accepts
//! what is left in its own queue before it closes.
//!
//! The old one answers what it has, with `Connection: close`, and ends on SIGTERM when all of it is answered.
//! `WEB=slow` has a hook that takes ten seconds, `WEB=hangs` one that never ends, `WEB=dies` ends at once.
//! Its log says when it accepts, and when it was told to end.

use std::env;
use std::io::{self, BufRead, BufReader, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use berth_tests::swaps::{ACCEPTS, TOLD_TO_END};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrIn,
    bind, listen, recvmsg, sendmsg, setsockopt, socket, sockopt,
};
use nix::{cmsg_space, libc};

const PORT: u16 = 8080;
const CONTROL: &str = "berth-web";
/// Time to answer what is there, and to find the twin.
const PATIENCE: Duration = Duration::from_secs(50);
/// A handshake that began before the newest socket was there is over by then.
const HANDSHAKE: Duration = Duration::from_millis(200);
/// How long the hook of `WEB=slow` takes: time to do something meanwhile, on a slow machine too.
const SLOW: Duration = Duration::from_secs(10);
/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;

/// State that all threads share.
#[derive(Default)]
struct Server {
    version: u64,
    /// It has a socket of its own, which is closed when it ends.
    shares: bool,
    handed_over: AtomicBool,
    connections: AtomicUsize,
}

fn main() -> ExitCode {
    let ended = match env::args().nth(1).as_deref() {
        Some("post-start") => post_start(),
        _ => serve(),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn version(name: &str) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn mode(mode: &str) -> bool {
    env::var("WEB").is_ok_and(|given| given == mode)
}

fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

/// The hook: ends when this version accepts.
fn post_start() -> io::Result<()> {
    let (own, twin) = (version("SIDECARSET_VERSION"), version("SIDECARSET_VERSION_ALT"));
    if own == 0 || own < twin {
        return Ok(());
    }
    if mode("hangs") {
        loop {
            thread::park();
        }
    }
    let address = address(&format!("{CONTROL}-{own}"))?;
    until("this version accepts", || UnixStream::connect_addr(&address).map(drop))?;
    if mode("slow") {
        thread::sleep(SLOW);
    }
    Ok(())
}

fn until<T>(what: &str, mut holds: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let begun = Instant::now();
    loop {
        match holds() {
            Err(error) if begun.elapsed() > PATIENCE => {
                return Err(io::Error::new(error.kind(), format!("{what}: {error}")));
            }
            Err(_) => thread::sleep(Duration::from_millis(5)),
            done => return done,
        }
    }
}

fn serve() -> io::Result<()> {
    if mode("dies") {
        return Err(io::Error::other("told to die"));
    }
    // The first process of a container is not ended by a signal that it does not wait for.
    let term = SigSet::from(Signal::SIGTERM);
    term.thread_block()?;
    let (own, twin) = (version("SIDECARSET_VERSION"), version("SIDECARSET_VERSION_ALT"));
    if own == 0 || own < twin || mode("hangs") {
        term.wait()?;
        eprintln!("{TOLD_TO_END}");
        return Ok(());
    }
    let shares = env::var("SOCKETS").is_ok_and(|sockets| sockets == "shared");
    let server = Arc::new(Server { version: own, shares, ..Server::default() });
    let (listener, old) = match twin {
        _ if shares => (listen_beside()?, None),
        0 => (listen_alone()?, None),
        _ => match until("the twin hands over", take_over) {
            Ok((listener, old)) => (listener, Some(old)),
            Err(_) => (listen_alone()?, None),
        },
    };
    listener.set_nonblocking(true)?;
    let listener = Arc::new(listener);
    let (accepting, theirs) = (server.clone(), listener.clone());
    let accepts = thread::spawn(move || accept(&accepting, &theirs));
    if let Some(mut old) = old {
        old.write_all(b"!")?;
    }
    if !shares {
        let control = address(CONTROL)?;
        let control = until("the twin lets go", || UnixListener::bind_addr(&control))?;
        let next = server.clone();
        thread::spawn(move || hand_over(&next, &control, &listener));
    }
    let _there = UnixListener::bind_addr(&address(&format!("{CONTROL}-{own}"))?)?;
    eprintln!("{ACCEPTS}");
    term.wait()?;
    eprintln!("{TOLD_TO_END}");
    server.handed_over.store(true, Ordering::SeqCst);
    // What it has accepted last counts as a connection.
    accepts.join().map_err(|_| io::Error::other("accept"))?;
    let begun = Instant::now();
    while server.connections.load(Ordering::SeqCst) > 0 && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Listens. A process that has no turn on a busy machine gets what comes meanwhile from its queue: one that
/// is full has connections reset.
fn listen_alone() -> io::Result<TcpListener> {
    until("the port is free", || {
        let socket = reusing()?;
        bind(socket.as_raw_fd(), &SockaddrIn::new(0, 0, 0, 0, PORT))?;
        listen(&socket, Backlog::new(BACKLOG)?)?;
        Ok(TcpListener::from(socket))
    })
}

/// A socket whose port may have connections of an earlier one.
fn reusing() -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    Ok(socket)
}

/// Listens beside whoever does, and gets all connections that come from now on.
fn listen_beside() -> io::Result<TcpListener> {
    let socket = reusing()?;
    setsockopt(&socket, sockopt::ReusePort, &true)?;
    bind(socket.as_raw_fd(), &SockaddrIn::new(0, 0, 0, 0, PORT))?;
    listen(&socket, Backlog::new(BACKLOG)?)?;
    // BPF_RET | BPF_K: "return 1", the second socket of the port. While there is one, no socket has that
    // number, and it is taken.
    let mut newest = [libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 1 }];
    let program = libc::sock_fprog { len: 1, filter: newest.as_mut_ptr() };
    setsockopt(&socket, sockopt::AttachReusePortCbpf, &program)?;
    Ok(TcpListener::from(socket))
}

fn accept(server: &Arc<Server>, listener: &TcpListener) {
    let mut ends = None;
    loop {
        if server.handed_over.load(Ordering::SeqCst) {
            let last = if server.shares { HANDSHAKE } else { Duration::ZERO };
            if ends.get_or_insert_with(Instant::now).elapsed() >= last {
                return;
            }
        }
        match listener.accept() {
            Ok((stream, _)) => {
                server.connections.fetch_add(1, Ordering::SeqCst);
                let server = server.clone();
                thread::spawn(move || {
                    // A client that goes away has what it asked for.
                    let _ = answer(&server, &stream);
                    server.connections.fetch_sub(1, Ordering::SeqCst);
                });
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(1)),
            Err(error) => eprintln!("accept: {error}"),
        }
    }
}

/// Answers one connection until its client, or this version, ends.
fn answer(server: &Server, stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut close = false;
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header)? == 0 {
                return Ok(());
            }
            close |= header.trim().eq_ignore_ascii_case("connection: close");
            if header == "\r\n" {
                break;
            }
        }
        close |= server.handed_over.load(Ordering::SeqCst);
        let (body, connection) = (server.version.to_string(), if close { "close" } else { "keep-alive" });
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n", body.len());
        let mut writer = stream;
        writer.write_all(format!("{head}{body}").as_bytes())?;
        if close {
            return Ok(());
        }
    }
}

/// Gives the socket to the next version, and accepts no more once that one does.
fn hand_over(server: &Server, control: &UnixListener, listener: &TcpListener) {
    let handed = || -> io::Result<()> {
        let (mut next, _) = control.accept()?;
        let rights = [listener.as_raw_fd()];
        let (part, rights) = ([IoSlice::new(b"!")], [ControlMessage::ScmRights(&rights)]);
        sendmsg::<()>(next.as_raw_fd(), &part, &rights, MsgFlags::empty(), None)?;
        next.read_exact(&mut [0])
    };
    while let Err(error) = handed() {
        eprintln!("hand over: {error}");
    }
    server.handed_over.store(true, Ordering::SeqCst);
}

fn take_over() -> io::Result<(TcpListener, UnixStream)> {
    let old = UnixStream::connect_addr(&address(CONTROL)?)?;
    old.set_read_timeout(Some(PATIENCE))?;
    let (mut byte, mut space) = ([0; 1], cmsg_space!(RawFd));
    let mut parts = [IoSliceMut::new(&mut byte)];
    let message = recvmsg::<()>(old.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = part
            && let Some(raw) = raw.first()
        {
            return Ok((TcpListener::from(own(*raw)), old));
        }
    }
    Err(io::Error::new(ErrorKind::InvalidData, "no socket came"))
}

#[allow(unsafe_code, reason = "the kernel has just made this descriptor for this process")]
fn own(raw: RawFd) -> OwnedFd {
    // SAFETY: it came with the message, and nobody else in this process knows it.
    unsafe { OwnedFd::from_raw_fd(raw) }
}
