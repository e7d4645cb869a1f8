//! Tracing: the collector to which spans go, and the share of traces that is recorded.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::ValueError;

/// Traces, as the kubelet's own `tracing`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Tracing {
    /// The collector; without one nothing is recorded.
    pub endpoint: Option<Collector>,
    /// Traces recorded of a million that begin in the agent. One of the kubelet is recorded where the kubelet
    /// records it.
    pub sampling_rate_per_million: u32,
}

/// Most of a million.
const MILLION: u32 = 1_000_000;

impl Tracing {
    /// Checks the fields against each other, and against what this program can do. Names the field, and the
    /// remedy.
    pub(super) fn check(&self, exports: bool) -> Result<(), (&'static str, &'static str)> {
        if self.endpoint.is_some() && !exports {
            return Err((
                "tracing.endpoint",
                "is for a berthd with the cargo feature otlp, which this one was built without: take the archive \
                 berth-node-otlp of the release, build it with `cargo build --release -p berthd --features otlp`, or \
                 leave the field out",
            ));
        }
        if self.sampling_rate_per_million > MILLION {
            return Err(("tracing.samplingRatePerMillion", "must be at most 1000000, which is every trace"));
        }
        if self.sampling_rate_per_million > 0 && self.endpoint.is_none() {
            return Err((
                "tracing.samplingRatePerMillion",
                "goes with tracing.endpoint: give the collector, such as 127.0.0.1:4317",
            ));
        }
        Ok(())
    }
}

/// Address of a collector of OpenTelemetry that takes OTLP by gRPC: a host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Collector(String);

impl FromStr for Collector {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ValueError::Collector(text.chars().take(80).collect());
        let (host, port) = text.strip_prefix("http://").unwrap_or(text).rsplit_once(':').ok_or_else(error)?;
        let digits = port.bytes().all(|digit| digit.is_ascii_digit());
        let is_port = digits && port.parse::<u16>().is_ok_and(|port| port > 0);
        let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => {
                (1..=253).contains(&host.len())
                    && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
            }
        };
        if is_host && is_port { Ok(Self(format!("{host}:{port}"))) } else { Err(error()) }
    }
}

impl TryFrom<String> for Collector {
    type Error = ValueError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Collector> for String {
    fn from(collector: Collector) -> Self {
        collector.0
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
