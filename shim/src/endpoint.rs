//! Where the runtime listens: the one address the shim dials.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

/// The container runtime's CRI socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeEndpoint(PathBuf);

/// An endpoint that cannot be dialled.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// Another scheme than `unix`.
    #[error("runtime endpoint {0:?}: only unix:///path or a plain absolute path can be dialled")]
    NotAUnixSocket(String),
    /// A path that depends on the working directory.
    #[error("runtime endpoint {0:?}: the path must be absolute")]
    NotAbsolute(String),
}

impl RuntimeEndpoint {
    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Tells whether this is the socket of CRI-O, by its file name.
    pub fn is_crio(&self) -> bool {
        self.0.file_name().is_some_and(|name| name.to_string_lossy().contains("crio"))
    }
}

impl FromStr for RuntimeEndpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let path = match text.strip_prefix("unix://") {
            Some(path) => path,
            None if text.contains("://") => return Err(EndpointError::NotAUnixSocket(text.to_owned())),
            None => text,
        };
        if !path.starts_with('/') {
            return Err(EndpointError::NotAbsolute(text.to_owned()));
        }
        Ok(Self(path.into()))
    }
}

impl From<PathBuf> for RuntimeEndpoint {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

impl fmt::Display for RuntimeEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kubelet_reads() {
        for text in ["unix:///run/containerd/containerd.sock", "/run/containerd/containerd.sock"] {
            let endpoint: RuntimeEndpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), "unix:///run/containerd/containerd.sock");
        }
        for text in ["tcp://127.0.0.1:1", "unix://run/x.sock", "run/x.sock", ""] {
            assert!(text.parse::<RuntimeEndpoint>().is_err(), "{text}");
        }
    }

    #[test]
    fn knows_crio_by_its_file() {
        for (text, crio) in [("/run/crio/crio.sock", true), ("/run/containerd/containerd.sock", false)] {
            assert_eq!(text.parse::<RuntimeEndpoint>().unwrap().is_crio(), crio, "{text}");
        }
    }
}
