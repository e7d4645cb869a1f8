//! Values that are valid once they are parsed.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use berth_shim::{EndpointError, RuntimeEndpoint};
use serde::{Deserialize, Serialize};

/// A duration as Go and Kubernetes write it: `1h30m`, `1.5s`, `250ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct GoDuration(pub Duration);

/// The absolute path of a unix socket, short enough for the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct SocketPath(PathBuf);

/// The endpoint of a runtime: `unix:///run/containerd/containerd.sock`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Endpoint(pub RuntimeEndpoint);

/// A value that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Not a duration.
    #[error("{0:?} is not a duration such as 500ms, 5s or 1h30m")]
    Duration(String),
    /// Not an absolute path.
    #[error("{0:?} is not an absolute path of a socket")]
    NotAbsolute(String),
    /// Longer than `sun_path`.
    #[error("{0:?} is longer than the 107 bytes a socket path may have")]
    TooLong(String),
}

// === impl GoDuration ===

impl FromStr for GoDuration {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ValueError::Duration(text.to_owned());
        if text == "0" {
            return Ok(Self(Duration::ZERO));
        }
        let mut rest = text;
        let mut total = 0.0_f64;
        while !rest.is_empty() {
            let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
            let unit =
                rest[number..].find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len() - number);
            let value: f64 = rest[..number].parse().map_err(|_| error())?;
            let seconds = match &rest[number..number + unit] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return Err(error()),
            };
            total += value * seconds;
            rest = &rest[number + unit..];
        }
        let duration = Duration::try_from_secs_f64(total).map_err(|_| error())?;
        if text.is_empty() { Err(error()) } else { Ok(Self(duration)) }
    }
}

impl TryFrom<String> for GoDuration {
    type Error = ValueError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<GoDuration> for String {
    fn from(duration: GoDuration) -> Self {
        duration.to_string()
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.subsec_nanos() {
            0 => write!(f, "{}s", self.0.as_secs()),
            _ => write!(f, "{}ms", self.0.as_secs_f64() * 1e3),
        }
    }
}

// === impl SocketPath ===

impl SocketPath {
    /// A path known to be valid.
    pub(super) fn fixed(path: &'static str) -> Self {
        Self(PathBuf::from(path))
    }

    /// The path.
    pub fn as_path(&self) -> &std::path::Path {
        &self.0
    }
}

impl FromStr for SocketPath {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let path = text.strip_prefix("unix://").unwrap_or(text);
        if !path.starts_with('/') {
            return Err(ValueError::NotAbsolute(text.to_owned()));
        }
        if path.len() > 107 {
            return Err(ValueError::TooLong(text.to_owned()));
        }
        Ok(Self(PathBuf::from(path)))
    }
}

impl TryFrom<String> for SocketPath {
    type Error = ValueError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<SocketPath> for String {
    fn from(path: SocketPath) -> Self {
        path.to_string()
    }
}

impl fmt::Display for SocketPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.display())
    }
}

// === impl Endpoint ===

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl TryFrom<String> for Endpoint {
    type Error = EndpointError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Endpoint> for String {
    fn from(endpoint: Endpoint) -> Self {
        endpoint.0.to_string()
    }
}
