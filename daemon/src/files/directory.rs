//! A directory of desired state: what is in it, and writing a file so that it is there whole or not at all.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs::{self, File, Metadata},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::base::durable;

/// Suffix of the name of a status file, after the name of its request's.
const STATUS: &str = ".status.yaml";
/// How the names of files begin that are being written.
const UNFINISHED: &str = ".berthd-";
/// A file that nobody has changed for so long is complete.
const SETTLED: Duration = Duration::from_secs(1);
/// More than any request has.
const LONGEST: u64 = 256 << 10;
/// Links behind one another at most.
const HOPS: usize = 8;

/// Fingerprint of a file: it changes when the file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    modified: Option<SystemTime>,
    size: u64,
    inode: u64,
}

/// Content of a directory.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Requests.
    pub(super) requests: BTreeMap<PathBuf, Fingerprint>,
    /// Status files that there are, by the request they are about.
    pub(super) statuses: BTreeSet<PathBuf>,
    /// Where the links among the requests lead, each step of the way.
    pub(super) links: BTreeSet<PathBuf>,
}

impl Fingerprint {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { modified: metadata.modified().ok(), size: metadata.len(), inode: metadata.ino() }
    }

    /// Tells whether nobody has written to it for a while.
    pub(super) fn is_settled(&self) -> bool {
        let age = self.modified.and_then(|modified| SystemTime::now().duration_since(modified).ok());
        age.is_some_and(|age| age > SETTLED)
    }
}

/// Lists a directory. One that is missing is empty.
pub(super) fn list(directory: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listing),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        let Some(name) = path.file_name().and_then(OsStr::to_str) else { continue };
        // Editors and tools keep what is not meant to be seen under such names.
        if name.starts_with('.') {
            continue;
        }
        if let Some(request) = name.strip_suffix(STATUS) {
            if is_request(request) {
                listing.statuses.insert(directory.join(request));
            }
        } else if is_request(name) {
            if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                listing.links.extend(steps(&path));
            }
            // Followed where it is a link; what was removed meanwhile is not there.
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_file() => {
                    listing.requests.insert(path, Fingerprint::of(&metadata));
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
    Ok(listing)
}

