//! Which CRI socket to speak to, found as crictl finds it.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// Where berthd listens; the second where CRI-O is the runtime.
const BERTH: [&str; 2] = ["/run/berth/cri.sock", "/run/berth/run/crio/crio.sock"];
/// crictl's list.
const RUNTIMES: [&str; 3] =
    ["/run/containerd/containerd.sock", "/run/crio/crio.sock", "/var/run/cri-dockerd.sock"];

/// The socket of `-r`, or the first one that is there.
pub(crate) fn find(given: Option<&str>) -> Result<PathBuf> {
    match given.filter(|endpoint| !endpoint.is_empty()) {
        Some(endpoint) => parse(endpoint),
        None => first(BERTH.into_iter().chain(RUNTIMES)),
    }
}

fn first<'a>(candidates: impl Iterator<Item = &'a str>) -> Result<PathBuf> {
    let candidates: Vec<&str> = candidates.collect();
    let is_socket =
        |path: &&&str| std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    match candidates.iter().find(is_socket) {
        Some(path) => Ok(PathBuf::from(path)),
        None => bail!(
            "no CRI socket found (looked at {}); start berthd or the container runtime, or name the socket with \
             --runtime-endpoint",
            candidates.join(", ")
        ),
    }
}

fn parse(endpoint: &str) -> Result<PathBuf> {
    let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
    if !Path::new(path).is_absolute() {
        bail!(
            "runtime endpoint {endpoint:?}: berthctl speaks over unix sockets; write it like unix:///run/berth/cri.sock"
        );
    }
    Ok(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        for (given, expected) in [
            ("unix:///run/x.sock", Some("/run/x.sock")),
            ("/run/x.sock", Some("/run/x.sock")),
            ("tcp://127.0.0.1:1", None),
            ("run/x.sock", None),
        ] {
            assert_eq!(parse(given).ok(), expected.map(PathBuf::from), "{given}");
        }
    }

    #[test]
    fn the_first_socket_there_is_wins() {
        let dir = tempfile::tempdir().unwrap();
        let [file, one, two, none] = ["file", "one", "two", "none"].map(|name| dir.path().join(name));
        std::fs::write(&file, "").unwrap();
        let _listeners = [&one, &two].map(|path| std::os::unix::net::UnixListener::bind(path).unwrap());
        let found = first([&none, &file, &one, &two].map(|path| path.to_str().unwrap()).into_iter()).unwrap();
        assert_eq!(found, one);
        let error = first([&none].map(|path| path.to_str().unwrap()).into_iter()).unwrap_err().to_string();
        assert!(error.contains("--runtime-endpoint"), "{error}");
    }
}
