//! A store file that a disk, a crash or a person has damaged.

use std::{path::Path, sync::OnceLock};

use berth_policy::{Latch, MarkPhase, RecreateMark, SidecarMark};

use super::Store;

/// The file of a store with some entries, as written.
fn written() -> &'static (Vec<u8>, Vec<usize>) {
    static FILE: OnceLock<(Vec<u8>, Vec<usize>)> = OnceLock::new();
    FILE.get_or_init(|| {
        let directory = directory();
        let store = Store::open(directory.path()).expect("a new store");
        fill(&store);
        drop(store);
        let bytes = std::fs::read(directory.path().join("store.redb")).expect("it is there");
        let used = bytes.iter().enumerate().filter(|(_, byte)| **byte != 0).map(|(at, _)| at).collect();
        (bytes, used)
    })
}

fn fill(store: &Store) {
    for number in 0..40 {
        let id = format!("{number:064}");
        store.latch(&Latch { sandbox: id.as_str().into(), priority: number }).expect("written");
        let sidecar = SidecarMark {
            pod: "pod".into(),
            name: "proxy".into(),
            container: id.as_str().into(),
            hooked: number % 2 == 0,
        };
        store.mark_sidecars(&[sidecar]).expect("written");
    }
    let mark = |request: &str| RecreateMark {
        request: request.into(),
        name: "app".into(),
        container: "c".into(),
        phase: MarkPhase::Shown,
    };
    store.mark(&[mark("r1"), mark("r2")]).expect("written");
    store.unmark(&"r1".into()).expect("written");
}

/// In memory where there is such a place: a store is synced with each write.
fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(place).expect("a directory")
}

/// Damages the file: each three bytes say where, in what is not zero, and what is there then; a first byte
/// over 250 cuts the file off. It opens, or is set aside, and what was written to it then is there after a
/// restart.
pub fn store(data: &[u8]) {
    let (whole, used) = written();
    let mut file = whole.clone();
    for edit in data.chunks_exact(3) {
        let place = usize::from(edit[0]) << 8 | usize::from(edit[1]);
        if edit[0] > 250 {
            file.truncate(place * 64);
            continue;
        }
        // Half of them near the beginning, where all else is found from.
        let at = if edit[0] & 1 == 0 { place / 2 % 320 } else { used[place % used.len()] };
        if let Some(byte) = file.get_mut(at) {
            *byte = edit[2];
        }
    }
    let directory = directory();
    std::fs::write(directory.path().join("store.redb"), file).expect("written");
    let store = match Store::open(directory.path()) {
        Ok(store) => store,
        // Of a newer schema, as far as one can tell: that is an answer, too.
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let (latches, marks, sidecars) = (store.latches(), store.marks(), store.sidecars());
    let (latches, _, _) = (latches.expect("read"), marks.expect("read"), sidecars.expect("read"));
    let latch = Latch { sandbox: "after".into(), priority: 1 };
    store.latch(&latch).expect("written");
    for old in &latches {
        store.forget(&old.sandbox).expect("written");
    }
    store.latch(&latch).expect("written");
    drop(store);
    let store = Store::open(directory.path()).expect("opened again");
    assert_eq!(store.latches().expect("read"), [latch]);
}