/// All that is in a directory. One that is missing is empty.
pub(super) fn paths(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Finds where a link leads, step by step. A link among the directories on the way, as of a ConfigMap, is a
/// step too.
fn steps(link: &Path) -> Vec<PathBuf> {
    let (mut steps, mut at) = (Vec::new(), link.to_owned());
    for _ in 0..HOPS {
        let Ok(target) = fs::read_link(&at) else { break };
        at = at.parent().unwrap_or(Path::new("/")).join(target);
        steps.extend(at.parent().filter(|parent| parent.is_symlink()).map(Path::to_owned));
        steps.push(at.clone());
    }
    steps
}

/// Tells whether a change of what has this name may be one of a request: not those of status files, and not
/// what is being written.
pub(super) fn is_of_concern(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    // `..data` of a ConfigMap leads to all of its files.
    name.starts_with("..") || is_request(name) && !name.starts_with('.') && !name.ends_with(STATUS)
}

fn is_request(name: &str) -> bool {
    name.ends_with(".yaml") || name.ends_with(".yml")
}

/// Returns where the status of a request is.
pub(crate) fn status_of(request: &Path) -> PathBuf {
    let mut name = request.as_os_str().to_owned();
    name.push(STATUS);
    name.into()
}

/// Reads a file of a size that can be meant.
pub(super) fn read(path: &Path) -> io::Result<String> {
    read_up_to(path, LONGEST)
}

/// Reads a file of at most so many bytes.
pub(super) fn read_up_to(path: &Path, longest: u64) -> io::Result<String> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut text = String::new();
    // It may grow while it is read.
    if size <= longest {
        file.take(longest.saturating_add(1)).read_to_string(&mut text)?;
    }
    let size = size.max(text.len().try_into().unwrap_or(u64::MAX));
    if size > longest {
        let what = format!("it has {size} bytes: give it at most {longest}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(text)
}

/// Reads a file that may be missing.
pub(super) fn read_if_there(path: &Path) -> io::Result<Option<String>> {
    match read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file; durable on return. Whoever looks meanwhile sees the old one or the new one.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    // The umask is the service manager's; what is in the file is for everyone on the node.
    durable::write(path, text.as_bytes(), 0o644, UNFINISHED)
}

/// Removes a file; whether it was there.
pub(super) fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes what an agent left that was killed while it wrote.
pub(super) fn tidy(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(UNFINISHED)) {
            // It is in nobody's way.
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_requests_are_listed() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in
            ["a.yaml", "b.yml", "a.yaml.status.yaml", "c.yaml.status.yaml", "x.json", ".a.yaml", ".#b.yml"]
        {
            fs::write(path(name), "").unwrap();
        }
        fs::write(path("notes.status.yaml"), "").unwrap();
        fs::create_dir(path("d.yaml")).unwrap();
        std::os::unix::fs::symlink("/nowhere", path("e.yaml")).unwrap();
        std::os::unix::fs::symlink(path("x.json"), path("f.yaml")).unwrap();
        let listing = list(directory.path()).unwrap();
        let names: Vec<PathBuf> = listing.requests.into_keys().collect();
        assert_eq!(names, [path("a.yaml"), path("b.yml"), path("f.yaml")]);
        assert_eq!(listing.statuses.into_iter().collect::<Vec<_>>(), [path("a.yaml"), path("c.yaml")]);
        assert!(list(&path("missing")).unwrap().requests.is_empty());
        assert!(list(&path("a.yaml")).is_err(), "not a directory");
    }

    #[test]
    fn each_step_of_a_link_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("..one")).unwrap();
        fs::write(path("..one/web.yaml"), "").unwrap();
        std::os::unix::fs::symlink("..one", path("..data")).unwrap();
        std::os::unix::fs::symlink("..data/web.yaml", path("web.yaml")).unwrap();
        std::os::unix::fs::symlink(path("web.yaml"), path("again.yaml")).unwrap();
        std::os::unix::fs::symlink(path("round.yaml"), path("round.yaml")).unwrap();
        assert_eq!(steps(&path("web.yaml")), [path("..data"), path("..data/web.yaml")]);
        assert_eq!(steps(&path("again.yaml")), [path("web.yaml"), path("..data"), path("..data/web.yaml")]);
        assert_eq!(steps(&path("round.yaml")).len(), HOPS, "it ends");
        let listing = list(directory.path()).unwrap();
        assert_eq!(listing.requests.into_keys().collect::<Vec<_>>(), [path("again.yaml"), path("web.yaml")]);
        for (name, concerns) in [
            ("web.yaml", true),
            ("web.yml", true),
            ("..data", true),
            ("web.yaml.status.yaml", false),
            (".berthd-x.yaml", false),
            (".#web.yaml", false),
            ("notes", false),
        ] {
            assert_eq!(is_of_concern(OsStr::new(name)), concerns, "{name}");
        }
    }

    #[test]
    fn a_file_is_written_whole_for_all_to_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.yaml");
        write(&path, "one").unwrap();
        let first = Fingerprint::of(&fs::metadata(&path).unwrap());
        write(&path, "two").unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_ne!(Fingerprint::of(&metadata), first);
        assert!(!Fingerprint::of(&metadata).is_settled());
        assert_eq!(metadata.permissions().mode() & 0o777, 0o644);
        assert_eq!(read(&path).unwrap(), "two");
        fs::write(directory.path().join(".berthd-x"), "").unwrap();
        tidy(directory.path());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(remove(&path).unwrap() && !remove(&path).unwrap());
        assert_eq!(read_if_there(&path).unwrap(), None);
    }

    #[test]
    fn a_file_too_long_to_be_meant_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.yaml");
        File::create(&path).unwrap().set_len(LONGEST + 1).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("at most"));
    }
}
