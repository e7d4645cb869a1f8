//! From a `Probe` of the API to one that can be run.

use std::time::Duration;

use berth_policy::{Probe, ProbeAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::{cluster::v1 as core, pods::convert};

/// Numbers that stand where a probe gives none, or none above 0. Timeout and successes are 1 for everybody.
#[derive(Clone, Copy, Debug)]
struct Defaults {
    period: i32,
    failures: i32,
}

/// The API server's (`SetDefaults_Probe`), which objects that it did not check may lack.
const OF_CONTAINERS: Defaults = Defaults { period: 10, failures: 3 };
/// OpenKruise's, for the probes of its markers: clients that leave them out wait for the first failure.
const OF_MARKERS: Defaults = Defaults { period: 1, failures: 1 };

/// A probe that is not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProbeError {
    /// Nothing to do, or more than one thing.
    #[error("one of exec, httpGet, tcpSocket and grpc is wanted, and {0} are there")]
    Handlers(usize),
    /// A host of its own.
    #[error("{0} is refused: a probe dials the address of its pod and no other")]
    Host(&'static str),
    /// No number, and no name of one.
    #[error("{field} {port:?} is neither a number from 1 to 65535 nor the name of a port of the container")]
    Port {
        /// Field of the probe.
        field: &'static str,
        /// Value of the field.
        port: String,
    },
    /// Neither of the two there are.
    #[error("httpGet.scheme {0:?} is neither HTTP nor HTTPS")]
    Scheme(String),
    /// A command of no words.
    #[error("exec.command is empty")]
    NoCommand,
}

/// A probe that a marker asks for in this container.
pub(crate) fn of_marker(container: &core::Container, probe: &core::Probe) -> Result<Probe, ProbeError> {
    with(OF_MARKERS, container, probe)
}

/// The same with ports that are numbers already, as those in a `NodePodProbe`.
pub(crate) fn resolved(probe: &core::Probe) -> Result<Probe, ProbeError> {
    of_marker(&core::Container::default(), probe)
}

/// A startup or readiness probe of the container itself; `None` for one that cannot be run as the kubelet
/// does.
pub(crate) fn launch_probe(container: &core::Container, probe: &core::Probe) -> Option<Probe> {
    with(OF_CONTAINERS, container, probe).ok()
}

fn with(defaults: Defaults, container: &core::Container, probe: &core::Probe) -> Result<Probe, ProbeError> {
    let positive = |given: Option<i32>, default| given.filter(|given| *given > 0).unwrap_or(default);
    let seconds = |given, default| Duration::from_secs(positive(given, default).unsigned_abs().into());
    Ok(Probe {
        action: action(container, probe)?,
        initial_delay: seconds(probe.initial_delay_seconds, 0),
        timeout: seconds(probe.timeout_seconds, 1),
        period: seconds(probe.period_seconds, defaults.period),
        success_threshold: positive(probe.success_threshold, 1).unsigned_abs(),
        failure_threshold: positive(probe.failure_threshold, defaults.failures).unsigned_abs(),
    })
}

fn action(container: &core::Container, probe: &core::Probe) -> Result<ProbeAction, ProbeError> {
    match (&probe.exec, &probe.http_get, &probe.tcp_socket, &probe.grpc) {
        (Some(exec), None, None, None) => {
            let command = exec.command.clone().filter(|command| !command.is_empty());
            Ok(ProbeAction::Exec { command: command.ok_or(ProbeError::NoCommand)? })
        }
        (None, Some(get), None, None) => http(container, get),
        (None, None, Some(tcp), None) => {
            no_host("tcpSocket.host", tcp.host.as_deref())?;
            Ok(ProbeAction::Tcp { port: port(container, "tcpSocket.port", &tcp.port)? })
        }
        (None, None, None, Some(grpc)) => Ok(ProbeAction::Grpc {
            port: port(container, "grpc.port", &IntOrString::Int(grpc.port))?,
            service: grpc.service.clone().unwrap_or_default(),
        }),
        (exec, get, tcp, grpc) => {
            let there = [exec.is_some(), get.is_some(), tcp.is_some(), grpc.is_some()];
            Err(ProbeError::Handlers(there.into_iter().filter(|there| *there).count()))
        }
    }
}

fn http(container: &core::Container, get: &core::HTTPGetAction) -> Result<ProbeAction, ProbeError> {
    no_host("httpGet.host", get.host.as_deref())?;
    let https = match get.scheme.as_deref().unwrap_or("") {
        "" | "HTTP" => false,
        "HTTPS" => true,
        other => return Err(ProbeError::Scheme(other.to_owned())),
    };
    let headers = get.http_headers.iter().flatten();
    Ok(ProbeAction::Http {
        port: port(container, "httpGet.port", &get.port)?,
        path: get.path.clone().filter(|path| !path.is_empty()).unwrap_or_else(|| "/".to_owned()),
        https,
        headers: headers.map(|header| (header.name.clone(), header.value.clone())).collect(),
    })
}

fn no_host(field: &'static str, host: Option<&str>) -> Result<(), ProbeError> {
    match host.unwrap_or("") {
        "" => Ok(()),
        _ => Err(ProbeError::Host(field)),
    }
}

fn port(container: &core::Container, field: &'static str, port: &IntOrString) -> Result<u16, ProbeError> {
    let number = convert::port(container, port).filter(|number| *number > 0);
    number.ok_or_else(|| {
        let port = match port {
            IntOrString::Int(number) => number.to_string(),
            IntOrString::String(name) => name.clone(),
        };
        ProbeError::Port { field, port }
    })
}

#[cfg(test)]
mod tests;
