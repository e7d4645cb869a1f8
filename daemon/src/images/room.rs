//! Room for images: nothing is pulled into a disk that is nearly full.
//!
//! Below its threshold for `imagefs.available` the kubelet removes images, and then evicts pods. A pull that
//! would get there is ended instead, with the figures. Looked at before a pull begins, and again as soon as
//! its manifest tells how much is still to come. What other pulls were promised counts as taken: two that
//! each fit need not fit together.

use std::{
    collections::HashMap,
    fmt, io,
    path::Path,
    sync::{Mutex, PoisonError},
};

use berth_policy::{Bytes, PullId};
use nix::sys::statvfs::statvfs;
use tracing::{debug, warn};

use super::runtime::ImageRuntime;
use crate::{base::causes::chain, config::Reserve};

/// Bytes that a compressed byte takes once it is unpacked. Images of programs compress to a third or to two
/// thirds; with the compressed byte itself, which stays, a pull needs three times the size in its manifest.
const UNPACKED: u64 = 2;

/// Account of the room on the disk.
#[derive(Debug)]
pub(super) struct Room {
    runtime: ImageRuntime,
    reserve: Reserve,
    /// Bytes that running pulls still need. A std mutex: nothing awaits inside.
    promised: Mutex<HashMap<PullId, u64>>,
}

/// Space of a filesystem.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Filesystem {
    path: String,
    free: u64,
    size: u64,
}

/// The need of one pull, from its first look at the room on. Given back when it is dropped.
#[derive(Debug)]
pub(super) struct Need<'a> {
    room: &'a Room,
    pull: PullId,
    image: &'a str,
    filesystem: Option<String>,
    /// Bytes that were missing when the manifest became known.
    first_missing: Option<u64>,
}

impl Room {
    pub(super) fn new(runtime: ImageRuntime, reserve: Reserve) -> Self {
        Self { runtime, reserve, promised: Mutex::default() }
    }

    /// Looks before a pull begins. A filesystem that cannot be seen is no reason not to pull: the runtime
    /// finds out.
    pub(super) async fn before<'a>(&'a self, pull: PullId, image: &'a str) -> Result<Need<'a>, String> {
        let filesystem = match self.runtime.image_fs().await {
            Ok(filesystem) => filesystem,
            Err(error) => {
                debug!(error = %chain(&error), "Filesystem of images not known, its room is not checked");
                None
            }
        };
        let need = Need { room: self, pull, image, filesystem, first_missing: None };
        need.check(0).await?;
        Ok(need)
    }

    fn promised_to_others(&self, pull: PullId) -> u64 {
        let promised = self.promised.lock().unwrap_or_else(PoisonError::into_inner);
        let others = promised.iter().filter(|(other, _)| **other != pull);
        others.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}

impl Need<'_> {
    /// Takes what the pull tells of itself. The first time that is whether there is room for it; after that
    /// it only makes the promise smaller.
    pub(super) async fn progressed(&mut self, bytes: Bytes) -> Result<(), String> {
        let missing = bytes.total.saturating_sub(bytes.done);
        let first = *self.first_missing.get_or_insert(missing);
        let need = missing.saturating_add(first.saturating_mul(UNPACKED));
        let known = {
            let mut promised = self.room.promised.lock().unwrap_or_else(PoisonError::into_inner);
            promised.insert(self.pull, need).is_some()
        };
        if known { Ok(()) } else { self.check(need).await }
    }

    /// Tells whether the reserve is still there, whoever takes from the disk. What others were promised does
    /// not count: two pulls would end each other.
    pub(super) async fn holds(&self) -> Result<(), String> {
        let Some(path) = &self.filesystem else { return Ok(()) };
        // That it cannot be seen was told before.
        let Ok(filesystem) = Filesystem::at(path).await else { return Ok(()) };
        filesystem.takes(self.image, 0, self.room.reserve)
    }

    async fn check(&self, need: u64) -> Result<(), String> {
        let Some(path) = &self.filesystem else { return Ok(()) };
        match Filesystem::at(path).await {
            Ok(mut filesystem) => {
                let others = self.room.promised_to_others(self.pull);
                filesystem.free = filesystem.free.saturating_sub(others);
                filesystem.takes(self.image, need, self.room.reserve)
            }
            Err(error) => {
                warn!(filesystem = path, %error, "Filesystem of images not seen, its room is not checked");
                Ok(())
            }
        }
    }
}

