//! Tells when something may have changed in directories, without a look at them: inotify.
//!
//! ```text
//!   the directory itself        its files come, change and go; `..data` of a ConfigMap is replaced
//!   what is above it            it is made, moved, replaced
//!   where its links lead        a file is changed at its own place
//! ```
//!
//! All of these are named anew with every look, because whatever is behind a name can be replaced. A mount
//! over the directory is told by nobody: for that there is a look now and then.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::{OsStr, OsString},
    future::pending,
    io,
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::inotify::{self, CreateFlags, Event, ReadFlags, Reader, WatchFlags},
    io::Errno,
};
use tokio::io::{Interest, unix::AsyncFd};
use tracing::warn;

use super::directory;

/// Events of directories above: what is in them is asked for by name.
const ABOVE: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    // One directory can be watched for several reasons.
    .union(WatchFlags::MASK_ADD);
/// Events where files are written.
const FILES: WatchFlags =
    ABOVE.union(WatchFlags::CLOSE_WRITE).union(WatchFlags::MODIFY).union(WatchFlags::ATTRIB);

/// Entries of a directory that are of concern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Concern {
    /// Its files.
    Files,
    /// Whatever has this name.
    Named(OsString),
}

/// The kernel's word about directories.
#[derive(Debug)]
pub(super) struct Notify {
    /// `None`: the kernel has none left to give.
    inotify: Option<AsyncFd<OwnedFd>>,
    watched: HashMap<i32, Vec<Concern>>,
    armed: bool,
}

impl Notify {
    /// Watches nothing yet. To be made within the runtime.
    pub(super) fn new() -> Self {
        let made = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(Into::into);
        let inotify = match made.and_then(registered) {
            Ok(inotify) => Some(inotify),
            Err(error) => {
                warn!(%error, "No inotify, directories are looked at every second: raise fs.inotify.max_user_instances");
                None
            }
        };
        Self { inotify, watched: HashMap::new(), armed: false }
    }

    /// Tells whether every change is told that can be.
    pub(super) fn is_armed(&self) -> bool {
        self.armed
    }

    /// Watches these directories and where these links lead, and nothing else. True: something of it was not
    /// watched before, so it may have changed unnoticed.
    pub(super) fn arm(&mut self, directories: &[PathBuf], links: &BTreeSet<PathBuf>) -> bool {
        let Some(fd) = &self.inotify else { return false };
        let mut wanted: BTreeMap<PathBuf, (WatchFlags, Vec<Concern>)> = BTreeMap::new();
        let mut want = |place: &Path, flags: WatchFlags, concern: Concern| {
            let (all, concerns) = wanted.entry(place.to_owned()).or_insert((flags, Vec::new()));
            *all = all.union(flags);
            concerns.push(concern);
        };
        for directory in directories {
            if directory.is_dir() {
                want(directory, FILES, Concern::Files);
            }
            if let Some((above, name)) = above(directory) {
                want(above, ABOVE, Concern::Named(name.to_owned()));
            }
        }
        for link in links {
            if let (Some(place), Some(name)) = (link.parent(), link.file_name()) {
                want(place, FILES, Concern::Named(name.to_owned()));
            }
        }
        let (mut watched, mut armed) = (HashMap::<i32, Vec<Concern>>::new(), true);
        for (place, (flags, concerns)) in wanted {
            match inotify::add_watch(fd, &place, flags) {
                Ok(number) => watched.entry(number).or_default().extend(concerns),
                // It went this moment, which its directory above tells.
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(error) => {
                    if self.armed {
                        warn!(directory = ?place, %error, "Directory not watched, looked at every second: raise fs.inotify.max_user_watches");
                    }
                    armed = false;
                }
            }
        }
        for number in self.watched.keys().filter(|number| !watched.contains_key(number)) {
            // It may be gone already.
            let _ = inotify::remove_watch(fd, *number);
        }
        let is_new = watched.keys().any(|number| !self.watched.contains_key(number));
        (self.watched, self.armed) = (watched, armed);
        is_new
    }

    /// Waits until something of concern may have changed; for ever where nobody tells. Cancel-safe: what was
    /// read and is of concern is given back at once.
    pub(super) async fn changed(&self) {
        let Some(fd) = &self.inotify else { return pending().await };
        loop {
            let Ok(mut ready) = fd.readable().await else { return pending().await };
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut reader = Reader::new(fd.get_ref(), &mut buffer);
            loop {
                match reader.next() {
                    Ok(event) if self.concerns(&event) => return,
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(Errno::WOULDBLOCK) => {
                        ready.clear_ready();
                        break;
                    }
                    Err(error) => {
                        warn!(%error, "inotify not read, the directories are looked at anew");
                        return;
                    }
                }
                if reader.is_buffer_empty() {
                    break;
                }
            }
        }
    }

    fn concerns(&self, event: &Event<'_>) -> bool {
        let flags = event.events();
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            return true;
        }
        let Some(concerns) = self.watched.get(&event.wd()) else { return false };
        if flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT) {
            return true;
        }
        let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
        name.is_some_and(|name| {
            concerns.iter().any(|concern| match concern {
                Concern::Files => directory::is_of_concern(name),
                Concern::Named(wanted) => wanted == name,
            })
        })
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe, for types whose descriptor changes; that of an OwnedFd never does"
)]
fn registered(inotify: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(inotify, Interest::READABLE)
}

/// The nearest directory above that there is, and the name in it on the way down.
fn above(directory: &Path) -> Option<(&Path, &OsStr)> {
    let mut ancestors = directory.ancestors();
    ancestors.find_map(|path| Some((path.parent().filter(|parent| parent.is_dir())?, path.file_name()?)))
}
