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
    /// Not a host and a port.
    #[error(
        "{0:?} is not the host and port of a collector, such as 127.0.0.1:4317, which speaks without TLS"
    )]
    Collector(String),
}

/// In a second.
const NANOS: u128 = 1_000_000_000;

// === impl GoDuration ===

impl FromStr for GoDuration {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ValueError::Duration(text.to_owned());
        if text == "0" {
            return Ok(Self(Duration::ZERO));
        }
        let mut rest = text;
        let mut total = 0_u128;
        while !rest.is_empty() {
            let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
            let unit =
                rest[number..].find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len() - number);
            let nanoseconds = match &rest[number..number + unit] {
                "h" => 3_600_000_000_000,
                "m" => 60_000_000_000,
                "s" => NANOS,
                "ms" => 1_000_000,
                "us" | "µs" => 1_000,
                "ns" => 1,
                _ => return Err(error()),
            };
            let part = times(&rest[..number], nanoseconds).ok_or_else(error)?;
            total = total.checked_add(part).ok_or_else(error)?;
            rest = &rest[number + unit..];
        }
        let seconds = u64::try_from(total / NANOS).map_err(|_| error())?;
        let rest = u32::try_from(total % NANOS).map_err(|_| error())?;
        if text.is_empty() { Err(error()) } else { Ok(Self(Duration::new(seconds, rest))) }
    }
}

/// A decimal number of units, in nanoseconds, as Go reads it: exact, and cut off below one.
fn times(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // More digits are below a nanosecond, whatever the unit. A second point is no digit.
    let digits = fraction.bytes().all(|digit| digit.is_ascii_digit()).then_some(fraction.len().min(18))?;
    let fraction: u128 = if digits == 0 { 0 } else { fraction[..digits].parse().ok()? };
    whole.checked_mul(unit)?.checked_add(fraction * unit / 10_u128.pow(u32::try_from(digits).ok()?))
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
            nanoseconds => {
                let milliseconds = self.0.as_millis();
                match nanoseconds % 1_000_000 {
                    0 => write!(f, "{milliseconds}ms"),
                    rest => {
                        let rest = format!("{rest:06}");
                        write!(f, "{milliseconds}.{}ms", rest.trim_end_matches('0'))
                    }
                }
            }
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