impl Drop for Need<'_> {
    fn drop(&mut self) {
        self.room.promised.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.pull);
    }
}

impl Filesystem {
    /// Reads its room as the kubelet counts it: what those who are not root may have.
    async fn at(path: &str) -> io::Result<Self> {
        // A disk that hangs must not stop the agent's one thread.
        let at = path.to_owned();
        let stat = tokio::task::spawn_blocking(move || statvfs(Path::new(&at)))
            .await
            .map_err(io::Error::other)??;
        let unit = stat.fragment_size();
        Ok(Self {
            path: path.to_owned(),
            free: stat.blocks_available().saturating_mul(unit),
            size: stat.blocks().saturating_mul(unit),
        })
    }

    fn takes(&self, image: &str, need: u64, reserve: Reserve) -> Result<(), String> {
        let (path, kept) = (&self.path, reserve.of(self.size));
        match self.free.checked_sub(kept) {
            Some(above) if need <= above => Ok(()),
            Some(above) => Err(format!(
                "{image} needs about {}, {path} has {} above the reserve of {reserve}",
                Size(need),
                Size(above)
            )),
            None => Err(format!(
                "no room for {image}: {path} has {} free, less than the reserve of {reserve}, which is {}",
                Size(self.free),
                Size(kept)
            )),
        }
    }
}

/// For people: two digits say enough about a disk.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut unit = 1_u64;
        let mut name = "B";
        for larger in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
            if self.0 / unit < 1024 {
                break;
            }
            (unit, name) = (unit * 1024, larger);
        }
        let whole = self.0 / unit;
        if whole < 10 && unit > 1 {
            return write!(f, "{whole}.{} {name}", (self.0 % unit) * 10 / unit);
        }
        write!(f, "{whole} {name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn sizes_for_people() {
        let table = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (10 << 10, "10 KiB"),
            (900 << 20, "900 MiB"),
            (GIB + GIB / 5, "1.1 GiB"),
            (u64::MAX, "16383 PiB"),
        ];
        for (bytes, text) in table {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }

    #[test]
    fn what_fits_above_the_reserve() {
        let disk = |free| Filesystem { path: "/images".to_owned(), free, size: 100 * GIB };
        let percent = Reserve::Percent(15);
        let takes = |free, need, reserve| disk(free).takes("app:1", need, reserve);
        assert_eq!(takes(20 * GIB, 0, percent), Ok(()));
        assert_eq!(takes(20 * GIB, 5 * GIB, percent), Ok(()));
        assert_eq!(
            takes(20 * GIB, 6 * GIB, percent),
            Err("app:1 needs about 6.0 GiB, /images has 5.0 GiB above the reserve of 15%".to_owned())
        );
        assert_eq!(
            takes(10 * GIB, 0, percent),
            Err("no room for app:1: /images has 10 GiB free, less than the reserve of 15%, which is 15 GiB"
                .to_owned())
        );
        assert_eq!(takes(10 * GIB, 0, Reserve::Bytes(10 * GIB)), Ok(()));
        assert!(takes(10 * GIB, 1, Reserve::Bytes(10 * GIB)).is_err());
        assert_eq!(takes(0, 0, Reserve::Percent(0)), Ok(()));
        assert!(takes(100 * GIB, u64::MAX, percent).is_err());
    }

    #[tokio::test]
    async fn two_that_fit_alone_need_not_fit_together() {
        let runtime = ImageRuntime::new(&"unix:///nowhere.sock".parse().unwrap());
        let free = Filesystem::at("/").await.unwrap().free;
        let room = Room::new(runtime, Reserve::Bytes(0));
        let need = |pull| Need {
            room: &room,
            pull: PullId(pull),
            image: "app:1",
            filesystem: Some("/".to_owned()),
            first_missing: None,
        };
        // A fifth of what is there, three times.
        let bytes = |missing| Bytes { done: 0, total: missing };
        let (mut one, mut other) = (need(1), need(2));
        assert_eq!(one.progressed(bytes(free / 5)).await, Ok(()));
        assert!(other.progressed(bytes(free / 5)).await.unwrap_err().starts_with("app:1 needs about "));
        drop(other);
        // Asked once, not at every step.
        assert_eq!(one.progressed(bytes(free)).await, Ok(()));
        drop(one);
        assert_eq!(need(3).progressed(bytes(free / 5)).await, Ok(()));
    }
}
